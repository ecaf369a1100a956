"""Functions that make text longer many times over: how long a text may be before they are used.

Nested, a few of them turn one word into gigabytes, which is an error on every engine: whether a release fails would
depend on one row.
"""

from osgt.tables.conditions.tree import Call, Cast, Node, Number, Text, Unary

#: Bytes of the longest text that such a function may give.
_LONGEST = 1_000_000

#: Bytes of two texts whose product is within that.
_ROOT = 1_000


def longest(node: Call) -> list[tuple[Node, int]]:
    """The arguments of a function that makes text longer, each with the most bytes that it may have."""
    if node.name == "repeat":
        return [(node.arguments[0], _LONGEST // max(whole_number(node.arguments[1]) or 0, 1))]
    if node.name == "replace":
        text, _, new = node.arguments
        if not isinstance(new, Text):
            return [(text, _ROOT), (new, _ROOT)]
        return [(text, _LONGEST // max(len(new.value.encode()), 1))]
    if node.name == "regexp_replace":
        text, _, new, *_ = node.arguments
        # There may be a match before every byte; what it puts in may name the match itself at every second byte.
        return [(text, _LONGEST // (2 * len(new.value.encode()) + 2))] if isinstance(new, Text) else [(text, _ROOT)]
    return []


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
