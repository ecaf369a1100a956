"""The pages: the entries, the findings about them, and the views of plans, ledgers and results."""

import hashlib
import math
import os
from dataclasses import dataclass, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from osgt.api.limits import WARNING, Preview
from osgt.data.engines import engine_names
from osgt.facts.ledger_wording import budget, left, proved, room, used
from osgt.facts.statement import promise_to
from osgt.query.aggregates.base import PlainNumbers, QuerySpec
from osgt.query.file.aggregates import AGGREGATES
from osgt.query.file.model import QueryFile
from osgt.query.file.text import python_code
from osgt.render.cards import Card
from osgt.render.page import environment
from osgt.render.table_cards import plan_card, preview_card, release_card
from osgt.support.locations import SHEETS, STATISTICS
from osgt.support.text import counted
from osgt.web.checking import Checked
from osgt.web.entries import Argument, Entries, arguments_of
from osgt.web.form import BY_COLUMN, BY_ROW, LOADED, fields_of, query_text, step_words, without_passwords
from osgt.web.jobs import Job, Result, default_files

if TYPE_CHECKING:
    from osgt.api.limits import PublicationPreview
    from osgt.api.release import AnyRelease
    from osgt.ledger import Spending

#: Round values of ε for the slider: as many in each power of ten.
EPSILONS = [
    float(f"{step}e{power}")
    for power in (-2, -1, 0)
    for step in ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
] + [10.0]

#: Values of a key that are shown.
_SHOWN = 12


def ledger_facts(spending: "Spending") -> list[tuple[str, str]]:
    """The budget of a data set and what is left of it."""
    return [
        ("Budget", budget(spending)),
        ("Used", used(spending.share)),
        ("Left", left(spending.share)),
        ("Spent so far", f"{proved(spending)} in {counted(spending.releases, 'release')}"),
        ("Room for", room(spending)),
    ]


@dataclass(frozen=True)
class Chips:
    """The values of a key: how many there are, the first of them, and how many more."""

    number: str
    shown: list[str]
    more: str


def group_chips(keys: Any) -> tuple[dict[str, Chips], str]:
    """The values that were given for each key, and how many groups they make, in words."""
    lists = {name: list(dict.fromkeys(values)) for name, values in keys.items()} if isinstance(keys, dict) else {}
    what = "group" if len(lists) == 1 else "value"
    chips = {
        name: Chips(
            counted(len(values), what),
            [str(value) for value in values[:_SHOWN]],
            f"and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else "",
        )
        for name, values in lists.items()
        if values
    }
    total = math.prod(map(len, lists.values()))
    return chips, f"{counted(total, 'group')} in all" if len(lists) > 1 and total else ""


def preview_cards(result: "Preview | PublicationPreview") -> list[Card]:
    """Exact figures, under a red bar."""
    cards = []
    for name, table in result.tables.items():
        card = replace(preview_card(table.curves(), WARNING), lines=table.lines())
        cards.append(replace(card, title=f"{name}: {card.title}") if name else card)
    return cards


def release_cards(made: "AnyRelease") -> list[Card]:
    """The tables that were published, their first rows."""
    cards = []
    for name, table in made.tables.items():
        card = release_card(table)
        cards.append(replace(card, title=name) if name else card)
    return cards


def column_choices(query: Any) -> list[str]:
    """The columns whose noise is the same in every group: an error can be asked for them, with or without a plan."""
    if not isinstance(query, QuerySpec):
        return []
    return [name for aggregate in query.aggregates if isinstance(aggregate, PlainNumbers) for name in aggregate.names]


#: Endings of files that may be data or keys, for the list below the field.
_DATA = (".parquet", ".csv", ".tsv", ".db", ".toml", *SHEETS, *STATISTICS)

#: Files of the folder that the list has at most.
_MOST_FILES = 200

#: Keys of [data] in the fold about how it is read.
_READING = ("table", "delimiter", "quote", "encoding", "decimal", "date_format", "engine", "master", "neighbours")

_TYPES = [
    ("", "text"),
    ("float64", "decimal numbers"),
    ("int64", "whole numbers"),
    ("boolean", "true or false"),
    ("date", "dates"),
    ("timestamp", "dates with times"),
]

_BY_SIZE = "those with enough people in them"
_KEYS = [
    ("lists", "these: I give their values"),
    ("file", "these: a file has them"),
    ("all", "all labels of derived columns"),
]
_TOTALS = [
    ("", "none"),
    ("all", "the total of all rows"),
    ("rollup", "over the last key, the last two, …, all"),
    ("cube", "over every set of keys"),
]
_OBJECTIVES = [
    ("", "the noise intervals"),
    ("variance", "the mean squared error"),
    ("mean_abs", "the mean absolute error"),
]
_CONFIDENCES = [("", "95 %"), ("0.9", "90 %"), ("0.99", "99 %"), ("0.8", "80 %"), ("0.5", "50 %")]


class Ids:
    """The id of each field: always the same for a name, whatever it holds."""

    @staticmethod
    def of(name: str) -> str:
        """The id of the field with this name."""
        return "f" + hashlib.sha256(name.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Row:
    """An aggregate on the page; one without a kind is a place for the next."""

    prefix: str
    kind: str
    summary: str
    arguments: list[Argument]
    has_rare: bool


def planner(entries: Entries, checked: Checked, **more: Any) -> str:
    """The page: its steps, and the plan beside them."""
    shown = {"notice": "", "notice_is_bad": False, "opened": "", "preview_cards": [], **more}
    shown |= {"ids": Ids, "meaning": _meaning, "entries": entries, "problems": checked.problems}
    shown |= {"steps": step_words(checked.plain), "present": shown["opened"] or _present(checked)}
    for part in (_data_step, _table_step, _plan_part):
        shown |= part(entries, checked)
    return _rendered("planner.html", **shown)


def _meaning(name: str) -> str:
    """The meaning of a key of the query file."""
    part, key = name.split(".")
    table: Any = QueryFile.model_fields[part].annotation
    return str(table.meaning(key))


def _present(checked: Checked) -> str:
    """The step to be open: the first with a problem, or that is not complete."""
    for place in checked.problems:
        name = place.split(".")
        if name[0] in ("unit", "data") and place not in ("data.where", "data.units"):
            return "data"
        if place == "data.units" or name[-1].startswith("max_"):
            return "limits"
        if name[0] == "report":
            return "report"
    return "data" if checked.dataset is None or checked.plain["data"].get("privacy_unit") is None else "table"


def _data_step(entries: Entries, checked: Checked) -> dict[str, Any]:
    columns = [(f"{BY_COLUMN}{name}", name) for name in checked.columns]
    return {
        "files": data_files(),
        "columns": [(name, name) for name in checked.columns],
        "units": [*columns, (BY_ROW, "every row by itself (one row for each person)")],
        "by_row": entries.one("unit") == BY_ROW,
        "reading": any(entries.one(f"data.{name}") or f"data.{name}" in checked.problems for name in _READING),
        "engines": [("", "the usual one"), *((name, name) for name in engine_names())],
        "servers": checked.servers,
        "datasets": [(name, name) for name in checked.datasets],
        "ledger_facts": [] if checked.spending is None else ledger_facts(checked.spending),
    }


def _table_step(entries: Entries, checked: Checked) -> dict[str, Any]:
    known = _known_groups(entries, checked)
    chips, groups_in_all = group_chips(known or checked.plain.get("groups", {}).get("public_keys"))
    kind = entries.one("keys.kind")
    usual = (
        [("", "all values that are publicly known"), ("none", _BY_SIZE)]
        if known or kind == "none"
        else [("", _BY_SIZE)]
    )
    # Also labels and units of names that nothing has: they can be seen and removed here.
    labelled = [*_published(checked), *entries.below("report.labels"), *entries.below("report.units")]
    return {
        "several_tables": [str(table.get("name")) for table in checked.plain.get("table", [])],
        "keys_choices": _with_loaded([*(usual if known or kind == "none" else [("", _BY_SIZE)]), *_KEYS], kind),
        "totals_choices": _with_loaded(_TOTALS, entries.one("totals")),
        "chips": chips,
        "groups_in_all": groups_in_all,
        "key_kinds": {name: _key_kind(dtype) for name, dtype in checked.columns.items()},
        "aggregates": _rows(entries),
        "kinds": [(name, name.replace("_", " ")) for name in AGGREGATES],
        "types": _types(checked),
        "type_choices": _TYPES,
        "derived": [f"derive.{row}" for row in range(len(entries.rows("derive")) + 1)],
        "published": list(dict.fromkeys(labelled)),
    }


def _known_groups(entries: Entries, checked: Checked) -> dict[str, list[Any]]:
    """The public values of the keys, where they are known and nothing else was chosen; none otherwise."""
    public = getattr(getattr(checked.query, "groups", None), "public", None)
    if entries.one("keys.kind") or public is None:
        return {}
    return {name: public[name].unique().to_pylist() for name in public.column_names}


def _types(checked: Checked) -> list[tuple[str, str]]:
    """The columns of a text file that are used or declared, with their types; "" for text."""
    data = checked.plain.get("data", {})
    columns = checked.plain.get("columns", {})
    declared = {name: column["type"] for name, column in columns.items() if column.get("type")} | data.get("types", {})
    if checked.dataset is not None and not checked.dataset.types_can_be_declared:
        return []
    asked = [
        *checked.plain.get("groups", {}).get("by", []),
        *(aggregate.get("column") for aggregate in checked.plain.get("aggregates", [])),
    ]
    where = data.get("where", [])
    conditions = [aggregate.get("condition", "") for aggregate in checked.plain.get("aggregates", [])]
    texts = "\n".join([*data.get("derive", {}).values(), *([where] if isinstance(where, str) else where), *conditions])
    asked += [name for name in checked.columns if name in texts]
    names = [name for name in asked if name in checked.columns and name not in data.get("derive", {})]
    return [(name, declared.get(name, "")) for name in dict.fromkeys([*names, *data.get("types", {})])]


def _plan_part(entries: Entries, checked: Checked) -> dict[str, Any]:
    text, hides = query_text(checked.plain)
    return {
        "epsilons": [f"{epsilon:g}" for epsilon in EPSILONS],
        "slider": _slider(entries.one("budget.epsilon")),
        "error_columns": [(name, name) for name in column_choices(checked.query)],
        "confidences": _CONFIDENCES,
        "objectives": _OBJECTIVES,
        "needed": checked.needed,
        "other_problems": list(dict.fromkeys(checked.problems.values())),
        "chosen_epsilon": None if checked.epsilon is None else f"{checked.epsilon:.15g}",
        "plan": None if checked.plan is None else replace(plan_card(checked.plan), title="", line=""),
        "charge": checked.charge,
        "promise": "" if checked.plan is None or checked.dataset is None else promise_to(checked.dataset, checked.plan),
        "refused": checked.refused,
        "default_files": default_files(checked.plain.get("data", {}).get("source", "")),
        "query_text": text,
        "hides_password": hides,
        "python": python_code(without_passwords(checked.plain)),
    }


def job(running: Job, *, token: str, root: str) -> str:
    """The page of a release: at work, or what became of it."""
    result: Result = running.result or Result(
        "nothing",
        "Something went wrong that osgt did not expect; the terminal has more. If the budget was charged by then, the "
        "charge stands: look at the ledger.",
    )
    heading = "Publishing …" if running.is_running else "Published"
    if not running.is_running and result.outcome != "done":
        heading = {"refused": "Refused", "nothing": "Nothing was released", "left": "Not finished"}[result.outcome]
    cards = [] if result.made is None else release_cards(result.made)
    return _rendered(
        "job.html",
        ids=Ids,
        problems={},
        key=running.key,
        heading=heading,
        running=running.is_running,
        title=running.title,
        percent=running.progress if running.is_running else None,
        seconds=f"{running.seconds:.1f}",
        outcome=result.outcome,
        words=result.words,
        warnings=() if cards else result.warnings,  # cards have them
        files=[(i, path.name, path.suffix.lower() == ".html") for i, path in enumerate(result.files)],
        paths=[os.fspath(path) for path in result.files],
        cards=cards,
        entries=running.entries,
        limited=None if result.limited is None else fields_of(result.limited.given()),
        token=token,
        root=root,
    )


def help_page(root: str) -> str:
    """Render the page that explains each choice."""
    return _rendered("help.html", root=root)


def style() -> str:
    """The style of reports, and what the web page has beside it."""
    sheets = [("osgt.render", "style.css"), ("osgt.web", "web.css")]
    return "\n".join(resources.files(package).joinpath(name).read_text(encoding="utf-8") for package, name in sheets)


def script() -> str:
    """The script of the page."""
    return resources.files("osgt.web").joinpath("script.js").read_text(encoding="utf-8")


def data_files() -> list[str]:
    """The names of files in the server's folder that may be data."""
    try:
        result = [entry.name for entry in os.scandir() if entry.name.lower().endswith(_DATA) and entry.is_file()]
    except OSError:
        return []
    return sorted(result)[:_MOST_FILES]


def _rendered(template: str, **values: Any) -> str:
    made = environment("osgt.web")
    made.filters.setdefault("twice", lambda value: (value, value))
    return made.get_template(template).render(**values)


def _rows(entries: Entries) -> list[Row]:
    rows = [f"aggregates.{row}" for row in entries.rows("aggregates")]
    result = []
    for prefix in (*rows, f"aggregates.{len(rows)}"):
        kind = entries.one(f"{prefix}.kind")
        known = kind if kind in AGGREGATES else ""
        arguments = arguments_of(known) if known else []
        rare = any(entries.one(f"{prefix}.{argument.name}") for argument in arguments if argument.is_rare)
        result.append(Row(prefix, known, AGGREGATES[known].summary if known else "", arguments, rare))
    return result


def _published(checked: Checked) -> list[str]:
    """The names that may have labels: of keys and of columns."""
    if checked.query is None:
        return []
    names: list[str] = []
    for query in checked.query.tables.values():
        names += [*query.groups.by, *(name for aggregate in query.aggregates for name in aggregate.names)]
    return list(dict.fromkeys(names))


def _with_loaded(choices: list[tuple[str, str]], chosen: str) -> list[tuple[str, str]]:
    return [*choices, (LOADED, "as in the query file that was loaded")] if chosen == LOADED else choices


def _key_kind(dtype: str) -> str:
    kinds = {"int": "whole", "uint": "whole", "date": "date", "boolean": "truth"}
    return next((kind for start, kind in kinds.items() if dtype.lstrip("!").startswith(start)), "text")


def _slider(epsilon: str) -> int:
    """The place of the round value that is nearest."""
    try:
        value = float(epsilon)
    except ValueError:
        return len(EPSILONS) // 2
    return min(range(len(EPSILONS)), key=lambda i: abs(EPSILONS[i] - value))
