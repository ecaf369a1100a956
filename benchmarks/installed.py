"""How much does `pip install "osgt[tables]"` bring along, and does it release a table?

In a new environment, with the newest versions of everything: the number of packages and their size on disk, and a
release of a small table from a Parquet file on the DuckDB that was installed. Beside it osgt alone, and the other
extras. Needs an index of packages.
"""

import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from rich.markup import escape

from measure import print_table

EXTRAS = ("", "tables", "postgres", "web", "excel")

#: Counts what is installed beside pip, and the bytes below site-packages.
INSTALLED = """
import importlib.metadata, json, pathlib, sysconfig
names = {each.name.lower() for each in importlib.metadata.distributions()} - {"pip", "setuptools", "osgt"}
files = pathlib.Path(sysconfig.get_path("purelib")).rglob("*")
size = sum(path.stat().st_size for path in files if path.is_file() and "site-packages/pip" not in str(path))
print(json.dumps({"packages": len(names), "megabytes": size / 1e6}))
"""

#: Releases a table of 1,000 people, and checks that every group comes out.
RELEASE = """
import json, duckdb, pyarrow as pa, pyarrow.parquet
from osgt import Dataset
pyarrow.parquet.write_table(pa.table({"person": range(1000), "city": ["Bern", "Rome"] * 500}), "people.parquet")
query = Dataset("people.parquet", "person").group_by("city", public_keys=["Bern", "Rome"], max_rows=1).count()
release = query.release(1, 1e-6)
assert release.table["city"].to_pylist() == ["Bern", "Rome"]
print(json.dumps({"duckdb": duckdb.__version__}))
"""


def run(python: Path, *arguments: str, folder: Path) -> dict[str, str]:
    """What the last line of a Python process says, in JSON."""
    done = subprocess.run([python, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.startswith("{") else {}


def installed(extra: str, folder: Path) -> list[str]:
    """Install osgt with an extra into a new environment, and describe it."""
    venv.create(folder, with_pip=True)
    python, source = folder / "bin" / "python", Path(__file__).parents[1]
    what = f"{source}[{extra}]" if extra else str(source)
    run(python, "-m", "pip", "install", "--quiet", "--no-compile", what, folder=folder)
    found = run(python, "-c", INSTALLED, folder=folder)
    released = f"with DuckDB {run(python, '-c', RELEASE, folder=folder)['duckdb']}" if extra else ""
    name = f"osgt[{extra}]" if extra else "osgt"
    return [escape(name), str(found["packages"]), f"{float(found['megabytes']):.0f} MB", released]


if __name__ == "__main__":
    rows = []
    for name in sys.argv[1:] or EXTRAS:
        with tempfile.TemporaryDirectory(prefix="osgt_installed_") as place:
            rows.append(installed(name, Path(place)))
    print_table("Installed", ["what", "packages", "size", "releases a table"], rows)
