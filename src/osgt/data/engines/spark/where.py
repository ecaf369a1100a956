"""Conditions on Spark.

In its ANSI mode, the default, operations fail where a value allows no answer; each has a form that gives NULL instead.
Without that mode they give NULL or an answer by themselves, and are left as they are.

Patterns that a long text makes fail are refused.
Java goes one call deeper each time that it repeats a group, and a text of a few thousand characters ends in a stack
overflow: whether a release fails would depend on one row. So it is with characters that are repeated up to a number of
times, if some have one and some two of Java's units. All others are repeated without that, and a few repetitions do no
harm. Patterns that are written so that groups are hard to tell are refused too.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

from osgt.data.expressions.dialect import FIELDS, Dialect
from osgt.data.expressions.grammar import Grammar
from osgt.data.expressions.syntax import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    In,
    Lexicon,
    Like,
    Node,
    Number,
    Text,
    Typed,
    Unary,
    Word,
    by_name,
    character,
)

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


_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"})
_TYPES = by_name(
    {
        "BOOLEAN": "boolean",
        "TINYINT": "tinyint byte",
        "SMALLINT": "smallint short",
        "INT": "int integer",
        "BIGINT": "bigint long",
        "DECIMAL": "decimal dec numeric",
        "FLOAT": "float real",
        "DOUBLE": "double",
        "STRING": "string",
        "DATE": "date",
        "TIMESTAMP": "timestamp",
        "TIMESTAMP_NTZ": "timestamp_ntz",
    }
)
#: Digits of whole numbers when they become decimals.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MOST_DIGITS = 38
_TRIED = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}

#: The functions that see nothing but their arguments.
_FUNCTIONS = by_name(
    {
        "n": "abs ceil ceiling floor sign signum sqrt cbrt ln log10 log2 exp isnan",
        "n?N": "round",
        "n?n": "log",
        "nn": "power pow mod",
        "==*": "greatest least coalesce",
        "==": "nullif ifnull nvl",
        "b==": "if",
        "a": "isnull isnotnull",
        "t": "lower upper lcase ucase initcap length char_length character_length trim ltrim rtrim reverse ascii md5 "
        "to_date to_timestamp try_to_timestamp",
        "t?t": "btrim",
        "tn": "left right",
        "tn?n": "substring substr",
        "tt": "contains startswith endswith instr locate position",
        "ttt": "replace translate",
        "aa*": "concat",
        "taa*": "concat_ws",
        "tN?t": "lpad rpad",
        "tN": "repeat",
        "tP": "regexp_like rlike regexp",
        "tPT": "regexp_replace",
        "tP?N": "regexp_extract",
        "d": "year quarter month day dayofmonth dayofweek weekday dayofyear weekofyear last_day",
        "s": "hour minute second",
        "Fd": "date_trunc",
        "dN": "date_add date_sub dateadd",
        "dd": "datediff date_diff",
        "dT": "date_format",
        "WWW": "make_date",
        "": "now",
    }
)


class SparkWhere(Dialect):
    """The forms of operations that do not fail."""

    engine = "Spark"
    like_strict = True
    grammar = Grammar(
        concat_beside_plus=True,
        comparisons=_COMPARISONS,
        products=frozenset({"*", "/", "%"}),
        powers=frozenset(),
        matches=frozenset(),
        likes=frozenset({"LIKE", "ILIKE", "RLIKE", "REGEXP"}),
        types=_TYPES,
    )
    fields = FIELDS - {"ISODOW", "ISOYEAR", "EPOCH", "DECADE", "CENTURY", "MILLENNIUM"}
    functions = _FUNCTIONS
    with_nan: ClassVar = {"float": "DOUBLE"}

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.ansi = self._setting("spark.sql.ansi.enabled")

    def _setting(self, name: str) -> bool:
        return bool(self.connection.conf.get(name) == "true")

    @property
    def lexicon(self) -> Lexicon:
        return Lexicon(
            quote="`",
            string=spark_string(
                backslashes=not self._setting("spark.sql.parser.escapedStringLiterals"),
                double_quotes=not self._setting("spark.sql.ansi.doubleQuotedIdentifiers"),
            ),
            operators=_COMPARISONS | {"+", "-", "*", "/", "%", "||", "::", "!"},
            number=re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?(L|S|Y|D|F|BD|l|s|y|d|f|bd)?", re.ASCII),
            runs_together=False,
        )

    def check_text(self, text: str) -> None:
        if "${" in text:
            raise ValueError("Spark replaces ${…} before it reads anything; write it in another way")

    def probes(self, node: Node) -> list[str]:
        if isinstance(node, Binary) and node.operator == "RLIKE":
            check_pattern(_value(node.right))
            return [f"('' RLIKE {self.written(node.right)})"]
        if isinstance(node, Call) and "P" in self.functions[node.name]:
            check_pattern(_value(node.arguments[1]))
            # With an empty alternative the pattern is found, and what is to be done with its groups is done.
            pattern, rest = self.written(node.arguments[1]), node.arguments[2:]
            result = f"concat('(?:', {pattern}, ')|')"
            probes = [f"('' RLIKE {pattern})"]
            if node.name in ("regexp_replace", "regexp_extract"):
                probes.append(f"{node.name}('', {', '.join([result, *(self.written(argument) for argument in rest)])})")
            return probes
        if isinstance(node, Call) and node.name == "date_format":
            return [f"date_format(TIMESTAMP '2020-01-01 00:00:00', {self.written(node.arguments[1])})"]
        if isinstance(node, Cast | Binary | In | Between):
            return self.cast_probes(node)
        return super().probes(node)

    def string(self, value: str) -> str:
        return string_literal(value)

    def shown_string(self, value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024")
        return f"'{escaped}'"

    def weekday(self, value: Node) -> Node:
        return Binary("+", Call("weekday", (value,)), Number("1"))

    def _like(self, node: Like) -> str:
        escape = "" if node.escape in (None, "\\") else f" ESCAPE '{node.escape}'"
        if node.escape in ("'", "$"):
            raise ValueError("ESCAPE must be followed by another character")
        return f"({self.written(node.value)} {node.operator} {self.string(node.pattern)}{escape})"

    def _cast(self, node: Cast) -> str:
        cast = "try_cast" if node.tolerant or (self.ansi and self.types) else "CAST"
        return f"{cast}({self.written(node.value)} AS {node.type})"

    def signed(self, node: Unary) -> str:
        text = self.written(node.value)
        if node.operator == "-" and self.ansi and self.kind(node.value) == "integer":
            return f"try_subtract(0, {text})"
        return f"({node.operator} {text})"

    def calculated(self, node: Binary) -> str:
        left, right = self.written(node.left), self.written(node.right)
        if self.ansi and node.operator in _TRIED and self.types:
            return f"{_TRIED[node.operator]}({left}, {right})"
        return f"({left} {node.operator} {right})"

    def compared(self, node: Binary) -> str:
        self._check_alike(node.parts)
        return super().compared(node)

    def _in(self, node: In) -> str:
        self._check_alike(node.parts)
        return super()._in(node)

    def _between(self, node: Between) -> str:
        self._check_alike(node.parts)
        return super()._between(node)

    def _case(self, node: Case) -> str:
        self._check_alike((*(value for _, value in node.branches), node.otherwise))
        return super()._case(node)

    def _check_alike(self, parts: tuple[Node, ...]) -> None:
        """Raise if Spark would convert a value to a type that cannot hold it."""
        if not self.types:
            return
        kinds = {self.kind(part) for part in parts}
        if any(isinstance(part, Text) for part in parts) and kinds & {"integer", "decimal", "float", "boolean"}:
            raise TypeError("write numbers and TRUE or FALSE without quotes")
        if kinds >= {"date", "timestamp"} and any(self.kind(p) == "date" and not _is_fixed(p) for p in parts):
            raise TypeError("a date and a time cannot be compared; cast one of them")
        if "decimal" in kinds and "float" not in kinds:
            self._check_digits(parts)

    def _check_digits(self, parts: tuple[Node, ...]) -> None:
        """Raise if no decimal has room for the digits of all numbers among the parts."""
        sizes = [_digits(self.types[part].name) for part in parts if self.types[part].family == "number"]
        if max(digits for digits, _ in sizes) + max(scale for _, scale in sizes) > _MOST_DIGITS:
            raise TypeError("decimals of these lengths cannot be compared; cast one of them to double")

    def _call(self, node: Call) -> str:
        arguments = [self.written(argument) for argument in node.arguments]
        if "=" in self.functions[node.name]:
            self._check_alike(tuple(a for a in node.arguments if self.kind(a) != "boolean" or node.name != "if"))
        if self.types:
            written = self._total(node, arguments)
            if written is not None:
                return written
        name = "locate" if node.name == "position" else node.name
        return f"{name}({', '.join(arguments)})"

    def size(self, text: str) -> str:
        return f"octet_length({text})"

    def _total(self, node: Call, arguments: list[str]) -> str | None:
        """The functions that can fail, in a form that does not."""
        if node.name in ("abs", "mod") and self.ansi:
            if node.name == "mod":
                return f"try_mod({', '.join(arguments)})"
            if self.kind(node.arguments[0]) == "integer":
                value = arguments[0]
                return f"(CASE WHEN {value} < 0 THEN try_subtract(0, {value}) ELSE {value} END)"
        if node.name == "to_date":
            return f"{'try_cast' if self.ansi else 'CAST'}({arguments[0]} AS DATE)"
        if node.name == "to_timestamp":
            return f"try_to_timestamp({arguments[0]})"
        if (
            node.name in ("date_trunc", "date_format")
            and self.kind(node.arguments[node.name == "date_trunc"]) == "date"
        ):
            at = int(node.name == "date_trunc")
            date = arguments[at]
            arguments[at] = f"(CASE WHEN {date} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {date} END)"
            return f"{node.name}({', '.join(arguments)})"
        return None


def _value(node: Node) -> str:
    return node.value if isinstance(node, Text) else ""


def _is_fixed(node: Node) -> bool:
    return isinstance(node, Typed | Word | Number)


def _digits(name: str) -> tuple[int, int]:
    """Digits before and behind the point."""
    if name in _DIGITS:
        return _DIGITS[name], 0
    digits, _, scale = name.removeprefix("decimal(").rstrip(")").partition(",")
    return int(digits) - int(scale), int(scale)
