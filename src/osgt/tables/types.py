"""Declared types: what the text of a column means. None is guessed from data, where one value could change it.

A field counts as missing unless all of it, but for blanks around it, is written as its type says. The patterns decide
that on every engine alike; what the engines read then are forms on which they agree.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from osgt.near_names import unknown

#: Fields that are longer than this are missing in every type but text: an engine should not work for hours on one.
LONGEST = 1_000

_BLANK = r"[ \t\r\n]*"
_WHOLE = "[+-]?[0-9]+"
_FLOAT = (
    r"[+-]?(?:(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?|[nN][aA][nN])"
)
_YEAR = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)"
_DATE = f"{_YEAR}-[0-9]{{2}}-[0-9]{{2}}"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.][0-9]{1,6}0*)?)?"


@dataclass(frozen=True)
class Type:
    """A type by name; the first group of the pattern is what the engines read."""

    name: str
    pattern: str

    @property
    def whole(self) -> str:
        """The pattern of a whole field: without one, engines find no text, which no type but text can be read from."""
        return rf"^{_BLANK}(?:{self.pattern}){_BLANK}\z"


_SIMPLE = {
    "int64": Type("int64", f"({_WHOLE})(?:[.]0*)?"),
    "float64": Type("float64", f"({_FLOAT})"),
    "boolean": Type("boolean", "([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|1|0)"),
    "date": Type("date", f"({_DATE})"),
    "timestamp": Type("timestamp", f"({_DATE}(?:[ T]{_TIME})?)"),
    "string": Type("string", ""),
}

#: What columns of text are until they are declared as something else.
TEXT = _SIMPLE["string"]

#: How values of each type are written, for messages.
EXAMPLES = {
    "int64": "12",
    "float64": "12.5",
    "decimal": "12.50",
    "boolean": "true or false",
    "date": "2026-05-03",
    "timestamp": "2026-05-03 14:30:00",
}

#: The names, for messages.
NAMES = "int64, float64, decimal(p, s), boolean, date, timestamp or string"


class UndeclaredTypeError(TypeError):
    """A column is used as something that only a declared type can say."""

    def __init__(self, argument: str, column: str, example: str) -> None:
        self.argument, self.column, self.example = argument, column, example
        super().__init__(self.message(f'types={{"{column}": "{example}"}} in Dataset(…)'))

    def message(self, declaration: str) -> str:
        """What to do; `declaration` is how a type is declared where the user is."""
        return (
            f"{self.argument}: the type of column {self.column!r} must be declared, since none is guessed from data: "
            f"{declaration}, where the type is {NAMES}"
        )


def type_named(column: str, name: object) -> Type:
    """The type with this name, or an error that says which there are."""
    if isinstance(name, str) and name in _SIMPLE:
        return _SIMPLE[name]
    digits = re.fullmatch(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", name) if isinstance(name, str) else None
    if digits is None:
        raise ValueError(f"types: column {column!r} must be {NAMES}, got {name!r}")
    precision, scale = int(digits[1]), int(digits[2])
    if not 0 <= scale <= precision or not 1 <= precision <= 38:
        raise ValueError(f"types: column {column!r} must be decimal(p, s) with 0 ≤ s ≤ p and 1 ≤ p ≤ 38, got {name!r}")
    fraction = f"(?:[.][0-9]{{0,{scale}}})?" if scale else ""
    pattern = f"([+-]?[0-9]+{fraction}" + (f"|[+-]?[.][0-9]{{1,{scale}}})0*" if scale else ")(?:[.]0*)?")
    return Type(f"decimal({precision}, {scale})", pattern)


def checked_types(types: object, columns: list[str]) -> dict[str, Type]:
    """The declared types by column."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise TypeError(f'types must be a dict from columns to types, as in {{"age": "int64"}}, got {types!r}')
    for column in types:
        if column not in columns:
            raise ValueError(f"types: {unknown('column', str(column), columns)}")
    return {column: type_named(column, name) for column, name in types.items()}
