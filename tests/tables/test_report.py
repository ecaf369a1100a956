"""The report: one page that needs nothing else and believes nothing that stands in a key."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

from osgt import Dataset
from osgt.tables.picture import interval_picture

VOID = {"meta", "br", "hr", "img", "input", "link"}

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</table></body>&amp;",
    "<!-- comment",
    "]]>",
    "naïve ☃ مرحبا 𝔘",
    "=HYPERLINK(1)",
    "tab\tand\nnewline",
    "",
]


class Page(HTMLParser):
    """The page as a browser sees it: elements in order, what is inside which, and all text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        self.text.append(data)

    @property
    def words(self):
        return "".join(self.text)


def written(release, tmp_path):
    path = tmp_path / "report.html"
    release.report(path)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    return text, page


def assert_loads_nothing(text, page):
    """No script, nothing that is fetched, no handler; the policy forbids it all besides."""
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form", "a"} & set(page.tags)
    for tag, attributes in page.attributes:
        assert not {"src", "href", "xlink:href", "srcset", "action", "data"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert not any("url(" in style or "@import" in style for style in styles)
    assert "default-src 'none'" in text


@pytest.fixture(scope="module")
def release():
    rows = pa.table({"user": [1, 2, 3], "city": ["a", "b", "a"], "fare": [1.0, 2.0, 3.0], "rides": [1, 2, 3]})
    query = Dataset(rows, "user").group_by("city", max_groups=2, max_rows_per_group=1, public_keys=["a", "b", *HOSTILE])
    return query.count().mean("fare", (0, 9)).release(0.75, 1e-6)


class TestPage:
    def test_it_stands_alone(self, release, tmp_path):
        text, page = written(release, tmp_path)
        assert_loads_nothing(text, page)
        assert page.tags[0] == "html"
        assert page.tags.count("body") == 1
        assert "charset='utf-8'" in text

    def test_it_holds_everything(self, release, tmp_path):
        text, page = written(release, tmp_path)
        statement = release.statement.to_dict()
        assert str(release.statement) in page.words
        for part in (statement["date"], statement["software"], "ε = 0.75", "δ = 1e-06", "gaussian", "laplace"):
            assert part in page.words, part
        for cut in release.plan.cuts:
            assert cut in page.words
        assert page.tags.count("svg") == 2  # one picture for each column
        table = release.to_arrow()
        for count, low, high in zip(table["count"], table["count_low"], table["count_high"], strict=True):
            assert f"<td>{count.as_py():,}</td><td class='interval'>{low.as_py():,} to {high.as_py():,}</td>" in text
        assert page.tags.count("circle") == 2 * table.num_rows

    def test_the_json_can_be_read_back(self, release, tmp_path):
        _, page = written(release, tmp_path)
        found = page.words[page.words.index('{\n  "statement"') :]
        assert json.JSONDecoder().raw_decode(found)[0] == release.statement.to_dict()

    def test_hostile_keys_are_text(self, release, tmp_path):
        _, page = written(release, tmp_path)
        for key in HOSTILE:
            assert key in page.words, key

    def test_a_hostile_column_and_source(self, tmp_path):
        name = "<b>\"'&"
        rows = pa.table({"user": [1, 2], name: ["a", "b"], "<i>": [1, 2]})
        folder = tmp_path / "<script>x"
        folder.mkdir()
        path = folder / "rides.parquet"
        pa.parquet.write_table(rows, path)
        query = Dataset(path, "user").group_by(name, max_groups=1, max_rows_per_group=1, public_keys=["a"])
        release = query.count(name="<h1>").sum("<i>", (0, 9)).release(1, 1e-6)
        text, page = written(release, tmp_path)
        assert_loads_nothing(text, page)
        assert page.tags.count("h1") == 1
        assert {"b", "i"}.isdisjoint(page.tags)
        assert name in page.words

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

    def test_large_tables_are_cut(self, tmp_path):
        n = 2_500
        rows = pa.table({"user": np.arange(n), "city": np.arange(n)})
        keys = {"city": list(range(n))}
        query = Dataset(rows, "user").group_by("city", max_groups=1, max_rows_per_group=1, public_keys=keys).count()
        text, page = written(query.release(1, 1e-6), tmp_path)
        assert "500 more rows are in the file" in page.words
        assert page.tags.count("circle") == 40
        assert "the 40 largest of 2,500" in page.words
        assert len(text) < 1_000_000

    def test_large_numbers_keep_their_digits(self, tmp_path):
        """Sums are shown as they are released, not in powers of ten."""
        rows = pa.table({"user": np.arange(5000), "fare": np.full(5000, 4321.5)})
        release = Dataset(rows, "user").group_by(max_rows_per_group=1).sum("fare", (0, 5000)).release(1, 1e-6)
        _, page = written(release, tmp_path)
        value = release.to_arrow()["fare_sum"][0].as_py()
        assert f"{value:,.0f}"[:-1] in page.words
        assert "e+0" not in page.words.partition('{\n  "statement"')[0]


class TestPicture:
    def test_dots_lie_within_their_bars(self):
        svg = interval_picture("t", ["a", "b"], [5.0, -3.0], [2.0, -9.0], [8.0, 1.0])
        page = Page(svg)
        bars = [a for tag, a in page.attributes if tag == "line" and a.get("stroke-width") == "5"]
        dots = [a for tag, a in page.attributes if tag == "circle"]
        for bar, dot in zip(bars, dots, strict=True):
            assert float(bar["x1"]) < float(dot["cx"]) < float(bar["x2"])
        assert float(dots[1]["cx"]) < float(dots[0]["cx"])

    @pytest.mark.parametrize("numbers", [(0.0, 0.0, 0.0), (1e12, 9e11, 1.1e12), (1e-9, 0.0, 2e-9), (-5.0, -6.0, -4.0)])
    def test_any_scale(self, numbers):
        value, low, high = numbers
        page = Page(interval_picture("t", ["a"], [value], [low], [high]))
        places = [float(a["cx"]) for tag, a in page.attributes if tag == "circle"]
        width = next(float(a["width"]) for tag, a in page.attributes if tag == "svg")
        assert all(0 <= place <= width for place in places)
        assert 2 <= sum(a.get("text-anchor") == "middle" for tag, a in page.attributes if tag == "text") <= 10

    def test_long_labels_are_cut_but_told(self):
        svg = interval_picture("t", ["x" * 100], [1.0], [0.0], [2.0])
        assert "x" * 16 + "…" + "x" * 16 in svg
        assert "x" * 100 in svg  # in the tip that appears over the dot
