"""The audit: evidence for or against a promise.

A query is audited in parts: its noise, the choice of its limits and the release that is made of them, for one table or
several with one budget.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from osgt.api.charge import title_of
from osgt.api.query import Query
from osgt.auditing.canaries import canaries
from osgt.auditing.curve import curve, many, one_by_one
from osgt.auditing.evidence import Claim
from osgt.auditing.functions import Inputs, check_callable, function_checks, inputs_of
from osgt.auditing.independence import Drawn, SaltedText, independence, salts
from osgt.auditing.plan_noise import AT_THRESHOLD, Chosen, WorstCase, at_threshold, choice, draw_of_limits, spent_by
from osgt.auditing.replay import replay
from osgt.auditing.result import SAMPLED, Audit, Check, Options, Progress
from osgt.auditing.sampler import sampler
from osgt.auditing.stage import DrawPlay, Play, ReleasePlay, Stage, salted_sql
from osgt.calibration.joint import budget as checked_budget
from osgt.data.unit import Neighbours
from osgt.limits.contribution import fresh_salt
from osgt.mechanism import Mechanism
from osgt.noise import IntegerDistribution
from osgt.plan.plan import AnyPlan, Plan
from osgt.query.aggregates.base import QuerySpec, open_limits, with_any_limits
from osgt.release.measuring import prepare
from osgt.support.errors import ArgumentError
from osgt.support.numeric import count, real_number

#: Distributions of a plan whose sampler is looked at.
_LAWS = 3

#: Checks that share the false alarms: choice, threshold, salts, limits, canaries, sampler, independence and noise.
_CHECKS = 8

#: Limits that are drawn to see how a choice is made: an ε of 2 in place of 1 is found in hundreds.
_DRAWS_OF_LIMITS = 4000


@dataclass(frozen=True, eq=False)
class Audited:
    """The parts of an audit: plays on stages, noise, choices of groups, and tables in which canaries can be."""

    plays: Mapping[str, tuple[QuerySpec, Play]]
    worst: WorstCase
    laws: Sequence[IntegerDistribution]
    chosen: Sequence[Chosen]
    spent: float
    delta: float
    #: The SQL of a release by its salt, where a salt decides who counts where.
    salted: Sequence[SaltedText]
    tables: Sequence[tuple[Query, Plan]] = ()
    #: Whether limits are chosen.
    chooses: bool = False

    def checks(self, options: Options) -> Iterator[Check]:
        """Run one check after the other."""
        false_alarm = options.false_alarm / _CHECKS
        for i, (name, (asking, play)) in enumerate(self.plays.items()):
            seconds = options.left(0.5 / (len(self.plays) - i))
            yield replay(
                Stage(asking), play, real=options.real_rows, seconds=seconds, progress=options.progress, name=name
            )
        options.progress("choice of groups", 0.0)
        yield choice(self.chosen, self.spent, self.delta, false_alarm=false_alarm)
        for i, chosen in enumerate(self.chosen):
            part = 0.2 / (len(self.chosen) - i)
            yield at_threshold(chosen, options.budget(AT_THRESHOLD, part, false_alarm / len(self.chosen)))
        options.progress("salts", 0.0)
        yield salts(self.salted, fresh_salt, false_alarm=false_alarm)
        if self.chooses:
            neighbours = self.tables[0][1].neighbours
            yield draw_of_limits(neighbours, options.budget(_DRAWS_OF_LIMITS, 0.1, false_alarm))
        if self.tables:
            check = canaries(self.tables, false_alarm=false_alarm, progress=options.progress)
            if check is not None:
                yield check
        laws = list(dict.fromkeys(self.laws))[:_LAWS]
        for i, law in enumerate(laws):
            part = 0.5 / (len(laws) - i)
            yield sampler(law, options.budget(SAMPLED // len(laws), part, false_alarm / len(laws)))
        worst = self.worst
        options.progress("independence", 0.0)
        yield independence(worst.drawn, false_alarm=false_alarm)
        budget = options.budget(worst.draws, 1.0, false_alarm)
        yield curve(worst.outputs, 0, 1, worst.claim, budget, loss=worst.loss(), name="noise")


def audit_tables(
    target: Any, epsilon: float, delta: float, options: Options, *, measure_left_out: bool
) -> tuple[str, Iterator[Check]]:
    """Name the subject of an audit in words, and make its checks."""
    epsilon, delta = checked_budget(epsilon, delta)
    options.progress("planning", 0.0)
    promise = f"at ε = {epsilon:.15g}, δ = {delta:.15g}"
    named = [f"{name}: {title_of(query)}" if name else title_of(query) for name, query in target.tables.items()]
    plan = target.plan(epsilon, delta, measure_left_out=measure_left_out)
    if any(block.planning.draws for block in plan.blocks):
        raise ArgumentError(
            'interval = "none" cannot be audited: a quantile is drawn, and no noise is added that could be looked at. '
            "Audit the query without it",
            argument="interval",
        )
    return f"{'; '.join(named)} {promise}", _release(target, plan).checks(options)


def _release(target: Any, plan: AnyPlan) -> Audited:
    """Tables that are released together: one unit is in all of them."""
    plays: dict[str, tuple[QuerySpec, Play]] = {
        # Tables that agree are played one by one: what their estimates share is post-processing.
        f"replay of {name}" if name else "replay": (
            with_any_limits(query),
            ReleasePlay(replace(plan.tables[name], shared=None)),
        )
        for name, query in target.tables.items()
    }
    for draw in () if plan.choice is None else plan.choice.draws:
        query = next(query for query in target.computed if draw.limit in open_limits(query))
        play = DrawPlay(draw, query.dataset.neighbours)
        plays[f"replay of the choice of {draw.limit.words}"] = with_any_limits(query), play
    plans = plan.blocks
    tables = [(with_any_limits(query), one) for query, one in zip(target.computed, plans, strict=True)]
    chosen = [selection for one in plans if (selection := Chosen.of(one)) is not None]
    laws = [law for one in plans for law in one.laws.values()]
    salted = [salted_sql(prepare, query, one) for query, one in tables if query.groups.uses_salt(one.parts)]
    worst = WorstCase.of(plans, plan.noise_delta)
    spent = spent_by(plans, plan.choice)
    return Audited(plays, worst, laws, chosen, spent, plan.delta, salted, tables, chooses=plan.choice is not None)


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
    neighbours: Neighbours = "add_remove",
    missing_values: bool = True,
    draws: int | None = None,
    minutes: float | None = None,
    false_alarm: float = 1e-6,
    real_rows: bool = True,
    measure_left_out: bool = True,
    progress: Progress = lambda what, done: None,
) -> Audit:
    """Evidence for or against a promise of privacy: what was checked, and what was found. Nothing is charged.

    A query is played on neighbouring tables, on its own engine; its noise is drawn and compared with what is claimed;
    a release with canaries is made of made-up rows. Any other mechanism is a black box: it is called many times, in
    this process, on `data` and on `neighbour` or on pairs that are made, and its outputs are judged.

    Parameters
    ----------
    target
        A query, a `Publication`, a `Mechanism`, or any function of one argument that returns numbers, an array or a
        table. Of a query whose limits are not all given, their choice is audited too.
    epsilon, delta
        The promise that is audited. A `Mechanism` knows its own.
    data, neighbour
        For functions: two data sets that differ in one person. Or `data` alone, for which many pairs are made: a query
        that describes the table (unit, groups, limits, bounds), so that the function gets pandas frames with the stored
        columns; or an array, each row of which is a unit.
    claim
        For functions: the whole curve that is promised, as a `PrivacyProfile` or something else with `delta(epsilon)`
        for arrays. It can be refuted with far fewer draws than one point of it.
    loss
        For functions: the privacy loss of outputs, an array of shape (draws, numbers), or another score that is large
        where outputs speak for `data`. If not given, scores are learned from a quarter of the draws.
    vectorised
        The function is called as `mechanism(data, n)`, and gives n outputs along the first axis: much faster.
    neighbours
        For functions of an array, of which pairs are made: "add_remove" or "change_one" row. A query says it itself.
    missing_values
        For functions, if pairs are made: whether there are missing values, NaN and infinities among them.
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

        subject, checks = audit_tables(target, epsilon, delta, options, measure_left_out=measure_left_out)
    elif callable(target):
        promise = Claim.of(epsilon, delta, claim)
        subject = f"{getattr(target, '__name__', type(target).__name__)} at {promise.words}"
        checks = _of_function(
            target, data, neighbour, promise, options,
            loss=loss, vectorised=vectorised, neighbours=neighbours, missing_values=missing_values,
        )  # fmt: skip
    else:
        raise TypeError(
            f"target must be a query, a Publication, a Mechanism or a function, got {type(target).__name__}"
        )
    return Audit(subject, tuple(checks), time.perf_counter() - started)


def _of_function(
    function: Any,
    data: Any,
    neighbour: Any,
    claim: Claim,
    options: Options,
    *,
    loss: Callable[[Any], Any] | None,
    vectorised: bool,
    neighbours: Neighbours,
    missing_values: bool,
) -> Iterator[Check]:
    """Judge a function on two inputs that are given, or on pairs that are made for what the data are."""
    if data is None:
        raise ValueError(
            "data and neighbour must be given, two data sets that differ in one person; or data alone, a query that "
            "describes a table or an array, of which pairs are made"
        )
    if (vectorised or loss is not None) and neighbour is None:
        raise ValueError("neighbour must be given with vectorised or loss: no pairs are made for them")
    if vectorised or loss is not None:
        called = many(function) if vectorised else one_by_one(function)
        budget = options.budget(_MANY if vectorised else _ONE_BY_ONE, 1.0, options.false_alarm)
        return iter([curve(called, data, neighbour, claim, budget, loss=loss)])
    check_callable(function, getattr(function, "__name__", "target"))
    if neighbour is not None:
        return function_checks(function, [Inputs("", data, neighbour)], (), claim, options)
    options.progress("making neighbouring inputs", 0.0)
    pairs, by = inputs_of(data, neighbours=neighbours, missing_values=missing_values, real=options.real_rows)
    return function_checks(function, pairs, by, claim, options)


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
