"""Released tables as views see them, and their statement: the promise, in words and with the numbers to check it.

The public classes extend them.
"""

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import pyarrow as pa

from osgt.data.rows import PrivateRows, plain_rows
from osgt.facts import series_wording, wording
from osgt.facts.measured import choice_values, measured_values
from osgt.facts.plan_wording import MostlyNoise, choice, columns_of, drawn_quantiles, published_groups, totals
from osgt.limits.left_out import NOTHING, LeftOut, can_cut_off
from osgt.noise.error import objective_text
from osgt.plan.plan import AnyPlan, Plan
from osgt.plan.publication import PublicationPlan
from osgt.query.aggregates.base import QuerySpec, counts_units, rate_names
from osgt.query.aggregates.count_distinct import CountDistinct
from osgt.query.aggregates.marks import Marks
from osgt.query.aggregates.quantile import DrawnQuantile
from osgt.query.groups import groups_alone
from osgt.support.text import listed

#: The values of a table's own statement beside those that all tables of a release have in common.
_OWN = ("query", "columns", "left_out", "groups_shown", "mostly_noise")


@dataclass(eq=False)
class NoisyTable:
    """A table with noise, and what its statement is about: plan, query, and what was left out."""

    table: pa.Table
    plan: Plan
    query: QuerySpec
    left_out: LeftOut | None

    @property
    def mostly_noise(self) -> MostlyNoise:
        """The number of groups that are mostly noise, for each aggregate."""
        return MostlyNoise.of(self.table, self.query.groups, self.plan.aggregates)

    @property
    def data_warnings(self) -> list[str]:
        """The warnings where over 5 % was left out or does not fit its type, and where most groups are mostly noise."""
        return [*([] if self.left_out is None else self.left_out.warnings), *self.mostly_noise.warnings]

    @property
    def warnings(self) -> list[str]:
        """The warnings to read before the table is relied on; empty as a rule."""
        return [*self.plan.warnings, *self.data_warnings]


@dataclass(frozen=True)
class Made:
    """The circumstances in which a release was made: `reservation` is its entry in the ledger, with a hash."""

    nonnegative: bool
    intervals: str
    marks: Marks | None
    corrects: int | None
    date: datetime.datetime
    version: str
    reservation: str | None
    entry_hash: str | None = None


@dataclass(frozen=True)
class Statement:
    """The promise of a release. `str` of it is for people, `to_dict` for programs."""

    words: str
    values: dict[str, Any]

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Statement":
        """The statement of which these are the plain values."""
        values = dict(plain)
        return cls(values.pop("statement"), values)

    def to_dict(self) -> dict[str, Any]:
        """Every parameter of the release, in plain values for JSON, and the words."""
        return {"statement": self.words, **self.values}

    def __repr__(self) -> str:
        budget = wording.arguments(self.values["epsilon"], self.values["delta"])
        return f"Statement({budget}; print it to read it)"

    def __str__(self) -> str:
        return self.words


@dataclass(eq=False)
class ReleasedTable(NoisyTable):
    """A table that can be published: for each group the noisy values and their noise intervals."""

    statement: Statement
    #: The statements that the engine ran for the whole release.
    sql: str = ""

    @property
    def tables(self) -> dict[str, Self]:
        """The tables of the release: this one, without a name."""
        return {"": self}

    @property
    def dataset(self) -> PrivateRows:
        """The rows that the table is made of, which are private."""
        return self.query.dataset

    def rows(self, limit: int) -> list[dict[str, Any]]:
        """The first rows in plain values; dates as text, since Python knows no years beyond 9999."""
        return plain_rows(self.table.slice(0, limit))

    def without_totals(self) -> Self:
        """Drop the totals, so that the table has the groups alone."""
        return replace(self, table=groups_alone(self.table, self.query.groups.levels))

    def __len__(self) -> int:
        return int(self.table.num_rows)


class Released(Protocol):
    """A release of one table or of several, made from one budget."""

    @property
    def tables(self) -> Mapping[str, ReleasedTable]:
        """The tables by their names; a table alone has none."""

    @property
    def plan(self) -> AnyPlan:
        """The plan of all tables."""

    @property
    def statement(self) -> Statement:
        """The statement about all tables."""

    @property
    def dataset(self) -> PrivateRows:
        """The rows that all tables are made of, which are private."""

    @property
    def warnings(self) -> list[str]:
        """The warnings to read before the tables are relied on; empty as a rule."""


def statements(
    tables: Mapping[str, NoisyTable], plan: AnyPlan, made: Made
) -> tuple[Statement, Mapping[str, Statement]]:
    """The statement of a release, and as the file of each table has it.

    Several tables have one promise, and what there is to know about each. The file of one has the words about all, its
    own values, and the values of the whole.
    """
    values = {name: table_values(table, plan, made) for name, table in tables.items()}
    if isinstance(plan, Plan):
        [(name, table)] = tables.items()
        alone = Statement(" ".join(_sentences(table, made)), values[name])
        return alone, {name: alone}
    assert isinstance(plan, PublicationPlan)
    whole = Statement("\n".join(_paragraphs(tables, plan, made)), _whole_values(tables, values, plan, made))
    plain = whole.to_dict()
    return whole, {
        name: Statement(whole.words, {**own, "table": name, "publication": plain}) for name, own in values.items()
    }


def _sentences(table: NoisyTable, made: Made) -> list[str]:
    """The statement of a table alone in words."""
    query, plan = table.query, table.plan
    return [
        promise("This release", query, plan),
        *about_limits(query),
        *about_choice(plan),
        *about_noise(plan.confidence, hold_truth=hold_truth([table], made.intervals)),
        *about_groups(table),
        *table.mostly_noise.sentences,
        *closing("release", query.dataset, made),
        *(f"Warning: {warning}" for warning in plan.warnings),
    ]


@dataclass(frozen=True)
class Total:
    """The total of a longer period: its instalments, how long their periods are, and how the ledger knows it."""

    name: str
    instalments: Sequence[str]
    length: str
    reservation: str


def statements_of_total(
    total: Total, tables: Mapping[str, NoisyTable], plan: AnyPlan, made: Made, last: Mapping[str, Statement]
) -> tuple[Statement, Mapping[str, Statement]]:
    """The statement of a total, and as the file of each table has it, made of those of its last instalment.

    What one instalment promises stays: a total is made of published numbers, and promises nothing of its own.
    """
    first = next(iter(last.values())).to_dict()
    whole = first.get("publication", first)
    words = " ".join(_of_total(total, tables, plan, made))
    ledger = {**whole["ledger"], "reservation": total.reservation}
    common = {"statement": words, "total_of": [*total.instalments], "ledger": ledger, "warnings": []}
    values = {name: {**last[name].values, **common, **_own_of_total(total, tables[name], last[name])} for name in last}
    if "" in values:
        alone = Statement.from_dict(values[""])
        return alone, {"": alone}
    own = {name: {**whole["tables"][name], **{key: values[name][key] for key in _OWN}} for name in values}
    plain = {**whole, **common, "tables": own}
    return Statement.from_dict(plain), {
        name: Statement.from_dict({**mine, "publication": plain}) for name, mine in values.items()
    }


def _of_total(total: Total, tables: Mapping[str, NoisyTable], plan: AnyPlan, made: Made) -> Iterator[str]:
    """The statement of a total in words."""
    query, every = _first(tables), tables.values()
    data = query.dataset
    assert data.part is not None
    names = [name for table in every for aggregate in table.query.aggregates for name in aggregate.names]
    shown = [name for table in every for name in table.table.column_names]
    yield promise("Each instalment", query, plan)
    yield from series_wording.total(total.name, total.instalments, [name for name in names if name not in shown])
    yield from series_wording.of_series(data.part, data.unit.noun, data.neighbours)
    for name, table in tables.items():
        limits = wording.limits(table.query.groups, counts_units=counts_units(table.query.aggregates))
        units = [f"{listed(own)}: {_about_units(total, query)}"] if (own := _columns_of_units(table)) else []
        yield " ".join([*([f"Table {name}:"] if name else []), *limits, *units, *table.mostly_noise.sentences])
    held = made.intervals == "truth" and any(block.left_out is not None for block in plan.blocks)
    yield from about_noise(plan.confidence, hold_truth=held)
    yield from closing("series", data, made)


def _columns_of_units(table: NoisyTable) -> list[str]:
    """The columns of a table of totals that count units."""
    return [
        name
        for aggregate in table.plan.aggregates
        if counts_units([aggregate]) and not table.query.dataset.unit.each_row
        for name in aggregate.names
    ]


def _about_units(total: Total, query: QuerySpec) -> str:
    """Say what a number of units is in a total."""
    assert query.dataset.part is not None
    return series_wording.units_of_total(query.dataset.unit.noun, total.length, query.dataset.part.most)


def _own_of_total(total: Total, table: NoisyTable, last: Statement) -> dict[str, Any]:
    """Gather the values of a table of totals that are other ones than those of an instalment."""
    query, units, columns = last.values["query"], _columns_of_units(table), []
    for column in last.values["columns"]:
        if column["name"] in table.table.column_names:
            more = f" {_about_units(total, table.query)}" if column["name"] in units else ""
            columns.append({**column, "words": column["words"] + more})
    return {
        "query": {**query, "data": {**query["data"], "part": total.name}},
        "columns": columns,
        "left_out": None,
        "groups_shown": table.table.num_rows,
        "mostly_noise": dict(table.mostly_noise.numbers),
    }


def _whole_values(
    tables: Mapping[str, NoisyTable], values: Mapping[str, dict[str, Any]], plan: PublicationPlan, made: Made
) -> dict[str, Any]:
    """The values of several tables: those that they have in common, and under its name those of each."""
    common = common_values(_first(tables), plan, made)
    return common | {
        "privacy": common["privacy"] | {"selection_delta": plan.selection_delta},
        "agreeing": plan.agreeing,
        "tables": {
            name: {key: own[key] for key in _OWN}
            | {
                "weight": plan.weights[name],
                "measured_with": [other for other in _measured_with(plan, name) if other != name],
                "privacy": {key: value for key, value in own["privacy"].items() if key not in common["privacy"]},
            }
            for name, own in values.items()
        },
        "warnings": [
            *plan.warnings,
            *(f"Table {name}: {text}" for name, table in tables.items() for text in table.data_warnings),
        ],
    }


def _first(tables: Mapping[str, NoisyTable]) -> QuerySpec:
    """The query of the first table: all have the same rows, unit and neighbours."""
    return next(iter(tables.values())).query


def _paragraphs(tables: Mapping[str, NoisyTable], plan: PublicationPlan, made: Made) -> Iterator[str]:
    """The statement of several tables in words: what is true of all, of each table, and of what they share."""
    first = _first(tables)
    subject = f"This publication of {len(tables)} tables ({listed([*tables])}) together"
    held = hold_truth(tables.values(), made.intervals)
    yield " ".join([promise(subject, first, plan), *about_choice(plan), *about_noise(plan.confidence, hold_truth=held)])
    for name, table in tables.items():
        noise = table.mostly_noise.sentences
        yield " ".join([f"Table {name}:", *about_limits(table.query), *about_groups(table), *noise])
    for block in dict.fromkeys(tuple(_measured_with(plan, name)) for name in tables):
        if len(block) > 1:
            yield f"What the tables {listed(block)} have in common is the same number in each of them."
    yield from (wording.agreement(names, nonnegative=made.nonnegative) for names in plan.agreeing)
    yield " ".join(closing("publication", first.dataset, made))
    yield from (f"Warning: {warning}" for warning in plan.warnings)


def _measured_with(plan: PublicationPlan, name: str) -> list[str]:
    """The tables that are measured with one, itself among them."""
    return [other for other in plan if plan.block_of[other] == plan.block_of[name]]


def public_query(query: QuerySpec) -> dict[str, Any]:
    """The query as everybody may see it: the name of the table, not where it is kept."""
    plain = query.to_dict()
    plain["data"]["source"] = query.dataset.identity["name"] or query.dataset.origin
    return plain


def common_values(query: QuerySpec, plan: AnyPlan, made: Made) -> dict[str, Any]:
    """Gather the values that are common to all tables that are released together."""
    ledger = None if made.reservation is None else {"dataset": query.dataset.dataset, "reservation": made.reservation}
    return {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "privacy": {
            "definition": "approximate differential privacy" if plan.delta else "pure differential privacy",
            "unit": query.dataset.privacy_unit,
            "noun": [query.dataset.unit.noun.one, query.dataset.unit.noun.many],
            "unit_in_words": query.dataset.unit.in_words,
            "neighbours": query.dataset.neighbours,
            "neighbouring": query.groups.neighbouring(query.dataset.neighbours),
            "noise_delta": plan.noise_delta,
            "choice_of_limits": choice_values(plan.choice),
            "charge": plan.charge.to_dict(),
        },
        "confidence": plan.confidence,
        "objective": objective_text(plan.objective),
        "nonnegative": made.nonnegative,
        "intervals": made.intervals,
        **({} if made.marks is None else {"marks": made.marks.to_dict()}),
        **({} if made.corrects is None else {"corrects": made.corrects}),
        "ledger": ledger,
        "ledger_entry_hash": made.entry_hash,
        "date": made.date.isoformat(timespec="seconds"),
        "software": f"osgt {made.version}",
    }


def table_values(table: NoisyTable, whole: AnyPlan, made: Made) -> dict[str, Any]:
    """Gather all facts about a table in plain values; `whole` is the plan of all that is released with it."""
    common = common_values(table.query, whole, made)
    return common | {
        "query": public_query(table.query),
        "columns": columns_of(table.query, table.plan, made.marks),
        **({} if table.query.groups.rates is None else {"rates_per": table.query.groups.rates.per_how_many}),
        "privacy": common["privacy"] | measured_values(table.plan),
        "left_out": None if table.left_out is None else table.left_out.to_dict(),
        "warnings": table.warnings,
        "groups_shown": table.table.num_rows,
        "mostly_noise": dict(table.mostly_noise.numbers),
    }


def promise(subject: str, query: QuerySpec, plan: AnyPlan) -> str:
    """Say what is promised, and to whom."""
    definition = wording.definition(plan.epsilon, plan.delta)
    unit = query.dataset.unit
    who = f"in total, for every {unit.noun}{'' if unit.name == unit.noun.one else f' ({unit.in_words})'}"
    return f"{subject} is {definition}, {who}. {promise_to(query.dataset, plan)}"


def promise_to(data: PrivateRows, plan: AnyPlan) -> str:
    """Say what one unit can change."""
    return wording.promise(
        data.unit.noun,
        plan.epsilon,
        plan.delta,
        change_one=data.neighbours == "change_one",
        each_row=data.unit.each_row,
    )


def about_noise(confidence: float, *, hold_truth: bool) -> list[str]:
    """Say what the noise is, and what intervals tell."""
    return [wording.NOISE, *wording.intervals(confidence, hold_truth=hold_truth)]


def hold_truth(tables: Iterable[NoisyTable], intervals: str) -> bool:
    """Whether the intervals of any table allow for what limits cut off."""
    return intervals == "truth" and any(table.left_out is not None and table.left_out.missing for table in tables)


def about_choice(plan: AnyPlan) -> list[str]:
    """Say which limits were chosen privately, if any were."""
    if plan.choice is None:
        return []
    return [wording.chosen_limits([draw.limit.words for draw in plan.choice.draws], plan.choice.epsilon)]


def about_limits(query: QuerySpec) -> list[str]:
    """Say how much of a unit counts in a table."""
    groups, aggregates = query.groups, query.aggregates
    distinct = [one.measure for one in aggregates if isinstance(one, CountDistinct) and not groups.each_row]
    drawn = [name for one in aggregates if isinstance(one, DrawnQuantile) for name in one.names]
    return [
        *([] if query.dataset.part is None else series_wording.of_part(query.dataset)),
        *wording.limits(groups, counts_units=counts_units(aggregates)),
        *(wording.distinct_limit(groups.noun, measure.column, measure.limit) for measure in distinct),
        *([drawn_quantiles(drawn)] if drawn else []),
    ]


def about_groups(table: NoisyTable) -> list[str]:
    """Say what was left out of a table, and which groups are shown."""
    query, plan, left_out = table.query, table.plan, table.left_out
    sentences = about_totals(plan)
    if query.groups.rates is not None and (rates := rate_names(query)):
        sentences.append(wording.rates([*rates.values()], query.groups.rates.per_how_many))
    if query.dataset.derived:
        sentences.append(wording.computed_columns({name: made.text for name, made in query.dataset.derived.items()}))
    if left_out is not None:
        sentences += left_out.sentences
    elif not can_cut_off(query.groups, query.aggregates):
        sentences.append(NOTHING)
    sentences += published_groups(plan)
    if plan.selection is not None:
        sentences += choice(plan)
        asked = [measure for aggregate in plan.aggregates for measure in aggregate.measures]
        if any(plan.selector in plan.noise.scheme.combined[measure] for measure in asked):
            sentences.append(wording.small_groups(plan.groups.counted_in_words(plan.chosen_by)))
    return sentences


def about_totals(plan: Plan) -> list[str]:
    """Say how totals come about, and what is true of them."""
    if not plan.groups.levels:
        return []
    distinct = [name for aggregate in plan.aggregates if not aggregate.adds_up(plan.groups) for name in aggregate.names]
    return [
        *totals(plan),
        *(
            [wording.rest_of_chosen_groups(plan.groups.counted_in_words(plan.chosen_by))]
            if plan.groups.public is None
            else []
        ),
        *([wording.distinct_units(plan.groups.noun, distinct)] if distinct else []),
    ]


def closing(thing: str, dataset: PrivateRows, made: Made) -> list[str]:
    """Say what was done to negative numbers, what marks mean, what it corrects, and whether a ledger was charged."""
    negative = wording.negative_numbers(nonnegative=made.nonnegative)
    marks = [] if made.marks is None else [wording.marks(made.marks.good, made.marks.caution)]
    corrects = [] if made.corrects is None else [wording.corrects(thing, made.corrects)]
    return [*negative, *marks, wording.ledger(thing, dataset.dataset, made.reservation), *corrects]
