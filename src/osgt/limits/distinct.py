"""Distinct values: the pairs of group and value that a unit counts with, and how many it has beyond these.

A unit counts with the first m of its pairs in the order of a salted hash of unit, group and value. Which these are
follows from its own rows and the salt alone. A pair is there if any unit counts with it, so that one unit more adds at
most m pairs to those of others, and takes none away: the numbers of all groups rise by m together at most
(docs/dominance.md#distinct-values).

Values are compared in one form (`Distinct.derived`), by the rank of a pair and when pairs are counted alike: two that
were one to the rank and two to the count would let a unit count with more.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from osgt.data.sql import Table, Value
from osgt.query.groups import STEPS
from osgt.query.measures import Distinct
from osgt.support.numeric import LARGEST_SUM

#: Of each unit at most so many times its steps are told as cut off.
_MOST_CUT_OFF = 3


@dataclass(frozen=True)
class Pairs:
    """The pairs of a measure, by rows: the value where it counts for its unit, and the steps cut off, and kept."""

    value: Value
    fates: tuple[Value, ...] = ()


def with_pairs(
    rows: Table,
    keys: Sequence[str],
    counts: Value,
    values: Mapping[Distinct, str],
    *,
    unit: str | None,
    salt: int,
    cut_off: Collection[object] = (),
) -> tuple[Table, dict[Distinct, Pairs]]:
    """Rank the pairs of each unit, for each measure, and say which rows count with their value.

    Parameters
    ----------
    counts
        Whether the group of a row counts for its unit.
    values
        The column of rows with the value, in the form in which it is compared.
    unit
        The column of rows with their unit; None where every row is one, with one pair.
    cut_off
        The measures of which to tell how many steps the limit cuts off and keeps: K for `limit` pairs.
    """
    there = {measure: rows[value].not_null() & counts for measure, value in values.items()}
    if unit is None or not values:
        return rows, {measure: Pairs(there[measure].then(rows[value])) for measure, value in values.items()}
    group = [rows[key] for key in keys]
    hashed = rows.select(
        "hashed_pairs",
        "A salted hash of unit, group and value, by which the pairs of group and value of a unit are put in order.",
        {f"hash_{value}": rows.engine.hashed(salt, [rows[unit], *group, rows[value]]) for value in values.values()},
        keeps_all=True,
    )
    places: dict[str, Value] = {}
    for measure, value in values.items():
        # Rows without a value are among themselves. Pairs come after the hashes: two of one hash are still two.
        over = [rows[unit], there[measure]], [hashed[f"hash_{value}"], *group, rows[value]]
        row_number, rank, pair_rank = (
            Value(f"{name}()", rows.engine.int64, rows.engine).over(*over)
            for name in ("row_number", "rank", "dense_rank")
        )
        places[f"pair_{value}"] = pair_rank
        if measure in cut_off:
            places[f"place_{value}"] = row_number - rank
    ranked = hashed.select(
        "ranked_pairs",
        "The rows with the rank of their pair of group and value among those of their unit.",
        places,
        keeps_all=True,
    )
    result = {}
    for measure, value in values.items():
        within = there[measure] & (ranked[f"pair_{value}"] <= measure.limit)
        pairs = Pairs(within.then(ranked[value]))
        if measure in cut_off:
            pairs = _with_cut_off(pairs, measure, value, ranked, [ranked[unit], there[measure]], there[measure])
        result[measure] = pairs
    return ranked, result


def _with_cut_off(
    pairs: Pairs, measure: Distinct, value: str, ranked: Table, partition: Sequence[Value], there: Value
) -> Pairs:
    """Say of each pair, at one of its rows, how many steps are cut off or kept: of a unit at most 3K, and K."""
    whole, rank = ranked.engine.whole, ranked[f"pair_{value}"]
    one, full = there & ranked[f"place_{value}"].equals(0), STEPS // measure.limit
    beyond = (rank.max().over(partition) - measure.limit).at_least(1)
    most = ranked.engine.quotient(whole(_MOST_CUT_OFF * STEPS), beyond)
    lost = (one & (rank > measure.limit)).then(most.at_most(full), 0)
    return Pairs(pairs.value, (lost, (one & (rank <= measure.limit)).then(full, 0)))


def number_of_values(value: Value, measure: Distinct) -> Value:
    """Count the different values of a group; in steps, as many as each of them is worth."""
    number = Value(f"count(DISTINCT {value.sql})", value.engine.int64, value.engine)
    if not measure.in_steps:
        return number
    worth = STEPS // measure.limit
    return number.at_most(LARGEST_SUM // worth) * worth
