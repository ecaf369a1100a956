"""The audit of what is made of tables: a release, or several tables with one budget, and the choice of their limits."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osgt.api.charge import title_of
from osgt.api.query import Query
from osgt.auditing.canaries import canaries
from osgt.auditing.check import SAMPLED, Check, Options
from osgt.auditing.curve import curve
from osgt.auditing.independence import SaltedText, independence, salts
from osgt.auditing.plan_noise import AT_THRESHOLD, Chosen, WorstCase, at_threshold, choice, draw_of_limits, spent_by
from osgt.auditing.replay import replay
from osgt.auditing.sampler import sampler
from osgt.auditing.stage import DrawPlay, Play, ReleasePlay, Stage, salted_sql
from osgt.calibration.joint import budget as checked_budget
from osgt.limits.worth import fresh_salt
from osgt.noise import IntegerDistribution
from osgt.plan.plan import AnyPlan, Plan
from osgt.query.aggregates.base import QuerySpec
from osgt.query.open_limits import open_limits, with_any_limits
from osgt.release.measuring import prepare

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
    return f"{'; '.join(named)} {promise}", _release(target, plan).checks(options)


def _release(target: Any, plan: AnyPlan) -> Audited:
    """Tables that are released together: one unit is in all of them."""
    plays: dict[str, tuple[QuerySpec, Play]] = {
        f"replay of {name}" if name else "replay": (with_any_limits(query), ReleasePlay(plan.tables[name]))
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
    salted = [salted_sql(prepare, query, one) for query, one in tables if query.groups.chooses_groups(one.parts)]
    worst = WorstCase.of(plans, plan.noise_delta)
    spent = spent_by(plans, plan.choice)
    return Audited(plays, worst, laws, chosen, spent, plan.delta, salted, tables, chooses=plan.choice is not None)
