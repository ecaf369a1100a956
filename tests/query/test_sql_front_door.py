"""Questions in SQL: what they mean, against DuckDB's own answer to the same text, and all that is refused."""

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from osgt import Dataset
from osgt.noise.integer import IntegerDistribution
from osgt.query.from_sql import read_select
from spies import SpyLedger, people

KEYS = {"k": ["x", "y", "z"], "j": [1, 2]}


def made_rows(size=400):
    """Rows with missing values, but none without a unit or a key."""
    chosen = random.Random(7)

    def numbers(low, high, missing):
        return [None if chosen.random() < missing else chosen.randint(low, high) for _ in range(size)]

    return pa.table(
        {
            "unit": [chosen.randrange(60) for _ in range(size)],
            "k": [chosen.choice(KEYS["k"]) for _ in range(size)],
            "j": pa.array([chosen.choice(KEYS["j"]) for _ in range(size)], pa.int64()),
            "a": pa.array(numbers(-9, 9, 0.1), pa.int64()),
            "b": pa.array(numbers(0, 200, 0), pa.int64()),
            "flag": [chosen.random() < 0.4 for _ in range(size)],
            "day": pa.array([chosen.randrange(19_000, 19_700) for _ in range(size)], pa.int32()).cast(pa.date32()),
        }
    )


ROWS = made_rows()


@pytest.fixture
def no_noise(monkeypatch):
    """Noise of 0: what is published is what was asked for."""
    monkeypatch.setattr(IntegerDistribution, "sample", lambda law, size=None: np.zeros(size or (), np.int64)[()])


def own_answer(text, rows=ROWS):
    """The answer of DuckDB to the same text: by the keys, the numbers."""
    with duckdb.connect() as connection:
        connection.register("visits", rows)
        answer = connection.execute(text)
        names = [column[0] for column in answer.description]
        return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def compare(text, keys, bounds, tolerance=1e-5):
    """Compare a release without noise and without anything cut off with DuckDB's own answer."""
    data = Dataset(ROWS, "unit")
    names = [name for name in keys if name in KEYS]
    public = {name: KEYS[name] for name in names} if len(names) == len(keys) else "all"
    options = {"public_keys": public} if keys else {}
    release = data.sql(text, bounds=bounds, max_rows=40, **options).release(50, 1e-6, measure_left_out=False)
    found = {tuple(row.get(key) for key in keys): row for row in release.to_arrow().to_pylist()}
    expected = own_answer(text)
    assert expected
    for row in expected:
        ours = found[tuple(row[key] for key in keys)]
        for name, value in row.items():
            if name in keys or value is None:
                continue
            if ours[name] is None:  # of a ratio in a group of few rows, nothing is known
                assert len(expected) > 1 or "WHERE" in text
                continue
            low, high = bounds.get(name, (0, 0))  # squares are rounded to a part of what they can be at most
            most_off = max(tolerance, 1e-8 * (high - low) ** 2)
            assert float(ours[name]) == pytest.approx(float(value), rel=tolerance, abs=most_off), (name, text)


#: Texts whose answers are compared: the keys, and bounds by the names after AS.
TEXTS = {
    "SELECT COUNT(*) AS n FROM visits": ([], {}),
    "select k, count(*) as n, count(a) as present from visits group by k": (["k"], {}),
    "SELECT k, j, COUNT(*) AS n, SUM(b) AS total FROM visits WHERE NOT flag GROUP BY k, j": (
        ["k", "j"], {"total": (0, 200)}),
    "SELECT k, COUNT(*) n, AVG(v.b) AS m FROM visits AS v WHERE v.a > 0 AND v.k IN ('x', 'y') GROUP BY 1": (
        ["k"], {"m": (0, 200)}),
    "SELECT k, AVG(CASE WHEN a > 2 THEN 1 ELSE 0 END) AS share FROM visits GROUP BY k": (["k"], {}),
    "SELECT k, AVG(CASE WHEN a IS DISTINCT FROM 2 THEN 1 ELSE 0 END) rate FROM visits GROUP BY ALL": (["k"], {}),
    "SELECT k, AVG(flag::int) AS share, SUM(flag::int) AS many FROM visits GROUP BY k": (
        ["k"], {"share": (0, 1), "many": (0, 1)}),
    "SELECT k, SUM(a * b) AS s, SUM(CASE WHEN flag THEN 2 ELSE -1 END) AS c FROM visits GROUP BY k": (
        ["k"], {"s": (-1800, 1800)}),
    "SELECT k, COUNT(*) FILTER (WHERE flag) AS n, AVG(b) FILTER (WHERE a > 0 OR flag) AS m FROM visits GROUP BY k": (
        ["k"], {"m": (0, 200)}),
    "SELECT k, COUNT(a) FILTER (WHERE flag) AS n, COUNT_IF(a > 0 AND flag) c, COUNT(1) o FROM visits GROUP BY k": (
        ["k"], {}),
    "SELECT k, VAR_POP(b) AS v FROM visits GROUP BY k": (["k"], {"v": (0, 200)}),
    "SELECT k, COUNT(DISTINCT unit) AS people FROM visits GROUP BY k": (["k"], {}),
    "SELECT month(day) AS month, COUNT(*) AS n FROM visits GROUP BY month(day)": (["month"], {}),
    "SELECT quarter(day) AS q, COUNT(*) AS n FROM visits GROUP BY q ORDER BY q": (["q"], {}),
    "SELECT quarter(day) AS q, COUNT(*) AS n FROM visits /* all */ GROUP BY 1 -- by quarter\n;": (["q"], {}),
    "SELECT k, j, COUNT(*) AS n, SUM(b) AS s FROM visits GROUP BY ROLLUP (k, j)": (["k", "j"], {"s": (0, 200)}),
    "SELECT k, j, COUNT(*) AS n FROM visits GROUP BY CUBE (k, j)": (["k", "j"], {}),
    "SELECT k, j, COUNT(*) AS n FROM visits GROUP BY k, ROLLUP (j)": (["k", "j"], {}),
    "SELECT k, j, COUNT(*) AS n FROM visits GROUP BY GROUPING SETS ((k, j), j, ())": (["k", "j"], {}),
    'SELECT "k", COUNT("a") AS "COUNT" FROM "visits" GROUP BY "k"': (["k"], {}),
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_the_answer_of_duckdb_to_the_same_text(no_noise, text):
    compare(text, *TEXTS[text])


def test_quantiles_are_as_near_as_their_bins(no_noise):
    text = "SELECT k, MEDIAN(b) m, QUANTILE_CONT(b, 0.9) high, APPROX_QUANTILE(b, 0.25) low FROM visits GROUP BY k"
    release = Dataset(ROWS, "unit").sql(text, bounds={"b": (0, 200)}, max_rows=40, public_keys=KEYS["k"])
    found = {row["k"]: row for row in release.release(50, 1e-6).to_arrow().to_pylist()}
    for row in own_answer(text):
        for name in ("m", "high", "low"):
            assert float(found[row["k"]][name]) == pytest.approx(float(row[name]), abs=6), (name, row)


NUMBERS = ["a", "b", "a + b", "b - 2 * a", "abs(a)", "coalesce(a, 3)", "a % 3", "CASE WHEN flag THEN a ELSE b END",
           "greatest(a, b, 5)", "CASE k WHEN 'x' THEN 1 WHEN 'y' THEN b ELSE 0 END"]  # fmt: skip
CONDITIONS = ["flag", "a > 0", "a IS NULL", "b BETWEEN 20 AND 150", "NOT flag", "k LIKE 'x%'", "k IN ('x', 'z')",
              "a IS DISTINCT FROM b", "year(day) = 2022", "b % 2 = 0", "k || 'y' = 'xy'"]  # fmt: skip


@st.composite
def statements(draw):
    """A statement, its keys and the bounds of its results."""
    keys = draw(st.sampled_from([[], ["k"], ["j"], ["k", "j"], ["j", "k"]]))
    conditions = st.sampled_from(CONDITIONS)
    both = st.tuples(conditions, st.sampled_from(["AND", "OR"]), conditions).map(" ".join)
    numbers, bounds, items = st.sampled_from(NUMBERS), {}, []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["COUNT(*)", "COUNT", "SUM", "AVG", "VAR_POP", "share", "if"]))
        number, condition = draw(numbers), draw(st.one_of(conditions, both.map("({})".format)))
        if kind in ("SUM", "AVG", "VAR_POP", "COUNT"):
            bounds |= {} if kind == "COUNT" else {f"x{i}": (-420, 420)}
            item = f"{kind}({number})"
        else:
            share = f"AVG(CASE WHEN {condition} THEN 1 ELSE 0 END)"
            item = {"COUNT(*)": kind, "share": share, "if": f"COUNT_IF({condition})"}[kind]
        if kind != "share" and draw(st.booleans()):
            item += f" FILTER (WHERE {draw(conditions)})"
        items.append(f"{item} AS x{i}")
    where = draw(st.one_of(st.just(""), both.map(" WHERE {}".format)))
    grouped = draw(st.sampled_from(["{}", "ROLLUP ({})", "CUBE ({})"])).format(", ".join(keys))
    by = f" GROUP BY {grouped}" if keys else ""
    return f"SELECT {', '.join([*keys, *items])} FROM visits{where}{by}", keys, bounds


@settings(max_examples=25, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(statements())
def test_the_answers_to_many_texts(statement):
    text, keys, bounds = statement
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IntegerDistribution, "sample", lambda law, size=None: np.zeros(size or (), np.int64)[()])
        if own_answer(text):
            compare(text, keys, bounds, tolerance=2e-3)


def test_the_comparison_can_fail(no_noise, monkeypatch):
    """A condition that is dropped would be found."""
    [text] = [text for text in TEXTS if "WHERE NOT flag" in text]
    monkeypatch.setattr(Dataset, "where", lambda data, condition: data)
    with pytest.raises(AssertionError, match="NOT flag"):
        compare(text, *TEXTS[text])


class TestParts:
    """What a text becomes."""

    def parts(self, text, **bounds):
        return read_select(text, Dataset(ROWS, "unit"), bounds)

    def test_names(self):
        found = self.parts("SELECT k, COUNT(*), AVG(b), SUM(a + b), AVG(flag), COUNT(a) FROM visits GROUP BY k")
        assert found.derive == {"a_b": "a + b", "a_counted": "CASE WHEN a IS NOT NULL THEN 1 ELSE 0 END"}
        named = [(asked["kind"], asked.get("column"), asked.get("name")) for asked in found.aggregates]
        assert named == [
            ("count", None, None),
            ("mean", "b", None),
            ("sum", "a_b", None),
            ("proportion", None, "flag_share"),
            ("sum", "a_counted", "a_count"),
        ]

    def test_an_expression_that_is_asked_for_twice_is_one_column(self):
        found = self.parts("SELECT SUM(a * b) AS s, AVG(a*b) AS m FROM visits", s=(0, 1), m=(0, 1))
        assert found.derive == {"a_b": "a * b"}

    def test_a_derived_name_is_never_taken(self):
        rows = ROWS.append_column("a_b", ROWS["a"])
        found = read_select("SELECT SUM(a * b), SUM(a + b) FROM visits", Dataset(rows, "unit"), {})
        assert list(found.derive) == ["a_b_2", "a_b_3"]

    def test_a_key_under_another_name(self):
        found = self.parts("SELECT k AS kind, COUNT(*) FROM visits GROUP BY kind")
        assert (found.by, found.derive) == (["kind"], {"kind": "k"})

    def test_strings_and_names_are_written_anew(self):
        rows = ROWS.rename_columns([name if name != "a" else 'it"s' for name in ROWS.column_names])
        data = Dataset(rows, "unit")
        query = data.sql("""SELECT COUNT(*) FROM visits WHERE "it""s" > 0 AND k = 'it''s -- no comment'""")
        assert query.dataset.filters[0].text == """"it""s" > 0 AND k = 'it''s -- no comment'"""

    def test_counts_of_the_unit_are_counts_of_rows(self):
        assert self.parts("SELECT COUNT(unit) FROM visits").aggregates == [{"kind": "count"}]
        assert self.parts("SELECT APPROX_COUNT_DISTINCT(unit) FROM visits").aggregates == [{"kind": "count_units"}]

    def test_quantiles_of_the_standard(self):
        text = "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY b) AS p90 FROM visits"
        [asked] = self.parts(text, b=(0, 200)).aggregates
        assert asked == {"kind": "quantile", "column": "b", "levels": 0.9, "bounds": [0, 200], "name": "p90"}
        query = Dataset(ROWS, "unit").sql(text, bounds={"b": (0, 200)})
        assert query.aggregates[0].names == ["p90"]

    def test_several_units(self):
        data = Dataset(ROWS, ["unit", "k"])
        assert read_select("SELECT COUNT(DISTINCT (k, unit)) FROM visits", data, {}).aggregates == [
            {"kind": "count_units"}
        ]
        with pytest.raises(ValueError, match="of the privacy unit or of one expression"):
            data.sql("SELECT COUNT(DISTINCT (unit, a)) FROM visits")

    def test_different_values(self):
        asked = {"kind": "count_distinct", "column": "b"}
        assert self.parts("SELECT COUNT(DISTINCT b) FROM visits").aggregates == [asked]
        assert self.parts("SELECT APPROX_COUNT_DISTINCT(b) AS n FROM visits").aggregates == [asked | {"name": "n"}]
        selection = self.parts("SELECT COUNT(DISTINCT upper(k)) FILTER (WHERE a > 2) FROM visits")
        assert selection.derive == {"upper_k": "CASE WHEN a > 2 THEN upper(k) END"}
        with pytest.raises(ValueError, match="totals must be left out"):
            Dataset(ROWS, "unit").sql(
                "SELECT k, COUNT(DISTINCT b) FROM visits GROUP BY ROLLUP (k)", public_keys=["x", "y"]
            )

    def test_frames_have_any_name_and_files_their_own(self, tmp_path):
        assert Dataset(ROWS, "unit").sql("SELECT COUNT(*) FROM anything")
        path = tmp_path / "visits.csv"
        path.write_text("unit,a\n1,2\n")
        data = Dataset(path, "unit")
        assert data.sql("SELECT COUNT(*) FROM VISITS")
        with pytest.raises(ValueError, match="FROM names the table 'patients', and these data are 'visits'"):
            data.sql("SELECT COUNT(*) FROM patients")


#: Texts that are refused, on the table of `spies.people`, and words of the message.
REFUSED = {
    "": "SELECT with an aggregate",
    "SELECT * FROM people": "rows are never published: in place of *",
    "SELECT city, fare FROM people": "city is neither in GROUP BY nor an aggregate",
    "SELECT city FROM people GROUP BY city": "rows are never published: ask for an aggregate",
    "SELECT DISTINCT city FROM people": "lists values of single rows",
    "SELECT city, COUNT(*) FROM people": "Add it to GROUP BY",
    "SELECT COUNT(*) FROM people GROUP BY city HAVING COUNT(*) > 3": "HAVING is not answered",
    "SELECT city, COUNT(*) FROM people GROUP BY city LIMIT 3": "LIMIT is not answered",
    "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n DESC": "sort the published table",
    "SELECT city, COUNT(*) AS n FROM people GROUP BY city ORDER BY n": "sort the published table",
    "SELECT city, month, COUNT(*) FROM people GROUP BY city, month ORDER BY month": "sort the published table",
    "SELECT COUNT(DISTINCT city, month) FROM people": "of the privacy unit or of one expression",
    "SELECT SUM(DISTINCT fare) FROM people": "of the privacy unit or of one expression",
    "SELECT MAX(fare) FROM people": "MAX is not answered: it would be the value of one person.*QUANTILE_CONT",
    "SELECT MIN(fare) FROM people": "quantile near the end",
    "SELECT STDDEV(fare) FROM people": "VARIANCE, and take the root",
    "SELECT STRING_AGG(city, ',') FROM people": "value of one row",
    "SELECT CORR(fare, tip) FROM people": "CORR.*COUNT, SUM, AVG",
    "SELECT SUM(fare) / COUNT(*) FROM people": "must stand by itself",
    "SELECT ROUND(AVG(fare), 2) FROM people": "must stand by itself",
    "SELECT SUM(COUNT(*)) FROM people": "must stand by itself",
    "SELECT COUNT(*) OVER (PARTITION BY city) FROM people": "window functions are not answered",
    "SELECT COUNT(*) FROM people JOIN cities ON cities.city = people.city": r"a join is not written.*join\(",
    "SELECT COUNT(*) FROM people, cities": "a join is not written",
    "SELECT COUNT(*) FROM (SELECT * FROM people)": "a query inside a query",
    "SELECT COUNT(*) FROM people WHERE fare > (SELECT avg(fare) FROM people)": "a query inside a query",
    "WITH p AS (SELECT * FROM people) SELECT COUNT(*) FROM p": "a query inside a query",
    "SELECT COUNT(*) FROM people UNION SELECT COUNT(*) FROM people": "Publication",
    "SELECT COUNT(*) FROM people; SELECT COUNT(*) FROM people": "one statement",
    "SELECT COUNT(*) FROM people; DROP TABLE people": "one statement",
    "DROP TABLE people": "begin with SELECT",
    "SELECT COUNT(*)": "FROM must say which table",
    "SELECT COUNT(*) FROM peple": "FROM names the table 'peple', and these data are 'people'",
    "SELECT COUNT(*) FROM read_csv('x.csv')": "name of one table",
    "SELECT unit, COUNT(*) FROM people GROUP BY unit": "privacy unit",
    "SELECT city, COUNT(*) FROM people GROUP BY city, unit": "privacy unit",
    "SELECT AVG(fair) FROM people": "no column 'fair'.*did you mean 'fare'",
    "SELECT COUNT(*) FROM people GROUP BY ctiy": "no column 'ctiy'.*did you mean 'city'",
    "SELECT COUNT(*) FROM people WHERE fair > 3": "did you mean 'fare'",
    "SELECT p.fare, COUNT(*) FROM people GROUP BY p.fare": "p.fare is not a column of 'people'",
    "SELECT AVG(city) FROM people": "city",
    "SELECT AVG() FROM people": "AVG takes an expression",
    "SELECT AVG(fare, tip) FROM people": "AVG takes an expression",
    "SELECT COUNT() FROM people": "COUNT takes one argument",
    "SELECT COUNT(*) FROM people GROUP BY 2": "SELECT has 1 item",
    "SELECT COUNT(*) FROM people GROUP BY 1": "is an aggregate, and no key",
    "SELECT COUNT(*) AS n FROM people GROUP BY n": "is an aggregate, and no key",
    "SELECT COUNT(*), FROM people": "a comma too many",
    "SELECT COUNT(* FROM people": "never closed",
    "SELECT COUNT(*)) FROM people": "closes nothing",
    "SELECT COUNT(*) FROM people GROUP city": "followed by BY",
    "SELECT COUNT(*) FROM people GROUP BY city WHERE fare > 3": "WHERE must not stand after GROUP",
    "SELECT group by, COUNT(*) FROM people GROUP BY group by": 'stands in double quotes, as "group by"',
    "SELECT select, COUNT(*) FROM people GROUP BY select": 'stands in double quotes: "select"',
    "SELECT MEDIAN(fare) FROM people": r"bounds must be given for MEDIAN\(fare\)",
    "SELECT QUANTILE_CONT(fare, 2) FROM people": "above 0 and below 1",
    "SELECT QUANTILE_CONT(fare, tip) FROM people": "must be a number between 0 and 1",
    "SELECT QUANTILE_CONT(fare) FROM people": "a share, as in",
    "SELECT city, month, COUNT(*) FROM people GROUP BY ROLLUP (city, month)": "public_keys for totals",
    "SELECT city, month, COUNT(*) FROM people GROUP BY GROUPING SETS (city, month)": "set of all keys",
    "SELECT COUNT(*), COUNT(*) FROM people": "a column 'count' already",
    "SELECT month(fare) AS m, COUNT(*) FROM people GROUP BY m": "needs a date",
    "SELECT random(), COUNT(*) FROM people GROUP BY 1": "not known to look at one row alone",
    "SELECT COUNT(*) FROM people WHERE city = 'x": "never closed",
    "SELECT fare + 1 AS tip, COUNT(*) FROM people GROUP BY 1": "a column 'tip' already",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused_says_how_to_ask(text):
    spy = SpyLedger()
    data = people(ledger=spy, dataset="people")
    bounds = {"fare": (0, 1)} if "QUANTILE" in text else {}
    with pytest.raises((ValueError, TypeError), match=f"(?s){REFUSED[text]}"):
        data.sql(text, bounds=bounds)
    assert spy.calls == []


def test_what_is_no_text_and_bounds_of_nothing():
    data = people()
    with pytest.raises(TypeError, match="sql must be text"):
        data.sql(None)
    with pytest.raises(ValueError, match=r"bounds: there is no column 'fair' \(did you mean 'fare'\?\)"):
        data.sql("SELECT AVG(fare) FROM people", bounds={"fair": (0, 1)})
