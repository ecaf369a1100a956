"""The privacy unit: whom a row is about. A column names it, several columns do together, or it is the row itself."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from osgt.support.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from osgt.data.engines.engine import Engine
    from osgt.data.sql import Table, Value

#: What says that every row is a unit of its own.
ROW = "row"

#: What stands between the columns of a unit.
TOGETHER = " + "

#: Endings of the names of columns that say "the name of": patient_id is the name of a patient.
_NAMING = re.compile(r"[_ -](?i:id|nr|no|key|code|uuid|hash|number|name)$|(?<=[a-z])(?:I[Dd]|Nr|Key|Number)$")

#: Plurals that no rule makes.
_PLURALS = {"person": "people", "child": "children", "man": "men", "woman": "women"}

#: The longest word for a unit: sentences are made with it.
_LONGEST_NOUN = 40


@dataclass(frozen=True)
class Noun:
    """The word for one privacy unit, and for several of them: patient, patients."""

    one: str
    many: str

    def __str__(self) -> str:
        return self.one

    def counted(self, number: int) -> str:
        """So many of them: "1 patient", "2 patients"."""
        return f"{number:,} {self.one if number == 1 else self.many}"

    @classmethod
    def of(cls, given: object) -> "Noun":
        """The noun that a text stands for, or a list of its singular and its plural."""
        words = [given] if isinstance(given, str) else given
        if not isinstance(words, Sequence) or len(words) not in (1, 2) or not all(isinstance(w, str) for w in words):
            raise ArgumentTypeError(
                f'noun must be one word, as "patient", or singular and plural, as ["aircraft", "aircraft"]; got '
                f"{given!r}",
                argument="noun",
            )
        for word in words:
            if not (word.strip() and word.isprintable() and len(word) <= _LONGEST_NOUN):
                raise ArgumentError(
                    f"noun must be a word of at most {_LONGEST_NOUN} characters on one line, got {word!r}",
                    argument="noun",
                )
        one, *many = [word.strip() for word in words]
        return cls(one, many[0] if many else plural(one))

    @classmethod
    def from_columns(cls, columns: Sequence[str]) -> "Noun":
        """The noun that the names of columns suggest: patient for patient_id; "unit" if they suggest none."""
        if not columns:
            return cls.of(ROW)
        words = re.sub("(?<=[a-z])(?=[A-Z])|_", " ", _NAMING.sub("", columns[0])).strip().lower()
        suggests = len(columns) == 1 and words.isprintable() and len(words) <= _LONGEST_NOUN
        return cls.of(words if suggests and words not in ("", "id", "key") else UNIT_NOUN.one)


#: The noun where nothing better is known.
UNIT_NOUN = Noun("unit", "units")


def plural(word: str) -> str:
    """The plural of a noun, as most nouns make it."""
    *before, last = re.split(r"(?<=[ -])", word)
    if last.lower() in _PLURALS:
        many = _PLURALS[last.lower()]
    elif re.search(r"[^aeiou]y$", last):
        many = last[:-1] + "ies"
    else:
        many = last + ("es" if re.search(r"(s|x|z|ch|sh)$", last) else "s")
    return "".join([*before, many])


Neighbours = Literal["add_remove", "change_one"]

#: What the two notions of neighbouring tables mean for one unit, for statements; for one row where that is a unit.
NEIGHBOURS = {
    "add_remove": "one {noun} is added or removed with all rows",
    "change_one": "all rows of one {noun} are exchanged for any others",
}
NEIGHBOURING_ROWS = {
    "add_remove": "one {noun} is added or removed",
    "change_one": "one {noun} is exchanged for any other",
}


@dataclass(frozen=True)
class PrivacyUnit:
    """The columns that name the unit, none where every row is a unit of its own; and the word for it."""

    columns: tuple[str, ...]
    noun: Noun

    @classmethod
    def of(cls, given: object, known: Sequence[str], noun: object = None) -> "PrivacyUnit":
        """The unit that a column, a list of columns or "row" stands for in a table with these columns."""
        columns = cls._columns(given, known)
        return cls(columns, Noun.from_columns(columns) if noun is None else Noun.of(noun))

    @classmethod
    def _columns(cls, given: object, known: Sequence[str]) -> tuple[str, ...]:
        """The columns that name the unit."""
        if given == ROW:
            taken = [name for name in known if name.lower() == ROW]
            if taken:
                raise ArgumentError(
                    f'privacy_unit: "row" says that every row is a unit of its own, and the table has a column '
                    f'{taken[0]!r}. If that column names the unit, write ["{taken[0]}"] (--unit {taken[0]} on the '
                    "command line); otherwise rename it",
                    argument="privacy_unit",
                )
            return ()
        columns = (given,) if isinstance(given, str) or not isinstance(given, Sequence) else tuple(given)
        if not columns:
            raise ArgumentError(
                'privacy_unit must name at least one column, or be "row" where every row is a unit',
                argument="privacy_unit",
            )
        for column in columns:
            if not isinstance(column, str):
                raise ArgumentTypeError(
                    f"privacy_unit must be the name of a column, got {column!r}", argument="privacy_unit"
                )
        if len(set(map(str, columns))) < len(columns):
            raise ArgumentError(
                f"privacy_unit: each column once, got {', '.join(map(str, columns))}", argument="privacy_unit"
            )
        return columns

    @property
    def each_row(self) -> bool:
        """Whether every row is a unit of its own."""
        return not self.columns

    @property
    def name(self) -> str:
        """The name for ledgers and sentences, which no other unit has; the order of columns makes no difference."""
        if self.each_row:
            return ROW
        several = len(self.columns) > 1
        return TOGETHER.join(_quote(name) if _unclear(name, several=several) else name for name in sorted(self.columns))

    @property
    def in_words(self) -> str:
        """The columns that name the unit, in words; if there are none, every row is a unit."""
        if self.each_row:
            return "every row is one"
        columns = " and ".join(self.columns)
        return f"column {columns}" if len(self.columns) == 1 else f"columns {columns} together"

    @property
    def plain(self) -> str | list[str]:
        """The unit as in a query file."""
        if len(self.columns) == 1 and self.columns[0] != ROW:
            return self.columns[0]
        return list(self.columns) or ROW

    def named(self, table: "Table | Mapping[str, Value]") -> "list[Value]":
        """List the tests for rows with a unit: none of its columns is null."""
        return [table[name].not_null() for name in self.columns]

    def value(self, engine: "Engine", table: "Table | Mapping[str, Value]") -> "Value":
        """The value that tells units apart; null where there is no unit."""
        return engine.units([table[name] for name in self.columns])


def _quote(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _unclear(name: str, *, several: bool) -> bool:
    """Whether a column could be taken for something else: for the row itself, or for several columns."""
    return name.startswith('"') or TOGETHER in name or (name == ROW and not several)
