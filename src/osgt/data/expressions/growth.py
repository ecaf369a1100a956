"""The limit on the text that an expression makes from one row: the same on every engine, proved before a row is read.

Without a limit a few words of an expression turn one letter into gigabytes, and whether a release succeeds would depend
on one row. Measuring each text once it is made would come too late, and measuring before each step would name every
part twice, and the parts of it four times. So it is the columns that are measured. For each operation that makes text
there is a formula for the longest text that it can give, which grows with the lengths of the texts that go into it.
From these follows, for the whole expression, how long the texts of its columns may be so that all texts that it makes
from a row have `LONGEST` bytes together, at the most. Where the text of a column is longer, it counts as missing.

That this holds is seen from the leaves to the root. A text that is written out has the length that it has; a column is
missing or within its limit; and if the texts that go into an operation are within their bounds, what comes out is
within the one that its formula gives. What only compares or measures texts, or chooses one of them, makes none, and
sees the columns as they are. What reads a text in another way, as a regular expression does, gets one of at most
`LONGEST` bytes.
"""

from collections.abc import Callable

from osgt.data.expressions.syntax import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    In,
    Is,
    Limited,
    Node,
    Number,
    Text,
    Unary,
    by_name,
    change_parts,
)
from osgt.support.numeric import first_that_fits

#: Bytes of all texts together that an expression may make from one row. DuckDB computes them for 2,048 rows at a time
#: in each thread, which may all be one person's: that is 200 MB.
LONGEST = 100_000

#: No number, date or truth value is longer than this as text.
_PLAIN = 400

#: Bytes of a character, and of what becomes of a byte in upper or lower case: the two of U+0390 become six.
_CHARACTER, _CASE = 4, 3

#: Bytes of what a character in the format of a date becomes.
_PART_OF_DATE = 64

#: Numbers end here: all that matters is that they are above `LONGEST`.
_ENDLESS = 10**12

_COMPARISONS = frozenset({"=", "<>", "<", "<=", ">", ">=", "<=>", "IS DISTINCT FROM", "AND", "OR"})
_MEASURES = frozenset({"length", "char_length", "character_length", "octet_length", "strlen"})
_CHOICES = frozenset({"coalesce", "ifnull", "nvl", "nullif", "if", "greatest", "least"})


def limit_texts(tree: Node, kind: Callable[[Node], str]) -> tuple[Node, dict[Node, Node]]:
    """The tree with limits for its columns of text, and which of its nodes was which before.

    Parameters
    ----------
    kind
        The kind of a node's type; "unknown" if the engine was not asked yet.
    """
    if _bytes_made(tree, _Lengths(kind, 0)) > LONGEST:
        raise ValueError(
            f"it makes texts of more than {LONGEST:,} bytes whatever the row is; let it repeat, pad or join less"
        )
    most = first_that_fits(lambda length: _bytes_made(tree, _Lengths(kind, length)) > LONGEST, 1, LONGEST + 1) - 1
    before: dict[Node, Node] = {}

    def within(node: Node, *, used: bool) -> Node:
        if isinstance(node, Column):
            before[node] = node
            result: Node = Limited(node, most) if used and kind(node) == "text" else node
        elif isinstance(node, Case):
            branches = [(within(test, used=False), within(value, used=used)) for test, value in node.branches]
            result = Case(tuple(branches), within(node.otherwise, used=used))
        else:
            inside = used if _chooses(node) else not _compares(node)
            result = change_parts(node, lambda part: within(part, used=inside))
        before[result] = node
        return result

    return within(tree, used=False), before


def _chooses(node: Node) -> bool:
    return isinstance(node, Case) or (isinstance(node, Call) and node.name in _CHOICES)


def _compares(node: Node) -> bool:
    return (
        isinstance(node, In | Between | Is)
        or (isinstance(node, Binary) and node.operator in _COMPARISONS)
        or (isinstance(node, Unary) and node.operator == "NOT")
        or (isinstance(node, Call) and node.name in _MEASURES)
    )


def _bytes_made(node: Node, lengths: "_Lengths") -> int:
    """Bytes of all texts that are made at a node and below it."""
    makes = not _chooses(node) and not isinstance(node, Text | Column)
    return (lengths.of(node) if makes else 0) + sum(_bytes_made(part, lengths) for part in node.parts)


class _Lengths:
    """Bytes of the longest text of every node, if those of columns have `most` at the most."""

    def __init__(self, kind: Callable[[Node], str], most: int) -> None:
        self.kind, self.most = kind, most
        self.known: dict[Node, int] = {}

    def of(self, node: Node) -> int:
        """The bytes of a node; 0 of what is no text."""
        if node not in self.known:
            self.known[node] = min(self._of(node), _ENDLESS)
        return self.known[node]

    def shown(self, node: Node) -> int:
        """The bytes of a node as text, whatever it is."""
        return self.of(node) if self.kind(node) in ("text", "null", "unknown") else _PLAIN

    def _of(self, node: Node) -> int:
        if isinstance(node, Text):
            return len(node.value.encode())
        if isinstance(node, Column):
            return self.most if self.kind(node) == "text" else 0
        if isinstance(node, Case):
            return max(self.of(value) for value in (*(value for _, value in node.branches), node.otherwise))
        if isinstance(node, Call):
            return self._called(node)
        if isinstance(node, Cast) and self.kind(node) in ("text", "unknown"):
            return self.shown(node.value)
        joins = isinstance(node, Binary) and node.operator == "||"
        return sum(self.shown(part) for part in node.parts) if joins else 0

    def _called(self, node: Call) -> int:
        if node.name in _CHOICES:
            return max(self.of(argument) for argument in node.arguments)
        return FORMULAS[node.name](self, *node.arguments) if node.name in FORMULAS else 0


def whole_number(node: Node) -> int | None:
    """The whole number that is written."""
    if isinstance(node, Unary) and node.operator in "+-" and isinstance(node.value, Number):
        number = whole_number(node.value)
        return number if number is None or node.operator == "+" else -number
    if isinstance(node, Cast):
        return whole_number(node.value)
    if isinstance(node, Number) and node.text.isdigit() and len(node.text) <= 7:
        return int(node.text)
    return None


# Functions


def _as_it_is(lengths: _Lengths, text: Node, *_: Node) -> int:
    return lengths.of(text)


def _in_case(lengths: _Lengths, text: Node) -> int:
    return _CASE * lengths.of(text)


def _part(lengths: _Lengths, text: Node, *places: Node) -> int:
    """Characters of a text: the last argument says how many, if it is written out and no less than 0."""
    characters = whole_number(places[-1])
    return lengths.of(text) if characters is None or characters < 0 else min(lengths.of(text), _CHARACTER * characters)


def _from_a_place(lengths: _Lengths, text: Node, *places: Node) -> int:
    return _part(lengths, text, *places) if len(places) == 2 else lengths.of(text)


def _pad(lengths: _Lengths, text: Node, characters: Node, *_: Node) -> int:
    return _CHARACTER * (whole_number(characters) or 0)


def _repeat(lengths: _Lengths, text: Node, times: Node) -> int:
    return lengths.of(text) * (whole_number(times) or 0)


def _translate(lengths: _Lengths, text: Node, *_: Node) -> int:
    return _CHARACTER * lengths.of(text)


def _join(lengths: _Lengths, *parts: Node) -> int:
    return sum(lengths.shown(part) for part in parts)


def _join_with(lengths: _Lengths, separator: Node, *parts: Node) -> int:
    return _join(lengths, *parts) + len(parts) * lengths.of(separator)


def _replace(lengths: _Lengths, text: Node, old: Node, new: Node) -> int:
    """Bound a replacement: an empty text is not replaced; any other is there as often as it fits into the whole."""
    whole, shortest = lengths.of(text), max(lengths.of(old), 1) if isinstance(old, Text) else 1
    return whole + whole // shortest * lengths.of(new)


def _replace_matches(lengths: _Lengths, text: Node, pattern: Node, new: Node, *_: Node) -> int:
    """Bound a replacement of matches: there may be one before each byte and at the end.

    What is put in names the match, or a group in it, at most as often as it has characters that do so. Matches do not
    overlap, so that together they are no longer than the whole text; a group that looks ahead of its match may be.
    """
    whole = lengths.of(text)
    named = sum(new.value.count(character) for character in "\\$") if isinstance(new, Text) else 0
    looks = isinstance(pattern, Text) and "(?" in pattern.value
    return whole + (whole + 1) * lengths.of(new) + named * whole * (whole + 1 if looks else 1)


def _format(lengths: _Lengths, _: Node, form: Node) -> int:
    return _PART_OF_DATE * (lengths.of(form) + 1)


def _short(lengths: _Lengths, *_: Node) -> int:
    return _PLAIN


#: The longest text that a function gives, for all functions of all engines that give text.
FORMULAS: dict[str, Callable[..., int]] = by_name(
    {
        _as_it_is: "trim btrim ltrim rtrim reverse array_slice split_part regexp_extract",
        _in_case: "lower upper lcase ucase initcap",
        _part: "left right",
        _from_a_place: "substring substr",
        _pad: "lpad rpad",
        _repeat: "repeat",
        _translate: "translate",
        _join: "concat",
        _join_with: "concat_ws",
        _replace: "replace",
        _replace_matches: "regexp_replace",
        _format: "strftime to_char date_format",
        _short: "md5 monthname dayname",
    }
)
