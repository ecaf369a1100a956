"""Types are declared, never guessed: no value changes a type, a plan, a query or whether a release succeeds."""

import datetime as dt
import gzip
import math
import re
from decimal import Decimal

import pandas as pd
import polars
import pyarrow as pa
import pytest

from engines import rows_of, sums
from osgt import Dataset
from osgt.data.engines.query import compile_query, fetch
from osgt.query.measures import ClippedSum, Rows, Units, Values
from osgt.release.measuring import exact_sums
from stands import STANDS

#: Engines that read files.
FILES = [name for name, stand in STANDS.items() if stand.reads_files]

TYPES = {
    "whole": "int64",
    "real": "float64",
    "price": "decimal(10, 2)",
    "flag": "boolean",
    "day": "date",
    "moment": "timestamp",
}

#: How text is read, on every engine alike: the field, and what it is for each type that it fits. NaN is missing.
INF, NAN = math.inf, "NaN"
READ = [
    ("1", {"whole": 1, "real": 1.0, "price": Decimal("1.00"), "flag": True}),
    ("0", {"whole": 0, "real": 0.0, "price": Decimal("0.00"), "flag": False}),
    (" -7\t", {"whole": -7, "real": -7.0, "price": Decimal("-7.00")}),
    ("+7", {"whole": 7, "real": 7.0, "price": Decimal("7.00")}),
    ("3.0", {"whole": 3, "real": 3.0, "price": Decimal("3.00")}),
    ("3.5", {"real": 3.5, "price": Decimal("3.50")}),
    (".5", {"real": 0.5, "price": Decimal("0.50")}),
    ("1.230", {"real": 1.23, "price": Decimal("1.23")}),
    ("1.23456", {"real": 1.23456}),
    ("1e3", {"real": 1000.0}),
    ("1e400", {"real": INF}),
    ("-inf", {"real": -INF}),
    ("Infinity", {"real": INF}),
    ("nan", {"real": NAN}),
    ("1,5", {}),
    ("1_000", {}),
    ("0x10", {}),
    ("1 2", {}),
    ("5d", {}),
    ("٣", {}),
    ("abc", {}),
    ("", {}),
    ("9223372036854775807", {"whole": 2**63 - 1, "real": 2.0**63}),
    ("9223372036854775808", {"real": 2.0**63}),
    ("100000000", {"whole": 10**8, "real": 1e8}),
    ("1" * 999, {"real": INF}),
    ("1" * 1001, {}),
    ("TRUE", {"flag": True}),
    ("false", {"flag": False}),
    ("t", {}),
    ("2024-02-29", {"day": dt.date(2024, 2, 29), "moment": dt.datetime(2024, 2, 29)}),
    ("2023-02-29", {}),
    ("2024-2-9", {}),
    ("0000-01-01", {}),
    ("10000-01-01", {}),
    ("29.02.2024", {}),
    ("2024-02-29 23:59", {"moment": dt.datetime(2024, 2, 29, 23, 59)}),
    ("2024-02-29T23:59:58.25", {"moment": dt.datetime(2024, 2, 29, 23, 59, 58, 250000)}),
    ("2024-02-29 24:00", {}),
    ("2024-02-29 23:590", {}),
    ("2024-02-29 23:59Z", {}),
    ("epoch", {}),
]


def written(path, columns):
    """A CSV file in which every field is quoted."""
    quoted = [
        ",".join('"' + field.replace('"', '""') + '"' for field in row) for row in zip(*columns.values(), strict=True)
    ]
    path.write_text("\n".join([",".join(columns), *quoted]) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("engine_name", FILES)
def test_how_text_is_read(engine_of, tmp_path, engine_name):
    engine_of(engine_name)
    fields = [field for field, _ in READ]
    columns = {"person": [str(i) for i in range(len(READ))]} | dict.fromkeys(TYPES, fields)
    data = Dataset(written(tmp_path / "x.csv", columns), "person", types=TYPES, engine=engine_name)
    found = fetch(compile_query(data.table)).to_pylist()
    assert len(found) == len(READ)
    for row in found:
        field, values = READ[int(row.pop("person"))]
        shown = {k: NAN if v != v else v for k, v in row.items() if v is not None}  # noqa: PLR0124
        assert shown == values, field
        assert all(type(v) is type(values[k]) for k, v in shown.items()), field


def test_how_objects_are_read():
    """Values of a column of objects are read as if they were written down."""
    values = [
        1,
        True,
        3.0,
        3.5,
        Decimal("1.23"),
        Decimal("1.23456"),
        Decimal("1e999999"),
        10**5000,
        "7",
        "x",
        None,
        b"1",
    ]
    values += [math.nan, INF, dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1), pd.NaT, pd.NA, [1], "\ud800", 1e20]
    expected = {
        "whole": {0: 1, 2: 3, 8: 7},
        "real": {0: 1.0, 2: 3.0, 3: 3.5, 4: 1.23, 5: 1.23456, 6: INF, 7: INF, 8: 7.0, 13: INF, 20: 1e20},
        "price": {0: Decimal(1), 2: Decimal(3), 3: Decimal("3.5"), 4: Decimal("1.23"), 8: Decimal(7)},
        "flag": {0: True, 1: True},
        "day": {14: dt.date(2024, 2, 29)},
        "moment": {14: dt.datetime(2024, 2, 29), 15: dt.datetime(2024, 2, 29, 1)},
    }
    people = [str(i) for i in range(len(values))]
    objects = pd.Series(values, dtype=object)
    frames = [
        pd.DataFrame({"person": people} | dict.fromkeys(TYPES, objects)),
        polars.DataFrame({"person": people} | {n: polars.Series(n, values, dtype=polars.Object) for n in TYPES}),
    ]
    for frame in frames:
        table = Dataset(frame, "person", types=TYPES).table
        for row in rows_of(table).to_pylist():
            at = int(row.pop("person"))
            shown = {k: v for k, v in row.items() if v is not None and v == v}  # noqa: PLR0124
            assert shown == {name: known[at] for name, known in expected.items() if at in known}, values[at]


def query_of(data):
    groups = data.group_by("town", max_groups=2, max_rows_per_group=2)
    return groups.count().sum("whole", (0, 100)).mean("real", (0, 10)).sum("price", (0, 5)).histogram("real", [0, 1, 2])


def fingerprint(data):
    """All of a release that must not depend on values: schema, grids, shifts and the text of the query."""
    query = query_of(data)
    planning = query.planning()
    parts = {measure: planning.part(measure) for measure in planning.alternatives.directly().measured}
    text = exact_sums(query, list(parts), salt=1).sql
    return str(data.table.columns), parts, query.aggregates, re.sub(r"osgt_[0-9a-f]+", "view", text)


HOSTILE = {
    "a fraction": ("3.5", 3.5), "text": ("abc", "abc"), "a huge number": ("1e400", 10**400),
    "many digits": ("1.23456789012345678901234567890", Decimal("1.23456789012345678901234567890")),
    "nothing": ("", None), "a time": ("2024-01-01", dt.datetime(2024, 1, 1)), "half a character": ("x", "\ud800"),
    "huge text": ("9" * 100_000 + "x", "9" * 100_000 + "x"), "a list": ("[1]", [1]), "a truth value": ("true", True),
}  # fmt: skip


def rows_with(value, first=True):
    """Rows of five people, and one whose numbers are the value."""
    usual = [{"person": f"p{i}", "town": "x", "whole": i, "real": i / 2, "price": Decimal(i)} for i in range(5)]
    hostile = {"person": "q", "town": "x", "whole": value, "real": value, "price": value}
    return [hostile, *usual] if first else [*usual, hostile]


def csv_with(folder, field, engine, **options):
    columns = {
        name: [str(row[name]) for row in rows_with(field)] for name in ("person", "town", "whole", "real", "price")
    }
    types = {name: TYPES[name] for name in ("whole", "real", "price")}
    return Dataset(written(folder / "x.csv", columns), "person", types=types, engine=engine, **options)


def frame_with(value, library):
    types = {name: TYPES[name] for name in ("whole", "real", "price")}
    columns = {name: [row[name] for row in rows_with(value)] for name in ("person", "town", *types)}
    if library == "pandas":
        frame = pd.DataFrame(
            {"person": columns["person"]} | {n: pd.Series(v, dtype=object) for n, v in columns.items()}
        )
        frame["person"] = frame["person"].astype("string")
    else:
        objects = {name: polars.Series(name, columns[name], dtype=polars.Object) for name in types}
        frame = polars.DataFrame({"person": columns["person"], "town": columns["town"]} | objects)
    return Dataset(frame, "person", types=types)


@pytest.mark.parametrize("kind", [*FILES, "pandas", "polars"])
def test_no_value_changes_a_release(engine_of, tmp_path, kind):
    """Neighbours that differ by one hostile row: same types, same plan, same query, and both succeed."""
    engine_of(kind if kind in FILES else "duckdb")

    def data_with(field, value):
        return frame_with(value, kind) if kind in ("pandas", "polars") else csv_with(tmp_path, field, kind)

    usual = fingerprint(data_with("2", 2))
    for name, (field, value) in HOSTILE.items():
        data = data_with(field, value)
        assert fingerprint(data) == usual, name
        query = query_of(data)
        found = fetch(compile_query(exact_sums(query, [Rows(), query.aggregates[1].measure], salt=1)))
        assert found["sum_0_0"].to_pylist() == [6 * query.groups.full_worth], name  # the row still counts as a row


@pytest.mark.parametrize("kind", ["csv", "pandas"])
def test_neighbours_have_the_same_plan_and_columns(tmp_path, kind):
    made = []
    for field, value in (("2", 2), HOSTILE["many digits"], HOSTILE["text"]):
        data = frame_with(value, kind) if kind == "pandas" else csv_with(tmp_path, field, "duckdb")
        query = data.group_by(max_rows_per_group=2).sum("whole", (0, 100)).sum("price", (0, 5))
        made.append((str(query.plan(1, 1e-6)), query.release(1, 1e-6).to_arrow().schema))
    assert made[0] == made[1] == made[2]
    assert made[0][1].field("whole_sum").type == pa.int64()
    assert made[0][1].field("price_sum").type == pa.decimal128(38, 2)


#: Lines that break the rules of CSV, and how many rows and values they leave with those of the five other people.
LINES = {
    "too few fields": (b"q,x", 6, 5),
    "too many fields": (b"q,x,7,8,9,10", 6, 6),
    "an empty line": (b"", 5, 5),
    "a quote inside": (b'q,x"y,7', 6, 6),
    "text after a quote": (b'q,"x"y,7', 6, 6),
    "a line break inside": (b'q,"x\ny",7', 6, 6),
    "a zero byte": (b"q,x\x00,7", 6, 6),
    "a comment": (b"#q,x,7", 6, 6),
    "another delimiter": (b"q;x;7", 6, 5),
}


@pytest.mark.parametrize("engine_name", FILES)
def test_no_line_is_an_error(engine_of, tmp_path, engine_name):
    engine_of(engine_name)
    usual = b"".join(b"p%d,x,%d\n" % (i, i) for i in range(5))
    for name, (line, rows, values) in LINES.items():
        (tmp_path / "x.csv").write_bytes(b"person,town,whole\n" + line + b"\n" + usual)
        data = Dataset(tmp_path / "x.csv", "person", types={"whole": "int64"}, engine=engine_name)
        query = data.group_by(max_rows_per_group=9)
        assert sums(query, [Rows(), Values("whole")]) == {(): [[rows], [values]]}, name


@pytest.mark.parametrize("engine_name", FILES)
def test_forms_of_files(engine_of, tmp_path, engine_name):
    """Compressed files, globs, tabs, semicolons, a byte order mark, Windows' lines; "" is text, nothing is missing."""
    engine_of(engine_name)
    text = 'person,town,whole\na,x,1\nb,,2\nc,"",3\n'
    found = {("x",): [[1], [1]], (None,): [[1], [2]], ("",): [[1], [3]]}
    (tmp_path / "plain.csv").write_text(text)
    (tmp_path / "mark.csv").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    (tmp_path / "tabs.tsv").write_text(text.replace(",", "\t"))
    (tmp_path / "other.csv").write_text(text.replace(",", ";"))
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "part 1.csv").write_text("person,town,whole\na,x,1\nb,,2\n")
    (tmp_path / "part 2.csv").write_text('person,town,whole\nc,"",3\n')
    for name in ("plain.csv", "mark.csv", "tabs.tsv", "other.csv", "packed.csv.gz", "part *.csv"):
        options = {"other.csv": {"delimiter": ";"}, "tabs.tsv": {"quote": '"'}}.get(name, {})
        data = Dataset(tmp_path / name, "person", types={"whole": "int64"}, engine=engine_name, **options)
        query = data.group_by("town", max_groups=1, max_rows_per_group=1).sum("whole", (0, 9))
        assert sums(query, [Units(), query.aggregates[0].measure]) == found, name
    (tmp_path / "part 3.csv").write_text("person,whole,town\na,1,x\n")
    with pytest.raises(ValueError, match="must have the same columns in the same order"):
        Dataset(tmp_path / "part *.csv", "person", engine=engine_name)


class TestErrors:
    @pytest.fixture
    def path(self, tmp_path):
        return written(tmp_path / "x.csv", {"person": ["a"], "town": ["x"], "whole": ["1"]})

    @pytest.mark.parametrize("act", ["sum", "mean", "variance", "histogram"])
    def test_what_is_added_up_is_declared(self, path, act):
        groups = Dataset(path, "person").group_by("town", max_groups=1, max_rows_per_group=1)
        with pytest.raises(TypeError, match=r"column 'whole' must be declared.*types=\{\"whole\": \"float64\"\}"):
            getattr(groups, act)("whole", [0, 1])

    @pytest.mark.parametrize(
        ("types", "message"),
        [
            ({"hole": "int64"}, "types: there is no column 'hole'"),
            ({"whole": "integer"}, "types: column 'whole' must be int64, float64"),
            ({"whole": int}, "types: column 'whole' must be int64, float64"),
            ({"whole": "decimal(3, 4)"}, "types: column 'whole' must be decimal"),
            ({"whole": "decimal(39, 4)"}, "types: column 'whole' must be decimal"),
        ],
    )
    def test_types(self, path, types, message):
        with pytest.raises(ValueError, match=message):
            Dataset(path, "person", types=types)

    def test_types_are_a_dict(self, path):
        with pytest.raises(TypeError, match="types must be a dict"):
            Dataset(path, "person", types=["whole"])

    @pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", 5])
    def test_delimiters(self, path, delimiter):
        with pytest.raises(ValueError, match="delimiter must be one character"):
            Dataset(path, "person", delimiter=delimiter)

    def test_sources_with_types_of_their_own(self, tmp_path):
        table = pa.table({"person": [1], "town": ["x"]})
        with pytest.raises(ValueError, match="types: column 'person' has the type int64 of its own"):
            Dataset(table, "person", types={"person": "string"})
        pa.parquet.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(ValueError, match="types is for CSV files and for frames"):
            Dataset(tmp_path / "x.parquet", "person", types={"town": "int64"})
        with pytest.raises(ValueError, match="delimiter is for CSV files"):
            Dataset(table, "person", delimiter=";")

    def test_names_that_are_one_to_the_engine_or_to_spark(self, tmp_path, engine_of):
        session = engine_of("spark") and __import__("pyspark").sql.SparkSession.getActiveSession()
        twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
        sources = [twice, pa.table([[1], [2]], names=["a", "a"]), pa.table({"a": [1], "A": [2]})]
        sources += [pd.DataFrame({"a": [1], "A": [2]}), polars.DataFrame({"a": [1], "A": [2]})]
        sources += [
            written(tmp_path / "x.csv", {"a": ["1"], "A": ["2"]}),
            session.createDataFrame([(1, 2)], ["a", "A"]),
        ]
        for source in sources:
            with pytest.raises(ValueError, match="have one name; rename one of them"):
                Dataset(source, "a")

    @pytest.mark.parametrize(
        ("kind", "odd"),
        [
            (kind, odd)
            for kind in ("pandas", "categories", "polars")
            for odd in (1, 2.5, True, b"a", Decimal(1), ["a"], dt.date(2020, 1, 1))
            if kind != "categories" or not isinstance(odd, list)  # a list is no category
        ],
    )
    def test_a_unit_of_mixed_types(self, kind, odd):
        """Text beside something else: of a person whose name is no text, all rows would be ignored."""
        people = pd.Series(["a", odd, None], dtype=object)
        frame = {
            "pandas": lambda: pd.DataFrame({"person": people}),
            "categories": lambda: pd.DataFrame({"person": people.astype("category")}),
            "polars": lambda: polars.DataFrame({"person": polars.Series(people.tolist(), dtype=polars.Object)}),
        }[kind]()
        with pytest.raises(TypeError, match="privacy_unit: column 'person' has mixed types"):
            Dataset(frame, "person")
        if isinstance(odd, int | float | Decimal | dt.date):
            data = Dataset(frame, "person", types={"person": "string"})
            assert sums(data.group_by(max_rows_per_group=1), [Units()]) == {(): [[2]]}

    @pytest.mark.parametrize("missing", [None, float("nan"), pd.NaT, pd.NA])
    def test_a_unit_of_objects_that_are_text(self, missing):
        frame = pd.DataFrame({"person": pd.Series(["a", "b", missing, "a"], dtype=object)})
        for each in (frame, frame.astype("category")):
            data = Dataset(each, "person")
            assert sums(data.group_by(max_rows_per_group=1), [Units()]) == {(): [[2]]}


def test_the_statement_says_what_was_declared(tmp_path):
    released = csv_with(tmp_path, "2", "duckdb").group_by(max_rows_per_group=1).count().release(1, 1e-6)
    declared = {"whole": "int64", "real": "float64", "price": "decimal(10, 2)"}
    assert released.statement.to_dict()["query"]["data"]["types"] == declared


def test_texts_and_categories_of_pandas():
    """By their declared type alone: objects are text where they are text, categories are what they stand for."""
    frame = pd.DataFrame(
        {
            "person": pd.Series(["a", "b", "c"], dtype="string"),
            "text": pd.Series(["x", 1, None], dtype=object),
            "kind": pd.Categorical(["x", None, "x"], categories=["y", "x"]),
            "number": pd.Categorical([5, 5, None]),
            "maybe": pd.Series([1, None, 2**62 + 1], dtype="Int64"),
        }
    )
    data = Dataset(frame, "person")
    assert [str(dtype) for dtype in data.table.columns.values()] == ["string", "string", "string", "int64", "int64"]
    for by, expected in {
        "text": {("x",): [[1]], (None,): [[2]]},
        "kind": {("x",): [[2]], (None,): [[1]]},
        "number": {(5,): [[2]], (None,): [[1]]},
        "maybe": {(1,): [[1]], (None,): [[1]], (2**62 + 1,): [[1]]},
    }.items():
        assert sums(data.group_by(by, max_groups=1), [Units()]) == expected, by
    steps = ClippedSum("maybe", data.group_by(max_rows_per_group=1).sum("maybe", (0, 5)).aggregates[0].grid)
    assert sums(data.group_by(max_rows_per_group=1), [steps]) == {(): [[6]]}
