"""Texts that expressions make: none is so long that one person's value decides whether a release succeeds."""

import random
import re
from functools import partial

import pyarrow as pa
import pytest

from engines import ROW, UNIT, rows_of
from osgt.data.expressions.growth import FORMULAS, LONGEST
from stands import STANDS

#: Values of one column: from none to more than an expression may make, in characters of one to four bytes.
TEXTS = ["", "1", "a", "é", "💥", "a b", "ΐŉ", *("abé" * n for n in (3, 30, 300, 3_000, 24_000)), "a" * 90_000]
TABLE = pa.table({UNIT: [f"p{i}" for i in range(len(TEXTS))], ROW: range(len(TEXTS)), "c": TEXTS})

EMPTY = ", ".join(["''"] * 40)
GROWING = {
    "nested separators": "length(concat_ws(concat_ws(repeat(repeat(c, 1000), 1000), {empty}), {empty})) >= 0",
    "concat": "length(concat({wide}, {wide}, {wide})) >= 0",
    "||": "length({wide} || {wide} || {wide}) >= 0",
    "replace": "length(replace(repeat(c, 1000), '1', {wide})) >= 0",
    "upper": "length(upper(lower({wide}))) >= 0",
    "translate": "length(translate({wide}, '1', '💥')) >= 0",
    "case": "length(CASE WHEN c = '1' THEN {wide} ELSE c END || {wide}) >= 0",
    "coalesce": "length(coalesce({wide}, 'x') || {wide}) >= 0",
    "cast": "length(CAST({wide} AS {text}) || {wide}) >= 0",
    "comparison": "{wide} || {wide} >= ''",
    "pattern": "{wide} || {wide} LIKE '%'",
    "list": "{wide} || {wide} IN ('', 'x')",
}


def written(engine, text):
    long = f"concat_ws(repeat(repeat(c, 1000), 900), {EMPTY})"
    wide = f"concat_ws({long}, {EMPTY})"
    return text.format(wide=wide, empty=EMPTY, text=engine.maker.types["text"][0])


def counted(dataset):
    query = dataset.group_by(max_rows_per_group=1).count()
    return query.release(epsilon=1, delta=0).to_arrow()["count"].to_pylist()


def people(engine, value):
    return engine.put(pa.table({UNIT: [f"p{i}" for i in range(50)], "c": [""] * 49 + [value]}))


@pytest.mark.parametrize("name", GROWING)
def test_one_letter_decides_nothing(engine, name):
    """A release is made from both neighbours, also where the text would be larger than any memory."""
    for value in ("", "1"):
        assert len(counted(people(engine, value).where(written(engine, GROWING[name])))) == 1


def test_columns_of_columns_do_not_grow_either(engine):
    for value in ("", "1"):
        dataset = people(engine, value).derive(d_0="repeat(c, 1000)")
        for i in range(4):
            dataset = dataset.derive({f"d_{i + 1}": f"concat_ws(d_{i}, {EMPTY})"})
        assert len(counted(dataset.where("length(d_4) >= 0"))) == 1


def test_what_is_made_of_constants_alone_is_refused(engine):
    cast = f"CAST(repeat('x', 1000) AS {engine.maker.types['text'][0]})"
    for text in (
        "repeat(repeat('x', 1000), 1000) = c",
        f"repeat({cast}, 1000) = c",
        "repeat(lpad(c, 1000, c), 30) = c",
    ):
        with pytest.raises(ValueError, match="where: it makes texts of more than 100,000 bytes whatever the row is"):
            engine.put(TABLE).where(text)


def test_what_makes_no_text_sees_texts_of_any_length(engine):
    dataset = engine.put(TABLE)
    longest = TEXTS.index("abé" * 24_000)
    for text in (
        "length(c) = 72000",
        "c > 'abéabéabé' AND c < 'b' AND length(c) > 50000",
        "NOT c IS NULL AND length(c) > 71999",
    ):
        rows = dataset.where(text).rows()
        kept = rows_of(rows, ROW)[ROW].to_pylist()
        assert longest in kept, text


# Random expressions, and what a plain reference makes of them


class TooLongError(Exception):
    """All texts together have more bytes than they may have."""


class Expressions:
    """Random expressions of text, as SQL and as what they give: a value, and the bytes of all texts on the way."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def one(self, depth):
        if depth == 0:
            return self.random.choice([("c",), ("c",), ("text", "ab"), ("text", "é")])
        part = partial(self.one, depth - 1)
        number = self.random.choice
        return number(
            [
                lambda: ("repeat", part(), number([0, 1, 3, 40, 1000])),
                lambda: ("lpad", part(), number([0, 5, 1000]), number(["x", "é", "💥a"])),
                lambda: ("rpad", part(), number([0, 5, 1000]), number(["x", "é", "💥a"])),
                lambda: ("left", part(), number([0, 2, 50])),
                lambda: ("substr", part(), number([1, 3]), number([0, 2, 700])),
                lambda: ("replace", part(), ("text", number(["", "a", "ab", "é"])), part()),
                lambda: ("replace", part(), part(), ("text", "💥")),
                lambda: ("regexp_replace", part(), number(["a", "b+"]), number(["", "yyy"])),
                lambda: ("translate", part(), "ab", "é💥"),
                lambda: ("concat", part(), part(), part()),
                lambda: ("concat_ws", part(), part(), part(), part()),
                lambda: ("||", part(), part()),
                lambda: ("upper", part()),
                lambda: ("lower", part()),
                lambda: ("reverse", part()),
                lambda: ("case", number([0, 1, 60]), part(), part()),
                lambda: ("coalesce", part(), part()),
                lambda: ("cast", part()),
            ]
        )()

    def sql(self, engine, node):
        name, *parts = node
        texts = [self.sql(engine, each) if isinstance(each, tuple) else each for each in parts]
        forms = {
            "c": "c",
            "text": "'{}'",
            "lpad": "lpad({}, {}, '{}')",
            "rpad": "rpad({}, {}, '{}')",
            "regexp_replace": "regexp_replace({}, '{}', '{}'" + ("" if engine.name == "spark" else ", 'g'") + ")",
            "translate": "translate({}, '{}', '{}')",
            "||": "({} || {})",
            "case": "CASE WHEN length(c) > {} THEN {} ELSE {} END",
            "cast": f"CAST({{}} AS {engine.maker.types['text'][0]})",
        }
        return forms.get(name, f"{name}({', '.join(['{}'] * len(texts))})").format(*texts)

    def value(self, engine, node, c, length, made):
        """The value for a text c that may count as missing; `length` is what is measured. Texts go into `made`."""
        name, *parts = node
        if name == "c":
            return c
        if name == "text":
            return parts[0]
        if name == "case":
            return self.value(engine, parts[1 if length > parts[0] else 2], c, length, made)
        values = [self.value(engine, p, c, length, made) if isinstance(p, tuple) else p for p in parts]
        if name == "coalesce":
            return next((value for value in values if value is not None), None)
        if name == "concat" and engine.name != "spark":
            values = [value or "" for value in values]
        if name == "concat_ws" and values[0] is not None:
            values = [value for value in values if value is not None]
        if any(value is None for value in values):
            return None
        if name == "repeat" and len(values[0]) * values[1] > LONGEST:
            raise TooLongError
        if name == "replace" and values[1] and values[0].count(values[1]) * len(values[2]) > LONGEST:
            raise TooLongError
        if name in ("upper", "lower") and engine.name == "postgres":  # the locale of the tests' server is C
            values = re.split("([^a-zA-Z]+)", values[0])
            values = ["".join(_CALLS[name](each) if each.isascii() else each for each in values)]
            name = "cast"
        made.append(_CALLS[name](*values))
        if sum(len(text.encode()) for text in made) > LONGEST:
            raise TooLongError
        return made[-1]


def _padded(text, length, fill, *, left):
    padding = (fill * length)[: max(length - len(text), 0)]
    return padding + text[:length] if left else text[:length] + padding


_CALLS = {
    "repeat": lambda text, times: text * times,
    "lpad": partial(_padded, left=True),
    "rpad": partial(_padded, left=False),
    "left": lambda text, count: text[:count],
    "substr": lambda text, start, count: text[start - 1 : start - 1 + count],
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "regexp_replace": lambda text, pattern, new: re.sub(pattern, new, text),
    "translate": lambda text, old, new: text.translate(str.maketrans(old, new)),
    "concat": lambda *texts: "".join(texts),
    "concat_ws": lambda separator, *texts: separator.join(texts),
    "||": lambda a, b: a + b,
    "upper": str.upper,
    "lower": str.lower,
    "reverse": lambda text: text[::-1],
    "cast": lambda text: text,
}


PLAIN = [text for text in TEXTS if text != "ΐŉ"]


def states(engine, seed, count):
    """For each random expression and each text what the engine gave: "kept", "missing", or "either" if it is the same.

    A text that counts as missing must be longer than all that are kept. A text is never kept if more is made of it than
    may be.
    """
    maker = Expressions(seed)
    trees = [maker.one(maker.random.choice((1, 2, 3, 4))) for _ in range(count)]
    dataset = engine.put(pa.table({UNIT: PLAIN, ROW: range(len(PLAIN)), "c": PLAIN}))
    result, kept, used = [], 0, 0
    for tree in trees:
        try:
            rows = dataset.derive(made=maker.sql(engine, tree)).rows()
        except ValueError as error:
            if "whatever the row is" not in str(error):
                raise
            result.append(["refused"] * len(PLAIN))
            continue
        found = rows_of(rows, ROW, "made").sort_by(ROW)["made"].to_pylist()
        row = []
        for text, value in zip(PLAIN, found, strict=True):
            none = maker.value(engine, tree, None, len(text), [])
            try:
                whole = maker.value(engine, tree, text, len(text), [])
            except TooLongError:
                assert value == none, (maker.sql(engine, tree), len(text))
                row.append("missing")
                continue
            assert value in (whole, none), (maker.sql(engine, tree), len(text))
            row.append("either" if whole == none else "kept" if value == whole else "missing")
            used += row[-1] != "either"
            kept += row[-1] == "kept"
        longest = max((len(t.encode()) for t, state in zip(PLAIN, row, strict=True) if state == "kept"), default=-1)
        assert all(len(t.encode()) > longest for t, state in zip(PLAIN, row, strict=True) if state == "missing")
        result.append(row)
    return result, kept / used


def agree(results):
    """Whether engines agree, where it can be told: NULL is left out of a text on some, and makes it NULL on others."""
    told = [
        {each for each in cell if each != "either"}
        for rows in zip(*results, strict=True)
        for cell in zip(*rows, strict=True)
    ]
    return all(len(cell) <= 1 for cell in told)


def test_random_expressions_stay_within_the_limit(engine_of):
    """On every engine, and the same texts count as missing on all of them."""
    results = []
    for name in STANDS:
        result, share = states(engine_of(name), 20_260_101, 60)
        results.append(result)
        assert share > 0.8  # most texts are short, and kept
    assert agree(results)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_many_random_expressions(engine_of, seed):
    assert agree([states(engine_of(name), seed, 400)[0] for name in STANDS])


# The formulas


#: An argument of each kind.
SAMPLES = {"t": "c", "n": "1", "d": "DATE '2020-01-01'", "s": "TIMESTAMP '2020-01-01 00:00:00'", "b": "TRUE", "a": "c",
           "=": "c", "N": "1", "Z": "1", "W": "1", "P": "'(a)'", "T": "'a'", "F": "'year'"}  # fmt: skip


def test_every_function_that_gives_text_has_a_formula(engine):
    """What chooses one of its arguments has none: no text is made."""
    dataset = engine.put(TABLE)
    dialect = dataset.engine.dialect
    texts = set()
    for name, letters in dialect.functions.items():
        if name in ("isnull", "rlike", "regexp"):  # words of the grammar
            continue
        arguments = ", ".join(SAMPLES[letter] for letter in letters.partition("?")[0].rstrip("*"))
        call = "position(c IN c)" if name == "position" else f"{name}({arguments})"
        try:
            made = dataset.derive(made=call).table["made"]
        except TypeError as error:
            if "a column cannot be of type" not in str(error):
                raise
            continue
        if made.dtype.kind == "text" and "=" not in letters:
            texts.add(name)
    assert texts
    assert texts <= FORMULAS.keys()


def test_the_longest_of_each_formula(engine):
    """Where characters grow in upper case, or a text is put in before each of them, nothing exceeds what was proved."""
    names = {"upper": "upper(c)", "lower": "lower(c)", "translate": "translate(c, 'a1', '💥💥')"}
    names["before each character"] = "regexp_replace(c, 'x*', 'éé'" + ("" if engine.name == "spark" else ", 'g'") + ")"
    names["padded"] = "rpad(c, 1000, '💥')"
    names["replaced"] = "replace(c, 'a', c)"
    rows = engine.put(TABLE).derive(names).rows()
    found = rows_of(rows, *names)
    for name in names:
        lengths = [len(text.encode()) for text in found[name].to_pylist() if text is not None]
        assert len(lengths) > 6, name
        assert max(lengths) <= LONGEST, name


#: Regular expressions that Spark is given, none of which a text may make fail: repeated characters, and groups.
PATTERNS = [
    "^.*c",
    "^.{2,}c",
    "^[^x]*c",
    "^.{2,1000}c",
    "^.+?c",
    "^(?:a|.){10}c",
    "^(a|b)?[ab💥]+c",
    "^(?:[^x]?.){1,10}c",
]


def test_no_text_makes_a_regular_expression_of_spark_fail(engine_of):
    """Java overflows its stack with others, most easily where characters of one and of two units alternate."""
    text = "a💥" * (LONGEST // 5)
    dataset = engine_of("spark").put(pa.table({UNIT: ["p", "q"], "c": [text, "ac"]}))
    conditions = " OR ".join(f"c RLIKE '{pattern}'" for pattern in PATTERNS)
    assert len(counted(dataset.where(conditions))) == 1
