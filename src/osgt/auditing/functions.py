"""Any function as a release: called on neighbouring inputs, which are given or made, and judged by what comes out.

Inputs are made by the generators of replay: a query says who the units are, what the groups are and which limits hold,
and the function gets the tables as pandas frames. Rows of an array are units, and so are columns of such a table.

Of several pairs each gets some draws, and the one with the largest loss gets the rest, afresh. Half of the false alarms
are for the first draws, shared by the pairs, and half for the last: so no pair that looked bad by chance is accused.
"""

import copy
import importlib
import inspect
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv
from pyarrow import parquet as pq

from osgt.api.dataset import Dataset
from osgt.auditing.curve import NothingToldError, judge, measure
from osgt.auditing.evidence import Claim
from osgt.auditing.neighbours import Maker
from osgt.auditing.replay import real_rows
from osgt.auditing.result import Budget, Check, Finding, Options
from osgt.auditing.stage import Row, Stage
from osgt.data.unit import Neighbours
from osgt.query.aggregates.base import QuerySpec, with_any_limits
from osgt.support.numeric import Floats
from osgt.support.text import counted

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


#: Draws on each input in all, the fewest for a pair, and calls that decide about the columns.
_DRAWS, _OF_PAIR, _CALLS = 20_000, 600, 32

#: The part of the draws and of the time for the first look at all pairs.
_FIRST = 0.5

#: Pairs are compared by the part of ε that is proved but for this probability.
_LIKELY = 0.1

#: Text that stands for values which are no numbers; and types of which plain pandas has no missing values.
_NO_NUMBERS, _NEVER_MISSING = ("NaN", "Infinity", "-Infinity"), ("integer", "boolean")


@dataclass(frozen=True)
class Inputs:
    """Two inputs of a function that differ in one unit."""

    name: str
    data: Any
    neighbour: Any

    def columns(self, called: Called) -> Columns:
        """The function as a mechanism for draws on the two."""
        return called.columns((self.data, self.neighbour), _CALLS)


def load(reference: str) -> Callable[[Any], Any]:
    """Load the function that `module:name` names, from the folder one is in or from what is installed."""
    module, colon, name = reference.partition(":")
    if not (colon and module and name):
        raise ValueError(
            f"--function must be MODULE:NAME, as in release:counts for counts in release.py, got {reference!r}"
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        function: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = f"--function: there is no module {error.name!r}"
        raise ValueError(missing + ("" if error.name == module else f", which {module} imports")) from error
    except Exception as error:  # the module is the user's
        raise ValueError(f"--function: {module} cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(function, part):
            raise ValueError(f"--function: {module} has no {name!r}")
        function = getattr(function, part)
    check_callable(function, reference)
    return function  # type: ignore[no-any-return]


def check_callable(function: Any, name: str) -> None:
    """Raise if it cannot be called with one argument."""
    if not callable(function):
        raise TypeError(f"{name} must be a function, got {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # functions in C need not tell
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise TypeError(
            f"{name}{signature} must take the data as its only argument ({error}): give others in a function around it"
        ) from None


def read_input(path: Path) -> Any:
    """Read an input of a function: an array from a .npy file, else a pandas frame."""
    readers: dict[str, Callable[[Path], Any]] = {".npy": np.load, ".parquet": _read_parquet, ".csv": _read_csv}
    if path.suffix not in readers:
        raise ValueError(f"{path} must be a .parquet, .csv or .npy file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {os.fspath(path)!r}")
    return readers[path.suffix](path)


def _read_parquet(path: Path) -> Any:
    return pq.read_table(path).to_pandas()


def _read_csv(path: Path) -> Any:
    return csv.read_csv(path).to_pandas()


def inputs_of(
    data: Any, *, neighbours: Neighbours, missing_values: bool, real: bool
) -> tuple[list[Inputs], Sequence[str]]:
    """Make pairs of inputs for what the data are: a query, or an array; and name the columns of the groups."""
    if isinstance(data, np.ndarray):
        query, columns = _query_of_array(data, neighbours)
        return _make_inputs(
            query, lambda table: _array(table, data, columns), missing_values=missing_values, real=real
        ), ()
    if not hasattr(data, "plan"):
        raise TypeError(
            "data must be a query that describes the table, as Dataset(frame, privacy_unit=…).group_by(…).sum(…), or "
            f"an array, got {type(data).__name__}; or give two inputs, data and neighbour"
        )
    [query] = data.tables.values()
    query = with_any_limits(query)
    return _make_inputs(query, pa.Table.to_pandas, missing_values=missing_values, real=real), query.groups.by


def _query_of_array(data: np.ndarray[Any, Any], neighbours: Neighbours) -> tuple[QuerySpec, list[str]]:
    """A query about the rows of an array, whose bounds are the least and the largest number."""
    if data.ndim not in (1, 2) or data.dtype.kind not in "iuf" or data.size == 0:
        raise ValueError(
            f"data must be an array of numbers with one or two dimensions, got shape {data.shape} and type {data.dtype}"
        )
    columns = {f"x{i}": column for i, column in enumerate(data.reshape(len(data), -1).T)}
    query: Any = Dataset(pa.table(columns), "row", neighbours=neighbours)
    for name, column in columns.items():
        finite = column[np.isfinite(column)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        query = query.sum(name, bounds=(low, high) if low < high else (low, low + 1))
    return query, list(columns)


def _array(table: pa.Table, data: np.ndarray[Any, Any], columns: Sequence[str]) -> np.ndarray[Any, Any]:
    rows = np.stack([table[name].to_numpy() for name in columns], axis=1).astype(data.dtype)
    return rows.reshape(len(rows), *data.shape[1:])


def _make_inputs(
    query: QuerySpec, convert: Callable[[pa.Table], Any], *, missing_values: bool, real: bool
) -> list[Inputs]:
    """Make pairs of tables; rows that cannot be there are left out on both sides."""
    stage = Stage(query)
    never = {name for name, dtype in stage.columns.items() if dtype.kind in _NEVER_MISSING}

    def can_be(row: Row) -> bool:
        values = row if not missing_values else {name: row[name] for name in never}
        return None not in values.values() and (missing_values or not set(row.values()) & set(_NO_NUMBERS))

    pairs = list(Maker(stage, real_rows(stage)[0] if real else []).pairs())
    result = []
    for pair in pairs:
        before, after = ([row for row in rows if can_be(row)] for rows in (pair.before, pair.after))
        if before != after and not pair.of_nobody:
            result.append(Inputs(pair.name, *(convert(stage.stored(rows)) for rows in (after, before))))
    return result


def function_checks(
    function: Any, pairs: Sequence[Inputs], by: Sequence[str], claim: Claim, options: Options
) -> Iterator[Check]:
    """Judge a function by its outputs on each pair, and on the worst of several with fresh draws."""
    called = Called(function, by)
    if len(pairs) == 1:
        yield _judged(called, pairs[0], claim, options.budget(_DRAWS, 1.0, options.false_alarm))
        return
    check, worst = _first_look(called, pairs, claim, options)
    yield check
    if check.passed and worst is not None:
        usual = math.ceil((1 - _FIRST) * _DRAWS)
        yield _judged(called, worst, claim, options.budget(usual, 1.0, options.false_alarm / 2))


def _judged(called: Called, pair: Inputs, claim: Claim, budget: Budget) -> Check:
    """Judge one pair by the draws of a budget."""
    name = pair.name or "curve"
    columns = pair.columns(called)
    if columns.error is not None:
        raise ValueError(f"the function ends with {columns.error} on both inputs")
    measured = measure(columns, (pair.data, pair.neighbour), claim, budget, None, name, columns.names)
    return judge(measured, claim, budget.false_alarm, name)


def _first_look(called: Called, pairs: Sequence[Inputs], claim: Claim, options: Options) -> tuple[Check, Inputs | None]:
    """Judge every pair by some draws until one refutes the claim; else tell which of them has the largest loss."""
    false_alarm = options.false_alarm / 2
    told: list[dict[str, Any]] = []
    findings: list[Finding] = []
    shares: dict[int, float] = {}
    errors: set[str] = set()
    for i, pair in enumerate(pairs):
        name = f"pair {i + 1} of {len(pairs)}: {pair.name}"
        draws = max(_OF_PAIR, math.ceil(_FIRST * (options.draws or _DRAWS) / len(pairs)))
        seconds = options.left(_FIRST / (len(pairs) - i * (1 - _FIRST)))
        budget = Budget(draws, seconds, false_alarm / len(pairs), options.progress)
        options.progress(name, 0.0)
        columns = pair.columns(called)
        errors |= {columns.error} if columns.error else set()
        try:
            measured = measure(columns, (pair.data, pair.neighbour), claim, budget, None, name, columns.names)
        except NothingToldError:
            told.append({"name": pair.name, "proved_share_of_epsilon": None, "error": columns.error})
            continue
        check = judge(measured, claim, budget.false_alarm, pair.name)
        shares[i] = measured.refuted_share(claim, _LIKELY)
        told.append({"name": pair.name, "proved_share_of_epsilon": shares[i], "draws": check.details["draws"]})
        findings += check.findings
        if findings:
            break
    if not shares:
        raise ValueError(
            f"the function ends with {' or '.join(sorted(errors))} on every input"
            if errors
            else "all outputs are the same: the function adds no noise, or the inputs say nothing"
        )
    silent = len(told) - len(shares)
    tried = f"{counted(len(told), 'pair')} of neighbouring inputs"
    words = f"The claim ({claim.words}) is broken. " if findings else f"No evidence against {claim.words}. "
    words += f"Tried: {tried}{' that were made' if len(told) == len(pairs) else f' of {len(pairs)} that were made'}."
    words += f" On {silent:,} of them all outputs were the same." if silent else ""
    words += f" There was {' or '.join(sorted(errors))} on both inputs of some." if errors else ""
    worst = pairs[max(shares, key=lambda i: shares[i])]
    return Check(
        "neighbouring inputs", words, tuple(findings), false_alarm, {"inputs": told, "claim": claim.words}
    ), worst
