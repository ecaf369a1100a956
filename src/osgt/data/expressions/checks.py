"""Check that the parts of a condition fit together, by their types: what an engine would convert row by row is refused.

Such a conversion fails for some values and not for others. Whether a release succeeds must not depend on one row.
"""

from collections.abc import Iterator

from osgt.data.expressions.dialect import Dialect
from osgt.data.expressions.growth import whole_number
from osgt.data.expressions.tree import Between, Binary, Call, Case, Extract, In, Is, Like, Node, Text, Typed, Unary

#: What the letters in a dialect's list of functions ask of an argument. Behind ? it may be left out, * repeats it.
ARGUMENTS = {
    "t": "text",
    "n": "a number",
    "d": "a date or time",
    "s": "a time",
    "b": "true or false",
    "a": "a plain value",
    "=": "of the kind of the others",
    "N": "a whole number from 0 to 1000, written out",
    "Z": "a whole number from 1 to 1000, written out",
    "W": "a whole number, written out",
    "P": "a regular expression, written out",
    "T": "text, written out",
    "F": "the name of a part of a date, written out",
}
_KINDS = {"t": ("text",), "n": ("integer", "decimal", "float"), "d": ("date", "timestamp"), "s": ("timestamp",)}
_LARGEST = 1000


def nodes_of(node: Node) -> Iterator[Node]:
    """The node and all its parts, the innermost first."""
    for part in node.parts:
        yield from nodes_of(part)
    yield node


def check_calls(root: Node, dialect: Dialect) -> None:
    """Raise unless all functions are known to look at one row alone, and have the arguments that they need."""
    for node in nodes_of(root):
        if isinstance(node, Call):
            if node.name not in dialect.functions:
                raise ValueError(
                    f"the function {node.name!r} is not known to look at one row alone on {dialect.engine}; "
                    "compute it before the rows are handed over"
                )
            _letters(node, dialect)
        elif isinstance(node, Extract):
            _check_field(node.field, dialect)
        elif isinstance(node, Like):
            _check_like(node, dialect)


def check_types(root: Node, dialect: Dialect) -> None:
    """Raise unless every part has operands of kinds that go together."""
    for node in nodes_of(root):
        _check(node, dialect)


def _check_plain(node: Node, dialect: Dialect) -> None:
    """Raise if a value of which nothing is known is used for more than IS NULL."""
    for part in () if isinstance(node, Is) else node.parts:
        if dialect.kind(part) == "other":
            name = dialect.types[part].name.lower()
            raise TypeError(f"values of type {name} can only be tested with IS NULL; use a view that casts them")


def _check(node: Node, dialect: Dialect) -> None:
    _check_plain(node, dialect)
    if isinstance(node, Binary | Unary):
        _check_operator(node, dialect)
    elif isinstance(node, Like):
        _one_of(node.operator, node.value, ("text",), dialect)
    elif isinstance(node, In | Between):
        _alike(node.parts, dialect)
    elif isinstance(node, Is) and node.what in ("TRUE", "FALSE", "UNKNOWN"):
        _booleans("IS", (node.value,), dialect)
    elif isinstance(node, Case):
        _booleans("WHEN", tuple(test for test, _ in node.branches), dialect)
        _alike((*(value for _, value in node.branches), node.otherwise), dialect)
    elif isinstance(node, Extract):
        _one_of("EXTRACT", node.value, _KINDS["d"], dialect)
    elif isinstance(node, Call):
        _check_arguments(node, dialect)


def _check_operator(node: Binary | Unary, dialect: Dialect) -> None:
    """Raise unless an operator has operands of the kinds that it needs."""
    if node.operator in ("NOT", "AND", "OR"):
        _booleans(node.operator, node.parts, dialect)
    elif isinstance(node, Unary):
        _one_of(node.operator, node.value, _KINDS["n"], dialect)
    elif node.operator in ("RLIKE", *dialect.grammar.matches):
        _one_of(node.operator, node.left, ("text",), dialect)
        if not isinstance(node.right, Text):
            raise ValueError("a regular expression must be written out")
    elif node.operator in ("+", "-", "*", "/", "%", "//", "^"):
        _check_arithmetic(node, dialect)
    elif node.operator != "||":
        _alike((node.left, node.right), dialect)


def _check_arithmetic(node: Binary, dialect: Dialect) -> None:
    """Raise unless arithmetic is about numbers, or about dates to which a length of time is added."""
    if dialect.kind(node.left) not in _KINDS["d"]:
        for part in (node.left, node.right):
            _one_of(node.operator, part, _KINDS["n"], dialect)
        return
    if node.operator not in ("+", "-"):
        raise TypeError(f"{node.operator} is for numbers")
    time = isinstance(node.right, Typed) or (node.operator == "-" and dialect.kind(node.right) in _KINDS["d"])
    if not time and not (dialect.kind(node.left) == "date" and whole_number(node.right) is not None):
        raise TypeError("to a date, add INTERVAL '…' or a whole number of days, written out")


def _booleans(what: str, parts: tuple[Node, ...], dialect: Dialect) -> None:
    for part in parts:
        _one_of(what, part, ("boolean",), dialect)


def _one_of(what: str, node: Node, kinds: tuple[str, ...], dialect: Dialect) -> None:
    if dialect.kind(node) not in (*kinds, "null"):
        needed = "true or false" if kinds == ("boolean",) else " or ".join(kinds)
        raise TypeError(
            f"{what} needs {needed}, got {dialect.types[node].name.lower()}; compare it with something or cast it"
        )


def _alike(parts: tuple[Node, ...], dialect: Dialect) -> None:
    """Raise unless the parts can be compared without converting text row by row. Strings fit to what is not text."""
    families = {dialect.types[part].family for part in parts if not isinstance(part, Text)} - {"null"}
    if len(families) > 1:
        names = sorted({dialect.types[part].name.lower() for part in parts if dialect.kind(part) != "null"})
        raise TypeError(f"{' and '.join(names)} cannot be compared; cast one of them")


# Functions


def _letters(node: Call, dialect: Dialect) -> str:
    """The letter of each argument."""
    spec = dialect.functions[node.name]
    needed, _, optional = spec.rstrip("*").partition("?")
    letters = needed + optional
    given = len(node.arguments)
    if spec.endswith("*") and given > len(letters):
        letters += letters[-1] * (given - len(letters))
    if not len(needed) <= given <= len(letters):
        raise ValueError(f"the function {node.name!r} takes {_words(needed, optional)}, got {given} arguments")
    for letter, argument in zip(letters, node.arguments, strict=False):
        if not _is_written(letter, argument, dialect):
            raise ValueError(f"the function {node.name!r} takes {_words(needed, optional)}")
    return letters[:given]


def _words(needed: str, optional: str) -> str:
    words = [ARGUMENTS[letter] for letter in needed] + [f"perhaps {ARGUMENTS[letter]}" for letter in optional]
    return "; ".join(words) or "nothing"


def _is_written(letter: str, node: Node, dialect: Dialect) -> bool:
    """Whether an argument that must be written out is."""
    if letter == "F":
        if isinstance(node, Text):
            _check_field(node.value.upper(), dialect)
        return isinstance(node, Text)
    if letter in "PT":
        return isinstance(node, Text)
    if letter == "W":
        return whole_number(node) is not None
    if letter in "NZ":
        number = whole_number(node)
        return number is not None and (letter == "N" or number >= 1) and 0 <= number <= _LARGEST
    return True


def _check_arguments(node: Call, dialect: Dialect) -> None:
    letters = _letters(node, dialect)
    for letter, argument in zip(letters, node.arguments, strict=True):
        if letter in _KINDS:
            _one_of(node.name, argument, _KINDS[letter], dialect)
        elif letter == "b":
            _booleans(node.name, (argument,), dialect)
    _alike(tuple(node.arguments[i] for i, letter in enumerate(letters) if letter == "="), dialect)


def _check_field(field: str, dialect: Dialect) -> None:
    if field not in dialect.fields:
        raise ValueError(f"{field.lower()!r} is not a part of a date; use {', '.join(sorted(dialect.fields)).lower()}")


def _check_like(node: Like, dialect: Dialect) -> None:
    if node.escape is not None and len(node.escape) != 1:
        raise ValueError("ESCAPE must be followed by one character")
    escape = node.escape or dialect.like_escape
    if escape is None:
        return
    at = 0
    while at < len(node.pattern):
        if node.pattern[at] == escape:
            at += 1
            following = node.pattern[at : at + 1]
            if not following or (dialect.like_strict and following not in ("%", "_", escape)):
                raise ValueError(f"in a pattern of LIKE {escape!r} must stand before %, _ or itself")
        at += 1
