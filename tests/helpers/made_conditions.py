"""Conditions made at random: ordinary SQL with strings as hard to read as can be, spelled as each engine allows."""

import datetime
import random

import pyarrow as pa

PIECES = [
    "a", "b", "B", "1", " ", "'", '"', "\\", "\\'", "\\\\", "--", "/*", "*/", "$$", "$x$", "%", "_", ";", "é", "ß",
    "💥", "\n", "\t", ")", "(SELECT 1)", "\\u0041", "\\x41", "\\101", "U&", "E'", "`", "#", "{", "}", "|", "0", "NULL",
]  # fmt: skip

STRINGS = [
    "a", "b", "ab", "A", "1", "12", " 7 ", "-3", "1.5", "1e3", "abc", "", "it's", '"', "a\\b", "\\", "\\d", "'", "--",
    "/*", "$$", "%", "_", "a%b", "é", "💥", "2020-02-03", "x' OR 1=1 --", "9999999999999999999999", "NaN", "\\'",
    "${x}",
]  # fmt: skip

DAY, NOON = datetime.date(2020, 2, 3), datetime.datetime(2020, 2, 3, 12, 30)
_NUMBERS = [0, 1, 2, 3, -1, 7, 2**31, -(2**62), 2**63 - 1, -(2**63), 100, None]
_FLOATS = [0.0, 1.5, -2.25, 1e-200, 1e200, float("inf"), float("nan"), 1e308, 3.0, None]

TABLE = pa.table(
    {
        "person": pa.array([f"p{i}" for i in range(len(STRINGS) + 1)]),
        "id": pa.array(range(len(STRINGS) + 1), pa.int64()),
        "c": pa.array([*STRINGS, None]),
        "k": pa.array([STRINGS[(5 * i + 3) % len(STRINGS)] for i in range(len(STRINGS))] + ["a"]),
        "i": pa.array([_NUMBERS[i % len(_NUMBERS)] for i in range(len(STRINGS) + 1)], pa.int64()),
        "j": pa.array([(7 * i) % 11 - 5 for i in range(len(STRINGS) + 1)], pa.int32()),
        "f": pa.array([_FLOATS[i % len(_FLOATS)] for i in range(len(STRINGS) + 1)], pa.float64()),
        "n": pa.array([(i * 37) % 500 - 120 if i % 6 else None for i in range(len(STRINGS) + 1)]).cast(
            pa.decimal128(21, 2)
        ),
        "d": pa.array([DAY + datetime.timedelta(days=40 * i) if i % 5 else None for i in range(len(STRINGS) + 1)]),
        "t": pa.array(
            [NOON + datetime.timedelta(hours=1000 * i) if i % 7 else None for i in range(len(STRINGS) + 1)],
            pa.timestamp("us"),
        ),
        "b": pa.array([(True, False, None)[i % 3] for i in range(len(STRINGS) + 1)]),
        "Odd name": pa.array([i % 4 for i in range(len(STRINGS) + 1)], pa.int32()),
    }
)


class Maker:
    """Random conditions for an engine. Those that are not `risky` have nothing in them that may fail for a value.

    This is how most engines spell them; others say in a class of their own what is different.
    """

    #: Around names.
    quote = '"'
    #: Whether E'…' may hold \\u0041.
    unicode_escapes = False
    #: What takes the meaning of % and _ in LIKE by itself.
    like_escape = "\\"
    #: The names of types.
    types = {"text": ["VARCHAR"], "integer": ["integer", "BIGINT"], "float": ["double precision"]}

    def __init__(self, seed, *, risky):
        self.random, self.risky = random.Random(seed), risky

    def condition(self):
        return self.boolean(self.random.choice((1, 2, 2, 3)))

    def one(self, *choices):
        """One of these; what is a function is called once it is chosen."""
        chosen = self.random.choice(choices)
        return chosen() if callable(chosen) else chosen

    def gap(self):
        """What may stand between two words."""
        return self.one(*[" "] * 12, "  ", "\n", "\t", " /* ' \" \\ $$ */ ", " -- ' \" /* \\u0041\n")

    # Strings

    def value(self):
        """The value of a string: often one of those in the table."""
        if self.random.random() < 0.6:
            return self.random.choice(STRINGS)
        return "".join(self.random.choice(PIECES) for _ in range(self.random.randrange(5)))

    def string(self, value=None):
        value = self.value() if value is None else value
        way = self.one("plain", "plain", "E", "dollar")
        tag = self.one("", "q", "tag_1")
        if way == "dollar" and f"${tag}$" not in value + "$" and not value.endswith("$"):
            return f"${tag}${value}${tag}$"
        if way == "E":
            return self.one("E'", "e'") + "".join(self.character(c) for c in value) + "'"
        return "'" + value.replace("'", "''") + "'"

    def character(self, character):
        ways = {"'": ["''", "\\'"], "\\": ["\\\\"], "\n": ["\n", "\\n", "\\012", "\\x0A"], "\t": ["\\t", "\\x09"]}
        found = ways.get(character) or [character] * 4
        if character.isascii() and self.random.random() < 0.2:
            code = ord(character)
            found = [f"\\{code:03o}", f"\\x{code:02x}"]
            if self.unicode_escapes:
                found += [f"\\u{code:04x}", f"\\U{code:08X}"]
            if character in "ghijklmpqsvwyz;#%{}|":
                found.append(f"\\{character}")
        return self.random.choice(found)

    # Expressions

    def text(self, depth):
        if depth <= 0:
            return self.one("c", "c", "k", "C", self.name("c"), self.string(), self.string())
        a = self.text(depth - 1)
        return self.one(
            a,
            lambda: f"lower({a})",
            lambda: f"upper({a})",
            lambda: f"trim({a})",
            lambda: f"({a} || {self.text(depth - 1)})",
            lambda: f"replace({a}, {self.string()}, {self.string()})",
            lambda: f"substring({a}, {self.random.randrange(1, 4)}, {self.random.randrange(4)})",
            lambda: self.part(a),
            lambda: f"coalesce({a}, {self.string()})",
            lambda: f"nullif({a}, {self.string()})",
            lambda: f"CASE WHEN {self.boolean(depth - 1)} THEN {a} ELSE {self.string()} END",
            lambda: f"CASE {a} WHEN {self.string()} THEN {self.string()} END",
            lambda: f"CAST({self.one('i', 'j', 'b', 'd')} AS {self.type('text')})",
            lambda: f"concat({a}, {self.string()})",
            lambda: f"left({a}, 2)",
            lambda: f"reverse({a})",
        )

    def number(self, depth):
        if not self.risky:
            return self.safe_number(depth)
        if depth <= 0:
            return self.one(
                "i", "j", "j", "f", "n", "0", "1", "2", "-1", "3.5", ".5", "1e2", self.name("Odd name"), "-j", "+ j"
            )  # fmt: skip
        a, b = self.number(depth - 1), self.number(depth - 1)
        return self.one(
            a,
            lambda: f"{a}{self.gap()}{self.one('+', '-', '*', '/')}{self.gap()}{b}",
            lambda: f"({a}{self.one(' + ', '-', ' *', '/ ')}{b})",
            lambda: f"(j{self.gap()}% {self.one('2', '3', 'j')})",
            lambda: f"-({a})",
            lambda: f"abs({a})",
            lambda: f"length({self.text(depth - 1)})",
            lambda: f"floor({self.one('f', 'n')})",
            lambda: f"round({self.one('f', 'n')})",
            lambda: f"sqrt({self.one('f', 'j')})",
            lambda: f"ln({self.one('f', 'j')})",
            lambda: f"coalesce({a}, {b})",
            lambda: f"greatest({a}, {b})",
            lambda: f"CAST({self.text(depth - 1)} AS {self.type('integer')})",
            lambda: f"CAST({self.one('c', 'k', 'f', 'n', 'i')} AS {self.type('integer')})",
            lambda: f"CAST({self.one('c', 'k', 'j', 'n', 'i')} AS {self.type('float')})",
            lambda: f"EXTRACT({self.one('year', 'MONTH', 'day')} FROM {self.one('d', 't')})",
            lambda: f"CASE WHEN {self.boolean(depth - 1)} THEN {a} ELSE {b} END",
        )

    def safe_number(self, depth):
        plain = ("i", "j", "f", "n", "0", "-1", "3.5", ".5", "1e2", self.name("Odd name"), "-j", "+ j")
        if depth <= 0:
            return self.one(*plain)
        j, k = self.one("j", "1", "- 2", "(j)"), self.one("j", "3", "-j", "(j + 1)")
        return self.one(
            *plain,
            lambda: f"{j}{self.gap()}{self.one('+', '-', '*')}{self.gap()}{k}",
            lambda: f"{j} * {k} - {self.one('j', '2')}",
            lambda: f"{j} - {k} * {self.one('j', '2', '-1')} + 1",
            lambda: f"{j} / {self.one('2', '4.0', '-1')}",
            lambda: f"({j} % {self.one('2', '3', '-3')})",
            lambda: f"-({j} - {k})",
            lambda: f"abs({k})",
            lambda: f"length({self.text(depth - 1)})",
            lambda: f"floor({self.one('n', 'j / 2.0')})",
            lambda: f"round({self.one('f', 'n')})",
            lambda: f"coalesce({self.one('i', 'j')}, {j})",
            lambda: f"greatest({j}, {k})",
            lambda: f"CAST({self.one('n', 'j')} AS {self.type('integer')})",
            lambda: f"CAST({self.one('j', 'n', 'i')} AS {self.type('float')})",
            lambda: f"EXTRACT({self.one('year', 'MONTH', 'day')} FROM {self.one('d', 't')})",
            lambda: f"CASE WHEN {self.boolean(depth - 1)} THEN {j} ELSE {k} END",
        )

    def boolean(self, depth):
        if depth <= 0:
            return self.one("b", "b IS TRUE", "TRUE", "FALSE", "i > 1", "c IS NULL", "d IS NOT NULL", "NULL IS NULL")
        gap = self.gap()
        return self.one(
            *[lambda: self.comparison(depth)] * 6,
            lambda: f"{self.boolean(depth - 1)}{gap}AND{gap}{self.boolean(depth - 1)}",
            lambda: f"{self.boolean(depth - 1)}{gap}or{gap}{self.boolean(depth - 1)}",
            lambda: f"{self.boolean(depth - 1)} OR {self.boolean(depth - 1)} AND NOT {self.boolean(depth - 1)}",
            lambda: f"NOT{gap}{self.boolean(depth - 1)}",
            lambda: f"({self.boolean(depth - 1)})",
        )

    def comparison(self, depth):
        gap, compare = self.gap(), self.one("=", "<>", "!=", "<", "<=", ">", ">=")
        a, negation = self.text(depth - 1), self.one("", "NOT ")
        x, y = self.number(depth - 1), self.number(depth - 1)
        return self.one(
            lambda: f"{a}{gap}{compare}{gap}{self.text(depth - 1)}",
            lambda: f"{a}={self.string()}",
            lambda: f"{a} {negation}IN ({self.string()},{gap}{self.string()}, {self.string()})",
            lambda: f"{a} {negation}IN ({self.string()}, NULL)",
            lambda: f"c {negation}{self.one('LIKE', 'like', 'ILIKE')} {self.pattern()}",
            lambda: f"{a} {negation}LIKE {self.string(self.one('a%', '%b', '_', 'a!%b', '%!_%'))} ESCAPE '!'",
            self.regex,
            lambda: f"{x}{gap}{compare}{gap}{y}",
            lambda: f"{x} {compare}{gap}{y}",
            lambda: f"{x} {negation}BETWEEN {y} AND {self.number(depth - 1)}",
            lambda: f"j {negation}IN (1, -2, 3{gap}, NULL)",
            lambda: f"{self.one('i', 'f', 'n', 'd', 't', 'b', 'c')} IS {negation}NULL",
            lambda: f"({self.boolean(depth - 1)}) IS {negation}{self.one('TRUE', 'FALSE')}",
            lambda: f"{x} IS {negation}DISTINCT FROM {y}",
            lambda: f"d {compare} {self.one('DATE ', 'date', '')}'20{self.random.randrange(20, 24)}-06-01'",
            lambda: f"t {compare} TIMESTAMP '2021-03-04 05:06:07'",
            lambda: f"d {negation}BETWEEN '2020-05-01' AND DATE '2022-05-01'",
            lambda: f"d {self.one('+', '-')} INTERVAL '{self.random.randrange(90)}' DAY {compare} '2021-01-01'",
            lambda: f"EXTRACT(hour FROM t) {compare} {self.random.randrange(24)}",
            lambda: f"date_trunc('month', t) {compare} TIMESTAMP '2021-03-01 00:00:00'",
            lambda: f"b {self.one('=', '<>')} {self.one('TRUE', 'FALSE', 'b')}",
        )

    def pattern(self):
        escape = self.like_escape
        pieces = ["a", "b", "1", "%", "%", "_", "'", "é", "--", f"{escape}%", f"{escape}_", "$$"]
        return self.string("".join(self.random.choice(pieces) for _ in range(self.random.randrange(5))))

    def regex(self):
        pattern = self.string(
            self.one(
                r"\d", r"^\d+$", "a|b", "[ab]+", r"^.*\\.*$", r"\.", "'", r"a\\b", "^$", r"(a)(b)?", r"\s", "é", "--"
            )
        )
        return self.matched(pattern)

    def matched(self, pattern):
        """A test with a regular expression."""
        return self.one(f"c ~ {pattern}", f"k !~ {pattern}")

    def part(self, text):
        """Two characters of a text."""
        return f"substring({text} FROM 2 FOR 2)"

    def name(self, name):
        return f"{self.quote}{name}{self.quote}"

    def type(self, kind):
        return self.one(*self.types[kind])
