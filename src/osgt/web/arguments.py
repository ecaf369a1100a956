"""The fields of an aggregate on the page, made from what a query file may say about it: a new aggregate needs none."""

import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from osgt.tables.aggregates import AGGREGATES
from osgt.web.entries import Entries, Problems, number, text, whole

#: How arguments are entered.
Widget = Literal["column", "bounds", "numbers", "whole", "number", "choice", "text"]

#: Arguments that most people leave alone.
_RARE = ("name", "weight", "bins", "missing")


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
        """What was entered; None if nothing was, or nothing that can be read."""
        place = f"{prefix}.{self.name}"
        if self.widget == "bounds":
            ends = [number(entries, f"{place}.{end}", problems) for end in ("low", "high")]
            if None in ends:
                if any(end is not None for end in ends):
                    problems.setdefault(f"{place}.{'low' if ends[0] is None else 'high'}", "Give both bounds.")
                return None
            return ends
        if self.widget == "numbers":
            return _numbers(entries, place, problems)
        if self.widget == "column":
            return entries.raw(place) or None  # names may begin or end with blanks
        reads = {"whole": whole, "number": number}
        return reads.get(self.widget, text)(entries, place, problems)

    def written(self, value: Any, prefix: str) -> dict[str, list[str]]:
        """The fields that hold a value."""
        place = f"{prefix}.{self.name}"
        if self.widget == "bounds":
            return {f"{place}.{end}": [as_text(each)] for end, each in zip(("low", "high"), value, strict=True)}
        if self.widget == "numbers":
            return {place: [", ".join(as_text(each) for each in value)]}
        return {place: [as_text(value)]}


def arguments_of(kind: str) -> list[Argument]:
    """The arguments of a kind of aggregate, those that it needs first."""
    fields = AGGREGATES[kind].arguments.model_fields
    found = [_argument(name, field) for name, field in fields.items() if name != "kind"]
    return sorted(found, key=lambda argument: argument.is_rare)


def read_aggregate(entries: Entries, prefix: str, problems: Problems) -> dict[str, Any] | None:
    """An aggregate in plain values, as a query file has it; None if the row is empty."""
    kind = entries.one(f"{prefix}.kind")
    if not kind:
        return None
    if kind not in AGGREGATES:
        problems[f"{prefix}.kind"] = f"Choose one of {', '.join(AGGREGATES)}."
        return None
    found = {argument.name: argument.read(entries, prefix, problems) for argument in arguments_of(kind)}
    return {"kind": kind, **{name: value for name, value in found.items() if value is not None}}


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
    kind = _plain_type(field.annotation)
    choices: tuple[str, ...] = ()
    widget: Widget = "text"
    if name in ("column", "bounds"):
        widget = name  # type: ignore[assignment]
    elif get_origin(kind) is Literal:
        widget, choices = "choice", tuple(get_args(kind))
    elif get_origin(kind) is list:
        widget = "numbers"
    elif kind is int:
        widget = "whole"
    elif kind is float:
        widget = "number"
    return Argument(name, widget, field.description or "", field.is_required(), choices)


def _plain_type(annotation: Any) -> Any:
    """The type behind annotations and None; float for any number."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) in (Union, types.UnionType):
        options = [_plain_type(each) for each in get_args(annotation) if each is not types.NoneType]
        return float if set(options) == {int, float} else options[0]
    return annotation


def _numbers(entries: Entries, place: str, problems: Problems) -> Sequence[Any] | None:
    """Numbers between commas or blanks."""
    entered = entries.one(place).replace(",", " ").split()
    if not entered:
        return None
    found = [number(Entries({place: [each]}), place, problems) for each in entered]
    return None if None in found else found
