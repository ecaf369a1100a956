"""The pages: what stands in them comes from the entries, what was found out about them, and the views."""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from osgt.locations import holds_secret, shown
from osgt.pages.rendering import environment
from osgt.tables.aggregates import AGGREGATES
from osgt.tables.cards import suggestion_card
from osgt.tables.engines import engine_names
from osgt.tables.file_code import python_code
from osgt.tables.file_text import query_file_text
from osgt.web import views
from osgt.web.arguments import Argument, arguments_of
from osgt.web.checking import Checked
from osgt.web.entries import Entries
from osgt.web.form import LOADED
from osgt.web.jobs import Job
from osgt.web.publishing import Result

#: Endings of files that may be data or keys, for the list below the field.
_DATA = (".parquet", ".csv", ".tsv", ".db")

#: Files of the folder that the list has at most.
_MOST_FILES = 200

_TYPES = ("string", "int64", "float64", "boolean", "date", "timestamp")

_KEYS = [
    ("", "those with enough people in them"),
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


def planner(entries: Entries, found: Checked, **more: Any) -> str:
    """The page with all four steps."""
    values: dict[str, Any] = {
        "notice": "",
        "notice_is_bad": False,
        "opened": "",
        "preview_cards": [],
        **more,
    }
    plan = found.plan
    picture = None if plan is None else views.made_up(plan, _largest(entries))
    text, hides = query_text(found.plain)
    values |= {
        "ids": Ids,
        "entries": entries,
        "problems": found.problems,
        "files": data_files(),
        "schema": list(found.columns.items()),
        "columns": [(name, name) for name in found.columns],
        "number_columns": [(name, f"{name} ({dtype})") for name, dtype in found.columns.items()],
        "declarable": found.dataset is not None and found.dataset.types_can_be_declared,
        "type_choices": [("" if name == "string" else name, "text" if name == "string" else name) for name in _TYPES],
        "engines": [("", "the usual one"), *((name, name) for name in engine_names())],
        "datasets": [(name, name) for name in found.datasets],
        "ledger_facts": [] if found.spending is None else views.ledger_facts(found.spending),
        "several_tables": [str(table.get("name")) for table in found.plain.get("table", [])],
        "keys_choices": _with_loaded(_KEYS, entries.one("keys.kind")),
        "totals_choices": _with_loaded(_TOTALS, entries.one("totals")),
        "key_kinds": {name: _key_kind(dtype) for name, dtype in found.columns.items()},
        "aggregates": _rows(entries),
        "kinds": [(name, name.replace("_", " ")) for name in AGGREGATES],
        "derived": [f"derive.{row}" for row in range(len(entries.rows("derive")) + 1)],
        # Also those that nothing has: they can be seen and removed here.
        "published": list(
            dict.fromkeys([*_published(found), *entries.below("report.labels"), *entries.below("report.units")])
        ),
        "unit_name": None if found.dataset is None else found.dataset.privacy_unit,
        "has_words": any(name.startswith("report.") for name in entries.fields if entries.one(name)),
        "epsilons": [f"{epsilon:g}" for epsilon in views.EPSILONS],
        "slider": _slider(entries.one("budget.epsilon")),
        "error_columns": [(name, name) for name in views.column_choices(found.query)],
        "confidences": _CONFIDENCES,
        "objectives": _OBJECTIVES,
        "needed": found.needed,
        "other_problems": list(dict.fromkeys(found.problems.values())),
        "chosen_epsilon": None if found.epsilon is None else f"{found.epsilon:.15g}",
        "plan": None if plan is None else views.plan_views(plan),
        "picture": picture,
        "plan_epsilon": None if plan is None else f"{plan.epsilon:.15g}",
        "plan_delta": None if plan is None else f"{plan.delta:.15g}",
        "refused": found.refused,
        "charged_to": _charged_to(found.plain.get("data", {})),
        "promise": "" if plan is None or found.dataset is None else views.promise(plan, found.dataset),
        "query_text": text,
        "hides_password": hides,
        "python": python_code(without_passwords(found.plain)),
    }
    return _rendered("planner.html", **values)


def job(running: Job, *, token: str, root: str) -> str:
    """The page of a release or a suggestion: at work, or what became of it."""
    names = {"release": ("Publishing …", "Published"), "suggestion": ("Suggesting bounds …", "Suggested bounds")}
    result: Result = running.result or Result(
        "nothing",
        "Something went wrong that osgt did not expect; the terminal has more. If the budget was charged by then, the "
        "charge stands: look at the ledger.",
    )
    heading = names[running.kind][0 if running.is_running else 1]
    if not running.is_running and result.outcome != "done":
        heading = {"refused": "Refused", "nothing": "Nothing was released", "left": "Not finished"}[result.outcome]
    cards = [] if result.made is None else views.release_cards(result.made)
    if result.suggestion is not None:
        cards = [suggestion_card(result.suggestion)]
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
        suggestion=result.suggestion,
        entries=running.entries,
        token=token,
        root=root,
    )


def help_page(root: str) -> str:
    """What each choice means."""
    return _rendered("help.html", root=root)


def style() -> str:
    """The style of reports, and what the web page has beside it."""
    sheets = [("osgt.pages", "style.css"), ("osgt.web", "web.css")]
    return "\n".join(resources.files(package).joinpath(name).read_text(encoding="utf-8") for package, name in sheets)


def script() -> str:
    """The script of the page."""
    return resources.files("osgt.web").joinpath("script.js").read_text(encoding="utf-8")


def query_text(plain: Mapping[str, Any]) -> tuple[str, bool]:
    """The query file, with paths as seen from the folder of the server; whether a password was left out of it."""
    safe = without_passwords(plain)
    return query_file_text(safe, Path.cwd()), safe != plain


def without_passwords(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The same with URLs as they may be shown."""
    data = dict(plain.get("data", {}))
    for key in ("source", "ledger"):
        if holds_secret(data.get(key, "")):
            data[key] = shown(data[key])
    return {**plain, "data": data} if "data" in plain else dict(plain)


def data_files() -> list[str]:
    """The names of files in the server's folder that may be data."""
    try:
        found = [entry.name for entry in os.scandir() if entry.name.lower().endswith(_DATA) and entry.is_file()]
    except OSError:
        return []
    return sorted(found)[:_MOST_FILES]


def _rendered(template: str, **values: Any) -> str:
    made = environment("osgt.web")
    made.filters.setdefault("twice", lambda value: (value, value))
    return made.get_template(template).render(**values)


def _rows(entries: Entries) -> list[Row]:
    rows = [f"aggregates.{row}" for row in entries.rows("aggregates")]
    found = []
    for prefix in (*rows, f"aggregates.{len(rows)}"):
        kind = entries.one(f"{prefix}.kind")
        known = kind if kind in AGGREGATES else ""
        arguments = arguments_of(known) if known else []
        rare = any(entries.one(f"{prefix}.{argument.name}") for argument in arguments if argument.is_rare)
        found.append(Row(prefix, known, AGGREGATES[known].summary if known else "", arguments, rare))
    return found


def _published(found: Checked) -> list[str]:
    """The names that may have labels: of those who are protected, of keys and of columns."""
    if found.query is None or found.dataset is None:
        return []
    names = [found.dataset.privacy_unit]
    for query in found.query.tables.values() if hasattr(found.query, "tables") else [found.query]:
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
        return len(views.EPSILONS) // 2
    return min(range(len(views.EPSILONS)), key=lambda i: abs(views.EPSILONS[i] - value))


def _largest(entries: Entries) -> int:
    text = entries.one("made_up.largest")
    return min(max(int(text), 1), 10**9) if text.isdecimal() and len(text) < 12 else views.LARGEST


def _charged_to(data: Mapping[str, Any]) -> str:
    if data.get("ledger") is None:
        return "no ledger: nobody keeps account of it"
    return f"{data.get('dataset')!r} in {shown(data['ledger'])}"
