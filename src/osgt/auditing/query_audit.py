"""The audit of what is made of tables: a release, several tables with one budget, or a suggestion of bounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osgt.api.charge import title_of
from osgt.api.query import Query
from osgt.api.suggestion.histograms import planned_histograms, prepared_histograms
from osgt.api.suggestion.open_query import OpenQuery
from osgt.auditing.canaries import canaries
from osgt.auditing.check import SAMPLED, Check, Options
from osgt.auditing.curve import curve
from osgt.auditing.independence import SaltedText, independence, salts
from osgt.auditing.plan_noise import AT_THRESHOLD, Chosen, OfSuggestion, WorstCase, at_threshold, choice, spent_by
from osgt.auditing.replay import replay
from osgt.auditing.sampler import sampler
from osgt.auditing.stage import Play, ReleasePlay, Stage, SuggestionPlay, salted_sql
from osgt.calibration.joint import budget as checked_budget
from osgt.limits.bounding import fresh_salt
from osgt.noise import IntegerDistribution
from osgt.plan.plan import AnyPlan, Plan
from osgt.privacy import PrivacyProfile
from osgt.query.aggregates.base import QuerySpec
from osgt.release.measuring import prepared

#: Distributions of a plan whose sampler is looked at.
_LAWS = 3

#: Checks that share the false alarms: choice, threshold, salts, canaries, sampler, independence and noise.
_CHECKS = 7


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
    if isinstance(target, OpenQuery):
        subject, audited = f"a suggestion of bounds for {title_of(target)}", _suggestion(target, epsilon, delta)
    else:
        named = [f"{name}: {title_of(query)}" if name else title_of(query) for name, query in target.tables.items()]
        plan = target.plan(epsilon, delta, measure_left_out=measure_left_out)
        subject, audited = "; ".join(named), _release(target, plan)
    return f"{subject} {promise}", audited.checks(options)


def _release(target: Any, plan: AnyPlan) -> Audited:
    """Tables that are released together: one unit is in all of them."""
    plays: dict[str, tuple[QuerySpec, Play]] = {
        f"replay of {name}" if name else "replay": (query, ReleasePlay(plan.tables[name]))
        for name, query in target.tables.items()
    }
    plans, tables = plan.blocks, list(zip(target.computed, plan.blocks, strict=True))
    chosen = [selection for one in plans if (selection := Chosen.of(one)) is not None]
    laws = [law for one in plans for law in one.laws.values()]
    salted = [
        salted_sql(prepared, query, one) for query, one in tables if query.groups.by and not query.groups.each_row
    ]
    worst = WorstCase.of(plans, plan.noise_delta)
    return Audited(plays, worst, laws, chosen, spent_by(plans), plan.delta, salted, tables)


def _suggestion(target: OpenQuery, epsilon: float, delta: float) -> Audited:
    if not target.asked:
        raise ValueError("the query must ask for something: count(), count_units(), sum(…), mean(…), …")
    layout, plan = planned_histograms(target, epsilon, delta)
    worst = WorstCase([OfSuggestion(plan)], epsilon, delta - plan.selection_delta)
    chosen = Chosen.of_suggestion(plan)
    profile: PrivacyProfile = plan.charge.profile
    spent = float(profile.delta(epsilon)) + (chosen.delta if chosen else 0.0)
    play = SuggestionPlay(layout, plan)
    salted = [salted_sql(prepared_histograms, target, layout)] if target.groups.by else []
    laws, choices = list(plan.laws.values()), [chosen] if chosen else []
    return Audited({"replay": (target, play)}, worst, laws, choices, spent, delta, salted)
