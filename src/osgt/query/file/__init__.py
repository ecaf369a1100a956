"""The query file: one model, its text, its schema and its reference.

Here are its bricks: tables of keys, and values whose type has a name that people understand.
"""

import types
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, WithJsonSchema


@dataclass(frozen=True)
class Words:
    """The requirement on a value in words: for messages and for the reference."""

    text: str


@dataclass(frozen=True)
class Panel:
    """The panel of a key among the options of the command line, if it is not that of its table."""

    title: str


Text = Annotated[str, Words("text in quotes")]
Texts = Annotated[str | list[str], Words("text in quotes, or a list of texts")]
WholeNumber = Annotated[int, Words("a whole number")]
#: Whole numbers stay whole: a bound may be larger than floats tell apart.
PlainNumber = Annotated[int | float, WithJsonSchema({"type": "number"}), Words("a number")]
YesNo = Annotated[bool, Words("true or false")]


def plain_type(annotation: Any) -> Any:
    """The type behind annotations and None: float for any number, list for a text or several, Any for other choices."""
    while hasattr(annotation, "__metadata__"):
        annotation = annotation.__origin__
    if get_origin(annotation) not in (Union, types.UnionType):
        return annotation
    kinds = {plain_type(kind) for kind in get_args(annotation) if kind is not types.NoneType}
    if len(kinds) == 1:
        return kinds.pop()
    return float if kinds == {int, float} else list if kinds == {str, list[str]} else Any


def as_list(texts: Any) -> list[Any]:
    """List the texts of a key that may hold one, several or none."""
    if texts is None:
        return []
    return list(texts) if isinstance(texts, list | tuple) else [texts]


class FileTable(BaseModel):
    """A table of keys in a query file. Which values make sense is checked where they are used.

    The first line of a key's description says what it means, for the command line and the planner too; further lines
    say how a query file writes it.
    """

    #: The panel of its keys among the options of the command line; None if they are none.
    panel: ClassVar[str | None] = None

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    def given(self) -> dict[str, Any]:
        """List the keys that the file gives, in plain values; what it leaves out is not there."""
        return self.model_dump(exclude_unset=True)

    @classmethod
    def meaning(cls, key: str) -> str:
        """The meaning of a key, for every door."""
        return (cls.model_fields[key].description or "").partition("\n")[0]
