"""Joins many to one: rows of a table without the person's column, each with the row that says whom it is about.

**Which rows are a person's?** Those of the table that has the unit, and all rows that join to one of them; over several
joins, all that join to those. Adding or removing a person adds or removes exactly these.

**Nothing rests on a key being unique.** Rows are joined to a key that stands in exactly one row; those with any other
key are joined to nothing, and count for nobody. Let p be removed: the rows of p, and what joins to them, are gone.
*Every row that is left is joined as before*: had a row with its key been removed, it would have been removed itself, so
the rows with its key are the same, and so are their number and their values. *Every row that was removed counted for p
or for nobody*: it joins to a removed row, which by induction counts for p or for nobody, or to several, and then counts
for nobody. So the joined rows without p are those with p less the rows of p, whatever the tables hold: what is proved
about rows with a unit holds for joined ones. (If rows with a key of two persons went to one of them, to both, or to the
first, one person's coming would change the other's rows.)

**Where both tables have the unit**, it is compared as well: a row is joined to rows of its own person alone. A table
without the unit that is joined to rows that have it is about nobody: it is the same with and without a person.
"""

from collections.abc import Sequence
from functools import reduce
from operator import and_

from osgt.data.sql import Join, Table, Value
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import names_in_words, unknown

#: The number of rows with the same key.
_KEY_ROWS = "key_rows_0"


def join_many_to_one(many: Table, one: Table, on: Sequence[str], unit: Sequence[str]) -> Table:
    """The rows of a table, each with the columns of the only row of another one that has its key; null if none has.

    Parameters
    ----------
    on
        The columns of the key, which both tables have.
    unit
        The columns of the privacy unit, which `one` has; if `many` has them too, they are compared as well.
    """
    keys = _keys_of(many, on, unit)
    _check_keys(many, one, keys)
    _check_columns(many, one, keys)
    engine = one.engine
    theirs = [name for name in one.columns if name not in keys]
    single = _single_rows(one, keys, theirs)
    renamed = many.select(
        "many_rows",
        "The rows that are joined, with their keys as they are compared.",
        {
            **{f"many_key_{i}": engine.unit(many[key]) for i, key in enumerate(keys)},
            **{f"many_{i}": many[name] for i, name in enumerate(many.columns)},
        },
    )
    same = [renamed[f"many_key_{i}"].equals(single[f"one_key_{i}"]) for i in range(len(keys))]
    return renamed.select(
        "joined_rows",
        "Each row with the columns of the row that it belongs to; without these, and so without a unit, if none does.",
        {
            **{name: renamed[f"many_{i}"] for i, name in enumerate(many.columns)},
            **{name: single[f"one_{i}"] for i, name in enumerate(theirs)},
        },
        joins=[Join(single, reduce(and_, same), "LEFT JOIN")],
    )


def _keys_of(many: Table, on: Sequence[str], unit: Sequence[str]) -> list[str]:
    """The columns that are compared: the key, and the unit where both tables have it."""
    own = [name for name in unit if name in many.columns]
    if 0 < len(own) < len(unit):
        raise ArgumentError(f"on: the table must have all columns of the privacy unit or none: {names_in_words(unit)}",
                            argument="on")  # fmt: skip
    return [*on, *(name for name in own if name not in on)]


def _single_rows(one: Table, keys: Sequence[str], theirs: Sequence[str]) -> Table:
    """The rows that have a key alone: their keys as they are compared, and the columns that a joined row gets."""
    key_names = [f"one_key_{i}" for i in range(len(keys))]
    keyed = one.select(
        "keyed_rows",
        "The rows that others are joined to, with their keys as they are compared.",
        {
            **{name: one.engine.unit(one[key]) for name, key in zip(key_names, keys, strict=True)},
            **{f"one_{i}": one[name] for i, name in enumerate(theirs)},
        },
        where=[one[key].not_null() for key in keys],
    )
    counted = keyed.select(
        "counted_keys",
        "How many rows have the same key.",
        {_KEY_ROWS: keyed.count().over([keyed[name] for name in key_names])},
        keeps_all=True,
    )
    return counted.select(
        "single_keys",
        "The rows whose key no other row has: a row that is joined belongs to one of them, or to nobody.",
        {name: counted[name] for name in keyed.columns},
        where=[_is_single(counted)],
    )


def _is_single(counted: Table) -> Value:
    """Test for a key that no other row has. Privacy rests on it."""
    return counted[_KEY_ROWS].equals(1)


def _check_keys(many: Table, one: Table, keys: Sequence[str]) -> None:
    """Raise unless both tables have the keys, of kinds that are equal to everybody."""
    for name in keys:
        for table in (many, one):
            if name not in table.columns:
                raise ArgumentError(f"on: {unknown('column', name, list(table.columns))}", argument="on")
            if not table.engine.can_be_key(table.columns[name]):
                raise ArgumentTypeError(
                    f"on: column {name!r} of type {table.columns[name]} cannot be a key", argument="on"
                )
        kinds = [table.columns[name].kind for table in (many, one)]
        if kinds[0] != kinds[1]:
            raise ArgumentTypeError(
                f"on: column {name!r} must be of one type in both tables, got {kinds[0]} and {kinds[1]}; declare it",
                argument="on",
            )


def _check_columns(many: Table, one: Table, keys: Sequence[str]) -> None:
    """Raise if both tables have a column of the same name that is no key."""
    taken = {name.lower() for name in one.columns}
    twice = [name for name in many.columns if name not in keys and name.lower() in taken]
    if twice:
        raise ArgumentError(f"on: both tables have a column {twice[0]!r}; rename it in one of them", argument="on")
