"""Text from elsewhere, safe for a terminal or a page; names that were probably meant; values that show themselves."""

import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

#: The beginning of text that a spreadsheet may take for a formula: =, +, - or @, after blanks and in the wide forms of
#: East Asian text too; a tab or the end of a line; and the apostrophe that CSV puts before these, so that the way back
#: is unambiguous. For Python and for Arrow alike.
FORMULA = "^(?:['\\t\\r\\n]|[\\x00-\\x20\u00a0\u3000\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20])"


def printable(text: object) -> str:
    """The text with a mark in place of each character that is not printed; lines and tabs stay."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if unicodedata.category(c)[0] != "C" or c in "\n\t" else "�" for c in shown)


def one_line(text: object) -> str:
    """Put printable text on one line, with one space wherever there was more."""
    return " ".join(printable(text).split())


def shortened(text: object, length: int) -> str:
    """Shorten the text, on one line, to so many characters at most."""
    line = one_line(text)
    return line if len(line) <= length else line[: length - 1] + "…"


#: What aggregates and options are called elsewhere, and here.
OTHER_NAMES = {
    "average": "mean",
    "avg": "mean",
    "total": "sum",
    "distinct": "count_units",
    "std": "variance",
    "stddev": "variance",
    "percentile": "quantile",
    "share": "proportion",
    "group_by": "by",
    "groupby": "by",
    "where_sql": "where",
    "filter": "where",
    "condition": "where",
    "privacy_unit": "unit",
    "id": "unit",
    "user": "unit",
    "people": "units",
    "eps": "epsilon",
    "output": "out",
    "save": "out",
    "html": "report",
    "rollup": "totals",
    "sep": "delimiter",
    "separator": "delimiter",
    "dtype": "type",
    "database": "url",
    "db": "url",
}

#: Most names that a message lists.
_MOST = 20


def unknown(what: str, name: str, known: Sequence[str], having: str = "the table has") -> str:
    """Say that there is no such thing of this name, which one was perhaps meant, and which there are.

    Examples
    --------
    >>> unknown("column", "usr", ["user", "city"])
    "there is no column 'usr' (did you mean 'user'?); the table has 'user' and 'city'"
    """
    return f"there is no {what} {name!r}{nearest(name, known)}; {having} {names_in_words(known)}"


def nearest(name: str, known: Sequence[str]) -> str:
    """The known name that somebody may have meant, in brackets; nothing if none is near."""
    plain: dict[str, str] = {}
    for known_name in known:
        plain.setdefault(_plain(known_name), known_name)
    plain |= {other: plain[here] for other, here in OTHER_NAMES.items() if here in plain and other not in plain}
    close = get_close_matches(_plain(name), list(plain), n=1)
    return f" (did you mean {plain[close[0]]!r}?)" if close else ""


def names_in_words(names: Sequence[str]) -> str:
    """The names in quotes; of very many the first ones."""
    shown = [repr(name) for name in names[:_MOST]] or ["none"]
    if len(names) > _MOST:
        return f"{', '.join(shown)} and {len(names) - _MOST:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _plain(name: str) -> str:
    """The name as people remember it: without case and dashes before it, with blanks and hyphens as underscores."""
    return name.casefold().strip(" -").replace(" ", "_").replace("-", "_")


def columns_wide(text: str) -> int:
    """The number of columns that a text takes in a terminal: wide characters take two, marks on others none."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Rows of a table in lines, its columns below each other: so many to the left, the others to the right."""
    widths = [max(map(columns_wide, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (width - columns_wide(text)) for text, width in zip(row, widths, strict=True)]
        cells = [
            text + blank if i < left else blank + text for i, (text, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


class Displayed:
    """A value that has a card in notebooks."""

    def _repr_html_(self) -> str | None:
        """Make the card for notebooks; None without Jinja2."""
        try:
            html: str = views().card(self).html()
        except ImportError:
            return None
        return html


class DisplayedInText(Displayed):
    """A value that has a card in notebooks, a line and a text."""

    def __repr__(self) -> str:
        line: str = views().line(self)
        return line

    def __str__(self) -> str:
        text: str = views().text(self)
        return text


def views() -> Any:
    """The package with the view of every kind of value."""
    return import_module("osgt.render")
