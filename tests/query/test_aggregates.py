"""The list of aggregates: one file with a further one is all that queries, query files and commands need."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from osgt.api.query import Query
from osgt.query.aggregates import Methods
from osgt.query.aggregates.quantile import MOST_BINS
from osgt.query.file.aggregates import AGGREGATES, register


@pytest.mark.parametrize("kind", AGGREGATES.values(), ids=lambda kind: kind.name)
class TestEach:
    def test_python_and_query_files_take_the_same_arguments(self, kind):
        parameters = dict(inspect.signature(getattr(Methods, kind.name)).parameters)
        del parameters["self"]
        keys = {name: field for name, field in kind.arguments.model_fields.items() if name != "kind"}
        assert set(parameters) == set(keys)
        for name in set(keys) - {"name"}:
            assert keys[name].is_required() or keys[name].default == parameters[name].default

    def test_the_method_is_typed_and_documented(self, kind):
        method = getattr(Query, kind.name)
        assert kind.name in dir(Query)
        assert method.__doc__
        parameters = inspect.signature(method).parameters.values()
        assert all(each.annotation is not inspect.Parameter.empty for each in parameters if each.name != "self")

    def test_it_is_described(self, kind):
        assert kind.summary.endswith(".")
        assert kind.arguments.model_fields["kind"].annotation.__args__ == (kind.name,)
        for name, field in kind.arguments.model_fields.items():
            assert field.description or name == "kind"


def test_the_methods_are_there_before_anything_is_registered():
    """Editors and type checkers see the bases of the class, not what is set on it."""
    written = {name for base in Methods.__bases__ for name in vars(base) if not name.startswith("_")}
    assert written == set(AGGREGATES)


def test_the_most_bins_are_told():
    assert f"from 2 to {MOST_BINS:,}." in AGGREGATES["median"].arguments.model_fields["bins"].description


def test_no_name_twice():
    with pytest.raises(ValueError, match="there is an aggregate 'sum' already"):
        register(AGGREGATES["sum"])


@pytest.fixture(scope="module")
def rides(tmp_path_factory):
    """120 people in two cities; fares from 0 to 9, some missing. Fares from 3 to 5: 30 in Bern, 25 in Rome."""
    path = tmp_path_factory.mktemp("rides") / "rides.parquet"
    fares = [*([4] * 30 + [2] * 20 + [None] * 10), *([3, 5, 5, 4, 3] * 5 + [9] * 20 + [None] * 15)]
    table = pa.table({"user": range(120), "city": ["Bern"] * 60 + ["Rome"] * 60, "fare": pa.array(fares, pa.int64())})
    pyarrow.parquet.write_table(table, path)
    return path


#: Runs in a process of its own, in which the aggregate is registered before anything else.
PYTHON = """
import json, sys
import present
from osgt import Dataset
query = Dataset(sys.argv[1], "user").group_by("city", max_groups=1, max_rows_per_group=1)
query = query.present_within("fare", (3, 5), weight=2)
plan, preview, release = query.plan(1000, 1e-6), query.preview(), query.release(1000, 1e-6)
print(json.dumps({"plan": plan.to_dict(), "words": str(plan), "preview": preview.to_dict(), "rows": release.rows(9),
                  "query": release.statement.to_dict()["query"]["aggregates"]}))
"""


#: Commands, one after the other, each with a list of words; their outputs as a list.
COMMANDS = """
import contextlib, io, json, sys
import present
from osgt.cli import app
outputs = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert not app(words, standalone_mode=False)
    outputs.append(output.getvalue())
print(json.dumps(outputs))
"""


def run(*arguments):
    path = [str(Path(__file__).parents[1] / "helpers"), *sys.path]
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(path), "COLUMNS": "200", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


class TestAnotherAggregate:
    """`present.py` beside this file is all that there is of it."""

    def test_in_python(self, rides):
        found = json.loads(run("-c", PYTHON, rides))
        assert [column["name"] for column in found["plan"]["columns"]] == ["fare_present"]
        assert 0 < found["plan"]["columns"][0]["half_width"] < 0.01  # at ε = 1000, in parts of a row
        assert "fare from 3 to 5" in found["words"]
        assert found["preview"]["missing_values"] == {"fare": 25}
        assert [each["number"] for each in found["preview"]["outside"]] == [40]
        assert [(row["city"], row["fare_present"]) for row in found["rows"]] == [("Bern", 30), ("Rome", 25)]
        assert found["query"] == [
            {"kind": "present_within", "column": "fare", "range": [3, 5], "name": "fare_present", "weight": 2}
        ]

    def test_in_a_query_file_and_on_the_command_line(self, rides, tmp_path):
        """The same table by both ways: plan, preview and release."""
        typed = [rides, "--unit", "user", "--by", "city", "--max-groups", 1, "--max-rows-per-group", 1]
        typed += ["--present-within", "fare:3:5"]
        query = tmp_path / "query.toml"
        query.write_text(
            f'[data]\nsource = "{rides}"\nprivacy_unit = "user"\n[groups]\nby = "city"\nmax_groups = 1\n'
            'max_rows_per_group = 1\n[[aggregates]]\nkind = "present_within"\ncolumn = "fare"\nrange = [3, 5]\n'
        )
        budget = ["--epsilon", 1000, "--delta", 1e-6]
        commands = []
        for given in (typed, ["--query", query]):
            commands += [["plan", *given, *budget, "--json"], ["plan", *given, *budget], ["preview", *given, "--json"]]
            commands.append(["release", *given, *budget, "--json"])
        commands += [["release", "--help"], ["schema"]]
        words = [[str(word) for word in command] for command in commands]
        *outputs, help_of_release, schema_text = json.loads(run("-c", COMMANDS, json.dumps(words)))
        for plan_json, plan_text, preview_json, release_json in (outputs[:4], outputs[4:]):
            assert [column["name"] for column in json.loads(plan_json)["columns"]] == ["fare_present"]
            assert "fare from 3 to 5" in plan_text
            preview = json.loads(preview_json)
            assert preview["missing_values"] == {"fare": 25}
            assert [each["number"] for each in preview["outside"]] == [40]
            rows = json.loads(release_json)["table"]
            assert [(row["city"], row["fare_present"]) for row in rows] == [("Bern", 30), ("Rome", 25)]
        assert "--present-within" in help_of_release
        schema = json.loads(schema_text)
        assert set(schema["$defs"]["PresentArguments"]["required"]) == {"kind", "column", "range"}
