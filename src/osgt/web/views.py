"""What the page shows of a plan, a ledger and results: cards, pictures and sentences, as everywhere else."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from osgt.ledger.wording import left, used
from osgt.pages.cards import Card
from osgt.pages.numbers import counted, factor, percent, rounded_up, with_interval
from osgt.pages.pictures import Dots, Point, dots
from osgt.tables.aggregates.kinds import Asking
from osgt.tables.aggregates.plain import PlainNumbers
from osgt.tables.cards import plan_card, preview_card, release_card
from osgt.tables.plan import Plan
from osgt.tables.preview import WARNING, Preview
from osgt.tables.publication_cards import several_plan_card

if TYPE_CHECKING:
    from osgt.ledger import Spending
    from osgt.tables.dataset import Dataset
    from osgt.tables.publication_plan import PublicationPlan
    from osgt.tables.publication_preview import PublicationPreview
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release

#: Round values of ε for the slider: as many in each power of ten.
EPSILONS = [
    float(f"{step}e{power}")
    for power in (-2, -1, 0)
    for step in ("1", "1.2", "1.5", "2", "2.5", "3", "4", "5", "6", "8")
] + [10.0]

#: The sizes of the groups in the picture of a made-up table, as parts of the largest.
_PARTS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)

#: The largest of them, if nothing is said.
LARGEST = 1_000


def plan_views(plan: "Plan | PublicationPlan") -> Card:
    """The noise intervals of each column, beside those of Gaussian and Laplace noise."""
    return plan_card(plan) if isinstance(plan, Plan) else several_plan_card(plan)


def made_up(plan: "Plan | PublicationPlan", largest: int) -> Dots | None:
    """A table that was made up, with the noise intervals that a real one would have; None if it cannot be drawn."""
    table = plan if isinstance(plan, Plan) else next(iter(plan.tables.values()))
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


def promise(plan: "Plan | PublicationPlan", dataset: "Dataset") -> str:
    """What is promised to whom, in one sentence."""
    unit, adds = dataset.privacy_unit, dataset.neighbours == "add_remove"
    if dataset.unit.each_row:
        change = "Adding or removing one row" if adds else "Exchanging one row for any other"
    else:
        change = f"Adding or removing one {unit} with all rows" if adds else f"Exchanging all rows of one {unit}"
    but = f", except with a probability of about {plan.delta:.15g} (δ)" if plan.delta else ""
    return f"{change} changes the probability of any result by at most a factor of {factor(plan.epsilon)}{but}."


def ledger_facts(spending: "Spending") -> list[tuple[str, str]]:
    """The budget of a data set and what is left of it."""
    return [
        ("Budget", f"ε = {spending.budget_epsilon:g}, δ = {spending.budget_delta:g}"),
        ("Used", used(spending.share)),
        ("Left", left(spending.share)),
        ("Spent so far", f"ε = {rounded_up(spending.epsilon)} in {counted(spending.releases, 'release')}"),
    ]


def preview_cards(found: "Preview | PublicationPreview") -> list[Card]:
    """Exact figures, under a red bar."""
    tables = {"": found} if isinstance(found, Preview) else found.tables
    cards = []
    for name, each in tables.items():
        card = replace(preview_card(each, WARNING), lines=each.lines())
        cards.append(replace(card, title=f"{name}: {card.title}") if name else card)
    return cards


def release_cards(made: "Release | PublicationRelease") -> list[Card]:
    """The tables that were published, their first rows."""
    cards = []
    for name, table in made.tables.items():
        card = release_card(table)
        cards.append(replace(card, title=name) if name else card)
    return cards


def column_choices(query: Any) -> list[str]:
    """The columns whose noise is the same in every group: an error can be asked for them, with or without a plan."""
    if not isinstance(query, Asking):
        return []
    return [name for each in query.aggregates if isinstance(each, PlainNumbers) for name in each.names]
