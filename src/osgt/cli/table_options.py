"""Options that say which table is meant and what is released of it, the same for every command on tables."""

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from osgt.cli.release_options import release_parts

if TYPE_CHECKING:
    from osgt.tables.aggregates import Kind
    from osgt.tables.query_file import QueryFile

DATA, GROUPS, AGGREGATES = "Data", "Groups and bounds", "Aggregates"


def _engine_names() -> str:
    try:
        from osgt.tables.engines import engine_names  # noqa: PLC0415 - not without the extra "tables"
    except ImportError:
        return "none is installed"
    return ", ".join(engine_names())


def _parts(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="A Parquet, CSV or database file, or a glob of files."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="URL of a database, instead of a file.", rich_help_panel=DATA),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Column that names the person (or other unit) to protect; repeat it if several columns together do.",
            rich_help_panel=DATA,
        ),
    ] = None,
    unit_row: Annotated[
        bool,
        typer.Option("--unit-row", help="Every row is about another person (or other unit).", rich_help_panel=DATA),
    ] = False,
    derive: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=SQL",
            help="New column computed from each row, such as 'band=cut(age, 0, 18, 65, 120)' or 'net=fare - tip'; may "
            "be repeated.",
            rich_help_panel=DATA,
        ),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SQL", help="Use only rows that meet this condition; may be repeated.", rich_help_panel=DATA
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN:TYPE",
            help="Type of a column of a CSV file: int64, float64, decimal(p, s), boolean, date, timestamp or string "
            "(if not given); may be repeated.",
            rich_help_panel=DATA,
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="CHARACTER",
            help="Separator of the fields of a CSV file, if it is not a comma.",
            rich_help_panel=DATA,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Table of the database.", rich_help_panel=DATA),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Engine that runs the query: {_engine_names()}; the first one for files, if not given.",
            rich_help_panel=DATA,
        ),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS", help="Where the engine runs: local[4], or the URL of a cluster.", rich_help_panel=DATA
        ),
    ] = None,
    neighbours: Annotated[
        str | None,
        typer.Option(
            metavar="RELATION",
            help="What is compared: add_remove (one unit more or less, the default) or change_one (one exchanged).",
            rich_help_panel=DATA,
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Column to group by; may be repeated.", rich_help_panel=GROUPS),
    ] = None,
    max_groups: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", help="The most groups in which one unit is counted.", rich_help_panel=GROUPS),
    ] = None,
    max_rows_per_group: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER", help="The most rows of one unit that are counted in each group.", rich_help_panel=GROUPS
        ),
    ] = None,
    public_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="CSV or Parquet file that lists the groups to publish; 'all' for all labels of a --derive column.",
            rich_help_panel=GROUPS,
        ),
    ] = None,
    totals: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL",
            help="Totals to publish as well: rollup, cube, or the columns to keep, such as region,year, or () for the "
            "total of all rows; may be repeated.",
            rich_help_panel=GROUPS,
        ),
    ] = None,
) -> dict[str, dict[str, Any]]:
    """What the options say, in the parts and keys of a query file."""
    if url is not None and source is not None:
        raise ValueError("give a source or --url, not both")
    if unit and unit_row:
        raise ValueError("give --unit or --unit-row, not both")
    return {
        "data": {
            "source": source if url is None else url,
            "privacy_unit": "row" if unit_row else unit,
            "derive": _derived(derive or []),
            "where": where,
            "types": _types(types or []),
            "delimiter": delimiter,
            "table": table,
            "engine": engine,
            "master": master,
            "neighbours": neighbours,
        },
        "groups": {
            "by": by,
            "max_groups": max_groups,
            "max_rows_per_group": max_rows_per_group,
            "public_keys": None if public_keys is None else os.fspath(public_keys),
            "totals": _totals(totals or []),
        },
    }


@dataclass(frozen=True)
class Asked:
    """The table that options ask for and what is to be released of it, as they were typed."""

    table: Mapping[str, Any]
    aggregates: Mapping[str, Any]
    release: Mapping[str, Any]

    def __bool__(self) -> bool:
        """Whether a table is asked for, rather than noise for numbers."""
        return any(self.table.values()) or any(self.aggregates.values())

    def query_file(self, path: Path | None, **more: Mapping[str, Any]) -> "QueryFile":
        """The query file with what was typed in place of what it says; without a file, what was typed.

        `more` are further values of its parts, as `budget={"epsilon": 1}`.
        """
        from osgt.tables.query_file import query_file_of, read_query_file  # noqa: PLC0415 - the extra "tables"

        file: dict[str, Any] = {} if path is None else read_query_file(path).given()
        for typed in (_parts(**self.table), release_parts(**self.release), more):
            for part, given in typed.items():
                said = {key: value for key, value in given.items() if _is_said(value)}
                for key in said.keys() & {"types", "derive"}:
                    said[key] = {**file.get("data", {}).get(key, {}), **said[key]}
                if said:
                    file[part] = {**file.get(part, {}), **said}
        for key, option in (
            ("source", "SOURCE (a file), --url or --query"),
            ("privacy_unit", "--unit (or --unit-row)"),
        ):
            if key not in file.get("data", {}):
                raise ValueError(f"{option} must be given")
        aggregates = list(self._aggregates())
        if aggregates:
            file["aggregates"] = aggregates
        elif path is None:
            raise ValueError("give at least one aggregate: --count, --count-units, --sum COLUMN:LOW:HIGH, …")
        return query_file_of(file)

    def _aggregates(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name, kind in kinds().items():
            given = self.aggregates[name]
            if kind.option is None:
                found += [{"kind": name}] if given else []
            else:
                found += [{"kind": name, **kind.parsed(text)} for text in given or []]
        return found


def takes_a_table(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say which table is meant and what is released of it, together as `asked`.

    An option of the command's own stands in place of a shared one of the same name; its arguments come first.
    """
    own = {name: each for name, each in inspect.signature(command).parameters.items() if name != "asked"}
    table = inspect.signature(_parts).parameters
    release = {name: each for name, each in inspect.signature(release_parts).parameters.items() if name not in own}
    aggregates = {f"aggregate_{name}": _parameter(kind) for name, kind in kinds().items()}

    def run(**given: Any) -> None:
        said = {name: given.pop(name) for name in table}
        typed = {name.removeprefix("aggregate_"): given.pop(name) for name in aggregates}
        command(asked=Asked(said, typed, {name: given.pop(name) for name in release}), **given)

    first = [each for each in own.values() if each.default is inspect.Parameter.empty]
    rest = [each for each in own.values() if each.default is not inspect.Parameter.empty]
    parameters = [*first, *table.values(), *aggregates.values(), *release.values(), *rest]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def kinds() -> Mapping[str, "Kind"]:
    """The aggregates that there are; none without the extra "tables"."""
    try:
        from osgt.tables.aggregates import AGGREGATES as every  # noqa: N811, PLC0415 - the extra "tables"
    except ImportError:
        return {}
    return every


def _parameter(kind: "Kind") -> inspect.Parameter:
    """The option of an aggregate: once for a flag, repeatable with a value."""
    value: Any = bool if kind.option is None else list[str] | None
    metavar = None if kind.option is None else kind.option.metavar
    info = typer.Option(kind.flag, metavar=metavar, help=kind.summary, rich_help_panel=AGGREGATES)
    return inspect.Parameter(
        f"aggregate_{kind.name}",
        inspect.Parameter.KEYWORD_ONLY,
        default=False if kind.option is None else None,
        annotation=Annotated[value, info],
    )


def _totals(texts: list[str]) -> str | list[list[str]]:
    """The levels: a word for all of them, or the columns of each."""
    if len(texts) == 1 and texts[0] in ("rollup", "cube"):
        return texts[0]
    return [[] if text == "()" else text.split(",") for text in texts]


def _types(texts: list[str]) -> dict[str, str]:
    declared = {}
    for text in texts:
        column, colon, dtype = text.rpartition(":")
        if not (colon and column):
            raise ValueError(f"--type must be COLUMN:TYPE, as in age:int64, got {text!r}")
        declared[column] = dtype
    return declared


def _derived(texts: list[str]) -> dict[str, str]:
    derived = {}
    for text in texts:
        name, equals, expression = text.partition("=")
        if not (equals and name.strip() and expression.strip()):
            raise ValueError(f"--derive must be NAME=SQL, as in 'net=fare - tip', got {text!r}")
        derived[name.strip()] = expression.strip()
    return derived


def _is_said(value: Any) -> bool:
    return value is not None and value not in ([], {})
