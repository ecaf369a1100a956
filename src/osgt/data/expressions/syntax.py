"""The syntax of conditions: tokens, told apart exactly as each engine does, and the tree that is made of them.

Where a string ends decides what is code and what is text. What an engine would read in another way, or in a way that
depends on its settings, is refused rather than guessed. After this, strings are values: nothing that a user wrote
between quotes reaches the engine as it was written.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeVar

_Common = TypeVar("_Common")


def by_name(names: Mapping[_Common, str]) -> dict[str, _Common]:
    """Invert a mapping from what names have in common to the names."""
    return {name: common for common, listed in names.items() for name in listed.split()}


Kind = Literal["word", "name", "string", "number", "operator", "end"]


@dataclass(frozen=True)
class Token:
    """A piece of a condition. A word is written without quotes, a name with those of identifiers."""

    kind: Kind
    value: str
    at: int


@dataclass(frozen=True)
class Lexicon:
    """The rules by which an engine reads text: its quotes, strings, numbers and operators."""

    #: The quote around names.
    quote: str
    #: Reads the string that begins at a place: its value and the place behind it, None if none begins there.
    string: Callable[[str, int], tuple[str, int] | None]
    operators: frozenset[str]
    number: re.Pattern[str]
    #: What runs together into one operator: everything, or the longest that is known.
    runs_together: bool


_SPACE = " \t\r\n"
_SYMBOLS = "+-*/<>=~!@#%^&|`?:"
_WORD = re.compile(r"[^\W\d]\w*")
_COMMENT = re.compile(r"--[^\r\n]*")
_BLOCK = re.compile(r"/\*((?!/\*|\*/).)*\*/", re.DOTALL)


def tokens(text: str, lexicon: Lexicon, marks: str = "(),") -> list[Token]:
    """The tokens of a condition, an end after the last. `marks` are characters that are tokens by themselves."""
    result = []
    at = 0
    if "\0" in text:
        raise ValueError("it must not hold a null character")
    while at < len(text):
        if text[at] in _SPACE:
            at += 1
            continue
        token, at = _comment(text, at) or _token(text, at, lexicon, marks)
        if token is not None:
            result.append(token)
    return [*result, Token("end", "", len(text))]


def _comment(text: str, at: int) -> tuple[None, int] | None:
    if text.startswith("--", at):
        match = _COMMENT.match(text, at)
        if match is None or match[0].endswith("\\"):
            raise ValueError("a comment must not end with a backslash")
        return None, match.end()
    if text.startswith("/*", at):
        match = _BLOCK.match(text, at)
        if match is None:
            raise ValueError("a comment /* … */ must end, and must not hold another one")
        return None, match.end()
    return None


def _token(text: str, at: int, lexicon: Lexicon, marks: str) -> tuple[Token, int]:
    string = lexicon.string(text, at)
    if string is not None:
        value, behind = string
        if "\0" in value:
            raise ValueError("a string must not hold a null character")
        return Token("string", value, at), behind
    if text[at] == lexicon.quote:
        return _name(text, at, lexicon.quote)
    word = _WORD.match(text, at)
    if word is not None:
        behind = word.end()
        if text[behind : behind + 1] in ("$", "#", "@"):
            raise unexpected(text, behind)
        if text[behind : behind + 1] in ("'", '"') and word[0].upper() not in ("DATE", "TIMESTAMP", "INTERVAL"):
            raise ValueError(f"a string with the prefix {word[0]!r} is not read; write it without the prefix")
        return Token("word", word[0], at), behind
    number = lexicon.number.match(text, at)
    if number is not None:
        behind = number.end()
        if re.match(r"[\w.$]", text[behind : behind + 1]):
            raise ValueError(f"{text[at : behind + 1]!r} is not a number that every version reads alike")
        return Token("number", number[0], at), behind
    if text[at] in marks:
        return Token("operator", text[at], at), at + 1
    return _operator(text, at, lexicon)


def _name(text: str, at: int, quote: str) -> tuple[Token, int]:
    value, behind = read_quoted(text, at, quote)
    if not value:
        raise unexpected(text, at)
    return Token("name", value, at), behind


def _operator(text: str, at: int, lexicon: Lexicon) -> tuple[Token, int]:
    behind = at
    while behind < len(text) and text[behind] in _SYMBOLS and not text.startswith(("--", "/*"), behind):
        behind += 1
    run = text[at:behind]
    if not lexicon.runs_together:
        # The longest operator that there is.
        while run and run not in lexicon.operators:
            run = run[:-1]
    elif len(run) > 1 and run[-1] in "+-" and not set(run) & set("~!@#%^&|`?"):
        # A sign is no part of the operators + - * / < > = before it.
        run = run[:-1]
    if run not in lexicon.operators:
        raise unexpected(text, at)
    return Token("operator", run, at), at + len(run)


def read_quoted(text: str, at: int, quote: str) -> tuple[str, int]:
    """Read a text between quotes in which a doubled quote stands for one."""
    value, place = "", at + 1
    while True:
        end = text.find(quote, place)
        if end < 0:
            raise ValueError(f"the quote at character {at + 1} is never closed")
        value += text[place:end]
        if text[end + 1 : end + 2] != quote:
            return value, end + 1
        value, place = value + quote, end + 2


def unexpected(text: str, at: int) -> ValueError:
    """The error for something that no condition has at this place."""
    result = repr(text[at]) if at < len(text) else "the end"
    return ValueError(f"did not expect {result} at character {at + 1} of {text!r}")


# Strings


_DOLLAR = re.compile(r"\$([^\W\d]\w*)?\$")
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def standard_string(*, unicode_escapes: bool, backslashes: bool = True) -> Callable[[str, int], tuple[str, int] | None]:
    """Strings of engines that follow the standard: '…', E'…' and $$…$$.

    `unicode_escapes` says whether E'\\u0041' is read, `backslashes` whether a plain string may hold a backslash.
    """

    def string(text: str, at: int) -> tuple[str, int] | None:
        if text[at] == "'":
            value, behind = read_quoted(text, at, "'")
            if "\\" in value and not backslashes:
                raise ValueError("with standard_conforming_strings = off a backslash may mean two things; write E'…'")
            return value, behind
        if text[at] in "eE" and text[at + 1 : at + 2] == "'":
            return _read_escaped(text, at + 1, unicode_escapes=unicode_escapes)
        if text[at] == "$":
            opening = _DOLLAR.match(text, at)
            if opening is None:
                raise ValueError("parameters such as $1 have no value here")
            end = text.find(opening[0], opening.end())
            if end < 0:
                raise ValueError(f"the quote {opening[0]} is never closed")
            return text[opening.end() : end], end + len(opening[0])
        return None

    return string


_STANDARD_ESCAPE = re.compile(r"x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)", re.DOTALL)


def _read_escaped(text: str, at: int, *, unicode_escapes: bool) -> tuple[str, int]:
    value, place = "", at + 1
    while place < len(text):
        if text[place] == "'":
            if text[place + 1 : place + 2] != "'":
                return value, place + 1
            value, place = value + "'", place + 2
        elif text[place] == "\\":
            escape = _STANDARD_ESCAPE.match(text, place + 1)
            if escape is None:
                break
            value += _standard_character(escape, unicode_escapes=unicode_escapes)
            place = escape.end()
        else:
            value, place = value + text[place], place + 1
    raise ValueError(f"the quote at character {at + 1} is never closed")


def _standard_character(escape: re.Match[str], *, unicode_escapes: bool) -> str:
    hexadecimal, octal, short, long, other = escape.groups()
    if other is not None:
        if other in "uU":
            raise ValueError(f"\\{other} must be followed by {4 if other == 'u' else 8} hexadecimal digits")
        return _LETTERS.get(other, other)
    if short or long:
        if not unicode_escapes:
            raise ValueError("this engine does not read \\u in strings; write the character itself")
        return character(int(short or long, 16))
    code = int(hexadecimal, 16) if hexadecimal else int(octal, 8)
    if code > 127:
        raise ValueError(f"\\{escape[0]} is a byte and no character; write the character itself")
    return chr(code)


def character(code: int) -> str:
    """The character with this number."""
    if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
        raise ValueError("a character beyond \\uFFFF is written as itself")
    return chr(code)


@dataclass(frozen=True)
class Node:
    """A part of a condition."""

    @property
    def parts(self) -> tuple["Node", ...]:
        """The nodes that it is made of."""
        result: list[Node] = []
        for field in fields(self):
            value = getattr(self, field.name)
            result += _nodes(value)
        return tuple(result)


def _nodes(value: object) -> list[Node]:
    if isinstance(value, Node):
        return [value]
    return [node for item in value for node in _nodes(item)] if isinstance(value, tuple) else []


def change_parts(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with each of its parts changed."""

    def inside(value: Any) -> Any:
        if isinstance(value, Node):
            return change(value)
        return tuple(inside(item) for item in value) if isinstance(value, tuple) else value

    return replace(node, **{field.name: inside(getattr(node, field.name)) for field in fields(node)})


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node changed, the innermost first."""
    return change(change_parts(node, lambda part: rebuild(part, change)))


@dataclass(frozen=True)
class Text(Node):
    """A string."""

    value: str


@dataclass(frozen=True)
class Number(Node):
    """A number as it is written: digits, a point, an exponent."""

    text: str


@dataclass(frozen=True)
class Word(Node):
    """TRUE, FALSE, NULL, CURRENT_DATE or CURRENT_TIMESTAMP."""

    word: str


@dataclass(frozen=True)
class Typed(Node):
    """DATE '…', TIMESTAMP '…' or INTERVAL '…', the last perhaps with a unit."""

    type: str
    value: str
    unit: str = ""


@dataclass(frozen=True)
class Column(Node):
    """A column, by its own name."""

    name: str


@dataclass(frozen=True)
class Limited(Node):
    """A column of text; NULL where it has more bytes than `most`."""

    value: Column
    most: int


@dataclass(frozen=True)
class Call(Node):
    """A function, by its lower-case name."""

    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True)
class Cast(Node):
    """A value as another type; `tolerant` if it is NULL where that cannot be."""

    value: Node
    type: str
    tolerant: bool


@dataclass(frozen=True)
class Unary(Node):
    """NOT, + or - before a value."""

    operator: str
    value: Node


@dataclass(frozen=True)
class Binary(Node):
    """Two values and what stands between them."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class In(Node):
    """A value among others."""

    value: Node
    options: tuple[Node, ...]


@dataclass(frozen=True)
class Between(Node):
    """A value between two others."""

    value: Node
    low: Node
    high: Node


@dataclass(frozen=True)
class Like(Node):
    """LIKE or ILIKE with a pattern that is written out."""

    operator: str
    value: Node
    pattern: str
    escape: str | None


@dataclass(frozen=True)
class Is(Node):
    """IS NULL, IS TRUE, IS FALSE or IS UNKNOWN."""

    value: Node
    what: str


@dataclass(frozen=True)
class Case(Node):
    """CASE WHEN … THEN … ELSE … END."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


@dataclass(frozen=True)
class Extract(Node):
    """EXTRACT(field FROM value)."""

    field: str
    value: Node
