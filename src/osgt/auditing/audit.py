"""audit: evidence for or against a promise."""

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from osgt.auditing.check import SAMPLED, Audit, Check, Options, Progress
from osgt.auditing.curve import curve, many, one_by_one
from osgt.auditing.evidence import Claim
from osgt.auditing.independence import Drawn, independence
from osgt.auditing.sampler import sampler
from osgt.mechanism import Mechanism
from osgt.noise.arguments import count, real_number

#: Draws of a mechanism that gives one output at a time, and of one that gives many.
_ONE_BY_ONE, _MANY = 20_000, 1_000_000

#: Numbers of a release whose draws are held against each other, each by itself.
_COLUMNS = 8

#: Fewer draws than this are refused.
_FEWEST = 1000


def audit(
    target: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    data: Any = None,
    neighbour: Any = None,
    claim: Any = None,
    loss: Callable[[Any], Any] | None = None,
    vectorised: bool = False,
    draws: int | None = None,
    minutes: float | None = None,
    false_alarm: float = 1e-6,
    real_rows: bool = True,
    measure_left_out: bool = True,
    progress: Progress = lambda what, done: None,
) -> Audit:
    """Evidence for or against a promise of privacy: what was checked, and what was found. Nothing is charged.

    A query is played on neighbouring tables, on its own engine; its noise is drawn and compared with what is claimed;
    a release with canaries is made of made-up rows. Any other mechanism is a black box: it is called many times on
    `data` and on `neighbour`, and its outputs are judged.

    Parameters
    ----------
    target
        A query, a `Publication`, a `Mechanism`, or any function `mechanism(data) -> numbers`. Of a query whose bounds
        are not all given, the suggestion of bounds is audited.
    epsilon, delta
        The promise that is audited. A `Mechanism` knows its own.
    data, neighbour
        For functions: two data sets that differ in one person.
    claim
        For functions: the whole curve that is promised, as a `PrivacyProfile` or something else with `delta(epsilon)`
        for arrays. It can be refuted with far fewer draws than one point of it.
    loss
        For functions: the privacy loss of outputs, an array of shape (draws, numbers), or another score that is large
        where outputs speak for `data`. If not given, scores are learned from a quarter of the draws.
    vectorised
        The function is called as `mechanism(data, n)`, and gives n outputs along the first axis: much faster.
    draws, minutes
        How many draws to make, and when to stop at the latest; minutes alone are used for as many draws as fit in. A
        check that draws stops as soon as the promise is refuted.
    false_alarm
        The probability, at most, that the audit fails though the promise is kept, however long it runs.
    real_rows
        For queries: whether rows of the data set are among those that are tried. Findings may then tell about them:
        they are for people who may see the data. Otherwise no row of it is read.
    measure_left_out
        For queries: as in the release that is audited.
    progress
        Called with what is being done and which part of it is done.

    Examples
    --------
    >>> from osgt import Mechanism
    >>> result = audit(Mechanism(1, 1e-6), draws=100_000)
    >>> result.passed
    True
    """
    started = time.perf_counter()
    options = _options(draws, minutes, false_alarm, progress, real_rows=real_rows)
    if isinstance(target, Mechanism):
        subject, checks = _of_mechanism(target, options)
    elif hasattr(target, "plan") and hasattr(target, "release"):
        if epsilon is None or delta is None:
            raise ValueError("epsilon and delta must be given: the promise that is audited")
        from osgt.auditing.query_audit import audit_tables  # noqa: PLC0415 - the extra "tables"

        subject, checks = audit_tables(target, epsilon, delta, options, measure_left_out=measure_left_out)
    elif callable(target):
        if data is None or neighbour is None:
            raise ValueError("data and neighbour must be given: two data sets that differ in one person")
        promise = Claim.of(epsilon, delta, claim)
        subject = f"{getattr(target, '__name__', type(target).__name__)} at {promise.words}"
        called = many(target) if vectorised else one_by_one(target)
        budget = options.budget(_MANY if vectorised else _ONE_BY_ONE, 1.0, false_alarm)
        checks = iter([curve(called, data, neighbour, promise, budget, loss=loss)])
    else:
        raise TypeError(
            f"target must be a query, a Publication, a Mechanism or a function, got {type(target).__name__}"
        )
    return Audit(subject, tuple(checks), time.perf_counter() - started)


def _options(
    draws: int | None, minutes: float | None, false_alarm: float, progress: Progress, *, real_rows: bool
) -> Options:
    """Check the options that all targets share."""
    if not 0 < real_number("false_alarm", false_alarm, positive=True) < 1:
        raise ValueError(f"false_alarm must be between 0 and 1, got {false_alarm!r}")
    if draws is not None and count("draws", draws) < _FEWEST:
        raise ValueError(f"draws must be at least {_FEWEST:,}, got {draws!r}: fewer say nothing")
    seconds = math.inf if minutes is None else 60 * real_number("minutes", minutes, positive=True)
    return Options(draws, seconds, false_alarm, progress, real_rows)


def _of_mechanism(mechanism: Mechanism, options: Options) -> tuple[str, Iterator[Check]]:
    """The sampler, its draws against each other, and the curve of a person who changes all values as far as may be."""
    noise, step = mechanism.noise, mechanism.step
    shift = mechanism.profile.parts[0].shift
    coordinates = mechanism.coordinates
    dtype = np.int64 if mechanism.values == "integers" else np.float64

    def outputs(moved: Any, size: int) -> Any:
        return mechanism.release(np.full((size, coordinates), moved * shift * step, dtype=dtype))

    def loss(seen: Any) -> Any:
        steps = seen.astype(np.float64) / step
        return (noise.potential(np.abs(steps - shift)) - noise.potential(np.abs(steps))).sum(axis=1)

    def drawn(groups: int) -> list[Drawn]:
        released = mechanism.release(np.zeros((groups, min(coordinates, _COLUMNS)), dtype=dtype))
        return [(noise, np.asarray(released / step).astype(np.int64))]

    def checks() -> Iterator[Check]:
        false_alarm = options.false_alarm / 3
        yield sampler(noise, options.budget(SAMPLED, 0.5, false_alarm))
        yield independence(drawn, false_alarm=false_alarm)
        claim = Claim.of(mechanism.epsilon, mechanism.delta, mechanism.profile)
        budget = options.budget(max(10_000, _MANY // coordinates), 1.0, false_alarm)
        yield curve(outputs, 0, 1, claim, budget, loss=loss)

    promise = f" at ε = {mechanism.epsilon:.15g}, δ = {mechanism.delta:.15g}" if mechanism.epsilon is not None else ""
    return f"a mechanism with noise {noise!r}{promise}", checks()
