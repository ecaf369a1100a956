"""Strings of Spark in conditions."""

import re
from collections.abc import Callable

from osgt.tables.conditions.tokens import character

_ESCAPE = re.compile(r"u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7][0-7])|(.)", re.DOTALL)
_LETTERS = {
    "0": "\0",
    "b": "\b",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "Z": "\x1a",
    "%": "\\%",
    "_": "\\_",
}


def spark_string(*, backslashes: bool, double_quotes: bool) -> Callable[[str, int], tuple[str, int] | None]:
    """Strings of Spark: '…', "…" and r'…'. The settings say what backslashes and double quotes mean."""

    def string(text: str, at: int) -> tuple[str, int] | None:
        raw = text[at] in "rR" and text[at + 1 : at + 2] in ("'", '"')
        opening = at + 1 if raw else at
        quote = text[opening]
        if quote not in ("'", '"'):
            return None
        if quote == '"' and not double_quotes:
            raise ValueError("in this session double quotes mean names; write `name` and 'text'")
        if raw:
            end = text.find(quote, opening + 1)
            if end < 0:
                raise ValueError(f"the quote at character {opening + 1} is never closed")
            value, behind = text[opening + 1 : end], end + 1
        else:
            value, behind = _escaped(text, opening, quote, backslashes=backslashes)
        if text[behind : behind + 1] in ("'", '"'):
            raise ValueError("Spark joins strings without a gap; write \\' for a quote, or || between strings")
        return value, behind

    return string


def _escaped(text: str, at: int, quote: str, *, backslashes: bool) -> tuple[str, int]:
    value, place = "", at + 1
    while place < len(text):
        if text[place] == quote:
            return value, place + 1
        if text[place] != "\\":
            value, place = value + text[place], place + 1
            continue
        if not backslashes:
            raise ValueError("with spark.sql.parser.escapedStringLiterals a backslash may mean two things")
        escape = _ESCAPE.match(text, place + 1)
        if escape is None:
            break
        short, long, octal, other = escape.groups()
        if other is not None:
            value += _LETTERS.get(other, other)
        else:
            value += character(int(short or long, 16) if octal is None else int(octal, 8))
        place = escape.end()
    raise ValueError(f"the quote at character {at + 1} is never closed")
