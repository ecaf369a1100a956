"""Names that are not there: the one that was probably meant, and those that there are."""

from collections.abc import Sequence
from difflib import get_close_matches

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
    """That there is no such thing of this name, which one was perhaps meant, and which there are.

    Examples
    --------
    >>> unknown("column", "usr", ["user", "city"])
    "there is no column 'usr' (did you mean 'user'?); the table has 'user' and 'city'"
    """
    return f"there is no {what} {name!r}{nearest(name, known)}; {having} {names_in_words(known)}"


def nearest(name: str, known: Sequence[str]) -> str:
    """The known name that somebody may have meant, in brackets; nothing if none is near."""
    plain: dict[str, str] = {}
    for each in known:
        plain.setdefault(_plain(each), each)
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
