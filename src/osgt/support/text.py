"""Text from elsewhere, as a terminal or a page may show it, and the names that were probably meant."""

import unicodedata
from collections.abc import Sequence
from difflib import get_close_matches

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


#: What aggregates are called elsewhere, and here.
OTHER_NAMES = {
    "average": "mean",
    "avg": "mean",
    "total": "sum",
    "distinct": "count_units",
    "std": "variance",
    "stddev": "variance",
    "percentile": "quantile",
    "share": "proportion",
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


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Rows of a table in lines, its columns below each other: so many to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i < left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
