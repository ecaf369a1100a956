"""A query file as Python: running it asks for the same as the file."""

import ast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from osgt.api.query_file import build_query
from osgt.query.file.reading import query_file_of
from osgt.query.file.text import python_code

DATA = {"source": "rides.parquet", "privacy_unit": "person"}
COUNT = [{"kind": "count"}]
CASES = {
    "one group": {"data": DATA, "groups": {"max_rows_per_group": 1}, "aggregates": COUNT},
    "rows as units": {
        "data": DATA | {"privacy_unit": "row"},
        "groups": {"by": "city", "public_keys": ["Bern"]},
        "aggregates": COUNT,
    },
    "everything": {
        "data": DATA
        | {
            "privacy_unit": ["person", "city"],
            "neighbours": "change_one",
            "derive": {"band": "cut(fare, 0.0, 10, 30)"},
            "where": ["fare > 0", "city <> 'it''s'"],
        },
        "groups": {
            "by": ["band"],
            "max_groups": 2,
            "max_rows_per_group": 3,
            "public_keys": "all",
            "totals": [{"by": [], "weight": 2}],
        },
        "aggregates": [
            {"kind": "count", "name": "rides", "weight": 2},
            {"kind": "sum", "column": "fare", "bounds": [0, 100.5]},
            {"kind": "mean", "column": "fare", "bounds": [0, 50], "missing": "centre"},
            {"kind": "proportion", "condition": "fare > 10", "name": "dear"},
            {"kind": "quantile", "column": "fare", "bounds": [0, 50], "levels": [0.25, 0.75], "bins": 16},
            {"kind": "histogram", "column": "fare", "edges": [0, 10, 20], "name": "h"},
        ],
        "output": {"out": "r.csv", "report": "r.html", "objective": "quantile:0.9", "nonnegative": True},
        "report": {"title": 'It\'s "so"', "labels": {"band": "Fare"}},
    },
    "several tables": {
        "data": DATA,
        "table": [
            {
                "name": "by-city",
                "weight": 2,
                "groups": {"by": "city", "max_groups": 1, "max_rows_per_group": 1, "public_keys": ["Bern", "Rome"]},
                "aggregates": COUNT,
            },
            {"name": "all", "where": "fare > 1", "groups": {"max_rows_per_group": 2}, "aggregates": COUNT},
        ],
    },
}


@pytest.fixture
def rides(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"person": [1, 2], "city": ["Bern", "Rome"], "fare": [1.0, 20.0]}), "rides.parquet")


@pytest.mark.parametrize("plain", CASES.values(), ids=CASES)
def test_asks_for_the_same(plain, rides):
    plain = plain | {"budget": {"epsilon": 1, "delta": 1e-6}}
    names = {}
    exec(python_code(plain), names)
    file = query_file_of(plain)
    asked = build_query(file)
    made, expected = names["query"], asked.plan(1, 1e-6, **file.plan_options())
    assert {name: each.to_dict() for name, each in made.tables.items()} == {
        name: each.to_dict() for name, each in asked.tables.items()
    }
    assert names["release"].plan.to_dict() == expected.to_dict()


def test_what_is_not_given_is_an_ellipsis():
    code = python_code({"groups": {"by": ["city"]}})
    assert "Dataset(..., privacy_unit=...)" in code
    assert "epsilon=..., delta=..." in code
    compile(code, "release.py", "exec")


def test_hostile_texts_stay_text():
    name = "'); raise SystemExit  #\n\\"
    code = python_code({"data": {"source": name, "privacy_unit": [name]}, "groups": {"by": [name]}})
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Raise)]
    assert calls == []
    assert repr(name) in code
