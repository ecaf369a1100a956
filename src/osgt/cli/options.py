"""Options that say which table is meant and what is released of it, the same for every command on tables.

They come from the model of query files, which tells the name, type, meaning and panel of each. Told here is only how an
option is typed where that does not follow from its type.
"""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from osgt.cli.shared import AS_JSON, switch
from osgt.support.locations import names_server, shown_server

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from osgt.query.file.aggregates import Kind
    from osgt.query.file.model import DataFile, QueryFile

AGGREGATES, BUDGET, OUTPUT = "Aggregates", "Budget", "Output"

TableAsJson = Annotated[bool, switch("--json", AS_JSON, panel=OUTPUT)]


def _list_engines() -> str:
    from osgt.data.engines import engine_names  # noqa: PLC0415 - the extra "tables"

    return f"One of {', '.join(engine_names())}."


def _read_totals(texts: list[str]) -> str | list[Any]:
    """The levels: a word for all of them, or the columns of each; after "=" a public number or a file with them."""
    if len(texts) == 1 and texts[0] in ("rollup", "cube"):
        return texts[0]
    return [_read_level(*text.partition("=")) for text in texts]


def _read_level(columns: str, equals: str, known: str) -> list[str] | dict[str, Any]:
    by = [] if columns == "()" else columns.split(",")
    if not equals:
        return by
    number = known.replace("_", "")
    return {"by": by, "known": int(number) if number.isdecimal() else known}


def _read_types(texts: list[str]) -> dict[str, str]:
    declared = {}
    for text in texts:
        column, colon, dtype = text.rpartition(":")
        if not (colon and column):
            raise ValueError(f"--type must be COLUMN:TYPE, as in age:int64, got {text!r}")
        declared[column] = dtype
    return declared


def _read_derived(texts: list[str]) -> dict[str, str]:
    derived = {}
    for text in texts:
        name, equals, expression = text.partition("=")
        if not (equals and name.strip() and expression.strip()):
            raise ValueError(f"--derive must be NAME=SQL, as in 'net=fare - tip', got {text!r}")
        derived[name.strip()] = expression.strip()
    return derived


def _read_keys(texts: list[str]) -> dict[str, str]:
    keys = {}
    for text in texts:
        column, equals, values = text.partition("=")
        if not (equals and column.strip() and values.strip()):
            raise ValueError(f"--keys must be COLUMN=KEY,KEY,…, as in department=Cardiology,Emergency, got {text!r}")
        if column.strip() in keys:
            raise ValueError(f"--keys: give all keys of {column.strip()!r} at once, with commas between them")
        keys[column.strip()] = values
    return keys


def _read_marks(texts: list[str]) -> bool | list[float]:
    """The thresholds of quality marks, or whether there are any."""
    if texts in (["yes"], ["no"]):
        return texts == ["yes"]
    try:
        return [float(number) for text in texts for number in text.split(",")]
    except ValueError:
        raise ValueError(
            f"--marks must be yes, or two shares with a comma between them, as 0.1,0.25, got {','.join(texts)!r}"
        ) from None


@dataclass(frozen=True)
class Typed:
    """The way an option is typed: its metavar, its flag if not the key's, a note for its help, and how it is read.

    Texts that `read` turns into something else may be repeated, as may those of keys that hold a list.
    """

    metavar: str
    flag: str = ""
    note: str | Callable[[], str] = ""
    read: Callable[[list[str]], Any] | None = None


_REPEATED = "May be repeated."
_CHARACTER, _FILE, _NAME = Typed("CHARACTER"), Typed("FILE"), Typed("NAME")

#: By key of the query file; numbers are typed as NUMBER, and flags take no value.
_TYPED = {
    "source": Typed("SOURCE"),
    "privacy_unit": Typed("COLUMN", "--unit", "Repeat it if several columns together do."),
    "noun": Typed("WORD", note="Give it twice, singular and plural, where the plural is irregular."),
    "table": _NAME,
    "engine": Typed("NAME", note=_list_engines),
    "master": Typed("ADDRESS"),
    "types": Typed("COLUMN:TYPE", "--type", _REPEATED, _read_types),
    "delimiter": _CHARACTER,
    "quote": _CHARACTER,
    "encoding": _NAME,
    "decimal": _CHARACTER,
    "date_format": Typed("FORMAT"),
    "neighbours": Typed("RELATION"),
    "derive": Typed(
        "NAME=SQL", "", f"As 'band=cut(age, 0, 18, 65, 120)' or 'net=fare - tip'. {_REPEATED}", _read_derived
    ),
    "rows": _NAME,
    "where": Typed("SQL", note=_REPEATED),
    "ledger": Typed("LEDGER"),
    "dataset": _NAME,
    "by": Typed("COLUMN", note=_REPEATED),
    "public_keys": _FILE,
    "totals": Typed(
        "LEVEL",
        "",
        "As region,year, or () for the total of all rows. Public totals follow an equals sign: region=regions.csv "
        f"or '()=8700000'. {_REPEATED}",
        _read_totals,
    ),
    "per": _FILE,
    "out": _FILE,
    "report": _FILE,
    "title": Typed("TEXT", note="A query file can also name the publisher, labels and more."),
    "objective": Typed("OBJECTIVE"),
    "intervals": Typed("KIND"),
    "corrects": Typed("ENTRY"),
    "marks": Typed("SHARES", note="--marks yes for these, or others: --marks 0.1,0.25.", read=_read_marks),
}

#: Options that are no keys of a query file, after the key that they belong to.
_BESIDE: dict[str, tuple[str, Any]] = {
    "source": ("url", Annotated[str | None, typer.Option(metavar="URL", help="URL of a database, instead of a file.")]),
    "privacy_unit": (
        "unit_row",
        Annotated[bool, typer.Option("--unit-row", help="Every row is about another person (or other unit).")],
    ),
    "public_keys": (
        "keys",
        Annotated[
            list[str] | None,
            typer.Option(
                "--keys",
                metavar="COLUMN=KEY,KEY,…",
                help="The groups to publish, in place of a file: department=Cardiology,Emergency. Repeated for several "
                "columns: all combinations.",
            ),
        ],
    ),
    "master": (
        "connect",
        Annotated[
            bool,
            typer.Option(
                "--connect",
                help="Connect to the server that the query file names, also where nothing is read (plan, --dry-run): "
                "your password may be sent there.",
            ),
        ],
    ),
}


@dataclass(frozen=True)
class Key:
    """A key of the query file that is an option of commands as well."""

    part: str
    name: str
    field: "FieldInfo"
    kind: Any

    @property
    def typed(self) -> Typed:
        """The way it is typed."""
        return _TYPED.get(self.name, Typed("NUMBER"))

    @property
    def parameter_name(self) -> str:
        """The name of the parameter: --unit is unit, and --type is types."""
        return "unit" if self.name == "privacy_unit" else self.name

    @property
    def flag(self) -> str:
        """The option itself."""
        return self.typed.flag or "--" + self.name.replace("_", "-")

    @property
    def help(self) -> str:
        """The meaning as in the reference of query files, and how it is typed."""
        default, note = self.field.default, self.typed.note
        words = [(self.field.description or "").partition("\n")[0], note if isinstance(note, str) else note()]
        if isinstance(default, str | float) or default is True:
            words.append(f"If not given: {'yes' if default is True else default}.")
        return " ".join(filter(None, words))

    def parameter(self, panel: str) -> inspect.Parameter:
        """The parameter of a command."""
        kind, default = self.kind, None
        flags: list[str] = [] if self.typed.flag == "" else [self.flag]
        value: Any = list[str] if self.typed.read is not None or kind is list else kind
        if kind is bool:
            default = None if self.field.default else False
            flags = [f"{self.flag}/--no-{self.flag[2:]}"] if self.field.default else [self.flag]
        elif self.typed.metavar == "FILE":
            value = Path
        elif get_origin(kind) is Literal:
            value = str
        metavar = None if kind is bool else self.typed.metavar
        info: Any
        if self.name == "source":
            info = typer.Argument(metavar=metavar, help=self.help)
        else:
            info = typer.Option(*flags, metavar=metavar, help=self.help, rich_help_panel=panel, show_default=False)
        annotation: Any = Annotated[bool if default is False else value | None, info]
        return _parameter(self.parameter_name, annotation, default)

    def read(self, value: Any) -> Any:
        """The value as a query file has it; None if nothing was typed."""
        if value is None or (value is False and not self.field.default) or value == []:
            return None
        if self.typed.read is not None:
            return self.typed.read(value)
        if get_origin(self.kind) is Literal and value not in get_args(self.kind):
            words = " or ".join(f'"{choice}"' for choice in get_args(self.kind))
            raise ValueError(f"{self.flag} must be {words}, got {value!r}")
        return os.fspath(value) if isinstance(value, Path) else value


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _list_keys() -> dict[str, tuple[Key, str]]:
    """The keys that are options, each with its panel, by the name of its parameter; none without the extra "tables"."""
    try:
        from osgt.query.file import Panel, plain_type  # noqa: PLC0415 - the extra "tables"
        from osgt.query.file.model import QueryFile  # noqa: PLC0415 - the extra "tables"
    except ImportError:
        return {}
    keys = {}
    for part in ("data", "groups", "budget", "output", "report"):
        table: Any = QueryFile.model_fields[part].annotation
        for name, field in table.model_fields.items():
            if name == "file":  # SOURCE stands for it
                continue
            [panel] = [note.title for note in field.metadata if isinstance(note, Panel)] or [table.panel]
            if panel is not None:
                key = Key(part, name, field, plain_type(field.annotation))
                keys[key.parameter_name] = key, panel
    return keys


def _list_options() -> dict[str, inspect.Parameter]:
    """The options of every command on tables, those that are no keys among them."""
    options = {}
    for name, (key, panel) in _list_keys().items():
        options[name] = key.parameter(panel)
        if key.name in _BESIDE:
            beside, annotation = _BESIDE[key.name]
            [kind, info] = get_args(annotation)
            info.rich_help_panel = panel
            options[beside] = _parameter(beside, annotation, False if kind is bool else None)
    return options or _list_options_for_numbers()


def _list_options_for_numbers() -> dict[str, inspect.Parameter]:
    """The options that remain without the extra "tables": those of noise for numbers."""
    options: dict[str, tuple[Any, Any]] = {
        "epsilon": (float | None, typer.Option(metavar="NUMBER", help="ε of the budget.")),
        "delta": (float | None, typer.Option(metavar="NUMBER", help="δ of the budget.")),
        "confidence": (float | None, typer.Option(metavar="NUMBER", help="Confidence of the noise intervals.")),
        "objective": (
            str | None,
            typer.Option(metavar="OBJECTIVE", help="Optimise for: variance, mean_abs, quantile:P or max:N."),
        ),
    }
    return {name: _parameter(name, Annotated[kind, info], None) for name, (kind, info) in options.items()}


def _check_data_file(data: Mapping[str, Any], query: Path | None) -> None:
    """Refuse a data file together with what says the same."""
    if query is not None:
        raise ValueError(
            f'give a data file or --query, not both: a query file names its data file itself, file = "{data["file"]}" '
            "in [data]"
        )
    if "privacy_unit" in data:
        raise ValueError("--unit must be left out with a data file, which says who is protected")


def _check_servers(named: "DataFile", used: "QueryFile") -> None:
    """Refuse to connect to a server that only a file names, until somebody has seen which one it is."""
    for key in ("source", "ledger", "master"):
        location = getattr(named.data, key)
        if location is not None and location == getattr(used.data, key) and names_server(location):
            raise ValueError(
                f"{named.named} names a server as its {key}, and your password may be sent there: "
                f"{shown_server(location)}. If that is right, give --connect"
            )


@dataclass(frozen=True)
class Asked:
    """The table that options ask for and what is to be released of it, as they were typed: by parameter."""

    options: Mapping[str, Any]
    aggregates: Mapping[str, Any]
    #: Whether groups and aggregates are asked for in another way.
    of_data: bool = False

    def __bool__(self) -> bool:
        """Whether a table is asked for, rather than noise for numbers."""
        tables = [name for name, (key, panel) in _list_keys().items() if panel not in (BUDGET, OUTPUT)]
        beside = [name for name, _ in _BESIDE.values()]
        return any(self.options.get(name) for name in (*tables, *beside)) or any(self.aggregates.values())

    def query_file(self, path: Path | None, *, reads: bool = False, **more: Mapping[str, Any]) -> "QueryFile":
        """The query file with what was typed in place of what it says; without a file, what was typed.

        `reads`: the command reads the data, so that whoever runs it asks to connect. `more` are further values of its
        parts, as `budget={"epsilon": 1}`.
        """
        from osgt.query.file import reading  # noqa: PLC0415 - the extra "tables"

        file = None if path is None else reading.read_query_file(path)
        parts = self._parts()
        names_data_file = reading.is_data_file(parts.get("data", {}).get("source"))
        if names_data_file:
            parts["data"]["file"] = parts["data"].pop("source")
            _check_data_file(parts["data"], path)
        for part, values in more.items():
            if given := {key: value for key, value in values.items() if value is not None}:
                parts[part] = parts.get(part, {}) | given
        data, aggregates = parts.get("data", {}), list(self._aggregates())
        named: DataFile | None = file
        if file is None:
            self._check_complete(data, aggregates)
            result = reading.query_file_of({**parts, "aggregates": aggregates})
            named = reading.read_data_file(data["file"]) if names_data_file else None
        else:
            for key in {"types", "derive"} & data.keys():
                data[key] = {**(getattr(file.data, key) or {}), **data[key]}
            result = reading.with_parts(file, parts, aggregates)
        if named is not None and not reads and not self.options["connect"]:
            _check_servers(named, result)
        return result

    def _check_complete(self, data: Mapping[str, Any], aggregates: list[dict[str, Any]]) -> None:
        """Raise unless the options, without a query file, say which data are meant and what is asked about them."""
        for key, option in (
            ("source", "SOURCE (a file), --url or --query"),
            ("privacy_unit", "--unit (or --unit-row)"),
        ):
            if key not in data and "file" not in data:
                _check_source(data)
                hint = "; or describe the file once, with `osgt start`" if key == "privacy_unit" else ""
                raise ValueError(f"{option} must be given{hint}")
        if not aggregates and not self.of_data:
            raise ValueError("give at least one aggregate: --count, --count-units, --sum COLUMN, …")

    def _parts(self) -> dict[str, dict[str, Any]]:
        """The parts and keys of a query file that were typed."""
        given = dict(self.options)
        if given["url"] is not None and given["source"] is not None:
            raise ValueError("give a source or --url, not both")
        if given["unit"] and given["unit_row"]:
            raise ValueError("give --unit or --unit-row, not both")
        if given["keys"] and given["public_keys"]:
            raise ValueError("give --keys or --public-keys, not both")
        given["source"] = given["source"] if given["url"] is None else given["url"]
        parts: dict[str, dict[str, Any]] = {}
        for name, (key, _) in _list_keys().items():
            value = key.read(given.get(name))
            if value is not None:
                parts.setdefault(key.part, {})[key.name] = value
        if given["unit_row"]:
            parts.setdefault("data", {})["privacy_unit"] = "row"
        if given["keys"]:
            parts.setdefault("groups", {})["public_keys"] = _read_keys(given["keys"])
        return parts

    def _aggregates(self) -> Iterator[dict[str, Any]]:
        for name, kind in kinds().items():
            given = self.aggregates.get(name)
            if kind.option is None:
                yield from [{"kind": name}] if given else []
                continue
            for text in given or []:
                yield {"kind": name, **kind.parse(text)}


def _check_source(data: Mapping[str, Any]) -> None:
    """Raise if the source looks like a path and there is no such file: what else is missing comes after that."""
    source = data.get("source") or ""
    looks_like_path = Path(source).suffix and not has_magic(source) and "://" not in source
    if looks_like_path and data.get("engine") is None and not Path(source).exists():
        raise ValueError(f"source: there is no file {source!r}")


#: Options that a SELECT says itself.
_OF_SELECT = ("by", "totals")


def takes_a_table(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say which table is meant and what is released of it, together as `asked`.

    An option of the command's own stands in place of a shared one of the same name; its arguments come first.
    """
    return _with_options(command, {f"aggregate_{name}": _aggregate_parameter(kind) for name, kind in kinds().items()})


def takes_data(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say which data are meant, but not what is asked about them, as `asked`.

    Its own arguments stand behind the source.
    """
    return _with_options(command, {}, of_data=True)


def takes_keys(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command with the options of some keys of the query file, typed as everywhere, together as `known`."""

    def with_keys(command: Callable[..., None]) -> Callable[..., None]:
        own = [parameter for name, parameter in inspect.signature(command).parameters.items() if name != "known"]
        keys = {name: key.parameter(panel) for name, (key, panel) in _list_keys().items() if name in names}

        def run(**given: Any) -> None:
            command(known={name: given.pop(name) for name in keys}, **given)

        return _signed(run, command, _in_order(own, list(keys.values()), [], of_data=False))

    return with_keys


def _with_options(
    command: Callable[..., None], aggregates: Mapping[str, inspect.Parameter], *, of_data: bool = False
) -> Callable[..., None]:
    own = {name: parameter for name, parameter in inspect.signature(command).parameters.items() if name != "asked"}
    left_out = {*own, *(_OF_SELECT if of_data else ())}
    shared = {name: option for name, option in _list_options().items() if name not in left_out}

    def run(**given: Any) -> None:
        typed = {name.removeprefix("aggregate_"): given.pop(name) for name in aggregates}
        command(asked=Asked({name: given.pop(name) for name in shared}, typed, of_data), **given)

    parameters = _in_order(list(own.values()), list(shared.values()), list(aggregates.values()), of_data=of_data)
    return _signed(run, command, parameters)


def _signed(
    run: Callable[..., None], command: Callable[..., None], parameters: list[inspect.Parameter]
) -> Callable[..., None]:
    """The function with the name and the help of a command, and these parameters."""
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    )
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run


def _in_order(
    own: list[inspect.Parameter],
    shared: list[inspect.Parameter],
    aggregates: list[inspect.Parameter],
    *,
    of_data: bool,
) -> list[inspect.Parameter]:
    """The parameters as help shows them: arguments, the data and groups, aggregates, budget and output, own options."""
    first, rest = _parted(own, lambda each: each.default is inspect.Parameter.empty or _is_argument(each))
    others, tables = _parted(shared, lambda each: _panel(each) in (BUDGET, OUTPUT))
    source, tables = _parted(tables, lambda each: of_data and each.name == "source")
    return [*source, *first, *tables, *aggregates, *others, *rest]


def _parted(
    parameters: list[inspect.Parameter], test: Callable[[inspect.Parameter], bool]
) -> tuple[list[inspect.Parameter], list[inspect.Parameter]]:
    """Part parameters into those that pass a test and the others."""
    return [parameter for parameter in parameters if test(parameter)], [
        parameter for parameter in parameters if not test(parameter)
    ]


def _is_argument(parameter: inspect.Parameter) -> bool:
    return any(isinstance(part, typer.models.ArgumentInfo) for part in get_args(parameter.annotation))


def _panel(option: inspect.Parameter) -> str | None:
    return get_args(option.annotation)[1].rich_help_panel  # type: ignore[no-any-return]


def kinds() -> Mapping[str, "Kind"]:
    """The aggregates that there are; none without the extra "tables"."""
    try:
        from osgt.query.file.aggregates import AGGREGATES as every  # noqa: N811, PLC0415 - the extra "tables"
    except ImportError:
        return {}
    return every


def _aggregate_parameter(kind: "Kind") -> inspect.Parameter:
    """The option of an aggregate: once for a flag, repeatable with a value."""
    value: Any = bool if kind.option is None else list[str] | None
    metavar = None if kind.option is None else kind.option.metavar
    info = typer.Option(kind.flag, metavar=metavar, help=kind.summary, rich_help_panel=AGGREGATES)
    return _parameter(f"aggregate_{kind.name}", Annotated[value, info], False if kind.option is None else None)
