"""The reference of query and data files, key by key, and their JSON Schemas for editors, made from their model.

`python -m osgt.query.file.reference FOLDER` writes them into a folder of the docs.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from osgt.query.file.aggregates import AGGREGATES, Arguments, Kind
from osgt.query.file.model import DataFile, OneOfSeveral, QueryFile
from osgt.query.file.reading import query_file_model, value_in_words


class _WithoutNull(GenerateJsonSchema):
    """TOML has no null: a key is there with a value, or is left out."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        result = super().default_schema(schema)
        # A whole table as a default says nothing that its keys do not.
        return {
            key: value
            for key, value in result.items()
            if key != "default" or isinstance(value, bool | int | float | str)
        }

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def query_file_schema() -> dict[str, Any]:
    """The schema, for all aggregates that there are."""
    return _schema(query_file_model(), "query-file", "A query file of osgt")


def data_file_schema() -> dict[str, Any]:
    """The schema of data files."""
    return _schema(DataFile, "data-file", "A data file of osgt")


#: The version of the formats of query and data files, in the names of their schemas.
_FORMAT = "1"


def _schema(model: type[BaseModel], name: str, title: str) -> dict[str, Any]:
    schema = model.model_json_schema(schema_generator=_WithoutNull)
    draft = "http://json-schema.org/draft-07/schema#"
    return {"$schema": draft, "$id": f"urn:osgt:{name}:{_FORMAT}", **schema, "title": title}


PAGE, SCHEMA, DATA_SCHEMA = "query-file.md", "query.schema.json", "data.schema.json"

#: The parts of a query file, in the order in which people think of them.
_ORDER = ("data", "tables", "columns", "groups", "aggregates", "table", "budget", "output", "series", "report")

_INTRODUCTION = """# Query files and data files

<!-- Made by `python -m osgt.query.file.reference docs/reference`, from the code: change it there. -->

A query file is a whole release in [TOML](https://toml.io): it can be reviewed before, versioned, and repeated after.
`osgt plan`, `osgt limits`, `osgt preview` and `osgt release` take it with `--query`, and so does `osgt ledger
remaining`. Options on the command line take the place of what the file says. Relative paths are relative to the file.
`examples/flights.toml` in the repository is a whole one.

A [data file](../data-file.md) says once what is known about the data. It has the parts `[data]` (without `file`),
`[tables]`, `[columns]`, `[budget]` and `[report]` of this page. Commands take it in place of the data, query files name
it as `file` in `[data]`, and Python reads it with `Dataset.from_file`.

A key that is not known is an error that names the nearest one, and so is a value of another type:

```text
query.toml: [groups] has no 'max_group' (did you mean 'max_groups'?); budget.epsilon must be a number, got '1'
```

## In an editor

`osgt schema --out query.schema.json` writes a JSON Schema, by which editors complete keys, explain them and mark
mistakes. With [Taplo](https://taplo.tamasfe.dev) or its extension *Even Better TOML* the first line of a query file
says where it is:

```toml
#:schema query.schema.json
```

`osgt schema --data` prints that of data files. This version's are here as well: of [query files](query.schema.json) and
of [data files](data.schema.json).
"""


def reference() -> str:
    """The page in Markdown."""
    parts = [_INTRODUCTION]
    for name in sorted(QueryFile.model_fields, key=_ORDER.index):
        field = QueryFile.model_fields[name]
        if name in ("columns", "tables"):
            named = get_args(field.annotation)[1]
            parts.append(f"## `[{name}.NAME]`\n\n{inspect.getdoc(named)}\n\n{_keys(named)}")
        elif name == "table":
            parts.append(f"## `[[table]]`\n\n{inspect.getdoc(OneOfSeveral)}\n\n{_TABLES}\n\n{_keys(OneOfSeveral)}")
        elif name != "aggregates":
            table: Any = field.annotation
            parts.append(f"## `[{name}]`\n\n{inspect.getdoc(table)}\n\n{_keys(table)}")
        else:
            parts.append(f"## `[[aggregates]]`\n\n{_AGGREGATES}\n\n{_list_of_kinds()}\n\n{_keys(Arguments)}")
            parts += [_kind(kind) for kind in AGGREGATES.values()]
    return "\n".join(parts)


_TABLES = """Such tables take the place of `[groups]` and `[[aggregates]]`. `out` in `[output]` then has `{table}` where
the name of each table goes, as in `"tables/{table}.csv"`, or is a folder. `[report.labels]` may have titles of tables.

```toml
[[table]]
name = "by_month"

[table.groups]
by = "month"
max_rows = 24

[[table.aggregates]]
kind = "count"
```"""

_AGGREGATES = """What is asked about each group: one `[[aggregates]]` for each column, or set of columns. Each column of
the release is followed by the ends of its noise interval, `…_low` and `…_high`."""


def _list_of_kinds() -> str:
    rows = ["| `kind` | in Python | on the command line | what it is |", "|---|---|---|---|"]
    for kind in AGGREGATES.values():
        option = kind.flag if kind.option is None else f"{kind.flag} {kind.option.metavar}"
        rows.append(f'| [`"{kind.name}"`](#{kind.name}) | `{_call(kind)}` | `{option}` | {kind.summary} |')
    return "\n".join([*rows, "", "All kinds have these keys:"])


def _call(kind: Kind) -> str:
    """The method with the arguments that it needs."""
    needed = [name for name, field in kind.arguments.model_fields.items() if field.is_required() and name != "kind"]
    return f".{kind.name}({', '.join(needed)})"


def _kind(kind: Kind) -> str:
    own = _keys(kind.arguments, leave_out=set(Arguments.model_fields))
    return f"### `{kind.name}` {{ #{kind.name} }}\n\n{kind.summary}\n\n{own}"


def _keys(table: type[BaseModel], leave_out: set[str] | None = None) -> str:
    """A row for each key: what it is, what its value must be, and what holds if it is left out."""
    fields = {name: field for name, field in table.model_fields.items() if name not in (leave_out or ())}
    if not fields:
        return "No keys of its own.\n"
    rows = ["| key | value | meaning |", "|---|---|---|"]
    for name, field in fields.items():
        meaning = (field.description or "").replace("\n", " ")
        rows.append(f"| `{name}` | {value_in_words(field)}{_default(field)} | {meaning} |")
    return "\n".join(rows) + "\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ", **must be given**"
    return (
        "" if not isinstance(field.default, bool | int | float | str) else f"; {json.dumps(field.default)} if left out"
    )


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    (folder / PAGE).write_text(reference(), encoding="utf-8")
    for name, schema in ((SCHEMA, query_file_schema()), (DATA_SCHEMA, data_file_schema())):
        (folder / name).write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
