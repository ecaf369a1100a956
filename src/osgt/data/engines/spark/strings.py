"""Strings and regular expressions of Spark in conditions: patterns that a long text makes fail are refused.

Java goes one call deeper each time that it repeats a group, and a text of a few thousand characters ends in a stack
overflow: whether a release fails would depend on one row. So it is with characters that are repeated up to a number of
times, if some have one and some two of Java's units. All others are repeated without that, and a few repetitions do no
harm. Patterns that are written so that groups are hard to tell are refused too.
"""

import re
from collections.abc import Callable

from osgt.data.expressions.tokens import character

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
_PLAIN = re.compile(r"[ -~]*")


def string_literal(value: str) -> str:
    """A string in SQL that is read in one way, whatever the settings."""
    if _PLAIN.fullmatch(value) and not set(value) & set("'\\$"):
        return f"'{value}'"
    # Backslashes, quotes and ${…} mean different things under different settings; bytes do not.
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


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
            value, behind = _read_escaped(text, opening, quote, backslashes=backslashes)
        if text[behind : behind + 1] in ("'", '"'):
            raise ValueError("Spark joins strings without a gap; write \\' for a quote, or || between strings")
        return value, behind

    return string


def _read_escaped(text: str, at: int, quote: str, *, backslashes: bool) -> tuple[str, int]:
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


# Regular expressions

#: The most repetitions of a group, and of a character if there is a most.
_MOST, _MOST_CHARACTERS = 10, 1000

#: A pattern in pieces: an escaped character, a class, the beginning of a group, or any other character.
_PIECE = re.compile(r"\\.|\[(?!\^?\])(?:\\.|[^\[\]\\])+\]|\((?:\?(?:<?[=!]|[:>]|<\w+>|[idmsuU-]+:?))?|.", re.DOTALL)
_BRACES = re.compile(r"\{(\d+)(?:,(\d*))?\}")


def check_pattern(pattern: str) -> None:
    """Raise if a text can make Java fail with this pattern."""
    if re.search(r"\\[QERXk]|\(\?[a-zA-Z-]*x", pattern):
        raise ValueError("on Spark a regular expression must do without \\Q, \\E, \\R, \\X, \\k and the flag x")
    opened: list[bool] = []  # for each group, whether there is a repeated one in it
    inside = False  # whether there is one in the group that ended last
    ended, at = False, 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        text = piece[0] if piece else pattern[at]
        if text == "[":
            raise ValueError("on Spark the [ and ] within a class of a regular expression must be written \\[ and \\]")
        most, behind = _repetitions(pattern, at)
        if behind > at:
            _check_repetition(most, group=ended, nested=inside)
            if ended:
                _note(opened, repeated=most > 1)
            # Braces behind braces would repeat what is repeated.
            inside, ended = True, ended and pattern[at] == "{"
            at = behind
            continue
        ended = text == ")"
        if text.startswith("(") and not re.fullmatch(r"\(\?[a-zA-Z-]+", text):
            opened.append(False)
        elif ended and opened:
            inside = opened.pop()
            _note(opened, repeated=inside)
        at += len(text)


def _note(opened: list[bool], *, repeated: bool) -> None:
    """Note in the innermost group that is open whether there is a repeated one in it."""
    if opened:
        opened[-1] = opened[-1] or repeated


def _repetitions(pattern: str, at: int) -> tuple[float, int]:
    """Read a repetition: the most times that what stands before is repeated, and the place behind."""
    if pattern[at] in "*+?":
        return (1 if pattern[at] == "?" else float("inf")), at + 1
    braces = _BRACES.match(pattern, at)
    if braces is None:
        return 1, at
    low, high = braces.groups()
    return (int(low) if high is None else float("inf") if high == "" else int(high)), braces.end()


def _check_repetition(most: float, *, group: bool, nested: bool) -> None:
    if not group and _MOST_CHARACTERS < most < float("inf"):
        raise ValueError(f"on Spark a character may be repeated up to {_MOST_CHARACTERS:,} times; write {{2,}} or *")
    if group and most > 1 and (most > _MOST or nested):
        raise ValueError(
            f"on Spark a group of a regular expression may be repeated by {{…}}, up to {_MOST} times, with no other "
            "repeated group in it: for long texts Java fails. Repeat a character or a class such as [ab]*"
        )
