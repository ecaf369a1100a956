"""The pages: the entries, the findings about them, and the views of plans, ledgers and results."""

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osgt.api.preview import WARNING, Preview
from osgt.data.engines import engine_names
from osgt.facts.ledger_wording import budget, left, proved, room, used
from osgt.facts.statement import promise_to
from osgt.plan.plan import AnyPlan
from osgt.query.aggregates import AGGREGATES
from osgt.query.aggregates.base import PlainNumbers, QuerySpec
from osgt.query.file.model import QueryFile
from osgt.query.file.text import python_code, query_file_text
from osgt.render.cards import Card
from osgt.render.pictures import Dots, Point, dots
from osgt.render.rendering import environment
from osgt.render.table_cards import plan_card, preview_card, release_card
from osgt.support.numbers import counted, percent, with_interval
from osgt.support.servers import holds_secret, shown
from osgt.web.checking import Checked
from osgt.web.entries import Argument, Entries, arguments_of
from osgt.web.form import LOADED, fields_of, typed_value
from osgt.web.jobs import Job
from osgt.web.publishing import Result

if TYPE_CHECKING:
    from osgt.api.preview import PublicationPreview
    from osgt.api.release import AnyRelease
    from osgt.ledger import Spending

#: Round values of ε for the slider: as many in each power of ten.
EPSILONS = [
    float(f"{step}e{power}")
    for power in (-2, -1, 0)
    for step in ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
] + [10.0]

#: The sizes of the groups in the picture of a made-up table, as parts of the largest.
_PARTS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)

#: Values of a key that are shown.
_SHOWN = 12

#: The largest of them, if nothing is said.
LARGEST = 1_000


def made_up(plan: AnyPlan, largest: int) -> Dots | None:
    """A table that was made up, with the noise intervals that a real one would have.

    None if it cannot be drawn, as where limits are open: how wide intervals are depends on them.
    """
    table = next(iter(plan.tables.values()))
    if table.open_limits:
        return None
    column = next(
        (each for each in table.columns if each.kind.startswith("count") and each.half_width is not None), None
    )
    if column is None or column.half_width is None:
        return None
    half, points = column.half_width, []
    for part in _PARTS:
        size = max(round(largest * part), 1)
        low, high = size - half, size + half
        words = f"a group of {size:,}"
        if table.threshold is not None and size < table.threshold:
            words += " (mostly not published)"
        points.append(Point(words, size, low, high, with_interval(float(size), low, high)))
    caption = f"A made-up table at this budget: {column.name}, with {percent(plan.confidence)} noise intervals"
    return dots(caption, [("", points)])


def ledger_facts(spending: "Spending") -> list[tuple[str, str]]:
    """The budget of a data set and what is left of it."""
    return [
        ("Budget", budget(spending)),
        ("Used", used(spending.share)),
        ("Left", left(spending.share)),
        ("Spent so far", f"{proved(spending)} in {counted(spending.releases, 'release')}"),
        ("Room for", room(spending)),
    ]


def group_words(keys: Any) -> tuple[dict[str, str], str]:
    """The values that were given for each key, and how many groups they make, in words."""
    lists = {name: list(dict.fromkeys(values)) for name, values in keys.items()} if isinstance(keys, dict) else {}
    what = "group" if len(lists) == 1 else "value"
    words = {}
    for name, values in lists.items():
        shown = ", ".join(typed_value(str(value)) for value in values[:_SHOWN])
        more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
        words[name] = f"{counted(len(values), what)}: {shown}{more}" if values else ""
    total = math.prod(map(len, lists.values()))
    return words, f"{counted(total, 'group')} in all" if len(lists) > 1 and total else ""


def preview_cards(found: "Preview | PublicationPreview") -> list[Card]:
    """Exact figures, under a red bar."""
    cards = []
    for name, each in found.tables.items():
        card = replace(preview_card(each.curves(), WARNING), lines=each.lines())
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
    return [name for each in query.aggregates if isinstance(each, PlainNumbers) for name in each.names]


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
    shown = {"notice": "", "notice_is_bad": False, "opened": "", "preview_cards": [], **more}
    shown |= {"ids": Ids, "meaning": _meaning, "entries": entries, "problems": found.problems}
    for step in (_data_step, _table_step, _budget_step, _publish_step):
        shown |= step(entries, found)
    return _rendered("planner.html", **shown)


def _meaning(name: str) -> str:
    """The meaning of a key of the query file."""
    part, key = name.split(".")
    table: Any = QueryFile.model_fields[part].annotation
    return str(table.meaning(key))


def _data_step(entries: Entries, found: Checked) -> dict[str, Any]:
    return {
        "files": data_files(),
        "schema": list(found.columns.items()),
        "columns": [(name, name) for name in found.columns],
        "number_columns": [(name, f"{name} ({dtype})") for name, dtype in found.columns.items()],
        "declarable": found.dataset is not None and found.dataset.types_can_be_declared,
        "type_choices": [("" if name == "string" else name, "text" if name == "string" else name) for name in _TYPES],
        "engines": [("", "the usual one"), *((name, name) for name in engine_names())],
        "servers": found.servers,
        "datasets": [(name, name) for name in found.datasets],
        "ledger_facts": [] if found.spending is None else ledger_facts(found.spending),
        "unit_name": None if found.dataset is None else found.dataset.privacy_unit,
    }


def _table_step(entries: Entries, found: Checked) -> dict[str, Any]:
    key_words, groups_in_all = group_words(found.plain.get("groups", {}).get("public_keys"))
    # Also labels and units of names that nothing has: they can be seen and removed here.
    labelled = [*_published(found), *entries.below("report.labels"), *entries.below("report.units")]
    return {
        "several_tables": [str(table.get("name")) for table in found.plain.get("table", [])],
        "keys_choices": _with_loaded(_KEYS, entries.one("keys.kind")),
        "totals_choices": _with_loaded(_TOTALS, entries.one("totals")),
        "key_words": key_words,
        "groups_in_all": groups_in_all,
        "key_kinds": {name: _key_kind(dtype) for name, dtype in found.columns.items()},
        "aggregates": _rows(entries),
        "kinds": [(name, name.replace("_", " ")) for name in AGGREGATES],
        "derived": [f"derive.{row}" for row in range(len(entries.rows("derive")) + 1)],
        "published": list(dict.fromkeys(labelled)),
        "has_words": any(name.startswith("report.") for name in entries.fields if entries.one(name)),
    }


def _budget_step(entries: Entries, found: Checked) -> dict[str, Any]:
    return {
        "epsilons": [f"{epsilon:g}" for epsilon in EPSILONS],
        "slider": _slider(entries.one("budget.epsilon")),
        "error_columns": [(name, name) for name in column_choices(found.query)],
        "confidences": _CONFIDENCES,
        "objectives": _OBJECTIVES,
        "needed": found.needed,
        "other_problems": list(dict.fromkeys(found.problems.values())),
        "chosen_epsilon": None if found.epsilon is None else f"{found.epsilon:.15g}",
        **_plan_values(entries, found),
    }


def _plan_values(entries: Entries, found: Checked) -> dict[str, Any]:
    plan = found.plan
    if plan is None:
        return {"plan": None, "picture": None, "plan_epsilon": None, "plan_delta": None, "promise": ""}
    return {
        "plan": plan_card(plan),
        "picture": made_up(plan, _largest(entries)),
        "plan_epsilon": f"{plan.epsilon:.15g}",
        "plan_delta": f"{plan.delta:.15g}",
        "promise": "" if found.dataset is None else promise_to(found.dataset, plan),
    }


def _publish_step(entries: Entries, found: Checked) -> dict[str, Any]:
    text, hides = query_text(found.plain)
    return {
        "refused": found.refused,
        "charged_to": _charged_to(found.plain.get("data", {})),
        "query_text": text,
        "hides_password": hides,
        "python": python_code(without_passwords(found.plain)),
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


def query_text(plain: Mapping[str, Any]) -> tuple[str, bool]:
    """The query file, with paths as seen from the folder of the server; whether a password was left out of it."""
    safe = without_passwords(plain)
    return query_file_text(safe, Path.cwd()), safe != plain


def without_passwords(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the URLs in the values of a query file by those that may be shown."""
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
    for query in found.query.tables.values():
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


def _largest(entries: Entries) -> int:
    text = entries.one("made_up.largest")
    return min(max(int(text), 1), 10**9) if text.isdecimal() and len(text) < 12 else LARGEST


def _charged_to(data: Mapping[str, Any]) -> str:
    if data.get("ledger") is None:
        return "no ledger: nobody keeps account of it"
    return f"{data.get('dataset')!r} in {shown(data['ledger'])}"
