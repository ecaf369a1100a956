"""The page is a query file at every moment: nothing that a file says is lost on the way through the fields."""

import datetime
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from osgt.query.file.aggregates import AGGREGATES
from osgt.query.file.model import ColumnTable, JoinedTable
from osgt.query.file.reading import query_file_model, query_file_of
from osgt.query.file.text import query_file_text
from osgt.web.entries import Entries, arguments_of, number, whole
from osgt.web.form import REST, fields_of, normalised, plain_of


def meaning(plain):
    """What a query file says, whatever the form in which it says it: single texts are lists, defaults are left out."""
    values = query_file_of(plain).model_dump(exclude_defaults=True)
    for part, key in (("data", "where"), ("groups", "by"), ("data", "privacy_unit")):
        value = values.get(part, {}).get(key)
        if isinstance(value, str) and (key, value) != ("privacy_unit", "row"):
            values[part][key] = [value]
    groups = values.get("groups", {})
    if isinstance(groups.get("public_keys"), list) and len(groups.get("by", ())) == 1:
        groups["public_keys"] = {groups["by"][0]: groups["public_keys"]}
    return values


def through_the_page(plain):
    """The query file after a browser has shown its fields and sent them back."""
    sent = [(name, value) for name, values in fields_of(plain).fields.items() for value in values]
    found, problems = plain_of(normalised(Entries.of_pairs(sent)))
    assert problems == {}
    return found


#: Without "/": paths are shown as seen from the folder of the server.
names = st.text(st.characters(categories=("L", "N", "P", "S"), exclude_characters="\r\n/"), min_size=1, max_size=8)
numbers = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9, allow_nan=False)


@st.composite
def aggregates(draw):
    kind = draw(st.sampled_from(list(AGGREGATES)))
    found = {"kind": kind}
    for argument in arguments_of(kind):
        if not argument.required and draw(st.booleans()):
            continue
        values = {
            "column": names,
            "bounds": st.lists(numbers, min_size=2, max_size=2),
            "numbers": st.lists(numbers, min_size=2, max_size=4),
            "several": st.integers(2, 50) | st.lists(numbers, min_size=2, max_size=4),
            "whole": st.integers(2, 1000),
            "number": st.integers(1, 9),
            "total": numbers | st.lists(numbers, min_size=2, max_size=2),
            "text": names,
            "choice": st.sampled_from(argument.choices or ("",)),
        }
        found[argument.name] = draw(values[argument.widget])
    return found


keys = st.one_of(
    st.just("all"),
    st.just("keys.csv"),
    st.lists(names, min_size=1, max_size=3, unique=True),
    st.lists(st.integers(-99, 99), min_size=1, max_size=3, unique=True),
    st.lists(st.booleans(), min_size=1, max_size=2, unique=True),
    st.lists(st.dates(), min_size=1, max_size=2, unique=True),
    st.lists(st.lists(st.integers(0, 9), min_size=2, max_size=2), min_size=1, max_size=3),  # tuples: no field for these
)


@st.composite
def query_files(draw):
    data = {"source": draw(names), "privacy_unit": draw(st.just("row") | st.lists(names, min_size=1, max_size=2))}
    options = {
        "table": names,
        "delimiter": st.sampled_from(";|"),
        "quote": st.sampled_from(["'", "none"]),
        "encoding": st.just("latin-1"),
        "decimal": st.just(","),
        "date_format": st.just("%d.%m.%Y"),
        "neighbours": st.just("change_one"),
        "types": st.dictionaries(names, st.sampled_from(["int64", "date", "decimal(9, 2)"]), min_size=1, max_size=2),
        "derive": st.dictionaries(names, names, min_size=1, max_size=2),
        "where": names | st.lists(names, min_size=1, max_size=2) | st.just(["a >\n1", "b"]),
        "ledger": st.just("budget.db"),
        "dataset": names,
    }
    for key, values in options.items():
        if draw(st.booleans()):
            data[key] = draw(values)
    by = draw(st.lists(names, max_size=2, unique=True))
    groups = {"by": by} if by else {}
    if by and draw(st.booleans()):
        groups["public_keys"] = draw(keys)
    if by and draw(st.booleans()):
        groups["totals"] = draw(st.sampled_from(["rollup", "cube", [[]], [by[:1], []], [{"by": by[:1], "weight": 2}]]))
    if draw(st.booleans()):
        groups["max_groups"] = draw(st.integers(1, 10**6))
    plain = {"data": data, "groups": groups, "aggregates": draw(st.lists(aggregates(), max_size=3))}
    if draw(st.booleans()):
        plain["budget"] = {"epsilon": draw(st.floats(1e-6, 100)), "delta": 1e-8}
    if draw(st.booleans()):
        plain["output"] = {"out": "a.csv", "confidence": 0.9, "nonnegative": True, "measure_left_out": False}
        plain["output"]["marks"] = draw(st.sampled_from([True, [0.1, 0.25]]))
    if draw(st.booleans()):
        plain["report"] = {"title": draw(names), "labels": draw(st.dictionaries(names, names, min_size=1, max_size=2))}
    return plain


class TestRoundTrip:
    @given(query_files())
    def test_the_page_loses_nothing(self, plain):
        assert meaning(through_the_page(plain)) == meaning(plain)

    @given(query_files())
    def test_the_text_that_is_shown_is_the_file(self, plain):
        text = query_file_text(through_the_page(plain), Path.cwd())
        assert meaning(tomllib.loads(text)) == meaning(plain)

    @pytest.mark.parametrize(("marks", "entered"), [(True, "yes"), ([0.1, 0.25], "0.1, 0.25")])
    def test_quality_marks_have_a_field(self, marks, entered):
        fields = fields_of({"output": {"marks": marks}})
        assert fields.one("output.marks") == entered
        assert REST not in fields.fields
        assert plain_of(fields)[0]["output"]["marks"] == marks

    def test_wrong_quality_marks_are_told(self):
        plain, problems = plain_of(Entries({"output.marks": ["some"]}))
        assert "marks" not in plain.get("output", {})
        assert "two shares such as 0.1, 0.25" in problems["output.marks"]

    def test_several_tables_are_carried_along(self):
        plain = {
            "data": {"source": "a.csv", "privacy_unit": "row"},
            "table": [
                {"name": "one", "weight": 2, "groups": {"by": "x", "max_groups": 1}, "aggregates": [{"kind": "count"}]},
                {"name": "two", "where": "x > 1", "aggregates": [{"kind": "count"}]},
            ],
        }
        assert meaning(through_the_page(plain)) == meaning(plain)

    def test_every_key_of_a_query_file_survives(self):
        """Also those that the page has no field for: nothing can be added to query files and be forgotten here."""
        for part, field in query_file_model().model_fields.items():
            if part in ("aggregates", "table"):
                continue
            by_name = {"columns": ColumnTable, "tables": JoinedTable}
            table = by_name.get(part, field.annotation)
            for key in table.model_fields:
                if (part, key) == ("data", "file"):  # what it says stands in the page itself
                    continue
                value = EXAMPLES.get((part, key), "text")
                plain = {"data": {"source": "a.csv", "privacy_unit": "row"}}
                if part in by_name:
                    needed = {name for name, field in table.model_fields.items() if field.is_required()}
                    plain[part] = {"a": dict.fromkeys(needed, "text") | {key: value}}
                else:
                    plain[part] = {**plain.get(part, {}), key: value}
                assert meaning(through_the_page(plain)) == meaning(plain), (part, key)


EXAMPLES = {
    ("data", "types"): {"a": "int64"},
    ("tables", "types"): {"a": "int64"},
    ("series", "period"): "week",
    ("series", "max_periods"): 2,
    ("series", "totals"): ["quarter"],
    ("series", "remember"): False,
    ("data", "derive"): {"a": "b + 1"},
    ("data", "neighbours"): "change_one",
    ("groups", "max_groups"): 3,
    ("groups", "max_rows_per_group"): 3,
    ("groups", "max_rows"): 24,
    ("groups", "max_length"): 24,
    ("groups", "per_how_many"): 1000,
    ("data", "units"): 4000,
    ("groups", "public_keys"): "keys.csv",
    ("groups", "totals"): [["a"]],
    ("budget", "epsilon"): 0.25,
    ("budget", "delta"): 1e-9,
    ("output", "confidence"): 0.9,
    ("output", "intervals"): "noise",
    ("output", "nonnegative"): True,
    ("output", "marks"): [0.1, 0.25],
    ("output", "corrects"): 7,
    ("output", "measure_left_out"): False,
    ("columns", "range"): [0, 2.5],
    ("columns", "values"): {"x": "X"},
    ("report", "labels"): {"a": "A"},
    ("report", "units"): {"a": "miles"},
    ("report", "values"): {"a": {"x": "X"}},
}


class TestEntries:
    @pytest.mark.parametrize(
        ("text", "value"), [("0.5", 0.5), ("1e-8", 1e-8), (" 7 ", 7), ("-3", -3), (".5", 0.5), ("", None)]
    )
    def test_numbers(self, text, value):
        problems = {}
        assert number(Entries({"x": [text]}), "x", problems) == value
        assert problems == {}

    @pytest.mark.parametrize(
        ("text", "words"),
        [("0,5", "Write 0.5"), ("half", "must be a number"), ("1e99999", "number"), ("nan", "number")],
    )
    def test_numbers_that_are_none(self, text, words):
        problems = {}
        assert number(Entries({"x": [text]}), "x", problems) is None
        assert words in problems["x"]

    @pytest.mark.parametrize(("text", "value"), [("8", 8), ("1,000", 1000), ("1 000", 1000)])
    def test_whole_numbers(self, text, value):
        assert whole(Entries({"x": [text]}), "x", {}) == value

    @pytest.mark.parametrize("text", ["8.5", "1,5", "eight", "9" * 31])
    def test_whole_numbers_that_are_none(self, text):
        problems = {}
        assert whole(Entries({"x": [text]}), "x", problems) is None
        assert "whole number" in problems["x"]

    def test_rows_are_numbered_anew(self):
        entries = Entries(
            {
                "aggregates.0.kind": [""],
                "aggregates.2.kind": ["sum"],
                "aggregates.2.column": ["fare"],
                "aggregates.5.kind": ["count"],
                "derive.3.name": ["x"],
            }
        )
        found = normalised(entries).fields
        assert found == {
            "aggregates.0.kind": ["sum"],
            "aggregates.0.column": ["fare"],
            "aggregates.1.kind": ["count"],
            "derive.0.name": ["x"],
        }


class TestKeys:
    def entered(self, kind, lines):
        return plain_of(
            Entries({"groups.by": ["k"], "keys.kind": ["lists"], "keys.type.k": [kind], "keys.list.k": [lines]})
        )

    @pytest.mark.parametrize(
        ("kind", "lines", "values"),
        [
            ("text", "a\n b \n\nc", ["a", "b", "c"]),
            ("text", "Cardiology, Emergency,Surgery ,", ["Cardiology", "Emergency", "Surgery"]),
            ("text", 'a, "b, c"\n"d ""e"""\nf "g" h, i"j', ["a", "b, c", 'd "e"', 'f "g" h', 'i"j']),
            ("whole", "1\n-2", [1, -2]),
            ("whole", "1, 2,3", [1, 2, 3]),
            ("date", "2026-01-31", [datetime.date(2026, 1, 31)]),
            ("truth", "true\nfalse", [True, False]),
        ],
    )
    def test_are_read_in_the_type_of_the_column(self, kind, lines, values):
        plain, problems = self.entered(kind, lines)
        assert plain["groups"]["public_keys"] == {"k": values}
        assert problems == {}

    @pytest.mark.parametrize(
        ("kind", "lines", "words"),
        [
            ("whole", "one", "a whole number"),
            ("date", "31.1.2026", "a date"),
            ("truth", "yes", "true or false"),
            ("text", "", "Give"),
            ("text", " , ,", "Give"),
            ("text", '"a, b', "around all of a value"),
            ("text", '"a" b', "around all of a value"),
        ],
    )
    def test_of_another_type_are_told_at_the_field(self, kind, lines, words):
        _, problems = self.entered(kind, lines)
        assert words in problems["keys.list.k"]

    @pytest.mark.parametrize("values", [["a, b", "c"], ['"a"', 'b"c', '"'], [",", "a,b,c"], ["a b", "'c, d'"]])
    def test_with_commas_and_quotation_marks_are_typed_so_that_they_come_back(self, values):
        fields = fields_of({"groups": {"by": ["k"], "public_keys": {"k": values}}})
        assert fields.one("keys.kind") == "lists"
        plain, problems = plain_of(fields)
        assert (plain["groups"]["public_keys"], problems) == ({"k": values}, {})
