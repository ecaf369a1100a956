"""Engines: what runs the queries. Our own, one package for each, and those that other packages register.

All stand behind the class `Engine`, and each is loaded when first needed: importing this package imports no
engine.

A package registers a class of its own (a subclass of `osgt.data.engines.engine.Engine`) through an entry point:

```toml
[project.entry-points."osgt.engines"]
mine = "my_package.engine:Mine"
```
"""

from collections.abc import Iterator
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from osgt.support.errors import ArgumentError

if TYPE_CHECKING:
    from osgt.data.engines.engine import Engine

#: The group of entry points.
GROUP = "osgt.engines"

#: Our own, by name. The first one holds what has no engine of its own: files and frames.
_OWN = {
    name: EntryPoint(name, f"osgt.data.engines.{name}:{kind}", GROUP)
    for name, kind in {"duckdb": "DuckDB", "postgres": "PostgreSQL", "spark": "Spark"}.items()
}


def engine_names() -> list[str]:
    """The names of all engines, our own first. None of them is loaded."""
    return [*_OWN, *sorted(entry.name for entry in _others())]


@cache
def engine_named(name: str) -> "Engine":
    """The engine with this name."""
    result = [_OWN[name]] if name in _OWN else [entry for entry in _others() if entry.name == name]
    if not result:
        raise ArgumentError(f"engine must be {_either(engine_names())}, got {name!r}", argument="engine")
    if len(result) > 1:
        places = " and ".join(sorted(entry.value for entry in result))
        raise ArgumentError(
            f"engine: two packages register an engine {name!r}: {places}; uninstall one of them", argument="engine"
        )
    from osgt.data.engines.engine import Engine  # noqa: PLC0415 - engines import the errors above

    try:
        engine = result[0].load()()
    except Exception as error:
        raise ImportError(f"engine {name!r} cannot be loaded from {result[0].value}: {error}") from error
    if not isinstance(engine, Engine):
        raise TypeError(f"engine {name!r} must be a subclass of osgt.data.engines.engine.Engine: {result[0].value}")
    if engine.name != name:
        raise ValueError(f"engine {name!r} is registered under another name than its own, {engine.name!r}")
    return engine


def engine_for(source: Any) -> "Engine":
    """The engine that a source belongs to, if none is named: our own are asked first."""
    for engine in _engines():
        if engine.opens(source):
            return engine
    from osgt.data.engines.source import not_a_source  # noqa: PLC0415 - it imports pyarrow

    takes = "; ".join(engine.takes for engine in _engines())
    raise not_a_source(source, f"{takes}; or an Ibis table")


def engine_of_ibis(backend: str) -> "Engine":
    """The engine whose tables an Ibis back end of this name has."""
    for engine in _engines():
        if engine.ibis_name == backend:
            return engine
    titles = _either([engine.title for engine in _engines()])
    raise ArgumentError(
        f"source must be on {titles}, got a table on {backend}: hand over an Arrow table or a file instead",
        argument="source",
    )


def _engines() -> Iterator["Engine"]:
    """Iterate over the engines, each loaded only if those before it were not the one."""
    for name in _OWN:
        yield engine_named(name)
    for entry in sorted(_others(), key=lambda entry: entry.name):
        yield engine_named(entry.name)


def _others() -> list[EntryPoint]:
    return [entry for entry in entry_points(group=GROUP) if entry.name not in _OWN]


def _either(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]])
