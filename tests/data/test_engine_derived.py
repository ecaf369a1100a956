"""Derived columns: row by row what a plain reference computes, on every engine, and nothing that sees another row."""

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from test_engine_sensitivity import beyond_part
from test_engine_where import BEYOND
from test_engine_where import TABLE as SMALL

import made_tables
import plain_tables
from engines import ROW, UNIT, rows_of, steps, sums
from osgt import Dataset, cut, month, quarter, recode, weekday, year
from osgt.query.groups import Groups
from osgt.query.measures import ClippedSum, Rows, Units, Values
from osgt.query.values import grid_of

HOSTILE = [
    "it's", '"', "`", "\\", "\\'", "''", "a\\", "'; DROP TABLE people; --", "' OR (SELECT max(i) FROM t) > 0 --",
    "${x}", "$$", "$x$", "%", "_", "\n", "\t", "é", "💥", "\\u0041", "E'x'", "U&'\\0041'", "/*", "--", "{x}",
    "x' || 'y", " ", "", "NULL", "\u202e", "x\r\n",
]  # fmt: skip

WHOLE = [None, 0, 1, -1, 17, 18, 64, 65, 119, 120, 121, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)]
REAL = [
    None, math.nan, math.inf, -math.inf, 0.0, -0.0, 0.1, 0.5, 9.999999999999998, 10.0, 10.000000000000002, 50.0,
    50.00000000000001, 1e300, -1e300, 5e-324, 17.5, 0.7,
]  # fmt: skip
SINGLE = [None, math.nan, math.inf, 0.0, 0.1, 0.7, 0.3, 10.0, 1e30]
PRICE = [None, *map(Decimal, ("0.00", "0.01", "-0.01", "9.99", "10.00", "10.01", "9999999999.99", "-9999999999.99"))]
DAYS = [
    None, datetime.date(2020, 2, 29), datetime.date(1999, 12, 31), datetime.date(2024, 1, 1), datetime.date(1, 1, 1),
    datetime.date(9999, 12, 31), datetime.date(2023, 7, 2), datetime.date(2023, 7, 3), datetime.date(1969, 12, 31),
]  # fmt: skip
TIMES = [None if day is None else datetime.datetime(day.year, day.month, day.day, 23, 59, 59, 999999) for day in DAYS]

LENGTH = max(len(values) for values in (HOSTILE, WHOLE, REAL, PRICE, DAYS)) + 1


def _column(values, dtype):
    return pa.array([values[i % len(values)] for i in range(LENGTH)], dtype)


TABLE = pa.table(
    {
        UNIT: pa.array([f"p{i % 7}" for i in range(LENGTH)]),
        ROW: pa.array(range(LENGTH), pa.int64()),
        "i": _column(WHOLE, pa.int64()),
        "j": pa.array([(7 * i) % 23 - 5 for i in range(LENGTH)], pa.int32()),
        "f": _column(REAL, pa.float64()),
        "s": _column(SINGLE, pa.float32()),
        "n": _column(PRICE, pa.decimal128(12, 2)),
        "d": _column(DAYS, pa.date32()),
        "t": _column(TIMES, pa.timestamp("us")),
        "c": _column([None, *HOSTILE], pa.string()),
        "b": _column([None, True, False], pa.bool_()),
        "Odd name": _column([None, 1, 2], pa.int64()),
    }
)


# The reference: a row at a time, and no query language


def banded(edges, labels):
    def band(value):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return None
        for i, label in enumerate(labels):
            low, high = edges[i], edges[i + 1]
            if low <= value and (value < high or (i == len(labels) - 1 and value <= high)):
                return label
        return None

    return band


def wrapped(value):
    """Whole numbers beyond 64 bits are missing."""
    return value if value is not None and -(2**63) <= value < 2**63 else None


def on(column, function):
    return lambda row: None if row[column] is None else function(row[column])


INF = math.inf
AGES = [0, 18, 65, 120]
FARES = [0.0, 0.1, 0.7, 10, 50]
CASES = {
    "band": (cut("i", AGES), lambda r: banded(AGES, ["0–17", "18–64", "65–120"])(r["i"])),
    "below": (cut("i", [-INF, 0, 18, INF]), lambda r: banded([-INF, 0, 18, INF], ["<0", "0–17", "18+"])(r["i"])),
    "halves": (cut("i", [-0.5, 17.5, 64.5]), lambda r: banded([-0.5, 17.5, 64.5], ["-0.5 to <17.5", "17.5 to 64.5"])(
        r["i"])),
    "real": (cut("f", FARES), lambda r: banded(FARES, ["0–<0.1", "0.1–<0.7", "0.7–<10", "10–50"])(r["f"])),
    "open": (cut("f", [0.0, 10, INF]), lambda r: banded([0, 10, INF], ["0–<10", "10+"])(r["f"])),
    "least": (cut("f", [-INF, 0.5]), lambda r: banded([-INF, 0.5], ["≤0.5"])(r["f"])),
    "single": (cut("s", FARES), lambda r: banded(FARES, ["0–<0.1", "0.1–<0.7", "0.7–<10", "10–50"])(r["s"])),
    "price": (cut("n", [0.0, 0.01, 10]), lambda r: banded([0, Decimal("0.01"), 10], ["0–<0.01", "0.01–10"])(r["n"])),
    "dear": (cut("n", [10.0, INF], labels=["it's dear"]), lambda r: banded([10, INF], ["it's dear"])(r["n"])),
    "y": (year("d"), on("d", lambda d: d.year)),
    "q": (quarter("d"), on("d", lambda d: (d.month + 2) // 3)),
    "m": (month("t"), on("t", lambda t: t.month)),
    "w": (weekday("d"), on("d", lambda d: d.isoweekday())),
    "wt": (weekday("t"), on("t", lambda t: t.isoweekday())),
    "decade": (cut(year("d"), [1900, 2000, 2100]), on("d", lambda d: banded([1900, 2000, 2100],
               ["1900–1999", "2000–2100"])(d.year))),
    "coded": (recode("j", {-5: "a", 0: "b", 17: None}, otherwise="c"),
              lambda r: {-5: "a", 0: "b", 17: None}.get(r["j"], "c")),
    "told": (recode("b", {True: "yes", False: "no", None: "unknown"}),
             lambda r: {True: "yes", False: "no", None: "unknown"}[r["b"]]),
    "number": (recode("c", {"it's": -1, "\\": 2}, otherwise=0), lambda r: {"it's": -1, "\\": 2}.get(r["c"], 0)),
    "odd": (recode("Odd name", {1: "one"}), lambda r: {1: "one"}.get(r["Odd name"])),
    "sum": ("i + j", lambda r: None if r["i"] is None else wrapped(r["i"] + r["j"])),
    "twice": ("2 * i", lambda r: None if r["i"] is None else wrapped(2 * r["i"])),
    "net": ("f - 0.5", lambda r: None if r["f"] is None else r["f"] - 0.5),
    "case": ("CASE WHEN j < 0 THEN 'less' WHEN j = 0 THEN 'none' ELSE c END",
             lambda r: "less" if r["j"] < 0 else "none" if r["j"] == 0 else r["c"]),
    "flag": ("i > 17 AND j IS NOT NULL", lambda r: None if r["i"] is None else r["i"] > 17),
    "copied": ("d", lambda r: r["d"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def stored(engine_of):
    found = {}

    def of(engine):
        if engine.name not in found:
            found[engine.name] = engine.put(TABLE)
        return found[engine.name]

    return of


def fetched(dataset, *names):
    return rows_of(dataset.rows(), ROW, *names).sort_by(ROW)


def same(found, expected):
    if isinstance(expected, float) and isinstance(found, float):
        return found == expected or (math.isnan(found) and math.isnan(expected))
    return found == expected and (found is None) == (expected is None)


def test_every_row_is_what_the_reference_says(engine, stored):
    data = stored(engine).derive({name: given for name, (given, _) in CASES.items()})
    table, rows = fetched(data, *CASES), TABLE.to_pylist()
    for name, (given, reference) in CASES.items():
        found, expected = table[name].to_pylist(), [reference(row) for row in rows]
        wrong = [(row, f, e) for row, f, e in zip(rows, found, expected, strict=True) if not same(f, e)]
        assert wrong == [], (name, given, wrong[:2])
        # The type is what was said before any row was read.
        assert table[name].type == table[name].cast(data.table.columns[name].arrow).type or engine.slow


def test_what_is_written_for_people_can_be_read_again(engine, stored):
    """A query file with the text of a derivation runs the same SQL."""
    data = stored(engine)
    for name, (given, _reference) in list(CASES.items())[:: 6 if engine.slow else 1]:
        once = data.derive(x=given).derived["x"]
        again = data.derive(x=once.text).derived["x"]
        assert (again.sql, again.text, again.values) == (once.sql, once.text, once.values), name
    for text in HOSTILE[:: 9 if engine.slow else 1]:
        once = data.derive(x=recode("c", {text: text + "x"})).derived["x"]
        assert data.derive(x=once.text).derived["x"].sql == once.sql, text


def test_hostile_labels_and_mappings(engine, stored):
    """Whatever stands in a label or a mapping comes out as it went in, in its own row alone."""
    rows = TABLE.to_pylist()
    labels = [text for text in HOSTILE if text]
    edges = [-5, *range(-4, -4 + len(labels))]
    data = stored(engine).derive(
        a=recode("c", {text: f"<{text}>" for text in HOSTILE}, otherwise="'"),
        a2=cut("j", edges, labels=labels),
        a3=recode("j", dict(zip(range(-5, 18), HOSTILE, strict=False))),
    )
    table = fetched(data, "a", "a2", "a3")
    assert table["a"].to_pylist() == ["'" if row["c"] is None else f"<{row['c']}>" for row in rows]
    assert table["a2"].to_pylist() == [banded(edges, labels)(row["j"]) for row in rows]
    assert table["a3"].to_pylist() == [dict(zip(range(-5, 18), HOSTILE, strict=False)).get(row["j"]) for row in rows]


NAMES = ["select", "Where", "a b", "a.b", "a'b", "a;b", "--", "a -- b", "é", "💥", "%s", "{x}", "a$b", "key_0", "unit",
         "value_0", "position", "t0", "x" * 63]  # fmt: skip
NO_NAMES = ["", " ", 'a"b', "a`b", "a\\b", "a\nb", "a\0b", "x" * 64, "é" * 32, "\ud800", ROW, ROW.upper(), 7, None]


def test_hostile_names(engine, stored):
    data = stored(engine)
    names = NAMES[:: 4 if engine.slow else 1]
    many = data.derive(dict.fromkeys(names, "j + 1"))
    table = fetched(many, *names)
    for name in names:
        assert table[name].to_pylist() == [row["j"] + 1 for row in TABLE.to_pylist()], name
    query = many.group_by(*names[:3], max_groups=50, max_rows_per_group=50)
    found = sums(query, [Rows()])
    assert sum(number for [[number]] in found.values()) == LENGTH
    for name in NO_NAMES:
        with pytest.raises(ValueError, match="derive: "):
            data.derive({name: "j + 1"})


# Bounded sums


def reference_rows(rows):
    return [row | {name: reference(row) for name, (_, reference) in CASES.items()} for row in rows]


@pytest.mark.parametrize("max_rows", [1, 3])
def test_sums_by_derived_keys_of_derived_values(engine, stored, max_rows):
    names = ("band", "told", "w", "net", "sum")
    data = stored(engine).derive({name: CASES[name][0] for name in names}).where("told <> 'no'")
    by, limits = ("band", "told", "w"), {"max_groups": 50, "max_rows_per_group": max_rows}
    query = data.group_by(*by, **limits, public_keys="none")
    measures = [
        Units(), Rows(), Values("net"),
        ClippedSum("net", grid_of("net", data.type_of("column", "net"), (-5, 40))),
        ClippedSum("sum", grid_of("sum", data.type_of("column", "sum"), (-100, 100))),
    ]  # fmt: skip
    rows = [row for row in reference_rows(TABLE.to_pylist()) if row["told"] in ("yes", "unknown")]
    expected = plain_tables.weighted_sums(rows, UNIT, by, plain_tables.Limits(**limits), measures)
    assert plain_tables.differences(steps(query, measures), expected, measures) == []


def test_one_unit_moves_no_more_than_its_part(engine):
    rng = made_tables.same_every_time(41)
    rows = made_tables.made_rows(rng, people=12)
    limits = {"max_groups": 2, "max_rows_per_group": 2}
    groups = Groups(("band", "short"), **limits)

    def answer(rows):
        data = engine.put(made_tables.table_of(rows)).derive(
            band=cut("whole", [-(2**40), 0, 7, 2**40]),
            short="substr(town, 1, 2)",
            more="whole + small",
            half="real / 2",
        )
        query = data.where("more IS NOT NULL OR half < 1").group_by("band", "short", **limits)
        grids = {name: grid_of(name, data.type_of("column", name), (-9, 90)) for name in ("more", "half")}
        measures = [Units(), Rows(), Values("half"), *(ClippedSum(name, grid) for name, grid in grids.items())]
        return steps(query, measures, salt=5), measures

    whole, measures = answer(rows)
    for unit in sorted({row[UNIT] for row in rows} - {None})[: 1 if engine.slow else 4]:
        less, _ = answer([row for row in rows if row[UNIT] != unit])
        assert beyond_part(whole, less, groups, measures, "add_remove") == []
        other, _ = answer([row | {"whole": 5, "town": "zz"} if row[UNIT] == unit else row for row in rows])
        assert beyond_part(whole, other, groups, measures, "change_one") == []


def test_public_keys_that_follow_from_the_derivation(engine, stored):
    data = stored(engine).derive(band=CASES["band"][0], w=CASES["w"][0])
    query = data.group_by("band", "w", max_groups=9, max_rows_per_group=9, public_keys="all")
    labels = ["0–17", "18–64", "65–120"]
    assert query.groups.public.to_pydict() == {
        "band": [label for label in labels for _ in range(7)],
        "w": list(range(1, 8)) * 3,
    }
    rows = [row for row in reference_rows(TABLE.to_pylist()) if row["band"] is not None and row["w"] is not None]
    found = sums(query, [Rows()])
    assert sum(number for [[number]] in found.values()) == len(rows)
    for row in rows:
        assert found[(labels.index(row["band"]) * 7 + row["w"] - 1,)]


# What is refused


_SMALL = {}


def small(engine):
    if engine.name not in _SMALL:
        _SMALL[engine.name] = engine.put(SMALL)
    return _SMALL[engine.name]


INSIDE = [
    "avg(size)",
    "sum(size) OVER ()",
    "(SELECT max(size) FROM osgt_rows)",
    "cut((SELECT 1), 0, 1)",
    "cut(random(), 0, 1)",
    "cut(max(size), 0, 1)",
    "recode(size, 1, (SELECT 1))",
    "cut(nextval('s'), 0, 1)",
    "weekday(max(now()))",
]


@pytest.mark.on_slow_engines("text", BEYOND[:14:3])  # parsed before the engine sees it
@pytest.mark.parametrize("text", [*BEYOND, *INSIDE])
def test_refused_in_sql(engine, text):
    with pytest.raises(ValueError, match="derive: x: "):
        small(engine).derive(x=text)


WRONG = {
    "cut(size)": "at least two edges",
    "cut(size, 0)": "at least two edges",
    "cut(size, 1, 0)": "ascending",
    "cut(size, 0, 0)": "ascending",
    "cut(size, 0, size)": "numbers, written out",
    "cut(size, 0, NULL, 1)": "only the first and the last may be open",
    "cut(size, NULL, NULL)": "at least two edges",
    "cut(size, 0, 'a', 1, 2)": "one between each two edges",
    "cut(size, 0, 'a', 1, 'a', 2)": "labels of cut must differ",
    "cut(size, 0, 1e99)": "between 1e-40 and 1e40",
    "cut(size, 0, 9223372036854775808)": "below 2\\*\\*63",
    "cut(town, 0, 1)": "cut needs a number",
    "cut(size + 0.5, 0, 1)": "are for whole numbers",
    "recode(size, 1)": "at least one pair",
    "recode(size, 1, 'a', 1, 'b')": "each old value once",
    "recode(size, 1, 'a', 2, 3)": "does not understand",
    "year(size)": "needs a date or a time",
    "year(DATE '2020-01-01', 1)": "and nothing else",
    "NULL": "cannot be of type null",
    "INTERVAL '1' DAY": "cannot be of type interval",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_go_together(engine_of, text):
    data = small(engine_of("duckdb"))
    with pytest.raises((ValueError, TypeError), match=WRONG[text]):
        data.derive(x=text)


def test_columns_of_columns_do_not_grow_without_end(engine_of):
    """Each is computed from the one before, twice: refused before it is too long for an engine."""
    data, before = small(engine_of("duckdb")), "size"
    with pytest.raises(ValueError, match="too many columns that are computed themselves"):  # noqa: PT012
        for i in range(40):
            data = data.derive({f"x{i}": f"{before} + {before}"})
            before = f"x{i}"
    assert len(data.derived) > 8


def test_a_derivation_reads_nothing(tmp_path):
    import pyarrow.parquet  # noqa: PLC0415

    path = tmp_path / "data.parquet"
    pyarrow.parquet.write_table(SMALL, path)
    data = Dataset(str(path), UNIT)
    path.unlink()
    for text in BEYOND[:20]:
        with pytest.raises(ValueError, match="derive"):
            data.derive(x=text)
