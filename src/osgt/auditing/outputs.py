"""The outputs of any function as features: numbers by name, of which some may be missing.

A table has a feature for each number of each group, and one for each group that is there, so that a group that
appears or vanishes is seen like a number that moves. Columns and types, the shape of an array, the first rows and the
class of an error are features as well. What few calls show decides about the columns; anything else is counted in the
last one.
"""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.support.numeric import Floats

#: Features that are looked at, and numbers of one output: more are counted as something else.
_MOST = 512

#: Rows at the beginning of a table whose order is looked at.
_FIRST_ROWS = 3

#: The beginning of the name of an error.
_ERROR = "an error of class "

#: The name of the last column.
_ELSE = "anything that the first calls did not show"


def features(output: Any, by: Sequence[str] = ()) -> dict[str, float]:
    """The features of an output; those that are there or not are 1 where they are there.

    Parameters
    ----------
    by
        Columns of a table that say which group a row is about, beside those that are not numbers.
    """
    if hasattr(output, "to_pandas"):
        output = output.to_pandas()
    if hasattr(output, "iloc"):
        return dict(_of_frame(output.to_frame() if output.ndim == 1 else output, by))
    if isinstance(output, Mapping):
        numbers = {"the number": [_number(value) for value in output.values()]}
        return dict(_of_groups([str(key) for key in output], numbers))
    return dict(_of_array(np.asarray(output)))


def _of_array(array: NDArray[Any]) -> Iterator[tuple[str, float]]:
    if array.ndim:
        yield f"an array of shape {array.shape} and type {array.dtype}", 1.0
    for i, value in enumerate(array.ravel()[:_MOST].tolist()):
        name = f"number {i + 1}" if array.ndim else "the number"
        number = _number(value)
        yield (name, number) if number is not None else (f"{name} = {value!r}", 1.0)


def _of_frame(frame: Any, by: Sequence[str]) -> Iterator[tuple[str, float]]:
    """The features of a pandas table: rows are named by their index, if it has names, and by what is no number."""
    named = [name for name in frame.index.names if name is not None]
    frame = frame.reset_index(named) if named else frame
    yield f"columns {', '.join(f'{name} ({dtype})' for name, dtype in frame.dtypes.items())}", 1.0
    keys = [name for name in frame.columns if name in (*named, *by) or frame[name].dtype.kind not in "iufb"]
    columns = {name: frame[name].tolist() for name in frame.columns}
    groups = [", ".join(map(str, row)) for row in zip(*(columns[name] for name in keys), strict=True)]
    groups = groups if keys else [f"row {i + 1}" for i in range(len(frame))]
    yield from _of_groups(groups, {str(name): map(_number, columns[name]) for name in columns if name not in keys})


def _of_groups(groups: Sequence[str], numbers: Mapping[str, Iterable[float | None]]) -> Iterator[tuple[str, float]]:
    seen: Counter[str] = Counter()
    names = []
    for group in groups:
        seen[group] += 1
        names.append(group if seen[group] == 1 else f"{group} (row {seen[group]} of it)")
    if names:
        yield f"the order of the first rows ({'; '.join(names[:_FIRST_ROWS])})", 1.0
    for name in names:
        yield f"group {name}", 1.0
    for column, values in numbers.items():
        for name, value in zip(names, values, strict=True):
            yield f"{column} of {name}", math.nan if value is None else value


def _number(value: Any) -> float | None:
    """A number as a float; None if it is none."""
    if isinstance(value, str | bytes) or value is None:
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond all floats
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, eq=False)
class Called:
    """A function that is called with a copy of its input each time, and its outputs as features."""

    function: Callable[[Any], Any]
    by: Sequence[str] = ()

    def features(self, data: Any) -> dict[str, float]:
        """The features of a fresh output. An error is an outcome as well: its class is what is seen of it."""
        try:
            output = self.function(data.copy() if hasattr(data, "copy") else copy.copy(data))
        except Exception as error:  # whatever it is, whoever calls the function sees it
            return {f"{_ERROR}{type(error).__name__}": 1.0}
        return features(output, self.by)

    def columns(self, both: Sequence[Any], calls: int) -> "Columns":
        """Call on each of two inputs; the outputs decide about the columns: errors and differences come first."""
        outputs = [self.features(data) for _ in range(calls) for data in both]
        values: dict[str, list[float]] = {}
        for output in outputs:
            for name, value in output.items():
                values.setdefault(name, []).append(value)
        differs = {name: len(seen) < len(outputs) or len(set(seen)) > 1 for name, seen in values.items()}
        names = sorted(values, key=lambda name: (not differs[name], not name.startswith(_ERROR)))[: _MOST - 1]
        return Columns(self, (*names, _ELSE))


@dataclass(frozen=True, eq=False)
class Columns:
    """A function as a mechanism for many draws, whose outputs have these numbers."""

    called: Called
    names: Sequence[str]

    def __call__(self, data: Any, size: int) -> Floats:
        """Draw so many outputs: NaN where a feature is not there."""
        place = {name: i for i, name in enumerate(self.names)}
        result = np.full((size, len(self.names)), math.nan)
        for row in result:
            for name, value in self.called.features(data).items():
                at = place.get(name, len(self.names) - 1)
                row[at] = value if at < len(self.names) - 1 else 1.0
        return result

    @property
    def error(self) -> str | None:
        """The error that is all that was seen; None if there was something else."""
        named = [name for name in self.names if name.startswith(_ERROR)]
        return named[0] if len(named) == len(self.names) - 1 == 1 else None
