"""Types of columns: those that an engine has, and declared ones, which say what the text of a column means.

None is guessed from data, where one value could change it. A field counts as missing unless all of it, but for blanks
around it, is written as its type says. The patterns decide that on every engine alike; what the engines read then are
forms on which they agree. Numbers with a decimal comma and dates in another order are rewritten to such forms.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from osgt.support.errors import ArgumentError, ArgumentTypeError, OsgtError
from osgt.support.text import unknown

# Types that an engine has

#: Kinds of values that can be compared with one another.
_FAMILIES = {"integer": "number", "decimal": "number", "float": "number", "date": "time", "timestamp": "time"}

#: The digits of Arrow's ordinary decimals.
_ORDINARY_DIGITS = 38

_ARROW = {
    "boolean": pa.bool_(),
    "text": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "clock": pa.time64("ns"),
    "uuid": pa.string(),
    "null": pa.null(),
    "decimal": pa.decimal128(_ORDINARY_DIGITS, 9),  # without digits of their own: what has more cannot be read
}


@dataclass(frozen=True)
class ColumnType:
    """The type of a column.

    `kind` is boolean, integer, float, decimal, text, binary, date, timestamp, clock, interval, uuid, null or other, and
    `name` is what the engine calls it, in a cast for one.
    """

    kind: str
    name: str
    #: Of integers and floats; and whether integers have a sign.
    bits: int = 64
    signed: bool = True
    #: Of decimals: all digits, and those behind the point. None where there may be any number of them.
    digits: tuple[int, int] | None = None
    #: Of times: whether they have a zone, and their unit in Arrow.
    zone: bool = False
    unit: str = "us"
    #: Whether values may be missing, as far as the table itself says.
    nullable: bool = True
    #: Whether it was added to the engine, with operators that may mean anything.
    added: bool = False

    @property
    def has_own_operators(self) -> bool:
        """Whether conditions may compare its values."""
        return not self.added and self.kind != "binary"

    @property
    def family(self) -> str:
        """The kinds that it can be compared with."""
        return _FAMILIES.get(self.kind, self.kind)

    @property
    def is_number(self) -> bool:
        """Whether values are numbers."""
        return self.family == "number"

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the largest integer of the type."""
        return (-(1 << self.bits - 1), (1 << self.bits - 1) - 1) if self.signed else (0, (1 << self.bits) - 1)

    @property
    def arrow(self) -> pa.DataType:
        """The type of released values in Arrow."""
        if self.kind == "integer":
            return getattr(pa, f"{'' if self.signed else 'u'}int{self.bits}")()
        if self.kind == "float":
            return getattr(pa, f"float{self.bits}")()
        if self.kind == "timestamp":
            return pa.timestamp(self.unit, "UTC" if self.zone else None)
        if self.kind == "decimal" and self.digits is not None:
            return (pa.decimal128 if self.digits[0] <= _ORDINARY_DIGITS else pa.decimal256)(*self.digits)
        return _ARROW[self.kind]

    def __str__(self) -> str:
        if self.kind == "integer":
            return f"{'' if self.signed else 'u'}int{self.bits}"
        if self.kind == "float":
            return f"float{self.bits}"
        if self.kind == "decimal":
            return "decimal" if self.digits is None else f"decimal({self.digits[0]}, {self.digits[1]})"
        if self.kind == "timestamp":
            return "timestamp with time zone" if self.zone else "timestamp"
        return {"text": "string", "clock": "time"}.get(
            self.kind, self.name.lower() if self.kind == "other" else self.kind
        )


def decimal_type(precision: int, scale: int) -> ColumnType:
    """Decimals of so many digits, as every engine writes them."""
    return ColumnType("decimal", f"DECIMAL({precision}, {scale})", digits=(precision, scale))


# Declared types

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
    """A type by name, the pattern of its fields, and what engines read of one.

    `parts` are the groups of the pattern, and texts between them, that together are the value; `comma` says that a
    comma in it stands for a point, and `example` is how a value is written.
    """

    name: str
    pattern: str
    example: str = ""
    parts: tuple[int | str, ...] = (1,)
    comma: bool = False

    @property
    def whole(self) -> str:
        """The pattern of a whole field: without one, engines find no text, which no type but text can be read from."""
        return rf"^{_BLANK}(?:{self.pattern}){_BLANK}\z"


_SIMPLE = {
    "int64": Type("int64", f"({_WHOLE})(?:[.]0*)?", "12"),
    "float64": Type("float64", f"({_FLOAT})", "12.5"),
    "boolean": Type("boolean", "([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]|1|0)", "true or false"),
    "date": Type("date", f"({_DATE})", "2026-05-03"),
    "timestamp": Type("timestamp", f"({_DATE}(?:[ T]{_TIME})?)", "2026-05-03 14:30:00"),
    "string": Type("string", ""),
}

#: What columns of text are until they are declared as something else.
TEXT = _SIMPLE["string"]

#: The names, for messages.
NAMES = "int64, float64, decimal(p, s), boolean, date, timestamp or string"


class UndeclaredTypeError(OsgtError, TypeError):
    """A column is used as something that only a declared type can say."""

    argument: str

    def __init__(self, argument: str, column: str, example: str) -> None:
        self.argument, self.column, self.example = argument, column, example
        super().__init__(self.message(f'types={{"{column}": "{example}"}} in Dataset(…)'))

    def message(self, declaration: str) -> str:
        """Ask for a declaration of the type; `declaration` is how a type is declared where the user is."""
        return (
            f"{self.argument}: the type of column {self.column!r} must be declared, since none is guessed from data: "
            f"{declaration}, where the type is {NAMES}"
        )


def parse_type(column: str, name: object) -> Type:
    """The type with this name, or an error that says which there are."""
    if isinstance(name, str) and name in _SIMPLE:
        return _SIMPLE[name]
    digits = re.fullmatch(r"decimal\(\s*([0-9]{1,2})\s*,\s*([0-9]{1,2})\s*\)", name) if isinstance(name, str) else None
    if digits is None:
        raise ArgumentError(f"types: column {column!r} must be {NAMES}, got {name!r}", argument="types")
    precision, scale = int(digits[1]), int(digits[2])
    if not 0 <= scale <= precision or not 1 <= precision <= 38:
        raise ArgumentError(
            f"types: column {column!r} must be decimal(p, s) with 0 ≤ s ≤ p and 1 ≤ p ≤ 38, got {name!r}",
            argument="types",
        )
    fraction = f"(?:[.][0-9]{{0,{scale}}})?" if scale else ""
    pattern = f"([+-]?[0-9]+{fraction}" + (f"|[+-]?[.][0-9]{{1,{scale}}})0*" if scale else ")(?:[.]0*)?")
    return Type(f"decimal({precision}, {scale})", pattern, "12.50" if scale > 1 else "12.5" if scale else "12")


@dataclass(frozen=True)
class Writing:
    """The form of numbers and dates in a file: the decimal sign, and the places of day, month and year."""

    decimal: str = "."
    date_format: str | None = None

    @classmethod
    def of(cls, decimal: object, date_format: object) -> "Writing":
        """Check the decimal sign and the form of dates that were given."""
        if decimal not in (None, ".", ","):
            raise ArgumentError(f'decimal must be "." or ",", got {decimal!r}', argument="decimal")
        if date_format is not None and (
            not isinstance(date_format, str)
            or sorted(_DIRECTIVE.findall(date_format)) != ["%Y", "%d", "%m"]
            or _DIRECTIVE.sub("", date_format).strip(_BETWEEN)
        ):
            raise ArgumentError(
                "date_format must have %d (the day), %m (the month) and %Y (the year, with four digits) once each, "
                f'with blanks or any of . , / - _ between them, as in "%d.%m.%Y" or "%m/%d/%Y", got {date_format!r}',
                argument="date_format",
            )
        return cls(decimal or ".", date_format)

    def apply(self, dtype: Type) -> Type:
        """The type as this file writes it."""
        if dtype.name in ("date", "timestamp") and self.date_format is not None:
            return self._date(dtype, self.date_format)
        if self.decimal == "." or dtype.name.partition("(")[0] not in ("int64", "float64", "decimal"):
            return dtype
        pattern, example = dtype.pattern.replace("[.]", "[,]"), dtype.example.replace(".", ",")
        return replace(dtype, pattern=pattern, example=example, comma=True)

    @staticmethod
    def _date(dtype: Type, date_format: str) -> Type:
        # Where nothing stands between them, only two digits each tell days from months.
        digits = "{2}" if _ADJACENT.search(date_format) else "{1,2}"
        forms = {"%d": f"([0-9]{digits})", "%m": f"([0-9]{digits})", "%Y": f"({_YEAR})"}
        order = _DIRECTIVE.findall(date_format)
        pieces = [forms.get(piece) or "".join(f"[{char}]" for char in piece) for piece in _PIECES.split(date_format)]
        year, month, day = (order.index(directive) + 1 for directive in ("%Y", "%m", "%d"))
        example = date_format.replace("%d", "03").replace("%m", "05").replace("%Y", "2026")
        pattern, parts = "".join(pieces), (year, "-", month, "-", day)
        if dtype.name == "timestamp":
            return replace(
                dtype, pattern=f"{pattern}((?:[ T]{_TIME})?)", parts=(*parts, 4), example=f"{example} 14:30:00"
            )
        return replace(dtype, pattern=pattern, parts=parts, example=example)


_DIRECTIVE, _PIECES, _ADJACENT = re.compile("%."), re.compile("(%[dmY])"), re.compile("%.%")

#: What may stand between the parts of a date.
_BETWEEN = " .,/-_"


def parse_types(types: object, columns: list[str], writing: Writing | None = None) -> dict[str, Type]:
    """The declared types by column."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise ArgumentTypeError(
            f'types must be a dict from columns to types, as in {{"age": "int64"}}, got {types!r}', argument="types"
        )
    for column in types:
        if column not in columns:
            raise ArgumentError(f"types: {unknown('column', str(column), columns)}", argument="types")
    apply = (writing or Writing()).apply
    return {column: apply(parse_type(column, name)) for column, name in types.items()}
