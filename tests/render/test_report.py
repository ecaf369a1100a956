"""The report: one page that needs nothing else, says what it must and believes nothing that stands in a key."""

import io
import json
import math
from dataclasses import fields
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from html_pages import HOSTILE, Page, assert_loads_nothing
from osgt import Dataset
from osgt.query.about import About, ReportTexts
from osgt.query.file.model import ReportTable
from osgt.query.file.reading import query_file_of
from osgt.render.table import is_weak
from osgt.support.text import printable


def written(release, tmp_path, **texts):
    path = tmp_path / "report.html"
    release.report(path, overwrite=True, **texts)
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def query_of(columns, keys, **bounds):
    table = pa.table({"user": np.arange(len(next(iter(columns.values())))), **columns})
    given = {"max_groups": 1} if keys else {}
    return Dataset(table, "user").group_by(*keys, max_rows_per_group=1, **given, **bounds)


@pytest.fixture(scope="module")
def release():
    rows = pa.table({"user": [1, 2, 3], "city": ["a", "b", "a"], "fare": [1.0, 2.0, 3.0], "rides": [1, 2, 3]})
    query = Dataset(rows, "user", noun="passenger").group_by(
        "city", max_groups=2, max_rows_per_group=1, public_keys=["a", "b", *HOSTILE]
    )
    return query.count().mean("fare", (0, 9)).release(0.75, 1e-6)


class TestPage:
    def test_it_stands_alone(self, release, tmp_path):
        text, page = written(release, tmp_path)
        assert_loads_nothing(text, page)
        assert page.tags[0] == "html"
        assert page.tags.count("body") == page.tags.count("h1") == 1
        assert 'charset="utf-8"' in text

    def test_it_holds_everything(self, release, tmp_path):
        _, page = written(release, tmp_path)
        statement = release.statement.to_dict()
        assert str(release.statement) in page.words
        for part in (
            statement["software"],
            "Gaussian",
            "Laplace",
            "NIST SP 800-226",
            "Of 100 intervals, at most about 5 miss",
        ):
            assert part in page.words, part
        for cut in release.plan.limit_notes:
            assert cut in page.words
        table = release.to_arrow()
        for count, low, high in zip(table["count"], table["count_low"], table["count_high"], strict=True):
            # One digit of noise before the point: whole numbers are shown as they are.
            assert f"{count.as_py():,}" in page.words
            assert f"{low.as_py():,} to {high.as_py():,}" in page.words
        assert page.tags.count("circle") == 2 * table.num_rows

    def test_it_says_what_is_promised(self, release, tmp_path):
        _, page = written(release, tmp_path)
        short = page.words.partition("In short")[2].partition("Files")[0]
        assert "Adding or removing all rows of one passenger" in short
        assert math.exp(0.75) < 2.2
        assert "by at most a factor of 2.2 (e^ε with ε = 0.75), except with a probability of about " in short
        assert "1 in 1 million (δ = 1e-06)" in short
        assert "that a passenger is in the data can be at most 68 % sure after seeing the table" in short
        assert 1 / (1 + math.exp(-0.75)) < 0.68
        first = f"{release.rows(1)[0]['count']:,}"
        assert f"An example: “count, a” is published as {first}; the true number is most likely between" in short
        assert "was not charged to a ledger" in short
        assert f"count ±{release.plan.columns[0].half_width:g}" in short
        assert "Limits cap what each passenger counts for" in short

    def test_what_was_left_out_is_told_where_it_was_measured(self, tmp_path):
        rows = pa.table({"user": np.arange(4000) // 2, "city": ["a", "b"] * 2000})
        data = Dataset(rows, "user", noun="passenger")
        query = data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["a", "b"])
        release = query.count().release(20, 1e-6)
        _, page = written(release, tmp_path)
        told = page.words.partition("What was left out.")[2].partition("What is promised")[0]
        assert len(release.left_out.sentences) == 1
        for sentence in release.left_out.sentences:
            assert sentence in told
        assert "was not measured" not in page.words
        release = query.count().release(1, 1e-6, measure_left_out=False)
        _, page = written(release, tmp_path)
        assert "How much the limits left out was not measured" in page.words
        assert "A passenger in more than 1 group is counted in one of them, chosen at random." in page.words
        query = Dataset(rows, "user").group_by("city", max_groups=2, public_keys=["a", "b"])
        _, page = written(query.count_units().release(1, 1e-6), tmp_path)
        assert "The limits could leave nothing out of what was counted." in page.words

    def test_the_files_inside_are_the_release(self, release, tmp_path):
        _, page = written(release, tmp_path)
        files = page.downloads()
        assert list(files) == ["table.csv", "table.parquet", "statement.json", "check.html"]
        table = pa.parquet.read_table(io.BytesIO(files["table.parquet"]))
        assert table.replace_schema_metadata(None) == release.to_arrow().replace_schema_metadata(None)
        assert json.loads(table.schema.metadata[b"osgt"]) == release.statement.to_dict()
        assert json.loads(files["statement.json"]) == release.statement.to_dict()
        csv = tmp_path / "out.csv"
        release.to_csv(csv)
        assert files["table.csv"] == csv.read_bytes()
        assert "begins with an apostrophe" in page.words  # one key looks like a formula

    def test_the_file_beside_it(self, release, tmp_path):
        release.write(out=tmp_path / "out.csv", report=tmp_path / "report.html")
        text = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert_loads_nothing(text, Page(text))
        assert 'href="out.csv"' in text
        (tmp_path / "elsewhere").mkdir()
        release.write(out=tmp_path / "elsewhere" / "out.csv", report=tmp_path / "other.html")
        assert "elsewhere" not in (tmp_path / "other.html").read_text(encoding="utf-8")

    def test_hostile_keys_are_text(self, release, tmp_path):
        _, page = written(release, tmp_path)
        for key in HOSTILE:
            assert " ".join(key.split()) in page.words, key
        assert "(empty)" in page.words
        assert " 49" not in page.words.partition("]]>")[2][:8]  # templates in keys are not run

    def test_marks_that_turn_text_are_shown(self, tmp_path):
        key = "abc\u202edef\u0007"
        query = query_of({"city": [key]}, ["city"], public_keys=[key]).count()
        text, page = written(query.release(1, 1e-6), tmp_path)
        assert "\u202e" not in text
        assert "\u0007" not in text
        assert printable(key) == "abc�def�"
        assert printable(key) in page.words

    def test_hostile_names_everywhere(self, tmp_path):
        name = "<b>\"'&"
        rows = pa.table({"<i>": [1, 2], name: ["a", "b"], "x": [1, 2]})
        folder = tmp_path / "<script>x"
        folder.mkdir()
        pa.parquet.write_table(rows, folder / "rides.parquet")
        data = Dataset(folder / "rides.parquet", "<i>")
        query = data.group_by(name, max_groups=1, max_rows_per_group=1, public_keys=["a"])
        release = query.count(name="<h1>").sum("x", (0, 9)).release(1, 1e-6)
        for hostile in HOSTILE:
            texts = dict.fromkeys(("title", "subtitle", "publisher", "contact", "period", "source", "licence"), hostile)
            text, page = written(
                release, tmp_path, **texts, labels={name: hostile, "x_sum": hostile}, units={name: hostile}
            )
            assert_loads_nothing(text, page)
            assert page.tags.count("h1") == 1
            assert {"b", "i"}.isdisjoint(page.tags)
            assert " ".join(hostile.split()) in page.words
        _, page = written(release, tmp_path)
        assert name in page.words

    def test_no_path_of_the_disk(self, tmp_path):
        folder = tmp_path / "confidential"
        folder.mkdir()
        pa.parquet.write_table(pa.table({"user": [1, 2]}), folder / "rides.parquet")
        release = Dataset(folder / "rides.parquet", "user").group_by(max_rows_per_group=1).count().release(1, 1e-6)
        text, page = written(release, tmp_path)
        for content in (text, *(file.decode("latin-1") for file in page.downloads().values())):
            assert "confidential" not in content
            assert str(tmp_path) not in content
        assert release.statement.to_dict()["query"]["data"]["source"] == "rides"

    def test_no_group_is_large_enough(self, tmp_path):
        rows = pa.table({"user": [1], "city": ["a secret village"]})
        release = Dataset(rows, "user").group_by("city", max_groups=1, max_rows_per_group=1).count().release(1, 1e-6)
        text, page = written(release, tmp_path)
        assert "No group is large enough to be shown" in page.words
        assert "secret village" not in text
        assert "svg" not in page.tags

    def test_one_number(self, tmp_path):
        rows = pa.table({"user": [1], "fare": [2.5]})
        query = Dataset(rows, "user").group_by(max_rows_per_group=1).sum("fare", (0, 9))
        _, page = written(query.release(1, 1e-6), tmp_path)
        assert "all rows" in page.words
        assert page.tags.count("circle") == 1

    def test_binary_keys(self, tmp_path):
        """CSV cannot hold them: there is Parquet alone."""
        query = query_of({"city": [b"\xff\x00", b"a"]}, ["city"], public_keys=[b"\xff\x00", b"a"]).count()
        _, page = written(query.release(1, 1e-6), tmp_path)
        assert list(page.downloads()) == ["table.parquet", "statement.json", "check.html"]

    def test_large_tables_are_cut(self, tmp_path):
        n = 100_000
        keys = {"city": [f"c{i}" for i in range(n)]}
        query = query_of({"city": keys["city"][:5]}, ["city"], public_keys=keys).count()
        release = query.release(1, 1e-6)
        text, page = written(release, tmp_path)
        assert "98,000 more rows are not listed" in page.words
        assert "Listed are the first 2,000 of 100,000 groups" in page.words
        assert page.tags.count("circle") == 40
        assert "the 40 largest of 100,000 groups" in page.words
        assert list(page.downloads()) == ["statement.json", "check.html"]
        assert "too large for this page" in page.words
        assert len(text) < 1_000_000

    def test_warnings_are_told(self, tmp_path):
        query = query_of({"x": [1, 2]}, []).count()
        _, page = written(query.release(50, 1e-6), tmp_path)
        assert page.words.index("Warning") < page.words.index("Pictures") < page.words.index("In short")

    def test_the_confidence_that_was_asked_for(self, tmp_path):
        release = query_of({"x": [1, 2]}, []).count().release(1, 1e-6, confidence=0.999)
        _, page = written(release, tmp_path)
        assert "with a probability of at least 99.9 %. Of 1,000 intervals, at most about 1 misses." in page.words


class TestTexts:
    def test_all_are_shown(self, release, tmp_path):
        texts = {key: f"the {key}" for key in ("title", "subtitle", "publisher", "period", "source", "licence")}
        texts |= {"labels": {"city": "Town", "fare_mean": "Mean fare"}, "units": {"fare_mean": "€"}}
        text, page = written(release, tmp_path, contact="a.b+c@example.org", **texts)
        for part in ("the title", "the subtitle", "the publisher", "the period", "the source", "the licence"):
            assert part in page.words
        assert '<a href="mailto:a.b+c@example.org">' in text
        assert "Mean fare (€)" in page.words
        assert "Town" in page.words

    @pytest.mark.parametrize(
        "contact", ["javascript:alert(1)", "data:text/html,x", "a@b", "https://x y", 'https://a/"']
    )
    def test_only_addresses_become_links(self, release, tmp_path, contact):
        _, page = written(release, tmp_path, contact=contact)
        links = [a["href"] for tag, a in page.attributes if tag == "a"]
        assert all(link.startswith("data:") for link in links) or contact == 'https://a/"'
        assert contact in page.words

    def test_a_title_of_its_own(self, release, tmp_path):
        _, page = written(release, tmp_path)
        assert page.words.startswith("Count and mean fare by city")

    @pytest.mark.parametrize(
        ("texts", "error", "message"),
        [
            (
                {"labels": {"user": "passenger"}},
                ValueError,
                "labels: 'user' is not published: it is the privacy unit. Say what one is called with noun=\"…\"",
            ),
            (
                {"labels": {"town": "x"}},
                ValueError,
                "no key or column 'town'; the table has 'city', 'count', 'fare_mean' and 'fare'",
            ),
            ({"units": {"user": "x"}}, ValueError, "units: 'user' is not published: it is the privacy unit"),
            ({"units": {"count": 1}}, TypeError, "units: count must be text, got 1"),
            ({"labels": ["x"]}, TypeError, "labels must be a table of names and texts"),
            ({"title": 5}, TypeError, "title must be text, got 5"),
            ({"tittle": "x"}, TypeError, "a report has no 'tittle'"),
        ],
    )
    def test_what_is_wrong_is_said_and_nothing_written(self, release, tmp_path, texts, error, message):
        with pytest.raises(error, match=message):
            release.report(tmp_path / "report.html", **texts)
        assert list(tmp_path.iterdir()) == []

    def test_python_and_query_files_have_the_same(self):
        keys = set(ReportTexts.__annotations__)
        assert keys == {field.name for field in fields(About)} == set(ReportTable.model_fields)

    def test_from_a_query_file(self):
        plain = {"data": {"source": "x.parquet", "privacy_unit": "u"}, "report": {"title": "T", "labels": {"a": "b"}}}
        assert query_file_of(plain).report.texts() == {"title": "T", "labels": {"a": "b"}}
        with pytest.raises(ValueError, match=r"report\.labels must be a table of names and texts"):
            query_file_of({**plain, "report": {"labels": ["a"]}})


class TestTable:
    def test_it_is_grouped_by_the_first_key(self, tmp_path):
        keys = {"town": ["Rome", "Bern"], "kind": ["bus", "tram"]}
        query = query_of({"town": ["Rome"], "kind": ["bus"]}, ["town", "kind"], public_keys=keys).count()
        text, page = written(query.release(1, 1e-6), tmp_path)
        assert next(a for _, a in page.attributes if a.get("scope") == "rowgroup")["colspan"] == "2"
        assert sum(a.get("scope") == "rowgroup" for _, a in page.attributes) == 2
        assert text.index(">Rome<") < text.index(">Bern<")  # as given
        assert page.tags.count("caption") == page.tags.count("table")
        for tag, attributes in page.attributes:
            if tag == "th":
                assert "scope" in attributes

    def test_unreliable_numbers(self):
        count = query_of({"x": [1]}, []).count().sum("x", (0, 9)).mean("x", (0, 100)).aggregates
        assert is_weak(count[0], 10, 4, 16)
        assert not is_weak(count[0], 20, 14, 26)
        assert is_weak(count[0], -3, -9, 3)
        assert is_weak(count[1], 0.0, -1.0, 1.0)
        assert not is_weak(count[2], 0.0, 0.0, 50.0)  # a mean near zero is one
        assert is_weak(count[2], 50.0, 20.0, 80.0)
        assert not is_weak(count[0], None, None, None)

    def test_they_are_marked(self, tmp_path):
        keys = [f"k{i}" for i in range(20)]
        query = query_of({"city": ["k0"] * 5000}, ["city"], public_keys=keys).count()
        release = query.release(0.5, 1e-6)
        text, page = written(release, tmp_path)
        table = release.to_arrow().to_pylist()
        weak = [row for row in table if (row["count_high"] - row["count_low"]) / 2 > abs(row["count"]) / 2]
        assert 0 < len(weak) < len(table)
        assert text.count('class="number weak"') == len(weak)
        assert "† marks unreliable numbers" in page.words

    def test_large_numbers_are_rounded_by_their_noise(self, tmp_path):
        rows = pa.table({"user": np.arange(5000), "fare": np.full(5000, 4321.5)})
        release = Dataset(rows, "user").group_by(max_rows_per_group=1).sum("fare", (0, 5000)).release(1, 1e-6)
        _, page = written(release, tmp_path)
        [row] = release.to_arrow().to_pylist()
        half = (row["fare_sum_high"] - row["fare_sum_low"]) / 2
        step = Decimal(10) ** (math.floor(math.log10(half)) - 2)
        value = round(Decimal(row["fare_sum"]) / step) * step
        assert step >= 10
        assert f"{value:,f}" in page.words
        assert "e+0" not in page.words


class TestPictures:
    def test_a_second_key_with_an_order_makes_lines(self, tmp_path):
        keys = {"town": ["Rome", "Bern", "Oslo"], "month": [3, 1, 2]}
        query = query_of({"town": ["Rome"], "month": [1]}, ["town", "month"], public_keys=keys).count()
        _, page = written(query.release(1, 1e-6), tmp_path)
        assert "circle" not in page.tags
        panels = [a for tag, a in page.attributes if tag == "svg"]
        assert [a["aria-label"].partition(":")[0] for a in panels] == ["Rome", "Bern", "Oslo"]
        assert all("from 1: " in a["aria-label"] and " to 3: " in a["aria-label"] for a in panels)
        lines = [a["d"] for tag, a in page.attributes if a.get("class") == "path"]
        assert all(line.startswith("M0.0 ") and line.count("L") == 2 and "L50.0 " in line for line in lines)

    @pytest.mark.parametrize("values", [["a", "b", "c"], [1, 2, None], [True, False, None], [1, 2, 2]])
    def test_others_make_dots(self, tmp_path, values):
        keys = pa.table({"town": ["Rome"] * 3 + ["Bern"], "kind": [*values, values[0]]})
        distinct = pa.Table.from_pylist([dict(t) for t in {tuple(row.items()) for row in keys.to_pylist()}])
        query = query_of({"town": ["Rome"] * 3, "kind": values}, ["town", "kind"], public_keys=distinct).count()
        _, page = written(query.release(1, 1e-6), tmp_path)
        assert page.tags.count("circle") == distinct.num_rows

    def test_days_make_one_line(self, tmp_path):
        days = pa.array(np.arange("2024-01-01", "2024-03-01", dtype="datetime64[D]"))
        query = query_of({"day": days}, ["day"], public_keys=pa.table({"day": days})).count()
        _, page = written(query.release(1, 1e-6), tmp_path)
        [panel] = [a for tag, a in page.attributes if tag == "svg"]
        assert panel["aria-label"].startswith("from 2024-01-01: ")
        assert " to 2024-02-29: " in panel["aria-label"]

    def test_many_panels_are_cut(self, tmp_path):
        keys = {"town": [f"t{i}" for i in range(30)], "month": [1, 2, 3]}
        query = query_of({"town": ["t7"] * 900, "month": [1, 2, 3] * 300}, ["town", "month"], public_keys=keys).count()
        _, page = written(query.release(1, 1e-6), tmp_path)
        assert page.tags.count("svg") == 12
        assert "those with the largest values, 12 of 30" in page.words
        assert any(a.get("aria-label", "").startswith("t7: ") for _, a in page.attributes)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cost_mean", "mean cost"),
        ("length_of_stay_median", "median length of stay"),
        ("cost_sum", "sum of cost"),
        ("cost_variance", "variance of cost"),
        ("cost_q90", "90th percentile of cost"),
        ("count_units", "count units"),
        ("mean", "mean"),
    ],
)
def test_names_of_numbers_are_told_in_words(name, words):
    assert About().label(name) == words
    assert About(labels={name: "Own name"}).label(name) == "Own name"
