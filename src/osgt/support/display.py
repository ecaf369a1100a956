"""The display of values: in notebooks, as pictures, in one line.

Values stand below the pages that show them and know nothing of these. What shows a value is chosen by its class, in
`osgt.render`, which is imported when somebody asks.
"""

from importlib import import_module
from typing import Any


class Displayed:
    """A value that has a card in notebooks."""

    def _repr_html_(self) -> str | None:
        """Make the card for notebooks; None without Jinja2."""
        try:
            html: str = views().card(self).html()
        except ImportError:
            return None
        return html


def views() -> Any:
    """The package with the view of every kind of value."""
    return import_module("osgt.render")
