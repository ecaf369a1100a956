"""Conditions on DuckDB."""

import re
from typing import ClassVar

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
    Node,
    Text,
    Unary,
    by_name,
    standard_string,
)

_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
_MATCHES = frozenset({"~", "!~"})
_TYPES = by_name(
    {
        "BOOLEAN": "boolean bool logical",
        "TINYINT": "tinyint int1",
        "SMALLINT": "smallint int2 short",
        "INTEGER": "integer int int4 signed",
        "BIGINT": "bigint int8 long",
        "HUGEINT": "hugeint",
        "UTINYINT": "utinyint",
        "USMALLINT": "usmallint",
        "UINTEGER": "uinteger",
        "UBIGINT": "ubigint",
        "DECIMAL": "decimal numeric",
        "FLOAT": "float real float4",
        "DOUBLE": "double float8",
        "VARCHAR": "varchar text string char bpchar",
        "DATE": "date",
        "TIME": "time",
        "TIMESTAMP": "timestamp datetime",
        "TIMESTAMPTZ": "timestamptz",
    }
) | {"double precision": "DOUBLE", "timestamp with time zone": "TIMESTAMPTZ"}

#: Functions that are part of the language rather than of the catalogue.
_BUILT_IN = frozenset({"coalesce", "ifnull", "if"})

#: The functions that see nothing but their arguments.
_FUNCTIONS = by_name(
    {
        "n": "abs ceil ceiling floor sign sqrt cbrt ln log10 log2 exp isnan isinf isfinite",
        "n?N": "round trunc",
        "n?n": "log",
        "nn": "power pow mod",
        "==*": "greatest least coalesce",
        "==": "nullif ifnull",
        "b==": "if",
        "t": "lower upper lcase ucase length strlen char_length character_length reverse md5 ascii unicode ord",
        "t?t": "trim btrim ltrim rtrim",
        "tn": "left right",
        "tn?n": "substring substr",
        "tnn": "array_slice",
        "tt": "contains starts_with ends_with prefix suffix strpos instr position",
        "ttt": "replace translate",
        "aa*": "concat",
        "taa*": "concat_ws",
        "tNt": "lpad rpad",
        "tN": "repeat",
        "ttZ": "split_part",
        "tP?T": "regexp_matches regexp_full_match",
        "tPT?T": "regexp_replace",
        "tP?N": "regexp_extract",
        "d": "year quarter month week day hour minute second dayofweek isodow weekday dayofyear weekofyear isoyear "
        "last_day monthname dayname epoch",
        "Fd": "date_trunc date_part datepart datetrunc",
        "Fdd": "date_diff datediff date_sub datesub",
        "dT": "strftime",
        "tT": "strptime try_strptime",
        "nnn": "make_date",
        "nnnnnn": "make_timestamp",
        "": "now today",
    }
)


class DuckDBWhere(Dialect):
    """TRY turns whatever a value makes impossible into NULL; functions are named with the catalogue that holds them."""

    engine = "DuckDB"
    like_escape = None
    grammar = Grammar(
        concat_beside_plus=False,
        comparisons=_COMPARISONS,
        products=frozenset({"*", "/", "%", "//"}),
        powers=frozenset({"^", "**"}),
        matches=_MATCHES,
        likes=frozenset({"LIKE", "ILIKE"}),
        types=_TYPES,
    )
    fields = FIELDS
    with_nan: ClassVar = {"float": "DOUBLE"}
    functions = _FUNCTIONS

    @property
    def lexicon(self) -> Lexicon:
        return Lexicon(
            quote='"',
            string=standard_string(unicode_escapes=False),
            operators=_COMPARISONS | _MATCHES | {"+", "-", "*", "/", "%", "//", "^", "**", "||", "::"},
            number=re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII),
            runs_together=True,
        )

    def probes(self, node: Node) -> list[str]:
        if isinstance(node, Binary) and node.operator in _MATCHES:
            return [f"regexp_matches('', {self.written(node.right)})"]
        if isinstance(node, Call) and set(self.functions[node.name]) & {"P", "T"}:
            second = self.written(node.arguments[1])
            if node.name == "strftime":
                return [f"strftime(DATE '2020-01-01', {second})"]
            return [f"{'try_strptime' if node.name.endswith('strptime') else 'regexp_matches'}('', {second})"]
        if isinstance(node, Cast | Binary | In | Between):
            return self.cast_probes(node)
        return super().probes(node)

    def _call(self, node: Call) -> str:
        arguments = self.listed(node.arguments)
        if node.name in _BUILT_IN:
            called = f"{node.name}({arguments})"
            return called if self._same_type(node.parts) else f"TRY({called})"
        if node.name == "position":  # POSITION(part IN whole)
            arguments = self.listed(node.arguments[::-1])
        name = "trim" if node.name == "btrim" else node.name
        return f'TRY(system.main."{name}"({arguments}))'

    def size(self, text: str) -> str:
        return f"system.main.strlen({text})"

    def _cast(self, node: Cast) -> str:
        return f"TRY_CAST({self.written(node.value)} AS {node.type})"

    def signed(self, node: Unary) -> str:
        return f"TRY({node.operator} {self.written(node.value)})"

    def calculated(self, node: Binary) -> str:
        return f"TRY({self.written(node.left)} {node.operator} {self.written(node.right)})"

    def compared(self, node: Binary) -> str:
        return self._try(node.parts, super().compared(node))

    def _in(self, node: In) -> str:
        return self._try(node.parts, super()._in(node))

    def _between(self, node: Between) -> str:
        return self._try(node.parts, super()._between(node))

    def _case(self, node: Case) -> str:
        values = (*(value for _, value in node.branches), node.otherwise)
        return self._try(values, super()._case(node))

    def _extract(self, node: Extract) -> str:
        return f"TRY({super()._extract(node)})"

    def _try(self, parts: tuple[Node, ...], text: str) -> str:
        return text if self._same_type(parts) else f"TRY{text}"

    def _same_type(self, parts: tuple[Node, ...]) -> bool:
        """Whether parts are compared as they are: decimals and times become one type first, which may not hold them."""
        known = {self.types[part] for part in parts if part in self.types and not isinstance(part, Text)}
        kinds = {dtype.kind for dtype in known} - {"null"}
        if kinds == {"timestamp"}:
            return len({dtype.name for dtype in known if dtype.kind == "timestamp"}) == 1
        return len(kinds) <= 1 and "decimal" not in kinds
