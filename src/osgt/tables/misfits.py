"""Values that do not fit their declared types, and rows that are no text: counted exactly, for previews alone.

In a release they count as missing, whatever they are and however many: nothing about it may follow from values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osgt.pages.numbers import counted
from osgt.tables.types import EXAMPLES

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset

#: A number with a decimal comma.
_COMMA = r"^\s*[+-]?[0-9]*,[0-9]+\s*$"


@dataclass(frozen=True)
class Misfits:
    """How many values of a column do not fit its declared type, and how many of them are numbers with a comma."""

    number: int
    dtype: str
    commas: int

    def words(self, column: str) -> str:
        """How many there are, and how such values are written."""
        do = "does" if self.number == 1 else "do"
        kind = self.dtype.partition("(")[0]
        text = (
            f"{counted(self.number, 'value')} of {column} {do} not fit the declared type {self.dtype} (written as "
            f"{EXAMPLES[kind]}) and count as missing in a release."
        )
        if self.commas == 0:
            return text
        have = "has" if self.commas == 1 else "have"
        return f"{text} {self.commas:,} of them {have} a decimal comma: write a decimal point instead."


def misfits(dataset: "Dataset") -> Mapping[str, Misfits]:
    """For each declared column with such values how many there are."""
    texts, types = dataset.declared_texts
    if texts is None:
        return {}
    counts, declared = {}, {}
    for place, (name, dtype) in enumerate(types.items()):
        if dtype == "string":
            continue
        text, value = texts[f"text_{place}"], texts[f"value_{place}"]
        wrong = text.re_search(r"[^ \t\r\n]") & value.isnull()
        counts[f"wrong_{place}"] = texts.count(where=wrong)
        counts[f"comma_{place}"] = texts.count(where=wrong & text.re_search(_COMMA))
        declared[place] = (name, dtype)
    [found] = dataset.table.get_backend().to_pyarrow(texts.agg(**counts)).to_pylist()
    return {
        name: Misfits(found[f"wrong_{place}"], dtype, found[f"comma_{place}"] if _is_number(dtype) else 0)
        for place, (name, dtype) in declared.items()
        if found[f"wrong_{place}"]
    }


def _is_number(dtype: str) -> bool:
    return dtype.startswith(("int64", "float64", "decimal"))


def unreadable(dataset: "Dataset", columns: Sequence[str]) -> int:
    """How many rows an engine leaves out when it reads these columns, since a field in them is not UTF-8."""
    if not dataset.types_can_be_declared:
        return 0
    table = dataset.table
    read: dict[str, Any] = {f"values_{i}": table[name].count() for i, name in enumerate(columns)}
    backend = table.get_backend()
    rows = backend.to_pyarrow(table.count()).as_py()
    return int(rows - backend.to_pyarrow(table.agg(rows=table.count(), **read))["rows"][0].as_py())
