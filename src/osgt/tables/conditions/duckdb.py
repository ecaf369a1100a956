"""Conditions on DuckDB."""

import re
from typing import ClassVar

from osgt.tables.conditions.checks import literal_of
from osgt.tables.conditions.dialect import Dialect, Type
from osgt.tables.conditions.grammar import Between, Binary, Call, Case, Cast, Extract, Grammar, In, Node, Text, Unary
from osgt.tables.conditions.tokens import Lexicon, standard_string

_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">="})
_MATCHES = frozenset({"~", "!~"})
_TYPES = {
    name: type_
    for type_, names in {
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
    }.items()
    for name in names.split()
} | {"double precision": "DOUBLE", "timestamp with time zone": "TIMESTAMPTZ"}

_INTEGERS = "TINYINT SMALLINT INTEGER BIGINT HUGEINT UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT".split()
_KINDS = {
    **dict.fromkeys(_INTEGERS, "integer"),
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "float",
    "VARCHAR": "text",
    "DATE": "date",
    "TIME": "clock",
    "INTERVAL": "interval",
    "UUID": "uuid",
}

#: Functions that are part of the language rather than of the catalogue.
_BUILT_IN = frozenset({"coalesce", "ifnull", "if"})


class DuckDB(Dialect):
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
    fields = frozenset(
        "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND DOW ISODOW DOY ISOYEAR EPOCH DECADE CENTURY MILLENNIUM".split()
    )
    functions: ClassVar[dict[str, str]] = {
        **dict.fromkeys("abs ceil ceiling floor sign sqrt cbrt ln log10 log2 exp".split(), "n"),
        **dict.fromkeys("round trunc".split(), "n?N"),
        **dict.fromkeys("log".split(), "n?n"),
        **dict.fromkeys("power pow mod".split(), "nn"),
        **dict.fromkeys("isnan isinf isfinite".split(), "n"),
        **dict.fromkeys("greatest least coalesce".split(), "==*"),
        **dict.fromkeys("nullif ifnull".split(), "=="),
        "if": "b==",
        **dict.fromkeys("lower upper lcase ucase length strlen char_length character_length".split(), "t"),
        **dict.fromkeys("reverse md5 ascii unicode ord".split(), "t"),
        **dict.fromkeys("trim btrim ltrim rtrim".split(), "t?t"),
        **dict.fromkeys("left right".split(), "tn"),
        **dict.fromkeys("substring substr".split(), "tn?n"),
        **dict.fromkeys("contains starts_with ends_with prefix suffix strpos instr position".split(), "tt"),
        **dict.fromkeys("replace translate".split(), "ttt"),
        "concat": "aa*",
        "concat_ws": "taa*",
        **dict.fromkeys("lpad rpad".split(), "tNt"),
        "repeat": "tN",
        "split_part": "ttZ",
        **dict.fromkeys("regexp_matches regexp_full_match".split(), "tP?T"),
        "regexp_replace": "tPT?T",
        "regexp_extract": "tP?N",
        **dict.fromkeys("year quarter month week day hour minute second dayofweek isodow weekday".split(), "d"),
        **dict.fromkeys("dayofyear weekofyear isoyear last_day monthname dayname epoch".split(), "d"),
        **dict.fromkeys("date_trunc date_part datepart datetrunc".split(), "Fd"),
        **dict.fromkeys("date_diff datediff date_sub datesub".split(), "Fdd"),
        "strftime": "dT",
        **dict.fromkeys("strptime try_strptime".split(), "tT"),
        "make_date": "nnn",
        "make_timestamp": "nnnnnn",
        "array_slice": "tnn",
        **dict.fromkeys("now today".split(), ""),
    }

    @property
    def lexicon(self) -> Lexicon:
        return Lexicon(
            quote='"',
            string=standard_string(unicode_escapes=False),
            operators=_COMPARISONS | _MATCHES | {"+", "-", "*", "/", "%", "//", "^", "**", "||", "::"},
            number=re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?"),
            runs_together=True,
        )

    def types_of(self, query: str) -> list[Type]:
        found = self.backend.con.execute(f"DESCRIBE {query}").fetchall()
        return [Type(_kind(name), name) for _, name, *_ in found]

    def run(self, query: str) -> None:
        self.backend.con.execute(query).fetchall()

    def probes(self, node: Node) -> list[str]:
        if isinstance(node, Binary) and node.operator in _MATCHES:
            return [f"regexp_matches('', {self.written(node.right)})"]
        if isinstance(node, Call) and "P" in self.functions[node.name]:
            return [f"regexp_matches('', {self.written(node.arguments[1])})"]
        if isinstance(node, Call) and node.name == "strftime":
            return [f"strftime(DATE '2020-01-01', {self.written(node.arguments[1])})"]
        if isinstance(node, Call) and node.name.endswith("strptime"):
            return [f"try_strptime('', {self.written(node.arguments[1])})"]
        if isinstance(node, Cast):
            return [f"CAST({self.written(node.value)} AS {node.type})"] if isinstance(node.value, Text) else []
        if isinstance(node, Binary | In | Between):
            types = [(part, literal_of(part, node.parts, self)) for part in node.parts]
            return [f"CAST({self.written(part)} AS {name})" for part, name in types if name is not None]
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

    def _cast(self, node: Cast) -> str:
        return f"TRY_CAST({self.written(node.value)} AS {node.type})"

    def signed(self, node: Unary) -> str:
        return f"TRY({node.operator} {self.written(node.value)})"

    def calculated(self, node: Binary) -> str:
        return f"TRY({self.written(node.left)} {node.operator} {self.written(node.right)})"

    def compared(self, node: Binary) -> str:
        return self._tried(node.parts, super().compared(node))

    def _in(self, node: In) -> str:
        return self._tried(node.parts, super()._in(node))

    def _between(self, node: Between) -> str:
        return self._tried(node.parts, super()._between(node))

    def _case(self, node: Case) -> str:
        values = (*(value for _, value in node.branches), node.otherwise)
        return self._tried(values, super()._case(node))

    def _extract(self, node: Extract) -> str:
        return f"TRY({super()._extract(node)})"

    def _tried(self, parts: tuple[Node, ...], text: str) -> str:
        return text if self._same_type(parts) else f"TRY{text}"

    def _same_type(self, parts: tuple[Node, ...]) -> bool:
        """Whether the parts are compared as they are: decimals become one type first, for which they may be too long."""
        kinds = {self.kind(part) for part in parts if not isinstance(part, Text)} - {"null", "unknown"}
        return len(kinds) <= 1 and "decimal" not in kinds


def _kind(name: str) -> str:
    if name.startswith("DECIMAL"):
        return "decimal"
    if name.startswith("TIMESTAMP"):
        return "timestamp"
    if name.startswith("ENUM"):
        return "text"
    return _KINDS.get(name, "other")
