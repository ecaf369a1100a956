"""The check of the entries: the data they name, the query, its plan; what is wrong at which field, what is missing.

Reads no rows: files and databases are opened for their columns alone.
"""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from osgt.api.dataset import Dataset
from osgt.api.query_file import build_query
from osgt.data.types import UndeclaredTypeError
from osgt.query.aggregates import AGGREGATES
from osgt.query.file.model import QueryFile, query_file_of
from osgt.support.errors import ArgumentError, argument_of
from osgt.support.files import words_of
from osgt.support.numbers import listed
from osgt.support.servers import names_server, shown_server
from osgt.web.cache import Opened, stamp
from osgt.web.entries import Problems

if TYPE_CHECKING:
    from osgt.api.publication import Publication
    from osgt.api.query import Query
    from osgt.ledger import Ledger, Spending
    from osgt.plan.plan import AnyPlan, Plan

#: Numbers of two digits are counted from this power of ten on, up to that one.
_LEAST_POWER, _LARGEST_POWER = -5, 3

_IN_A_POWER = 90
_LARGEST = _IN_A_POWER * (_LARGEST_POWER - _LEAST_POWER)

#: Plans by the rule of three; what is not found then is found by halving.
_BY_RULE = 6


def accepted_epsilon(plan_at: Callable[[float], "Plan"], target: float, column: str | None, guess: float) -> float:
    """The least ε of two digits at which the noise interval of a column is as narrow as the target.

    `guess` is where to begin; without a column, the first one whose noise does not depend on the group counts.
    """
    at = _place(guess)
    name = column or first_column(plan_at(_epsilon(at)))

    def width(epsilon: float) -> float:
        [found] = [each.half_width for each in plan_at(epsilon).columns if each.name == name] or [None]
        if found is None:
            raise ArgumentError(
                f"column must be a count or a sum: the interval of {name} depends on the group", argument="column"
            )
        return found

    # Intervals shrink as ε grows: too wide at `low`, narrow enough at `high`, as far as it is known.
    low, high, plans = -1, _LARGEST + 1, 0
    while high - low > 1:
        here = width(_epsilon(at))
        low, high, plans = (at, high, plans + 1) if here > target else (low, at, plans + 1)
        # About inversely proportional to ε: this comes near within two or three plans, unless widths are round.
        near = _place(_epsilon(at) * here / target) if plans < _BY_RULE else (low + high) // 2
        at = min(max(near, low + 1), high - 1)
    if high > _LARGEST:
        raise ArgumentError(
            f"interval {target:g} is too small for this query: not even ε = 1,000 reaches it", argument="interval"
        )
    if high == 0:
        raise ArgumentError(f"interval {target:g} is wide enough for any ε", argument="interval")
    return _epsilon(high)


def first_column(plan: "Plan") -> str:
    """The first column whose noise is the same in every group."""
    known = [column.name for column in plan.columns if column.noise is not None]
    if not known:
        raise ArgumentError(
            "interval is for counts and sums: choose ε by its value, or add a count", argument="interval"
        )
    return known[0]


def _epsilon(place: int) -> float:
    """The number of two digits at a place in the row of all of them."""
    power, digits = divmod(place, _IN_A_POWER)
    return float(f"{digits + 10}e{power + _LEAST_POWER - 1}")


def _place(epsilon: float) -> int:
    """The place of the least number of two digits that is at least ε; the first or last if ε is out of range."""
    if not epsilon > 10.0**_LEAST_POWER:
        return 0
    if epsilon >= 10.0**_LARGEST_POWER:
        return _LARGEST
    power = math.floor(math.log10(epsilon))
    digits = math.ceil(epsilon / 10.0 ** (power - 1) * (1.0 - 1e-12))
    return _IN_A_POWER * (power - _LEAST_POWER) + digits - 10


#: The half-width that is acceptable, of which column, and the ε that was found for another one before.
Accepted = Callable[[Problems], tuple[float | None, str | None, float | None]]

#: What the library raises for what a user may do wrong.
ERRORS = (ValueError, TypeError, OverflowError, OSError, ImportError, RuntimeError)

#: The fields of the arguments that messages begin with, where the two have different names.
_FIELDS = {
    "data": {
        name: f"data.{name}"
        for name in (
            *("source", "table", "engine", "master", "delimiter", "quote", "encoding", "decimal", "date_format"),
            *("privacy_unit", "units"),
        )
    },
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

#: The keys of [data] that may name a server.
SERVERS = ("source", "ledger", "master")

#: The keys of [data] that `Dataset` takes.
_OPENS = (
    *("source", "units", "table", "engine", "master", "types"),
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
    def is_ready(self) -> bool:
        """Whether this could be published."""
        return self.plan is not None and not self.problems and self.refused is None


def check(
    plain: dict[str, Any],
    problems: Problems,
    opened: Opened,
    accepted: Accepted | None = None,
) -> Checked:
    """Open, ask and plan as far as the entries go.

    `accepted` is there where ε is to follow from an error.
    """
    found = Checked(plain, problems)
    data = plain.get("data", {})
    if not data.get("source"):
        found.needed.append("the data: a file or a database")
        return found
    unit = data.get("privacy_unit")
    if unit is None:
        found.needed.append("who is protected")
    named = [data[key] for key in SERVERS if data.get(key) is not None and names_server(data[key])]
    found.servers = [shown_server(location) for location in named if not opened.may_connect(location)]
    if found.servers:
        found.needed.append("the connection to the server")
        return found
    with _at(problems, "data", "data.source"):
        found.dataset = opened.dataset({key: data[key] for key in _OPENS if key in data}, unit, data.get("neighbours"))
    _ledger(found, opened)
    if found.dataset is None:
        return found
    if plain.get("table"):
        _several(found, opened)
    else:
        _one(found, opened)
    if unit is not None and found.query is not None:
        _plan(found, accepted)
    return found


def _one(found: Checked, opened: Opened) -> None:
    """The query for one table, kept from request to request, so that its plans are too."""
    plain = found.plain
    asked = [plain.get(part) for part in ("data", "groups", "aggregates")]
    key = json.dumps([asked, stamp(plain["data"]["source"])], sort_keys=True, default=str)
    known = opened.query(key)
    if known is not None and not found.problems:
        found.dataset, found.query = known.dataset, known
        _missing(found)
        return
    data = found.dataset
    assert data is not None
    for row, (name, sql) in enumerate(plain.get("data", {}).get("derive", {}).items()):
        with _at(found.problems, "", f"derive.{row}.sql"):
            data = data.derive({name: sql})
    where = plain.get("data", {}).get("where", [])
    for condition in [where] if isinstance(where, str) else where:
        with _at(found.problems, "", "data.where"):
            data = data.where(condition)
    found.dataset = data
    groups = dict(plain.get("groups", {}))
    by = groups.pop("by", [])
    if plain.get("data", {}).get("privacy_unit") is None:  # and until then every row is one, which has no limits
        groups = {name: value for name, value in groups.items() if not name.startswith("max_")}
    query: Any = None
    with _at(found.problems, "groups", "groups.by"):
        query = data.group_by(*([by] if isinstance(by, str) else by), **groups)
    if query is None:
        return
    for row, aggregate in enumerate(plain.get("aggregates", ())):
        arguments = {name: value for name, value in aggregate.items() if name != "kind"}
        with _at(found.problems, f"aggregates.{row}", f"aggregates.{row}.kind", tuple(arguments)):
            query = AGGREGATES[aggregate["kind"]].method(query, **arguments)
    found.query = query
    _missing(found)
    if not found.problems:
        opened.keep(key, query)


def _missing(found: Checked) -> None:
    query: Any = found.query
    if not query.aggregates:
        found.needed.append("what to publish: at least one number for each group")


def _several(found: Checked, opened: Opened) -> None:
    """Several tables come from a file that was loaded: what is wrong with them is told there."""
    asked = [found.plain.get(part) for part in ("data", "table")]
    key = json.dumps([asked, stamp(found.plain["data"]["source"])], sort_keys=True, default=str)
    known = opened.query(key)
    if known is None and found.plain.get("data", {}).get("privacy_unit") is not None:
        with _at(found.problems, "", "query"):
            known = build_query(found.file)
            opened.keep(key, known)
    found.query = known


def _plan(found: Checked, accepted: Accepted | None) -> None:
    """The plan at the budget that was entered, or at the ε that an accepted error needs."""
    problems, budget = found.problems, found.plain.get("budget", {})
    epsilon, delta = budget.get("epsilon"), budget.get("delta")
    interval = column = last = None
    if accepted is not None:
        interval, column, last = accepted(problems)
        epsilon = None
    if delta is None and "budget.delta" not in problems:
        found.needed.append("δ")
    if epsilon is None and interval is None and not {"budget.epsilon", "budget.interval"} & problems.keys():
        found.needed.append("ε" if accepted is None else "the error that you can accept")
    if found.needed or problems:
        return
    query: Any = found.query
    with _at(problems, "budget", "budget.epsilon" if interval is None else "budget.interval"):
        options = found.file.plan_options()
        if interval is not None:
            if found.plain.get("table"):
                raise ArgumentError("interval is for one table: choose ε by its value", argument="interval")
            if query.open_limits:
                names = listed([limit.words for limit in query.open_limits])
                raise ArgumentError(
                    f"interval: how wide it is depends on {names}: give these, or choose ε by its value",
                    argument="interval",
                )
            if not interval > 0:
                raise ArgumentError(f"interval must be above 0, got {interval:g}", argument="interval")
            found.epsilon = accepted_epsilon(
                lambda at: query.plan(at, delta, **options), interval, column, last if last and last > 0 else 1.0
            )
            found.plain.setdefault("budget", {})["epsilon"] = epsilon = found.epsilon
        found.plan = query.plan(epsilon, delta, **options)
    if found.plan is not None and found.spending is not None:
        _fits(found)


def _ledger(found: Checked, opened: Opened) -> None:
    """Open the ledger that is named, and look up what is left in it."""
    location, name = (found.plain.get("data", {}).get(key) for key in ("ledger", "dataset"))
    if location is None:
        if name is not None:
            found.problems["data.dataset"] = "This is a name in a ledger: give the ledger as well."
        return
    with _at(found.problems, "", "data.ledger"):
        found.ledger = opened.ledger(location)
        found.datasets = found.ledger.datasets()
        if name is None:
            found.needed.append("the name of the data set in the ledger")
        elif name not in found.datasets:
            known = f"It has {', '.join(found.datasets)}." if found.datasets else "It has none yet."
            found.problems["data.dataset"] = (
                f"The ledger has no data set {name!r}. {known} Open one with `osgt ledger open`."
            )
        else:
            found.spending = found.ledger.spent(name)


def _fits(found: Checked) -> None:
    """Check whether the ledger would take the charge now."""
    data, plan = found.plain["data"], found.plan
    assert plan is not None
    assert found.query is not None
    assert found.ledger is not None
    dataset = found.query.dataset
    try:
        found.ledger.check(
            data["dataset"],
            plan.charge,
            unit=dataset.privacy_unit,
            neighbours=dataset.neighbours,
            table=dataset.identity,
        )
    except ERRORS as error:
        found.refused = words_of(error)


@contextmanager
def _at(problems: Problems, part: str, otherwise: str, arguments: tuple[str, ...] = ()) -> Iterator[None]:
    """Tell an error of the library at the field of the argument that it is about."""
    try:
        yield
    except UndeclaredTypeError as error:
        problems.setdefault(
            f"{part}.{error.argument}" if arguments else otherwise,
            f"The type of column {error.column!r} must be declared with the data above, since none is guessed: "
            f"{error.example}, for example.",
        )
    except ERRORS as error:
        words, name = words_of(error), argument_of(error) or ""
        place = f"{part}.{name}" if name in arguments else _FIELDS.get(part, {}).get(name)
        if place is not None and place.endswith(".bounds"):
            place += ".low"
        problems.setdefault(place or otherwise, sentence(words, name if place else ""))


def sentence(words: str, name: str = "") -> str:
    """A message as a sentence; one that begins with the name of the field at which it stands needs no name."""
    if name:
        rest = words.removeprefix(name).lstrip()
        if rest.startswith((":", "must ")):
            words = rest.removeprefix(":").lstrip() if rest.startswith(":") else f"this {rest}"
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")
