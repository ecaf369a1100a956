"""What a notebook shows of a publication and its plan: those of its tables, one below the other."""

from dataclasses import replace
from typing import TYPE_CHECKING

from osgt.pages.cards import Card, CardTable, Cell
from osgt.pages.numbers import counted
from osgt.tables.cards import plan_card, query_line

if TYPE_CHECKING:
    from osgt.tables.publication import Publication
    from osgt.tables.publication_plan import PublicationPlan


def several_line(publication: "Publication") -> str:
    """The names of the tables in a line."""
    return f"Publication({', '.join(publication)})"


def several_card(publication: "Publication") -> Card:
    """What each table asks for. No data."""
    rows = [
        [Cell(name), Cell(query_line(query, "")[1:-1]), Cell(f"{publication.weights[name]:g}")]
        for name, query in publication.tables.items()
    ]
    return Card(
        f"Publication of {counted(len(publication), 'table')}",
        "One calibration, one charge and one statement for all of them.",
        tables=[CardTable(["Table", "What", "Weight"], rows, keys=2)],
    )


def several_plan_line(plan: "PublicationPlan") -> str:
    """The budget and the tables in a line."""
    return f"PublicationPlan(epsilon={plan.epsilon:.15g}, delta={plan.delta:.15g}; {', '.join(plan)})"


def several_plan_card(plan: "PublicationPlan") -> Card:
    """The intervals of all tables, and what would be charged."""
    cards = {name: plan_card(table) for name, table in plan.tables.items()}
    shown = [f"{name}: {line}" for name, card in cards.items() for line in card.lines[1:]]
    return Card(
        f"Plan of {counted(len(plan), 'table')}",
        f"ε = {plan.epsilon:.15g}, δ = {plan.delta:.15g} would be charged, in all. No data were read.",
        warnings=plan.warnings,
        tables=[replace(table, caption=name) for name, card in cards.items() for table in card.tables],
        lines=[plan.gains_in_words(), *shown],
    )
