"""The check of the entries: the data they name, the query, its plan; what is wrong at which field, what is missing.

Reads no rows: files and databases are opened for their columns alone.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from osgt.api.charge import subject_of
from osgt.api.dataset import Dataset
from osgt.api.query_file import build_query
from osgt.data.types import UndeclaredTypeError
from osgt.query.file.model import QueryFile
from osgt.query.file.reading import query_file_of
from osgt.support.errors import USER_ERRORS, ArgumentError, argument_of
from osgt.support.files import words_of
from osgt.support.locations import names_server, shown, shown_server
from osgt.web.cache import Opened, stamp
from osgt.web.entries import Problems

if TYPE_CHECKING:
    from osgt.api.publication import Publication
    from osgt.api.query import Query
    from osgt.ledger import Ledger, Spending
    from osgt.plan.plan import AnyPlan

#: The fields of the arguments that messages begin with, where the two have different names.
_FIELDS = {
    "data": {
        name: f"data.{name}"
        for name in (
            *("source", "table", "engine", "master", "delimiter", "quote", "encoding", "decimal", "date_format"),
            *("noun", "units"),
        )
    }
    | {"privacy_unit": "unit"},
    "groups": {
        "group_by": "groups.by",
        "max_rows": "groups.max_rows",
        "max_groups": "groups.max_groups",
        "max_rows_per_group": "groups.max_rows_per_group",
        "max_length": "groups.max_length",
        "public_keys": "keys.kind",
        "totals": "totals",
    },
    "budget": {
        "epsilon": "budget.epsilon",
        "delta": "budget.delta",
        "interval": "budget.interval",
        "column": "budget.column",
        "confidence": "output.confidence",
        "objective": "output.objective",
        "max_rows": "groups.max_rows",
        "max_groups": "groups.max_groups",
    },
}


@dataclass(frozen=True)
class Wanted:
    """The half-width that an interval may have, in place of ε, and of which column."""

    interval: int | float | None
    column: str | None


#: The keys of [data] that may name a server.
SERVERS = ("source", "ledger", "master")

#: The keys of [data] that `Dataset` takes.
_OPENS = (
    *("source", "noun", "units", "table", "engine", "master", "types"),
    *("delimiter", "quote", "encoding", "decimal", "date_format"),
)


@dataclass
class Checked:
    """The findings about the entries, as far as they go."""

    plain: dict[str, Any]
    problems: Problems
    #: What has to be entered before there can be a plan, in words.
    needed: list[str] = field(default_factory=list)
    dataset: Dataset | None = None
    query: "Query | Publication | None" = None
    plan: "AnyPlan | None" = None
    #: The ε that the accepted error needs, if that was asked for.
    epsilon: float | None = None
    ledger: "Ledger | None" = None
    spending: "Spending | None" = None
    #: Why the ledger would refuse the release now.
    refused: str | None = None
    datasets: list[str] = field(default_factory=list)
    #: A column that numbers are asked about and whose type was not declared.
    undeclared: str | None = None
    #: Servers that are named and that nobody has asked to connect to yet, as they may be shown.
    servers: list[str] = field(default_factory=list)

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the data have, those that are derived among them, and their types."""
        if self.dataset is None:
            return {}
        return {name: str(dtype) for name, dtype in self.dataset.table.columns.items()}

    @property
    def file(self) -> QueryFile:
        """The query file; a ValueError in words if it is not complete."""
        return query_file_of(self.plain)

    @property
    def charge(self) -> str:
        """The charge, and where it goes, in words; "" if there is no plan."""
        if self.plan is None:
            return ""
        data = self.plain["data"]
        to = "no ledger" if data.get("ledger") is None else f"{data.get('dataset')!r} in {shown(data['ledger'])}"
        return f"ε = {self.plan.epsilon:.15g}, δ = {self.plan.delta:.15g} to {to}"

    @property
    def is_ready(self) -> bool:
        """Whether this could be published."""
        return self.plan is not None and not self.problems and self.refused is None


def check(plain: dict[str, Any], problems: Problems, opened: Opened, wanted: Wanted | None = None) -> Checked:
    """Open, ask and plan as far as the entries go.

    A column of a text file that numbers are asked about holds decimal numbers, where nothing else was declared: that
    follows from the question, and not from the data. `wanted` is there where ε is to follow from an error.
    """
    while True:
        checked = _checked(plain, dict(problems), opened, wanted)
        data = checked.plain.get("data", {})
        if checked.undeclared is None or checked.undeclared in {**data.get("types", {}), **data.get("derive", {})}:
            return checked  # a derived column of text stays one
        plain = {**plain, "data": {**data, "types": {**data.get("types", {}), checked.undeclared: "float64"}}}


def _checked(plain: dict[str, Any], problems: Problems, opened: Opened, wanted: Wanted | None) -> Checked:
    checked = Checked(plain, problems)
    if not _may_open(checked, opened):
        return checked
    unit = _open(checked, opened)
    if checked.dataset is None:
        return checked
    if plain.get("table"):
        _several(checked, opened)
    else:
        _one(checked, opened)
    if unit is not None and checked.query is not None:
        _plan(checked, wanted)
    return checked


def _may_open(checked: Checked, opened: Opened) -> bool:
    """Whether the data are named, and every server among them is one that somebody has asked to connect to."""
    data = checked.plain.get("data", {})
    if not data.get("source"):
        checked.needed.append("the data: a file or a database")
        return False
    if data.get("privacy_unit") is None:
        checked.needed.append("who is protected")
    named = [data[key] for key in SERVERS if data.get(key) is not None and names_server(data[key])]
    checked.servers = [shown_server(location) for location in named if not opened.may_connect(location)]
    if checked.servers:
        checked.needed.append("the connection to the server")
    return not checked.servers


def _open(checked: Checked, opened: Opened) -> Any:
    """Open the data and the ledger; the unit that was entered."""
    plain, data = checked.plain, checked.plain["data"]
    stored = {name: column for name, column in plain.get("columns", {}).items() if name not in data.get("derive", {})}
    with _at(checked, "data", "data.source"):
        options = {key: data[key] for key in _OPENS if key in data} | ({"columns": stored} if stored else {})
        checked.dataset = opened.dataset(options, data.get("privacy_unit"), data.get("neighbours"))
    _ledger(checked, opened)
    return data.get("privacy_unit")


def _one(checked: Checked, opened: Opened) -> None:
    """The query for one table, kept from request to request, so that its plans are too."""
    plain = checked.plain
    asked = [plain.get(part) for part in ("data", "columns", "groups", "aggregates")]
    key = json.dumps([asked, stamp(plain["data"]["source"])], sort_keys=True, default=str)
    known = opened.query(key)
    if known is not None and not checked.problems:
        checked.dataset, checked.query = known.dataset, known
        _missing(checked)
        return
    checked.dataset = _rows(checked)
    checked.query = _build_query(checked)
    if checked.query is None:
        return
    _missing(checked)
    if not checked.problems:
        opened.keep(key, checked.query)


def _rows(checked: Checked) -> Dataset:
    """The data set with its derived columns and conditions, as far as these are right."""
    data, plain = checked.dataset, checked.plain
    assert data is not None
    for row, (name, sql) in enumerate(plain.get("data", {}).get("derive", {}).items()):
        with _at(checked, "", f"derive.{row}.sql"):
            data = data.derive({name: sql})
            if name in plain.get("columns", {}):
                data.known = {**data.known, **data.check_columns({name: plain["columns"][name]})}
    where = plain.get("data", {}).get("where", [])
    for condition in [where] if isinstance(where, str) else where:
        with _at(checked, "", "data.where"):
            data = data.where(condition)
    return data


def _build_query(checked: Checked) -> Any:
    """The query with its groups and aggregates, as far as these are right; None if the groups are not."""
    plain, data = checked.plain, checked.dataset
    assert data is not None
    groups = dict(plain.get("groups", {}))
    by = groups.pop("by", [])
    if plain.get("data", {}).get("privacy_unit") is None:  # and until then every row is one, which has no limits
        groups = {name: value for name, value in groups.items() if not name.startswith("max_")}
    query: Any = None
    with _at(checked, "groups", "groups.by"):
        query = data.group_by(*([by] if isinstance(by, str) else by), **groups)
    if query is None:
        return None
    for row, aggregate in enumerate(plain.get("aggregates", ())):
        arguments = {name: value for name, value in aggregate.items() if name != "kind"}
        with _at(checked, f"aggregates.{row}", f"aggregates.{row}.kind", tuple(arguments)):
            query = getattr(query, aggregate["kind"])(**arguments)
    return query


def _missing(checked: Checked) -> None:
    query: Any = checked.query
    if not query.aggregates:
        checked.needed.append("what to publish: at least one number for each group")


def _several(checked: Checked, opened: Opened) -> None:
    """Several tables come from a file that was loaded: what is wrong with them is told there."""
    asked = [checked.plain.get(part) for part in ("data", "columns", "table")]
    key = json.dumps([asked, stamp(checked.plain["data"]["source"])], sort_keys=True, default=str)
    known = opened.query(key)
    if known is None and checked.plain.get("data", {}).get("privacy_unit") is not None:
        with _at(checked, "", "query"):
            known = build_query(checked.file)
            opened.keep(key, known)
    checked.query = known


def _plan(checked: Checked, wanted: Wanted | None) -> None:
    """The plan at the budget that was entered, or at the ε that an accepted error needs."""
    budget = checked.plain.get("budget", {})
    epsilon, delta = budget.get("epsilon"), budget.get("delta")
    asked = ("budget.epsilon", epsilon, "ε")
    if wanted is not None:
        asked = ("budget.interval", wanted.interval, "the error that you can accept")
    for place, value, words in (("budget.delta", delta, "δ"), asked):
        if value is None and place not in checked.problems:
            checked.needed.append(words)
    if checked.needed or checked.problems:
        return
    query: Any = checked.query
    with _at(checked, "budget", asked[0]):
        options = checked.file.plan_options()
        if wanted is not None:
            if checked.plain.get("table"):
                raise ArgumentError("interval is for one table: choose ε by its value", argument="interval")
            exact = query.plan(None, delta, interval=wanted.interval, column=wanted.column, **options).epsilon
            checked.epsilon = epsilon = rounded_up(exact)
            checked.plain = {**checked.plain, "budget": {**budget, "epsilon": epsilon}}
        checked.plan = query.plan(epsilon, delta, **options)
    if checked.plan is not None and checked.spending is not None:
        _fits(checked)


def rounded_up(epsilon: float) -> float:
    """The least number of two digits that is not below ε."""
    power = math.floor(math.log10(epsilon)) - 1
    return float(f"{math.ceil(epsilon / 10.0**power * (1.0 - 1e-12))}e{power}")


def _ledger(checked: Checked, opened: Opened) -> None:
    """Open the ledger that is named, and look up what is left in it."""
    location, name = (checked.plain.get("data", {}).get(key) for key in ("ledger", "dataset"))
    if location is None:
        if name is not None:
            checked.problems["data.dataset"] = "This is a name in a ledger: give the ledger as well."
        return
    with _at(checked, "", "data.ledger"):
        checked.ledger = opened.ledger(location)
        checked.datasets = checked.ledger.datasets()
        if name is None:
            checked.needed.append("the name of the data set in the ledger")
        elif name not in checked.datasets:
            known = f"It has {', '.join(checked.datasets)}." if checked.datasets else "It has none yet."
            checked.problems["data.dataset"] = (
                f"The ledger has no data set {name!r}. {known} Open one with `osgt ledger open`."
            )
        else:
            checked.spending = checked.ledger.spent(name)


def _fits(checked: Checked) -> None:
    """Check whether the ledger would take the charge now."""
    data, plan = checked.plain["data"], checked.plan
    assert plan is not None
    assert checked.query is not None
    assert checked.ledger is not None
    try:
        checked.ledger.check(data["dataset"], plan.charge, **subject_of(checked.query.dataset))
    except USER_ERRORS as error:
        checked.refused = words_of(error)


@contextmanager
def _at(checked: Checked, part: str, otherwise: str, arguments: tuple[str, ...] = ()) -> Iterator[None]:
    """Tell an error of the library at the field of the argument that it is about."""
    try:
        yield
    except USER_ERRORS as error:
        if isinstance(error, UndeclaredTypeError):
            checked.undeclared = error.column
        words, name = words_of(error), argument_of(error) or ""
        place = f"{part}.{name}" if name in arguments else _FIELDS.get(part, {}).get(name)
        if place is not None and place.endswith(".bounds"):
            place += ".low"
        checked.problems.setdefault(place or otherwise, sentence(words, name if place else ""))


def sentence(words: str, name: str = "") -> str:
    """A message as a sentence; one that begins with the name of the field at which it stands needs no name."""
    if name:
        rest = words.removeprefix(name).lstrip()
        if rest.startswith((":", "must ")):
            words = rest.removeprefix(":").lstrip() if rest.startswith(":") else f"this {rest}"
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")
