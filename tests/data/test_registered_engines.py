"""Engines are found in one place: ours, and those that other packages register. Nothing else knows one by name."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import osgt
from osgt import Dataset
from osgt.cli import app
from osgt.data import engines
from osgt.data.engines import engine_for, engine_named, engine_names, engine_of_ibis

ROOT = Path(osgt.__file__).parent

#: A whole engine of another package: another name for DuckDB, with files and a kind of URL of its own.
MODULE = """
from osgt.data.engines.duckdb import DuckDB


class Pond(DuckDB):
    name = "pond"
    title = "Pond"
    takes = "a path pond://…"
    fetches = []

    def opens(self, source):
        return isinstance(source, str) and source.startswith("pond://")

    def opened(self, source, options):
        return super().opened(source.removeprefix("pond://") if isinstance(source, str) else source, options)

    def fetch(self, connection, sql, schema):
        self.fetches.append(sql)
        return super().fetch(connection, sql, schema)
"""

TABLE = pa.table({"person": range(900), "town": ["x", "y", "z"] * 300, "value": [3] * 900})


def install(folder, name="pond", value="pond_engine:Pond", module=MODULE):
    """A package as an installer leaves it: a module, and beside it what it is called and what it registers."""
    (folder / "pond_engine.py").write_text(module)
    info = folder / f"{name}_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{engines.GROUP}]\n{name} = {value}\n")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of packages. What comes from there is forgotten in the end."""
    packages = tmp_path / "packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(packages)
    yield packages
    sys.modules.pop("pond_engine", None)
    engine_named.cache_clear()


@pytest.fixture
def parquet(tmp_path):
    pa.parquet.write_table(TABLE, tmp_path / "people.parquet")
    return str(tmp_path / "people.parquet")


def test_our_own_by_name_source_and_back_end():
    assert engine_names()[:3] == ["duckdb", "postgres", "spark"]
    for name in ("duckdb", "postgres", "spark"):
        assert engine_named(name).name == name
    assert engine_for("people.csv").name == engine_for(Path("people.duckdb")).name == engine_for(TABLE).name == "duckdb"
    assert engine_for("postgresql://host/people").name == "postgres"
    assert engine_of_ibis("duckdb").name == "duckdb"


def test_another_engine_releases_a_table(folder, parquet):
    assert "pond" not in engine_names()
    install(folder)
    assert engine_names() == ["duckdb", "postgres", "spark", "pond"]
    assert "pond_engine" not in sys.modules  # until somebody needs it
    for source, options in ((parquet, {"engine": "pond"}), (TABLE, {"engine": "pond"}), (f"pond://{parquet}", {})):
        data = Dataset(source, "person", **options)
        pond = engine_named("pond")
        pond.fetches.clear()
        assert data.engine is data.table.engine is pond
        query = data.where("value > 1").group_by("town", max_groups=1, max_rows_per_group=1).count()
        released = query.sum("value", bounds=(0, 5)).release(1, 1e-6)
        assert released.to_arrow()["town"].to_pylist() == ["x", "y", "z"]
        assert all(abs(count - 300) < 60 for count in released.to_arrow()["count"].to_pylist())
        rehearsal, groups = pond.fetches  # with what was left out
        assert groups in rehearsal
        assert query.to_dict()["data"]["engine"] == "pond"
    # Ours has kept its own.
    assert Dataset(parquet, "person").engine.name == "duckdb"


def test_another_engine_on_the_command_line(folder, parquet, tmp_path):
    install(folder)
    out = tmp_path / "out.csv"
    arguments = [parquet, "--engine", "pond", "--unit", "person", "--by", "town", "--max-groups", "1"]
    arguments += ["--max-rows-per-group", "1", "--count", "--epsilon", "1", "--delta", "1e-6", "--out", str(out)]
    done = CliRunner().invoke(app, ["release", *arguments])
    assert done.exit_code == 0, done.output
    assert out.read_text().startswith('"town","count"')
    assert len(engine_named("pond").fetches) == 2


def test_the_help_lists_all_engines(folder):
    install(folder)
    code = "from osgt.cli import app; app(['release', '--help'])"
    environment = {"PYTHONPATH": f"{ROOT.parent}:{folder}", "COLUMNS": "200", "PATH": ""}
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "duckdb, postgres, spark, pond" in shown.stdout


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("pond_engine:Nothing", ImportError, "engine 'lake' cannot be loaded from pond_engine:Nothing"),
        ("pathlib:Path", TypeError, "engine 'lake' must be a subclass of .*Engine: pathlib:Path"),
        ("pond_engine:Pond", ValueError, "engine 'lake' is registered under another name than its own, 'pond'"),
    ],
)
def test_an_engine_that_is_not_what_it_says(folder, value, error, message):
    install(folder, name="lake", value=value)
    with pytest.raises(error, match=message):
        Dataset("people.parquet", "person", engine="lake")


def test_nobody_takes_the_name_of_another(folder):
    install(folder, name="duckdb")
    assert engine_named("duckdb").title == "DuckDB"
    install(folder)
    other = folder / "second-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: second\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text(f"[{engines.GROUP}]\npond = elsewhere:Pond\n")
    with pytest.raises(ValueError, match="two packages register an engine 'pond': elsewhere:Pond and pond_engine:Pond"):
        engine_named("pond")


def test_an_engine_that_does_not_open_the_source(parquet):
    with pytest.raises(ValueError, match=r"source must be a URL postgresql:.* for engine postgres; got"):
        Dataset(parquet, "person", engine="postgres")
    with pytest.raises(TypeError, match=r"source must be a Spark DataFrame.* for engine spark; got Table"):
        Dataset(TABLE, "person", engine="spark")


def test_where_an_engine_runs_is_told_to_one_that_can_be_told(parquet):
    with pytest.raises(ValueError, match="master must be left out for DuckDB"):
        Dataset(parquet, "person", master="local[2]")


def test_libraries_are_loaded_when_used():
    """Not by importing the tables, nor by looking an engine up."""
    code = (
        "import sys; import osgt.data.engines as e; e.engine_names(); assert 'duckdb' not in sys.modules;"
        "import osgt.api.release; e.engine_named('spark'); e.engine_named('postgres');"
        "print([name for name in ('pyspark', 'psycopg', 'duckdb', 'ibis') if name in sys.modules])"
    )
    environment = {"PYTHONPATH": str(ROOT.parent), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


NAMED = re.compile("duckdb|spark|postgres", re.IGNORECASE)

#: What is about ledgers, which may be kept in a database as well.
LEDGER = re.compile("ledger")


def names_in_code(path):
    """Names and text that mention an engine, without comments and docstrings."""
    tree = ast.parse(path.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        texts = [value for value in vars(node).values() if isinstance(value, str)]
        if isinstance(node, ast.Constant) and id(node) in prose:
            continue
        yield from (f"{path}:{getattr(node, 'lineno', '?')}: {text}" for text in texts if NAMED.search(text))


def test_nothing_else_names_an_engine():
    paths = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[:2] != ("data", "engines")]
    paths = [path for path in paths if not LEDGER.search(str(path.relative_to(ROOT)))]
    # Frames of any library are refused where text is expected, without being printed.
    paths = [path for path in paths if path.relative_to(ROOT).as_posix() != "support/errors.py"]
    found = [name for path in paths for name in names_in_code(path)]
    assert found == []
    # The check finds what it looks for.
    assert len(list(names_in_code(ROOT / "data" / "engines" / "__init__.py"))) >= 3
