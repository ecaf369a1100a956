"""What is charged to the ledger of a data set, under which title."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from osgt.privacy import Charge
from osgt.tables.aggregates.kinds import Asking

if TYPE_CHECKING:
    from osgt.tables.dataset import Dataset

#: Characters of a title in the ledger.
_LONGEST_TITLE = 500


class Charged(Protocol):
    """What a ledger has to know of a plan."""

    @property
    def charge(self) -> Charge:
        """What is taken out of the budget."""

    @property
    def epsilon(self) -> float:
        """The ε that was asked for."""

    @property
    def delta(self) -> float:
        """The δ that was asked for."""


def reserved(data: "Dataset", plan: Charged, title: str, query: Mapping[str, Any]) -> Any:
    """What is charged to the ledger of the data set; None if it has none."""
    if data.ledger is None:
        return None
    return data.ledger.reserve(
        data.dataset,
        plan.charge,
        query=json.dumps(query, sort_keys=True, default=str),
        title=title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…",
        unit=data.privacy_unit,
        neighbours=data.neighbours,
        table=data.identity,
        epsilon=plan.epsilon,
        delta=plan.delta,
    )


def check_charge(data: "Dataset", plan: Charged) -> None:
    """Raise what `reserved` would raise now, if the ledger of the data set would refuse the charge."""
    if data.ledger is not None:
        data.ledger.check(
            data.dataset, plan.charge, unit=data.privacy_unit, neighbours=data.neighbours, table=data.identity
        )


def title_of(query: Asking) -> str:
    """What is published, in a few words: "count, mean(delay) by month"."""
    by = f" by {', '.join(query.groups.by)}" if query.groups.by else ""
    return ", ".join(aggregate.title for aggregate in query.aggregates) + by
