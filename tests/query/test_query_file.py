"""Query files: what is wrong is named by its key, the schema says what the check does, paths are beside the file."""

import datetime
import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from osgt.query.file.aggregates import AGGREGATES
from osgt.query.file.model import QueryFile
from osgt.query.file.reading import query_file_of, read_query_file
from osgt.query.file.reference import PAGE, SCHEMA, query_file_schema, reference

ROOT = Path(__file__).parents[2]
DATA = {"source": "rows.parquet", "privacy_unit": "user"}


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"data": {}}, "data.source must be given: a Parquet, CSV, Excel, SPSS, Stata, SAS or database file"),
        ({"data": 3}, "[data] must be a table of keys and values, got 3"),
        ({"data": DATA | {"soruce": "x"}}, "[data] has no 'soruce' (did you mean 'source'?)"),
        (
            {"data": DATA | {"zzz": 1}},
            "[data] has no 'zzz'; it may have 'file', 'source', 'privacy_unit', 'noun', 'units',",
        ),
        ({"data": DATA | {"where": ["a", 1]}}, "data.where must be text in quotes, or a list of texts, got ['a', 1]"),
        ({"data": DATA | {"types": {"a": 1}}}, "data.types must be a table of columns and their types"),
        ({"data": DATA | {"neighbours": "x"}}, 'data.neighbours must be "add_remove" or "change_one", got \'x\''),
        ({"groups": {"max_groups": "8"}}, "groups.max_groups must be a whole number, got '8'"),
        ({"groups": {"max_groups": 8.5}}, "groups.max_groups must be a whole number, got 8.5"),
        ({"groups": {"max_groups": True}}, "groups.max_groups must be a whole number, got true"),
        ({"groups": {"max_group": 8}}, "[groups] has no 'max_group' (did you mean 'max_groups'?)"),
        ({"groups": {"by": 3}}, "groups.by must be text in quotes, or a list of texts, got 3"),
        ({"groups": {"public_keys": {"a": 1}}}, "groups.public_keys must be the path of a file, a list of keys"),
        ({"budget": {"epsilon": "1"}}, "budget.epsilon must be a number, got '1'"),
        ({"budget": {"epsilon": True}}, "budget.epsilon must be a number, got true"),
        ({"budget": {"epsilon": datetime.date(2026, 1, 2)}}, "budget.epsilon must be a number, got 2026-01-02"),
        ({"output": {"nonnegative": "yes"}}, "output.nonnegative must be true or false, got 'yes'"),
        ({"bugdet": {}}, "the query file has no 'bugdet' (did you mean 'budget'?)"),
        ({"aggregates": {"kind": "count"}}, "aggregates must be a list of tables, each under [[aggregates]]"),
        ({"aggregates": [3]}, "aggregates must be a list of tables, each under [[aggregates]]"),
        ({"aggregates": [{}]}, "kind of aggregate 1 must be one of count, count_units,"),
        ({"aggregates": [{"kind": "count"}, {"kind": "meen"}]}, "got 'meen' (did you mean 'mean'?)"),
        ({"aggregates": [{"kind": ["sum"]}]}, "kind of aggregate 1 must be one of"),
        ({"aggregates": [{"kind": "sum", "bounds": [0, 1]}]}, "column of aggregate 1 (sum) must be given: the column"),
        ({"aggregates": [{"kind": "histogram", "column": "x"}]}, "edges of aggregate 1 (histogram) must be given"),
        ({"aggregates": [{"kind": "count", "edges": [0, 1]}]}, "aggregate 1 (count) has no 'edges'"),
        (
            {"aggregates": [{"kind": "mean", "column": "x", "bounds": [0, "1"]}]},
            "bounds of aggregate 1 (mean) must be two numbers, as in [0, 100], got [0, '1']",
        ),
        ({"aggregates": [{"kind": "mean", "column": "x", "bounds": [0]}]}, "must be two numbers, as in [0, 100]"),
    ],
)
def test_what_is_wrong_is_named(part, message):
    with pytest.raises(ValueError, match=r"^") as caught:
        query_file_of({"data": DATA} | part)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    for word in ("pydantic", "Input should", "QueryFile", "Arguments", "Table"):
        assert word not in str(caught.value)


def test_all_that_is_wrong_is_named_once():
    with pytest.raises(ValueError, match="max_groups") as caught:
        query_file_of({"data": DATA, "groups": {"max_groups": "8"}, "budget": {"epsilon": "1", "delta": 1e-8}})
    assert str(caught.value) == (
        "budget.epsilon must be a number, got '1'; groups.max_groups must be a whole number, got '8'"
    )


def test_of_very_many_mistakes_the_first_are_named():
    with pytest.raises(ValueError, match=r"; and 90 more$") as caught:
        query_file_of({"data": DATA | {f"key{i}": 1 for i in range(100)}})
    assert "key9" in str(caught.value)
    assert "key10" not in str(caught.value)


def test_a_file_that_is_nested_too_deeply(tmp_path):
    path = tmp_path / "query.toml"
    path.write_text(f"x = {'[' * 5000}{']' * 5000}")
    with pytest.raises(ValueError, match="too deep inside each other"):
        read_query_file(path)


def test_whole_numbers_stay_whole():
    bounds = [0, 2**80 + 1]
    file = query_file_of({"data": DATA, "aggregates": [{"kind": "sum", "column": "x", "bounds": bounds}]})
    assert file.given()["aggregates"][0]["bounds"] == bounds


def test_paths_are_beside_the_file_and_urls_stay(tmp_path):
    (tmp_path / "query.toml").write_text(
        '[data]\nsource = "in/*.csv"\nprivacy_unit = "user"\nledger = "postgresql://host/db"\n'
        '[groups]\npublic_keys = "../keys.csv"\n[output]\nout = "/elsewhere/out.csv"\n'
    )
    file = read_query_file(tmp_path / "query.toml")
    assert isinstance(file, QueryFile)
    assert file.data.source == str(tmp_path / "in/*.csv")
    assert file.data.ledger == "postgresql://host/db"
    assert file.groups.public_keys == str(tmp_path.parent / "keys.csv")
    assert (file.output.out, file.output.report) == ("/elsewhere/out.csv", None)


def holds(schema, value, root):
    """Whether a value meets a JSON Schema: a validator of its own, for the words that the schema uses."""
    if "$ref" in schema:
        return holds(root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, root)
    kinds = {
        "object": lambda v: isinstance(v, dict),
        "array": lambda v: isinstance(v, list),
        "string": lambda v: isinstance(v, str),
        "boolean": lambda v: isinstance(v, bool),
        "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
        "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    }
    checks = [kinds[schema["type"]](value)] if "type" in schema else []
    checks += [any(holds(each, value, root) for each in schema["anyOf"])] if "anyOf" in schema else []
    checks += [sum(holds(each, value, root) for each in schema["oneOf"]) == 1] if "oneOf" in schema else []
    checks += [value == schema["const"]] if "const" in schema else []
    checks += [value in schema["enum"]] if "enum" in schema else []
    if isinstance(value, dict):
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        checks += [set(schema.get("required", [])) <= set(value)]
        for key, each in value.items():
            if key in known:
                checks.append(holds(known[key], each, root))
            else:
                checks.append(others if isinstance(others, bool) else holds(others, each, root))
    if isinstance(value, list):
        checks += [schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))]
        checks += [holds(schema.get("items", {}), each, root) for each in value]
    return all(checks)


WORDS = {
    *("additionalProperties", "anyOf", "const", "default", "description", "discriminator", "enum", "items", "maxItems"),
    *("minItems", "oneOf", "properties", "required", "title", "type", "$ref", "$defs", "$schema"),
}

values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
).filter(lambda value: value is not None)
texts = st.text(max_size=5)


def tables(model):
    """Tables with keys that are known, or nearly, and values that mostly fit."""
    names = [*model.model_fields, "max_group", ""]
    fitting = texts | st.integers(0, 9) | st.sampled_from([[0, 1], ["a"], True, 0.5, "add_remove", *AGGREGATES])
    return st.dictionaries(st.sampled_from(names), fitting | values, max_size=5)


def parts(name):
    return tables(QueryFile.model_fields[name].annotation)


aggregates = st.lists(
    st.sampled_from(list(AGGREGATES.values())).flatmap(
        lambda kind: tables(kind.arguments).map(lambda given: {"kind": kind.name, **given})
    )
    | values,
    max_size=3,
)
files = st.fixed_dictionaries(
    {"data": st.just(DATA) | parts("data").map(lambda given: DATA | given) | values},
    optional={name: parts(name) | values for name in ("groups", "budget", "output")}
    | {"aggregates": aggregates | values, "other": values},
)


def without_null(value):
    """TOML has no null: what is generated inside lists and tables may have some."""
    if isinstance(value, dict):
        return {key: without_null(each) for key, each in value.items() if each is not None}
    return [without_null(each) for each in value if each is not None] if isinstance(value, list) else value


class TestSchema:
    SCHEMA = query_file_schema()

    @settings(max_examples=400)
    @given(files.map(without_null))
    def test_it_says_the_same_as_the_check(self, plain):
        """Whatever is written: a query file or a ValueError in words, and the schema agrees."""
        if holds(self.SCHEMA, plain, self.SCHEMA):
            assert query_file_of(plain).given() == plain
        else:
            with pytest.raises(ValueError, match=r"must be|has no"):
                query_file_of(plain)

    def test_the_check_has_power(self):
        """The validator above tells right from wrong, and knows all words that the schema uses."""
        right = {"data": DATA, "aggregates": [{"kind": "sum", "column": "x", "bounds": [0, 1]}]}
        assert holds(self.SCHEMA, right, self.SCHEMA)
        for wrong in ({}, right | {"x": 1}, {"data": DATA, "aggregates": [{"kind": "sum", "bounds": [0, 1]}]}):
            assert not holds(self.SCHEMA, wrong, self.SCHEMA)

        def used(schema, named=False):
            for key, each in schema.items() if isinstance(schema, dict) else ():
                if not named:
                    yield key
                yield from used(each, named=not named and key in ("properties", "$defs"))

        assert set(used({**self.SCHEMA, "discriminator": {}})) <= WORDS | {
            "$id",
            "mapping",
            "propertyName",
            *AGGREGATES,
        }

    def test_every_key_is_explained(self):
        for name, table in self.SCHEMA["$defs"].items():
            for key, each in table["properties"].items():
                assert key == "kind" or each.get("description"), f"{name}.{key}"

    def test_the_example_meets_it(self):
        example = tomllib.loads((ROOT / "examples/flights.toml").read_text(encoding="utf-8"))
        assert holds(self.SCHEMA, example, self.SCHEMA)
        first = (ROOT / "examples/flights.toml").read_text(encoding="utf-8").splitlines()[0]
        assert (ROOT / "examples" / first.removeprefix("#:schema ")).resolve() == ROOT / "docs/reference" / SCHEMA


def test_the_reference_is_up_to_date():
    """`python -m osgt.query.file.reference docs/reference` makes both."""
    folder = ROOT / "docs" / "reference"
    assert (folder / PAGE).read_text(encoding="utf-8") == reference()
    assert json.loads((folder / SCHEMA).read_text(encoding="utf-8")) == query_file_schema()


def test_dates_are_keys():
    keys = {"day": [datetime.date(2024, 2, 29)]}
    assert query_file_of({"data": DATA, "groups": {"public_keys": keys}}).groups.public_keys == keys
