"""Pages for people: layout, style, pictures and tables that the report, the auditor's page and the web page share.

Every page is one file of HTML that needs nothing else. It runs no script and loads nothing, whatever the texts in it
hold: they are escaped, and a content security policy forbids the rest.

The functions here show a value by its class: its card, its picture, and itself in one line or in several. A module
with views is imported when one of them is asked for: the picture of a privacy profile needs no database.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from osgt.render.cards import Card

#: Functions by the class of the value, in modules that are imported when they are asked for.
_CARDS = {
    "PrivacyProfile": "render.cards.profile_card",
    "Mechanism": "render.cards.mechanism_card",
    "Dataset": "render.table_cards.dataset_card",
    "Plan": "render.table_cards.plan_card",
    "PublicationPlan": "render.table_cards.plan_card",
    "Ledger": "render.ledger.ledger_card",
    "Overview": "render.ledger.overview_card",
    "Spending": "render.ledger.spending_card",
    "Verification": "render.ledger.verification_card",
}
_PICTURES = {
    "PrivacyProfile": "render.cards.plot_profile",
    "Plan": "render.pictures.plot_plan",
    "Overview": "render.ledger.plot_overview",
    "Spending": "render.ledger.plot_spending",
}
_LINES = {
    "Dataset": "render.table_cards.dataset_line",
    "Plan": "render.table_cards.plan_line",
    "PublicationPlan": "render.table_cards.plan_line",
}
_TEXTS = {"Plan": "facts.plan_wording.plan_text", "PublicationPlan": "facts.plan_wording.plan_text"}


def card(value: Any) -> "Card":
    """Make the card that a notebook shows of a value."""
    made: Card = _view(_CARDS, value)(value)
    return made


def plot(value: Any, axes: Any = None) -> Any:
    """The picture of a value on axes of Matplotlib: those given, or new ones, which are returned."""
    return _view(_PICTURES, value)(value, axes)


def line(value: Any) -> str:
    """A value in one line."""
    written: str = _view(_LINES, value)(value)
    return written


def text(value: Any) -> str:
    """A value in lines for a terminal."""
    written: str = _view(_TEXTS, value)(value)
    return written


def _view(views: Mapping[str, str], value: Any) -> Callable[..., Any]:
    name = next(kind.__name__ for kind in type(value).__mro__ if kind.__name__ in views)
    module, _, function = views[name].rpartition(".")
    view: Callable[..., Any] = getattr(import_module(f"osgt.{module}"), function)
    return view
