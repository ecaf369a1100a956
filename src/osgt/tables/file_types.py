"""What stands in a query file: tables of keys, and values whose type has a name that people understand."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, WithJsonSchema


@dataclass(frozen=True)
class Words:
    """What a value must be, in words: for messages and for the reference."""

    text: str


Text = Annotated[str, Words("text in quotes")]
Texts = Annotated[str | list[str], Words("text in quotes, or a list of texts")]
WholeNumber = Annotated[int, Words("a whole number")]
#: Whole numbers stay whole: a bound may be larger than floats tell apart.
PlainNumber = Annotated[int | float, WithJsonSchema({"type": "number"}), Words("a number")]
YesNo = Annotated[bool, Words("true or false")]


class FileTable(BaseModel):
    """A table of keys in a query file. Which values make sense is checked where they are used."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    def given(self) -> dict[str, Any]:
        """What the file says, in plain values; what it leaves out is not there."""
        return self.model_dump(exclude_unset=True)
