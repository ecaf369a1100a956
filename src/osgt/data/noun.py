"""The noun of a privacy unit: the word for one, and for several. Given, or taken from the names of columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from osgt.support.errors import ArgumentError, ArgumentTypeError

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
