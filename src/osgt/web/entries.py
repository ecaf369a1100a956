"""The entries in the fields of the page, as they were typed, and the reading of single entries.

The fields of an aggregate are made from what a query file may say about it: a new aggregate needs none.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from osgt.query.file import plain_type
from osgt.query.file.aggregates import AGGREGATES

#: What is wrong, by the name of the field.
Problems = dict[str, str]

_COMMA = re.compile(r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")


class Entries:
    """The fields of a form: each may be there several times. What is empty was not entered."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self.fields = {name: list(values) for name, values in fields.items()}

    @classmethod
    def of_pairs(cls, pairs: Iterable[tuple[str, str]]) -> "Entries":
        """The fields as a browser sends them."""
        fields: dict[str, list[str]] = {}
        for name, value in pairs:  # both with lines as browsers end them
            fields.setdefault(name.replace("\r\n", "\n"), []).append(value.replace("\r\n", "\n"))
        return cls(fields)

    def one(self, name: str) -> str:
        """The entry of a field, without blanks around it; "" if there is none."""
        return (self.fields.get(name) or [""])[0].strip()

    def raw(self, name: str) -> str:
        """The entry of a field as it was typed."""
        return (self.fields.get(name) or [""])[0]

    def all(self, name: str) -> list[str]:
        """The entries of a field that may be there several times, without empty ones."""
        return [value for value in self.fields.get(name, []) if value.strip()]

    def below(self, prefix: str) -> dict[str, str]:
        """The entries of the fields `PREFIX.…`, by the rest of their names, without empty ones."""
        start = f"{prefix}."
        result = {name.removeprefix(start): self.one(name) for name in self.fields if name.startswith(start)}
        return {name: value for name, value in result.items() if value}

    def rows(self, prefix: str) -> list[int]:
        """The numbers N of the fields `PREFIX.N.…`, in order."""
        result = {name.split(".")[1] for name in self.fields if name.startswith(f"{prefix}.") and name.count(".") > 1}
        return sorted(int(number) for number in result if number.isdecimal() and len(number) < 5)

    def without(self, *prefixes: str) -> "Entries":
        """Copy the entries without some fields and those below them."""
        return Entries(
            {
                name: values
                for name, values in self.fields.items()
                if not any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)
            }
        )

    def updated(self, fields: Mapping[str, list[str]]) -> "Entries":
        """Copy the entries with others in some fields."""
        return Entries({**self.fields, **fields})


def text(entries: Entries, name: str, problems: Problems) -> str | None:
    """Read a text; None if nothing was entered."""
    return entries.one(name) or None


def whole(entries: Entries, name: str, problems: Problems) -> int | None:
    """A whole number; None if there is none, and a problem if something else stands there."""
    entered = entries.one(name)
    if not entered:
        return None
    plain = entered.replace(" ", "").replace("_", "")
    if re.fullmatch(r"[+-]?\d{1,30}", plain):
        return int(plain)
    if re.fullmatch(r"\d{1,3}(,\d{3})+", plain):
        return int(plain.replace(",", ""))
    problems[name] = f"This must be a whole number, as 8; got {entered[:40]!r}."
    return None


def number(entries: Entries, name: str, problems: Problems) -> int | float | None:
    """A number; None if there is none, and a problem if something else stands there."""
    entered = entries.one(name)
    if not entered:
        return None
    if re.fullmatch(r"[+-]?\d{1,30}", entered):
        return int(entered)
    if _THOUSANDS.fullmatch(entered):
        words = f"Write {entered.replace(',', '')}, without commas"
        decimal = f", or {entered.replace(',', '.')}, with a point" if _COMMA.fullmatch(entered) else ""
        problems[name] = f"{words}{decimal}."
        return None
    if _COMMA.fullmatch(entered):
        problems[name] = f"Write {entered.replace(',', '.')}, with a point in place of the comma."
        return None
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", entered):
        return float(entered)
    problems[name] = f"This must be a number, as 0.5 or 1e-8; got {entered[:40]!r}."
    return None


#: How arguments are entered.
Widget = Literal["column", "bounds", "total", "several", "numbers", "whole", "number", "choice", "text"]

#: Arguments that most people leave alone.
_RARE = ("name", "weight", "bins", "missing", "interval")


@dataclass(frozen=True)
class Argument:
    """One argument of a kind of aggregate: how it is entered, and what it is, in a sentence."""

    name: str
    widget: Widget
    words: str
    required: bool
    choices: tuple[str, ...] = ()

    @property
    def is_rare(self) -> bool:
        """Whether it stands in a fold."""
        return self.name in _RARE

    def read(self, entries: Entries, prefix: str, problems: Problems) -> Any:
        """Read the entry of the argument; None if nothing was entered, or nothing that can be read."""
        place = f"{prefix}.{self.name}"
        if self.widget == "bounds":
            ends = [number(entries, f"{place}.{end}", problems) for end in ("low", "high")]
            if None in ends:
                if any(end is not None for end in ends):
                    problems.setdefault(f"{place}.{'low' if ends[0] is None else 'high'}", "Give both bounds.")
                return None
            return ends
        if self.widget in ("numbers", "several"):
            result = _numbers(entries, place, problems)
            is_number = self.widget == "several" and result is not None and len(result) == 1
            return result[0] if is_number else result  # type: ignore[index]
        if self.widget == "total":  # one number, or two with a blank between them
            return (_numbers if " " in entries.one(place) else number)(entries, place, problems)
        if self.widget == "column":
            return entries.raw(place) or None  # names may begin or end with blanks
        reads = {"whole": whole, "number": number}
        return reads.get(self.widget, text)(entries, place, problems)

    def written(self, value: Any, prefix: str) -> dict[str, list[str]]:
        """The fields that hold a value."""
        place = f"{prefix}.{self.name}"
        if self.widget == "bounds":
            return {f"{place}.{end}": [as_text(number)] for end, number in zip(("low", "high"), value, strict=True)}
        if self.widget in ("numbers", "total", "several"):
            listed = value if isinstance(value, Sequence) else [value]
            return {place: [", ".join(as_text(item) for item in listed)]}
        return {place: [as_text(value)]}


def arguments_of(kind: str) -> list[Argument]:
    """The arguments of a kind of aggregate, those that it needs first."""
    fields = AGGREGATES[kind].arguments.model_fields
    result = [_argument(name, field) for name, field in fields.items() if name != "kind"]
    return sorted(result, key=lambda argument: argument.is_rare)


def read_aggregate(entries: Entries, prefix: str, problems: Problems) -> dict[str, Any] | None:
    """An aggregate in plain values, as a query file has it; None if the row is empty."""
    kind = entries.one(f"{prefix}.kind")
    if not kind:
        return None
    if kind not in AGGREGATES:
        problems[f"{prefix}.kind"] = f"Choose one of {', '.join(AGGREGATES)}."
        return None
    result = {argument.name: argument.read(entries, prefix, problems) for argument in arguments_of(kind)}
    return {"kind": kind, **{name: value for name, value in result.items() if value is not None}}


def written_aggregate(plain: Mapping[str, Any], prefix: str) -> dict[str, list[str]]:
    """The fields that hold an aggregate."""
    known = {argument.name: argument for argument in arguments_of(plain["kind"])}
    fields = {f"{prefix}.kind": [plain["kind"]]}
    for name, value in plain.items():
        if name != "kind" and value is not None:
            fields |= known[name].written(value, prefix)
    return fields


def as_text(value: Any) -> str:
    """A value as it is typed."""
    if isinstance(value, float):
        short = f"{value:.15g}"
        return short if float(short) == value else repr(value)
    return str(value)


def _argument(name: str, field: FieldInfo) -> Argument:
    kind = plain_type(field.annotation)
    choices: tuple[str, ...] = ()
    widget: Widget = "text"
    if name in ("column", "bounds"):
        widget = name  # type: ignore[assignment]
    elif name == "max_total":
        widget = "total"
    elif name in ("edges", "levels"):  # several numbers, or one
        widget = "several"
    elif get_origin(kind) is Literal:
        widget, choices = "choice", tuple(get_args(kind))
    elif get_origin(kind) is list:
        widget = "numbers"
    elif kind is int:
        widget = "whole"
    elif kind is float:
        widget = "number"
    return Argument(name, widget, field.description or "", field.is_required(), choices)


def _numbers(entries: Entries, place: str, problems: Problems) -> Sequence[Any] | None:
    """Numbers between commas or blanks."""
    entered = entries.one(place).replace(",", " ").split()
    if not entered:
        return None
    result = [number(Entries({place: [entry]}), place, problems) for entry in entered]
    return None if None in result else result
