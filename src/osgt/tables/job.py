"""Jobs: a whole release written down in TOML, so that it can be reviewed before and repeated after.

```toml
[data]
source = "flights.csv"
privacy_unit = "tailnum"
where = "origin = 'JFK'"

[data.types]                # of a CSV file, whose columns are text otherwise
distance = "int64"

[groups]
by = ["dest", "month"]
max_groups = 8
max_rows_per_group = 3

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "sum"
column = "distance"
bounds = [0, 5000]

[budget]
epsilon = 1
delta = 1e-8

[output]
out = "release.parquet"
report = "release.html"
```
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from osgt.tables.aggregates import AGGREGATES
from osgt.tables.dataset import Dataset
from osgt.tables.engines import engine_named
from osgt.tables.query import Query
from osgt.tables.types import UndeclaredTypeError

#: What each part of a job may say.
_DATA = {
    *("source", "privacy_unit", "table", "engine", "master", "types", "delimiter", "neighbours", "where"),
    *("ledger", "dataset"),
}
_GROUPS = {"by", "max_groups", "max_rows_per_group", "public_keys"}
_BUDGET = {"epsilon", "delta"}
_OUTPUT = {"out", "report", "confidence", "clamp", "objective"}
_PARTS = {"data": _DATA, "groups": _GROUPS, "budget": _BUDGET, "output": _OUTPUT}


@dataclass(frozen=True)
class Job:
    """The parts of a job, checked for names that nobody knows; their values are checked by what they are for."""

    data: Mapping[str, Any]
    groups: Mapping[str, Any]
    aggregates: tuple[Mapping[str, Any], ...]
    budget: Mapping[str, Any]
    output: Mapping[str, Any]

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Job":
        """The job that plain values describe."""
        _known("the job", plain, {*_PARTS, "aggregates"})
        for part, names in _PARTS.items():
            if not isinstance(plain.get(part, {}), Mapping):
                raise TypeError(f"[{part}] must be a table of names and values, got {plain[part]!r}")
            _known(f"[{part}]", plain.get(part, {}), names)
        for name in ("source", "privacy_unit"):
            if name not in plain.get("data", {}):
                raise ValueError(f"{name} must be given in [data]")
        aggregates = plain.get("aggregates", [])
        if not isinstance(aggregates, list) or not all(isinstance(aggregate, Mapping) for aggregate in aggregates):
            raise TypeError("aggregates must be a list of tables, [[aggregates]] in TOML")
        for aggregate in aggregates:
            kind = aggregate.get("kind")
            if kind not in AGGREGATES:
                raise ValueError(f"kind of an aggregate must be one of {', '.join(AGGREGATES)}; got {kind!r}")
            _known(f"the aggregate {kind}", aggregate, set(AGGREGATES[kind].arguments.model_fields))
        parts = {part: dict(plain.get(part, {})) for part in _PARTS}
        return cls(aggregates=tuple(aggregates), **parts)

    def query(self, ledger: Any = None) -> Query:
        """The query on its data. Opens the source, but reads no rows."""
        try:
            return self._query(ledger)
        except UndeclaredTypeError as error:
            option = f"--type {error.column}:{error.example}"
            file = f'{error.column} = "{error.example}" in [data.types] of a query file'
            raise TypeError(error.message(f"{option}, or {file}")) from None

    def _query(self, ledger: Any) -> Query:
        data = {name: value for name, value in self.data.items() if name not in ("where", "ledger", "dataset")}
        if ledger is not None:
            data |= {"ledger": ledger, "dataset": self.data.get("dataset")}
        dataset = Dataset(data.pop("source"), data.pop("privacy_unit"), **data)
        where = self.data.get("where", [])
        for condition in [where] if isinstance(where, str) else where:
            dataset = dataset.where(condition)
        groups = dict(self.groups)
        by = groups.pop("by", [])
        query = dataset.group_by(*([by] if isinstance(by, str) else by), **groups)
        for aggregate in self.aggregates:
            arguments = {name: value for name, value in aggregate.items() if name != "kind"}
            if "column" not in arguments and "column" in AGGREGATES[aggregate["kind"]].arguments.model_fields:
                raise ValueError(f"column must be given for the aggregate {aggregate['kind']}")
            if aggregate["kind"] == "histogram":
                arguments.setdefault("edges", None)
            query = AGGREGATES[aggregate["kind"]].method(query, **arguments)
        return query


def read_job(path: str | Path) -> Job:
    """The job in a TOML file. Relative paths in it are relative to its folder."""
    path = Path(path)
    try:
        plain = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"query: there is no file {str(path)!r}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"query: {str(path)!r} is not TOML: {error}") from None
    try:
        job = Job.of(plain)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{path}: {error}") from None
    return Job(
        data=_beside(path, job.data, ("source", "ledger")),
        groups=_beside(path, job.groups, ("public_keys",)),
        aggregates=job.aggregates,
        budget=job.budget,
        output=_beside(path, job.output, ("out", "report")),
    )


def _beside(path: Path, part: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The part with its paths taken from the folder of the file; URLs and other values stay."""
    found = dict(part)
    for name in names:
        value = found.get(name)
        if isinstance(value, str) and "://" not in value and (name != "source" or _is_path(found)):
            found[name] = os.path.normpath(path.parent / value)
    return found


def _is_path(data: Mapping[str, Any]) -> bool:
    """Whether the source names files, and no table that an engine knows."""
    return "engine" not in data or engine_named(data["engine"]).is_path(data["source"])


def _known(where: str, given: Mapping[str, Any], names: set[str]) -> None:
    unknown = sorted(set(given) - names)
    if unknown:
        raise ValueError(f"{where} has no {unknown[0]!r}; it may have {', '.join(sorted(names))}")
