"""Profiles in the terms of Google's dp-accounting library: privacy loss distributions and events."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from osgt.noise import Distribution
from osgt.privacy.grid import split
from osgt.privacy.pair import Pair
from osgt.support.errors import ArgumentError

#: The tail of a distribution that is handed out, and the most cells that it may have.
_LOG_TAIL = math.log(1e-15)  # P-mass beyond the grid, taken as infinite loss
_MOST_CELLS = 10**7


def privacy_loss_distribution(pairs: Sequence[Pair], coordinates: Sequence[int], interval: float) -> Any:
    """A pessimistic `PrivacyLossDistribution` of a composition, with losses at multiples of `interval`."""
    with _library("to_dp_accounting"):
        from dp_accounting.pld import pld_pmf, privacy_loss_distribution  # noqa: PLC0415
    composed = None
    for pair, copies in zip(pairs, coordinates, strict=True):
        masses, beyond = _untilted(pair, interval)
        pmf = pld_pmf.create_pmf(masses, interval, beyond, pessimistic_estimate=True)
        one = privacy_loss_distribution.PrivacyLossDistribution(pmf)
        many = one.self_compose(copies) if copies > 1 else one
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


def dp_event(parts: Sequence[tuple[Distribution, float, int]]) -> Any:
    """The event of noises with their shifts and coordinates; each as often as there are coordinates."""
    with _library("to_dp_event"):
        from dp_accounting import dp_event as events  # noqa: PLC0415
    composed = []
    for noise, shift, coordinates in parts:
        event = _event(events, noise, shift)
        composed.append(events.SelfComposedDpEvent(event, coordinates) if coordinates > 1 else event)
    return composed[0] if len(composed) == 1 else events.ComposedDpEvent(composed)


def _event(events: Any, noise: Distribution, shift: float) -> Any:
    """The event of one coordinate; a ValueError where Google's library has none for this noise."""
    slope, curvature = getattr(noise, "slope", None), getattr(noise, "curvature", None)
    if curvature == 0 and slope:
        if noise.discrete:
            return events.DiscreteLaplaceDpEvent(noise_parameter=slope, sensitivity=int(shift))
        return events.LaplaceDpEvent(noise_multiplier=1 / (slope * shift))
    if slope == 0 and curvature and not noise.discrete:
        return events.GaussianDpEvent(noise_multiplier=1 / (math.sqrt(curvature) * shift))
    raise ValueError(
        f"dp-accounting has no event for {noise!r}, only for Gaussian, Laplace and discrete Laplace noise: "
        "to_dp_accounting() gives its privacy loss distribution, which composes with others"
    )


@contextmanager
def _library(name: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{name} needs Google's library: pip install dp-accounting") from error
