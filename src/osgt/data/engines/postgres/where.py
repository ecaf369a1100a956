"""Conditions on PostgreSQL.

It has no form of an operation that gives NULL instead of an error. Each one that a value can make impossible stands
behind a test of that value; where no test is as exact as the operation itself, the operation is refused. Operators and
functions are named with their schema, so that none of a user's own is found in their place; IN, BETWEEN and the like
have no such form, and are left to the check of the catalogue before a release (`PostgreSQL.replaced`).
"""

import re
from decimal import Decimal
from typing import ClassVar

from osgt.data.engines.postgres.types import DOUBLE, KINDS, SINGLE, answers, exponential_answers, specials
from osgt.data.expressions.dialect import FIELDS, Dialect
from osgt.data.expressions.grammar import Grammar
from osgt.data.expressions.syntax import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Extract,
    In,
    Lexicon,
    Like,
    Node,
    Number,
    Text,
    Typed,
    Unary,
    by_name,
    standard_string,
)

#: By what a user may write.
TYPES = by_name(
    {
        "bool": "boolean bool",
        "int2": "smallint int2",
        "int4": "integer int int4",
        "int8": "bigint int8",
        "numeric": "numeric decimal",
        "float4": "real float4",
        "float8": "float8",
        "text": "text",
        "varchar": "varchar",
        "date": "date",
        "timestamp": "timestamp",
        "timestamptz": "timestamptz",
    }
) | {
    "double precision": "float8",
    "character varying": "varchar",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}

#: The functions that see nothing but their arguments.
FUNCTIONS = by_name(
    {
        "n": "abs ceil ceiling floor sign sqrt ln log log10 exp",
        "n?N": "round trunc",
        "nn": "mod",
        "==*": "greatest least coalesce",
        "==": "nullif",
        "t": "lower upper initcap length char_length character_length octet_length reverse md5 ascii",
        "t?t": "trim btrim ltrim rtrim",
        "tn": "left right",
        "tn?N": "substring substr",
        "tt": "starts_with strpos position",
        "ttt": "replace translate",
        "aa*": "concat",
        "taa*": "concat_ws",
        "tN?t": "lpad rpad",
        "tN": "repeat",
        "ttZ": "split_part",
        "tPT?T": "regexp_replace",
        "Fd": "date_trunc date_part",
        "dT": "to_char",
        "d": "date",
        "WWW": "make_date",
        "": "now",
    }
)


_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
_MATCHES = frozenset({"~", "~*", "!~", "!~*"})
_LARGEST = {"int2": 2**15 - 1, "int4": 2**31 - 1, "int8": 2**63 - 1}

#: Decimals with more digits than this before the point have no arithmetic: it ends in an error soon after.
_FAR = 1000

#: Digits before and behind the point of decimals that become text.
_DIGITS = 100

#: Functions that are part of the language rather than of a schema.
_BUILT_IN = frozenset({"coalesce", "nullif", "greatest", "least"})
#: Parts that a date without a time does not have.
_CLOCK = frozenset({"HOUR", "MINUTE", "SECOND"})

_SPACES = r"[ \t\n\r\v\f]*"
_WHOLE = rf"^{_SPACES}[+-]?[0-9]{{1,40}}{_SPACES}$"
_REAL = rf"^{_SPACES}[+-]?([0-9]{{1,255}}(\.[0-9]{{0,255}})?|\.[0-9]{{1,255}})([eE][+-]?[0-9]{{1,3}})?{_SPACES}$"
_NO_NUMBER = rf"^{_SPACES}([+-]?inf(inity)?|nan){_SPACES}$"


class PostgreSQLWhere(Dialect):
    """Operations behind tests."""

    engine = "PostgreSQL"
    grammar = Grammar(
        concat_beside_plus=False,
        comparisons=_COMPARISONS,
        products=frozenset({"*", "/", "%"}),
        powers=frozenset(),
        matches=_MATCHES,
        likes=frozenset({"LIKE", "ILIKE"}),
        types=TYPES,
    )
    fields = FIELDS
    with_nan: ClassVar = {"float": "float8", "decimal": "numeric"}
    functions = FUNCTIONS

    @property
    def lexicon(self) -> Lexicon:
        standard = self.connection.info.parameter_status("standard_conforming_strings") == "on"
        return Lexicon(
            quote='"',
            string=standard_string(unicode_escapes=True, backslashes=standard),
            operators=_COMPARISONS | _MATCHES | {"+", "-", "*", "/", "%", "||", "::"},
            number=re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII),
            runs_together=True,
        )

    def same_name(self, written: str, name: str, *, quoted: bool) -> bool:
        if quoted:
            return written == name
        return "".join(c.lower() if c.isascii() else c for c in written) == name

    def probes(self, node: Node) -> list[str]:
        if isinstance(node, Binary) and node.operator in _MATCHES:
            return [f"('' OPERATOR(pg_catalog.{node.operator}) {self.written(node.right)})"]
        if isinstance(node, Call) and node.name == "regexp_replace":
            return [f"pg_catalog.regexp_replace('', {self.listed(node.arguments[1:])})"]
        if isinstance(node, Call) and node.name == "to_char":
            return [f"pg_catalog.to_char(TIMESTAMP '2020-01-01', {self.written(node.arguments[1])})"]
        return super().probes(node)

    def compared(self, node: Binary) -> str:
        left, right = self._one_kind((node.left, node.right))
        if node.operator == "IS DISTINCT FROM":
            return f"({left} IS DISTINCT FROM {right})"
        return f"({left} OPERATOR(pg_catalog.{node.operator}) {right})"

    def _in(self, node: In) -> str:
        value, *options = self._one_kind(node.parts)
        return f"({value} IN ({', '.join(options)}))"

    def _between(self, node: Between) -> str:
        value, low, high = self._one_kind(node.parts)
        return f"({value} BETWEEN {low} AND {high})"

    def _one_kind(self, parts: tuple[Node, ...]) -> list[str]:
        """The parts, decimals as floats if they are to be compared with floats: not every one can become a float."""
        floats = any(self.kind(part) == "float" for part in parts)
        return [
            self._float(self.written(part)) if floats and self.kind(part) == "decimal" and not _constant(part)
            else self.written(part)
            for part in parts
        ]  # fmt: skip

    def _one_type(self, parts: tuple[Node, ...]) -> list[str]:
        """The parts of which one is chosen: dates and times become one type as well, which may not hold them."""
        times = {self._name(part) for part in parts if self.kind(part) in ("date", "timestamp")}
        target = next((name for name in ("timestamptz", "timestamp", "date") if name in times), "")
        return [
            _when(self._near(text), f"CAST({text} AS pg_catalog.{target})")
            if self._name(part) in times - {target} else text
            for part, text in zip(parts, self._one_kind(parts), strict=True)
        ]  # fmt: skip

    def _case(self, node: Case) -> str:
        *values, otherwise = self._one_type((*(value for _, value in node.branches), node.otherwise))
        tests = [self.written(test) for test, _ in node.branches]
        branches = " ".join(f"WHEN {test} THEN {value}" for test, value in zip(tests, values, strict=True))
        return f"(CASE {branches} ELSE {otherwise} END)"

    def _like(self, node: Like) -> str:
        operator = "~~" if node.operator == "LIKE" else "~~*"
        pattern = self.string(node.pattern)
        if node.escape is not None:
            pattern = f"pg_catalog.like_escape({pattern}, {self.string(node.escape)})"
        return f"({self.written(node.value)} OPERATOR(pg_catalog.{operator}) {pattern})"

    def _extract(self, node: Extract) -> str:
        return self._part_of_date("extract", node.field, node.value)

    def _part_of_date(self, name: str, field: str, value: Node) -> str:
        if self.kind(value) == "date" and name != "date_trunc" and field in _CLOCK:
            raise ValueError(f"a date has no {field.lower()}")
        text = self.written(value)
        return _when(self._near(text), f"pg_catalog.{name}('{field.lower()}', {text})")

    # Numbers

    def signed(self, node: Unary) -> str:
        text = self.written(node.value)
        signed = f"(OPERATOR(pg_catalog.{node.operator}) {text})"
        largest = _LARGEST.get(self._name(node.value))
        if largest is None or node.operator == "+":
            return signed
        return _when(f"{text} >= {-largest}", signed)

    def calculated(self, node: Binary) -> str:
        if node.operator == "||":
            return f"({self._in_a_text(node.left)} OPERATOR(pg_catalog.||) {self._in_a_text(node.right)})"
        left, right = self.written(node.left), self.written(node.right)
        if not self.types:
            return f"({left} OPERATOR(pg_catalog.{node.operator}) {right})"
        if self.kind(node.left) in ("date", "timestamp"):
            return self._date_sum(node, left, right)
        return self._arithmetic(node.operator, node.left, node.right)

    def _arithmetic(self, operator: str, first: Node, second: Node) -> str:
        left, right = self.written(first), self.written(second)
        kinds = {self.kind(first), self.kind(second)}
        if "float" in kinds:
            return self._floats(operator, first, second)
        result = f"({left} OPERATOR(pg_catalog.{operator}) {right})"
        if "decimal" in kinds:
            sides = ((left, first), (right, second))
            tests = [
                _finite_decimal(text) for text, node in sides if self.kind(node) == "decimal" and not _ordinary(node)
            ]
            if operator in "/%":
                tests.append(f"{right} <> 0")
            return _when(" AND ".join(tests), result) if tests else result
        if operator in "/%" and isinstance(second, Number) and right.strip("0"):
            return result
        largest = max(_LARGEST[self._name(node)] for node in (first, second) if self._name(node) in _LARGEST)
        if operator == "%":
            return _when(f"{right} <> 0", result)
        if operator == "/":
            return _when(f"{right} <> 0 AND ({right} <> -1 OR {left} >= {-largest})", result)
        exact = f"(CAST({left} AS pg_catalog.numeric) {operator} CAST({right} AS pg_catalog.numeric))"
        return _when(f"{exact} BETWEEN {-largest - 1} AND {largest}", result)

    def _floats(self, operator: str, first: Node, second: Node) -> str:
        single = self._name(first) == self._name(second) == "float4"
        if operator == "%":
            raise TypeError("% is for whole numbers and decimals on PostgreSQL")
        left, right = (
            f"CAST({text} AS pg_catalog.float8)" if self.kind(node) == "integer" or _constant(node) else text
            for text, node in zip(self._one_kind((first, second)), (first, second), strict=True)
        )
        result = f"({left} OPERATOR(pg_catalog.{operator}) {right})"
        return _when(answers(operator, left, right, single=single), result)

    def _float(self, text: str) -> str:
        """A decimal as a float."""
        return _when(_within(text, *DOUBLE, "numeric"), f"CAST({text} AS pg_catalog.float8)")

    def _date_sum(self, node: Binary, left: str, right: str) -> str:
        result = f"({left} OPERATOR(pg_catalog.{node.operator}) {right})"
        if isinstance(node.right, Typed) and node.right.type == "INTERVAL":
            ages = f"{right} BETWEEN INTERVAL '-10000 years' AND INTERVAL '10000 years'"
            return _when(f"{self._near(left)} AND {ages}", result)
        if self.kind(node.right) in ("date", "timestamp"):
            finite = [f"{self._near(text)} AND pg_catalog.isfinite({text})" for text in (left, right)]
            return _when(" AND ".join(finite), result)
        return _when(self._near(left), result)

    def _near(self, text: str) -> str:
        """A test that leaves out the dates at both ends of what there is, where sums and time zones lead out of it."""
        near = f"({text} >= DATE '4000-01-01 BC' AND {text} < DATE '200000-01-01')"
        return f"({near} OR NOT pg_catalog.isfinite({text}))"

    # Functions

    def _call(self, node: Call) -> str:
        if node.name in _BUILT_IN:
            parts = (self._one_kind if node.name == "nullif" else self._one_type)(node.arguments)
            return f"{node.name}({', '.join(parts)})"
        if node.name in ("date_trunc", "date_part"):
            field, value = node.arguments
            return self._part_of_date(node.name, field.value.upper() if isinstance(field, Text) else "", value)
        if node.name == "date":
            return self._cast(Cast(node.arguments[0], "date", tolerant=False))
        if node.name == "mod" and self.types:
            return self._arithmetic("%", *node.arguments)
        written = self._in_a_text if node.name in ("concat", "concat_ws") else self.written
        arguments = [written(argument) for argument in node.arguments]
        if node.name == "position":
            arguments.reverse()
        name = {"trim": "btrim", "position": "strpos"}.get(node.name, node.name)
        called = f'pg_catalog."{name}"({", ".join(arguments)})'
        test = self._test(node, arguments) if self.types else None
        return called if test is None else _when(test, called)

    def _in_a_text(self, node: Node) -> str:
        """Write a value that becomes text. Numbers may have a hundred thousand digits, and make texts as long."""
        text = self.written(node)
        if self.kind(node) != "decimal":
            return text
        few = f"(pg_catalog.abs({text}) < 1e{_DIGITS} AND pg_catalog.scale({text}) <= {_DIGITS})"
        return _when(f"({few} OR {text} IN ({specials('numeric')}))", text)

    def size(self, text: str) -> str:
        return f"pg_catalog.octet_length(CAST({text} AS pg_catalog.text))"  # enumerations have no length

    def _test(self, node: Call, arguments: list[str]) -> str | None:
        """Write a test of whether a function has an answer; None if it has one everywhere."""
        if node.name not in ("abs", "sqrt", "ln", "log", "log10", "exp", "to_char"):
            return None
        first, name = arguments[0], self._name(node.arguments[0])
        tests = {
            "abs": f"{first} >= {-_LARGEST[name]}" if name in _LARGEST else None,
            "sqrt": f"{first} >= 0",
            "exp": exponential_answers(first, "numeric" if name == "numeric" else "float8"),
            "to_char": self._near(first),
        }
        return tests.get(node.name, f"{first} > 0")

    def _name(self, node: Node) -> str:
        return self.types[node].name.partition("(")[0] if node in self.types else ""

    # Casts

    def _cast(self, node: Cast) -> str:
        name, _, sizes = node.type.partition("(")
        text = (self._in_a_text if KINDS[name] == "text" else self.written)(node.value)
        cast = f"CAST({text} AS pg_catalog.{name}{f'({sizes}' if sizes else ''})"
        if node.tolerant:
            raise ValueError("PostgreSQL has no TRY_CAST; a CAST is NULL here where it cannot be made")
        if not self.types or isinstance(node.value, Text) or self.kind(node.value) == "null":
            return cast
        source, kind = self.kind(node.value), KINDS[name]
        if source == "text" and kind in ("integer", "decimal", "float"):
            return self._number_from_text(text, name, sizes)
        if source in ("integer", "decimal", "float") and kind in ("integer", "decimal", "float"):
            return self._number_from_number(text, source, name, sizes)
        total = kind == "text" or (source, kind) in (("boolean", "boolean"), ("date", "date"))
        if total or (source, self._name(node.value), name) in (
            ("integer", "int4", "bool"),
            ("boolean", "bool", "int4"),
        ):
            return cast
        if {source, kind} <= {"date", "timestamp"}:
            return _when(self._near(text), cast)
        raise TypeError(
            f"PostgreSQL cannot say whether {self._name(node.value)} can be cast to {name} without failing; "
            "cast it in a view that is handed over"
        )

    def _number_from_text(self, text: str, name: str, sizes: str) -> str:
        decimal = f"CAST({text} AS pg_catalog.numeric)"
        pattern = self.string(_WHOLE if name in _LARGEST else _REAL)
        number = self._number_from_number(decimal, "decimal", name, sizes)
        if name == "float8":  # rounded once, from the text
            number = _when(_within(decimal, *DOUBLE, "numeric"), f"CAST({text} AS pg_catalog.float8)")
        if name in _LARGEST:
            return _when(f"{text} OPERATOR(pg_catalog.~) {pattern}", number)
        special = (
            f"WHEN {text} OPERATOR(pg_catalog.~*) {self.string(_NO_NUMBER)} THEN CAST({text} AS pg_catalog.{name})"
        )
        if sizes:
            special = ""
        return f"(CASE WHEN {text} OPERATOR(pg_catalog.~) {pattern} THEN {number} {special} END)"

    def _number_from_number(self, text: str, source: str, name: str, sizes: str) -> str:
        cast = f"CAST({text} AS pg_catalog.{name}{f'({sizes}' if sizes else ''})"
        if name in _LARGEST:
            rounded = text if source == "integer" else f"pg_catalog.round({text})"
            return _when(f"{rounded} >= {-_LARGEST[name] - 1} AND {rounded} < {_LARGEST[name] + 1}", cast)
        if sizes:
            digits, _, scale = sizes.rstrip(")").partition(",")
            places = int(scale or 0)
            if source == "float":
                raise TypeError("cast a float to numeric without digits on PostgreSQL")
            most = f"1e{int(digits) - places}"
            decimal = f"CAST({text} AS pg_catalog.numeric)"
            nan = f"{decimal} = CAST('NaN' AS pg_catalog.numeric)"
            return _when(f"pg_catalog.abs(pg_catalog.round({decimal}, {places})) < {most} OR {nan}", cast)
        if name == "float8" and source == "decimal":
            return self._float(text)
        if name == "float4" and source != "integer":
            return _when(_within(text, *SINGLE, "numeric" if source == "decimal" else "float8"), cast)
        return cast


def _constant(node: Node) -> bool:
    return isinstance(node, Number) or (isinstance(node, Unary) and isinstance(node.value, Number))


def _ordinary(node: Node) -> bool:
    """Whether it is a constant that needs no test in arithmetic."""
    number = node.value if isinstance(node, Unary) else node
    return isinstance(number, Number) and Decimal(number.text).adjusted() < _FAR


def _when(test: str, value: str) -> str:
    return f"(CASE WHEN {test} THEN {value} END)"


def _within(text: str, small: str, large: str, name: str) -> str:
    """Write a test of whether a number is zero, between both in absolute value, infinite or NaN."""
    return f"({text} = 0 OR pg_catalog.abs({text}) BETWEEN {small} AND {large} OR {text} IN ({specials(name)}))"


def _finite_decimal(text: str) -> str:
    return f"(pg_catalog.abs({text}) < CAST('1e{_FAR}' AS pg_catalog.numeric) OR {text} IN ({specials('numeric')}))"
