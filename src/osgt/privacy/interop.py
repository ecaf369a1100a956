"""The profile in the terms of Google's dp-accounting library."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from osgt.privacy.grid import split
from osgt.privacy.pair import Pair, pair_of
from osgt.support.errors import ArgumentError

if TYPE_CHECKING:
    from osgt.privacy.profile import NoisyPart

_LOG_TAIL = math.log(1e-15)  # P-mass beyond the grid, taken as infinite loss
_MOST_CELLS = 10**7


def privacy_loss_distribution(parts: "Sequence[NoisyPart]", interval: float) -> Any:
    """A pessimistic `PrivacyLossDistribution` with losses at multiples of `interval`."""
    try:
        from dp_accounting.pld import (  # type: ignore[import-untyped, unused-ignore]  # noqa: PLC0415
            pld_pmf,
            privacy_loss_distribution,
        )
    except ImportError as error:
        raise ImportError("to_dp_accounting needs Google's library: pip install dp-accounting") from error
    composed = None
    for part in parts:
        masses, beyond = _untilted(pair_of(part.noise, part.shift), interval)
        pmf = pld_pmf.create_pmf(masses, interval, beyond, pessimistic_estimate=True)
        one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        many = one.self_compose(part.coordinates) if part.coordinates > 1 else one
        composed = many if composed is None else composed.compose(many)
    return composed


def _untilted(pair: Pair, interval: float) -> tuple[dict[int, float], float]:
    """P-masses of one coordinate's loss by grid index, connecting the dots, and the mass of infinite loss."""
    if math.isfinite(pair.largest_loss):
        top = pair.largest_loss
    else:
        w = float(pair.noise.isf(math.exp(_LOG_TAIL)))
        top = float(pair.loss(np.asarray(w)))
    last = math.ceil(top / interval * (1.0 + 1e-14))  # no loss may lie above the last point, by rounding either
    if last > _MOST_CELLS:
        raise ArgumentError(
            f"interval must be at least {top / _MOST_CELLS:.3g} for this profile, got {interval!r}", argument="interval"
        )
    index = np.arange(-last, last + 1)
    grid = np.asarray(index * interval, dtype=np.float64)
    edges = pair.edges(grid)
    beyond = 0.0
    if math.isfinite(pair.largest_loss):
        edges[-1] = np.inf
    else:
        beyond = float(np.exp(pair.log_tails(edges[-1:])[0]))
    log_p, share = split(pair, edges, grid, precise=False)
    masses = np.zeros(len(index))
    masses[:-1] = np.exp(log_p) * (1.0 - share)
    masses[1:] += np.exp(log_p) * share
    # Mass below the grid moves up to its lower end.
    masses[0] += math.exp(float(pair.log_masses(np.array([-np.inf, edges[0]]))[0][0]))
    filled = masses > 0
    return dict(zip(index[filled].tolist(), masses[filled].tolist(), strict=True)), beyond
