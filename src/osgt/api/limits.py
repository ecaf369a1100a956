"""Limits before a release: chosen privately by themselves, or previewed exactly by whoever may see the data.

A private choice is charged like a release, and every later one can use its limits. A preview is never part of one.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from osgt.api.charge import charge, title_of
from osgt.api.publish import AnyQuery, choose_for, prepare_draws
from osgt.data.sql import Table as Rows
from osgt.data.sql import Value
from osgt.limits.contribution import UNIT
from osgt.limits.misfits import LineEnds, Misfits, ask, is_missing, line_ends, misfits, undecoded
from osgt.plan.choice import VALUE_STEP, LimitChoice, draws_of, ladders_of
from osgt.plan.plan import AnyPlan
from osgt.privacy import Charge
from osgt.query.aggregates.base import Limit, Limits, OpenLimit, QuerySpec
from osgt.query.measures import Values
from osgt.query.values import as_float, present
from osgt.release.choice import TooFewUnitsError, unit_numbers
from osgt.release.measuring import NothingReleasedError, prepared_rows
from osgt.render.cards import Card
from osgt.render.table_cards import preview_card
from osgt.support.errors import ArgumentError, warn_caller_after_charge
from osgt.support.files import words_of
from osgt.support.numeric import real_number
from osgt.support.text import aligned, counted, rounded_percent

#: The release that follows has so many times the ε of the choice, if nothing is said.
USUAL_RELEASE = 10.0

#: Where nobody says how many units there are, this part of ε counts them first.
_COUNTING_SHARE = 0.1


class _Cost(NamedTuple):
    """The charge of a choice, which is pure: it has no δ."""

    charge: Charge
    epsilon: float
    delta: float = 0.0


def choose_alone(
    query: AnyQuery,
    epsilon: float,
    release_epsilon: float | None,
    plan_of: Callable[[float, LimitChoice], AnyPlan],
) -> dict[OpenLimit, Limit]:
    """Choose the open limits of a query for a release that is to follow, and charge that.

    `plan_of` plans that release, at its ε and with this choice. All that can be refused is refused before the charge.
    """
    own = real_number("epsilon", epsilon, positive=True)
    later = USUAL_RELEASE * own
    if release_epsilon is not None:
        later = real_number("release_epsilon", release_epsilon, positive=True)
    plan = plan_of(later, _choice_alone(query, own, later))
    assert plan.choice is not None
    draws = prepare_draws(query, plan)
    titles = [f"{name}: {title_of(table)}" if name else title_of(table) for name, table in query.tables.items()]
    title = f"limits: {'; '.join(titles)}"
    reservation = charge(query.dataset, _Cost(plan.choice.charge, own), title, query.to_dict())
    try:
        limits = choose_for(query, plan, draws)
    except TooFewUnitsError:
        raise
    except Exception as error:
        raise NothingReleasedError(error, charged=reservation is not None) from error
    if reservation is not None:
        chosen = json.dumps({limit.words: str(size) for limit, size in limits.items()}, sort_keys=True)
        try:
            reservation.settle(hashlib.sha256(chosen.encode()).hexdigest(), output="limits of a query")
        except OSError as error:
            warn_caller_after_charge(
                [f"The limits are chosen, but the ledger could not be told: {words_of(error)}. The charge stands."]
            )
    return limits


def _choice_alone(query: AnyQuery, epsilon: float, release_epsilon: float) -> LimitChoice:
    """The choice at an ε of its own; refused where nothing is open, or where too few units are known to be there."""
    draws, units = draws_of(query.computed), query.dataset.units
    if not draws:
        raise ValueError("there is nothing to choose: all limits that the query needs are given")
    counting = _COUNTING_SHARE * epsilon if units is None else 0.0
    choice = LimitChoice(draws, epsilon + release_epsilon, (epsilon - counting) / len(draws), counting)
    if units is not None and units < choice.units_needed:
        names = " and ".join(draw.limit.words for draw in draws)
        enough = epsilon * choice.units_needed / units
        raise ArgumentError(
            f"epsilon = {epsilon:.15g} is too little to choose {names} privately with about {units:,} units: give at "
            f"least {float(f'{1.005 * enough:.2e}'):g}, or the limits themselves",
            argument="epsilon",
        )
    return choice


WARNING = "NOT PRIVATE: exact figures from the data, for choosing limits. Do not publish them."

#: Shares of units that limits may cut: the limits of about such shares are shown.
_CUT = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0)

#: What limits are about, and what they cut.
_ABOUT = {
    "max_rows": "rows",
    "max_groups": "groups of units",
    "max_rows_per_group": "rows",
    "max_total": "the sum",
    "max_distinct": "pairs of group and value",
    "bounds": "values",
}


#: Limits on what a unit has in groups.
_OF_GROUPS = ("max_groups", "max_rows_per_group")

#: A heading and lines.
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True)
class Cut:
    """The loss to a limit: of the rows, of the units in groups or of a sum, and of how many units."""

    limit: float
    number: float
    share: float
    units: int
    units_share: float
    given: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Outside:
    """The number of a column's values that are outside of bounds, edges or a range that are given, and their share."""

    column: str
    low: float
    high: float
    number: int
    share: float

    def __str__(self) -> str:
        words = counted(self.number, "value")
        return f"{words} of {self.column} ({rounded_percent(self.share)}) outside {self.low:,} to {self.high:,}."


@dataclass(frozen=True)
class Preview:
    """The exact effect of limits, given ones and others. Not private.

    `rows` has how many rows there are and how many count, `units` how many units; `limits` has for each limit, by its
    name, a line for each choice: of bounds, those around 0. `outside` are values outside of bounds that are given,
    `missing` those that columns do not have. `misfits` are values that do not fit the declared types of a CSV file,
    `undecoded` its rows with bytes that are no text, and `line_ends` its fields with line ends in them.
    """

    rows: Mapping[str, int]
    units: int
    limits: Mapping[OpenLimit, tuple[Cut, ...]]
    outside: tuple[Outside, ...]
    missing: Mapping[str, int]
    misfits: Mapping[str, Misfits]
    undecoded: int
    line_ends: Mapping[str, LineEnds]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "warning": WARNING,
            "rows": dict(self.rows),
            "units": self.units,
            "limits": {limit.words: [cut.to_dict() for cut in cuts] for limit, cuts in self.limits.items()},
            "outside": [asdict(outside) for outside in self.outside],
            "missing_values": dict(self.missing),
            "misfits": {name: asdict(misfit) for name, misfit in self.misfits.items()},
            "undecoded_rows": self.undecoded,
            "line_ends": {name: asdict(ends) for name, ends in self.line_ends.items()},
        }

    def __repr__(self) -> str:
        return "Preview(NOT PRIVATE; print it to see what limits cut off)"

    def _repr_html_(self) -> str:
        return preview_card(self.curves(), WARNING).html()

    @property
    def tables(self) -> "dict[str, Preview]":
        """The previews of all tables: this one, without a name."""
        return {"": self}

    def curves(self) -> list[Table]:
        """Make a heading and lines for each limit; the line of the one that was given has a star."""
        result: list[Table] = []
        for limit, cuts in self.limits.items():
            units = "units in groups" if limit.argument == "max_rows_per_group" else "units"
            head = (limit.words, f"{_ABOUT[limit.argument]} cut off", "", f"{units} that it cuts", "")
            result.append((head, [(_limit(cut), *_counted(cut)) for cut in cuts]))
        return result

    def lines(self) -> list[str]:
        """Describe the rows and units before any limit applies, and what the given limits cut off."""
        in_words = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in self.rows.items())
        result = [f"Rows: {in_words}. Units: {self.units:,}."]
        for limit, cuts in self.limits.items():
            result += [
                f"{cut.number:,.10g} ({rounded_percent(cut.share)}) of {_ABOUT[limit.argument]} cut off by "
                f"{limit.words} = {cut.limit:,.10g}."
                for cut in cuts
                if cut.given
            ]
        result += map(str, self.outside)
        result += [f"{number:,} values of {name} are missing." for name, number in self.missing.items() if number]
        result += [misfit.words(name) for name, misfit in self.misfits.items()]
        result += self._unreadable()
        result += [ends.words(name) for name, ends in self.line_ends.items()]
        return result

    def _unreadable(self) -> Iterator[str]:
        """Say how many rows have no unit, or bytes that are no text."""
        if without := self.rows["without_a_unit"]:
            have, are = ("has", "is") if without == 1 else ("have", "are")
            yield f"{counted(without, 'row')} {have} no unit that can be read, and {are} ignored in a release."
        if self.undecoded:
            have = "has" if self.undecoded == 1 else "have"
            yield (
                f"{counted(self.undecoded, 'row')} {have} bytes that are no text in "
                'the encoding of the file, shown as �: give another encoding, as "latin-1" or "cp1252".'
            )

    def __str__(self) -> str:
        parts = [[WARNING, *self.lines()], *(aligned([head, *rows]) for head, rows in self.curves())]
        return "\n\n".join("\n".join(part) for part in parts)


def _limit(cut: Cut) -> str:
    return f"{cut.limit:,.10g}{' *' if cut.given else ''}"


def _counted(cut: Cut) -> tuple[str, ...]:
    return f"{cut.number:,.0f}", rounded_percent(cut.share), f"{cut.units:,}", rounded_percent(cut.units_share)


def make_preview(query: QuerySpec) -> Preview:
    """Run the counting queries. They take about as long as a release."""
    limits = _limits(query)
    bounded = dict.fromkeys(
        replace(limit, words="")
        for aggregate in query.aggregates
        if not aggregate.open_limit
        for limit in aggregate.limits
    )
    columns = [str(limit.column) for limit in limits if limit.is_of_values] + [limit.column for limit in bounded]
    names = list(dict.fromkeys(columns))
    rows, _, values = prepared_rows(query, [Values(name) for name in names], with_totals=False)
    data = query.dataset
    left = data.rows()
    known = "with_public_keys_and_a_unit" if query.groups.public is not None else "with_a_unit"
    all_rows = ask(data.table, {"in_the_table": data.table.count()})
    met = ask(left, {"after_where": left.count(), "without_a_unit": left.count().where(is_missing(data, left))})
    asked = {known: rows.count(), "units": Value(f"count(DISTINCT {rows[UNIT].sql})", rows.engine.int64, rows.engine)}
    asked |= {f"missing_{i}": rows.count().where(~present(rows[values[name]])) for i, name in enumerate(names)}
    for i, limit in enumerate(bounded):
        asked |= _outside(rows, values[limit.column], limit, i)
    answer = ask(rows, asked)
    return Preview(
        rows={**all_rows, **met, known: answer[known]},
        units=answer["units"],
        limits={limit: _cuts(query, limit, given) for limit, given in limits.items()},
        outside=tuple(
            Outside(limit.column, limit.low, limit.high, outside, outside / max(answer[f"present_{i}"], 1))
            for i, limit in enumerate(bounded)
            if (outside := answer[f"outside_{i}"]) is not None
        ),
        missing={name: answer[f"missing_{i}"] for i, name in enumerate(names)},
        misfits=misfits(data),
        undecoded=undecoded(data),
        line_ends=line_ends(data),
    )


def _limits(query: QuerySpec) -> dict[OpenLimit, Fraction | None]:
    """The limits that the query needs, with those that are given."""
    groups, result = query.groups, {}
    measures = [measure for aggregate in query.aggregates for measure in aggregate.measures]
    if groups.weighs_rows(measures):
        result[OpenLimit("max_rows")] = groups.max_rows
        if groups.max_rows_per_group is not None:
            result[OpenLimit("max_rows_per_group")] = groups.max_rows_per_group
    counts_units = any(measure.per_unit for measure in measures)
    if groups.by and not groups.each_row and (counts_units or groups.max_groups is not None):
        result[OpenLimit("max_groups")] = groups.max_groups
    limits = {limit: None if size is None else Fraction(size) for limit, size in result.items()}
    return limits | _limits_of_columns(query)


def _limits_of_columns(query: QuerySpec) -> dict[OpenLimit, Fraction | None]:
    """The limits of columns that are summed, with those that are given, and of columns that are clipped."""
    limits: dict[OpenLimit, Fraction | None] = {}
    for aggregate in query.aggregates:
        arguments = aggregate.arguments()
        if aggregate.kind == "sum" and "bounds" not in arguments:
            total = arguments.get("max_total")
            most = max(total) if isinstance(total, list) else total
            limits[OpenLimit("max_total", arguments["column"])] = None if most is None else Fraction(most)
        elif aggregate.kind == "count_distinct" and not query.groups.each_row:
            most = arguments.get("max_distinct")
            limits[OpenLimit("max_distinct", arguments["column"])] = None if most is None else Fraction(most)
        elif aggregate.clipping is not None:
            limits[OpenLimit("bounds", arguments["column"])] = None
    return limits


def _outside(rows: Rows, column: str, limits: Limits, place: int) -> dict[str, Value]:
    """The number of values of a column that are outside of limits, and that of all its values."""
    number, there = as_float(rows[column]), present(rows[column])
    beyond = (number < float(limits.low)) | (number > float(limits.high))
    return {f"outside_{place}": rows.count().where(there & beyond), f"present_{place}": rows.count().where(there)}


def _cuts(query: QuerySpec, limit: OpenLimit, given: Fraction | None) -> tuple[Cut, ...]:
    """Count what limits cut off: the one that is given, and some around which few units are cut."""
    one = VALUE_STEP if limit.is_of_values else Fraction(1)
    own = [] if given is None else [int(given / one)]
    rungs = sorted({*ladders_of(limit)[0].limits, *own})
    every, cut, whole, lost = _count_beyond(query, limit, rungs)
    if limit.argument == "bounds":
        whole, *lost = _values_beyond(query, limit, [float(rung * one) for rung in rungs])
    cuts = []
    for i, rung in enumerate(rungs):
        size = float(rung * one)
        number_lost = lost[i] * (float(one) if limit.argument == "max_total" else 1.0)
        share, units_share = lost[i] / max(whole, 1.0), cut[i] / max(every, 1)
        cuts.append(Cut(int(size) if size.is_integer() else size, number_lost, share, cut[i], units_share, rung in own))
    shown = {next((i for i, cut in enumerate(cuts) if cut.units_share <= share), len(cuts) - 1) for share in _CUT}
    return tuple(cut for i, cut in enumerate(cuts) if i in shown or cut.given)


def _count_beyond(
    query: QuerySpec, limit: OpenLimit, rungs: Sequence[int]
) -> tuple[int, list[int], float, list[float]]:
    """Count the units, and those beyond each limit; add up their numbers, and what is beyond each limit."""
    units = _in_groups(query, limit) if limit.argument in _OF_GROUPS else unit_numbers(query, limit)
    number = units["number"]
    total = _float_sum(number)
    asked = {"units": units.count(), "whole": total}
    for i, rung in enumerate(rungs):
        asked |= {f"units_{i}": units.count().where(number > rung), f"beyond_{i}": total.where(number > rung)}
    answer = ask(units, asked)
    cut = [int(answer[f"units_{i}"]) for i in range(len(rungs))]
    lost = [float(answer[f"beyond_{i}"] or 0) - float(rung) * cut[i] for i, rung in enumerate(rungs)]
    return int(answer["units"]), cut, float(answer["whole"] or 0), lost


def _values_beyond(query: QuerySpec, limit: OpenLimit, sizes: Sequence[float]) -> list[float]:
    """Count the values of a column, and those beyond bounds of each of some sizes around their centre."""
    assert limit.column is not None
    rows, _, values = prepared_rows(query, [Values(limit.column)], with_totals=False, with_keys=False)
    column = rows[values[limit.column]]
    there, number = present(column), (as_float(column) - float(limit.centre)).abs()
    asked = {"whole": rows.count().where(there)}
    asked |= {f"beyond_{i}": rows.count().where(there & (number > size)) for i, size in enumerate(sizes)}
    return [float(number) for number in ask(rows, asked).values()]


def _float_sum(number: Value) -> Value:
    """The sum of whole numbers as a float, which has room for it."""
    return number.cast(number.engine.float64).sum()


def _in_groups(query: QuerySpec, limit: OpenLimit) -> Rows:
    """A table of units with the number of groups that they are in, or of units in groups with their rows there."""
    rows, keys, _ = prepared_rows(query, [], with_totals=False)
    pairs = rows.select(
        "pairs", "The rows of each unit in each group.", {"number": rows.count()}, group_by=[UNIT, *keys]
    )
    if limit.argument == "max_rows_per_group":
        return pairs
    return pairs.select("groups", "The groups of each unit.", {"number": pairs.count()}, group_by=[UNIT])


@dataclass(frozen=True)
class PublicationPreview:
    """The exact effect of the limits of each table. Not private."""

    tables: Mapping[str, Preview]

    def __getitem__(self, name: str) -> Preview:
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: preview.to_dict() for name, preview in self.tables.items()}
        return {
            "warning": WARNING,
            "tables": {
                name: {key: value for key, value in table.items() if key != "warning"} for name, table in plain.items()
            },
        }

    def __repr__(self) -> str:
        return "PublicationPreview(NOT PRIVATE; print it to see what limits cut off)"

    def _repr_html_(self) -> str:
        tables = [
            replace(table, caption=f"{name}: {table.caption}")
            for name, preview in self.tables.items()
            for table in preview_card(preview.curves(), WARNING).tables
        ]
        return Card("What limits cut off", alarm=WARNING, tables=tables).html()

    def __str__(self) -> str:
        lines = [WARNING]
        for name, preview in self.tables.items():
            lines.append(f"{name}:")
            lines += [f"  {line}" for line in str(preview).splitlines() if line != WARNING]
        return "\n".join(lines)
