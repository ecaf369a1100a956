"""The losses of one coordinate of integer noise, one by one.

On the integers the loss has atoms, often few of them: there is no need for cells, and nothing is lost to cancellation.
Below the first integer and, where the loss is bounded, above the last, all probability is taken together.
"""

import math
from dataclasses import dataclass

import numpy as np

from osgt.noise.mills import Floats
from osgt.privacy.pair import POSITION_ERROR, Pair


@dataclass(frozen=True)
class Atoms:
    """Losses of neighbouring integers, in ascending order, and their log P-masses, rounded up.

    The first atom holds all mass below it, too. The P-mass exp(log_beyond) above the last is not among them.
    """

    losses: Floats
    log_p: Floats
    log_beyond: float


def integers(pair: Pair, low: float, high: float) -> tuple[int, int] | None:
    """The integers whose losses span `low` to `high`, as far as the loss goes; None where they are beyond counting.

    The loss of the first is at most `low`, or the least that there is; that of the last is the largest up to `high`,
    or the largest that there is.
    """
    bounds = []
    for loss in (low, high):
        if abs(loss) < pair.largest_loss * (1.0 - 2 * POSITION_ERROR):
            w = float(pair.position(np.asarray(loss)))
        else:
            # The first integer with the largest loss, or the last with the least.
            end = float(pair.position(np.asarray(pair.largest_loss * (1.0 - 2 * POSITION_ERROR))))
            w = math.ceil(end) if loss > 0 else -pair.shift - math.ceil(end)
        if not abs(w) < 2.0**40:
            return None
        bounds.append(math.floor(w))
    return bounds[0], max(bounds[1], bounds[0] + 1)


def atoms(pair: Pair, first: int, last: int) -> Atoms:
    """The atoms at the integers from `first` to `last`."""
    w = np.arange(first, last + 1, dtype=np.float64)
    losses = pair.loss(w)
    log_p = pair.log_peak - pair.noise.potential(np.abs(w))
    # In one call: P[W ≤ first] = P[W > -first - 1].
    log_p[0], from_last, log_beyond = (float(x) for x in pair.noise.logsf([-first - 1.0, last - 1.0, last]))
    if losses[-1] >= pair.largest_loss * (1.0 - 4 * POSITION_ERROR):
        losses[-1], log_p[-1], log_beyond = pair.largest_loss, from_last, -math.inf
    # Error of the logarithm of a probability p, up to a factor 1 - log p.
    error = 2.0 * pair.noise.potential.tail_error
    return Atoms(losses, _up(log_p, error), float(_up(log_beyond, error)))


def _up(log_p: Floats | float, error: float) -> Floats:
    """Logarithms of probabilities, raised by their error."""
    return np.asarray(np.where(np.isneginf(log_p), log_p, log_p + error * (1.0 - np.maximum(log_p, -1e300))))
