"""Write the files that later versions must be able to read: `python tests/stability/write_files.py`, once a version.

They go into a folder named after the version, and are never written again.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from osgt import Ledger, __version__

HERE = Path(__file__).parent

DATA = """
[data]
source = "visits.csv"
privacy_unit = "patient"
units = 1500
ledger = "budget.db"
dataset = "visits"

[columns.ward]
values = ["North", "South"]

[columns.cost]
type = "float64"
range = [0, 400]

[columns.nights]
type = "int64"
"""

QUERY = """
[data]
file = "data.toml"
where = "cost >= 0"

[[table]]
name = "wards"
[table.groups]
by = "ward"
max_rows = 4
[[table.aggregates]]
kind = "count"
[[table.aggregates]]
kind = "mean"
column = "cost"
bounds = [0, 400]

[[table]]
name = "nights"
[table.groups]
by = ["ward", "nights"]
max_groups = 3
public_keys = "none"
[[table.aggregates]]
kind = "count_units"

[budget]
epsilon = 2
delta = 1e-6
"""


def main():
    with tempfile.TemporaryDirectory(prefix="office-") as made:
        os.chdir(made)  # a ledger knows where its files were
        write()
        shutil.copytree(made, HERE / __version__)
        os.chdir(HERE)


def write():
    """Write all files into the current folder."""
    rows = [f"p{i % 1500},{('North', 'South')[i % 2]},{(i * 37) % 400 + 0.5},{i % 3}" for i in range(3000)]
    Path("visits.csv").write_text("\n".join(["patient,ward,cost,nights", *rows]) + "\n", encoding="utf-8")
    Path("data.toml").write_text(DATA, encoding="utf-8")
    Path("query.toml").write_text(QUERY, encoding="utf-8")
    with Ledger("budget.db") as ledger:
        ledger.open("visits", epsilon=20, delta=1e-4, unit="patient")
    for out in ("{table}.parquet", "{table}.csv", "tables.xlsx"):
        osgt("release", "--query", "query.toml", "--out", out)
    chosen = ["--ledger", "budget.db", "--dataset", "visits", "--epsilon", "2", "--delta", "1e-6"]
    osgt("sql", "data.toml", "SELECT ward, SUM(cost) FROM visits GROUP BY ward", *chosen, "--out", "sums.parquet")
    osgt("ledger", "export", "budget.db", "--out", "export.json")
    for place in Path().glob("budget.db-*"):
        place.unlink()
    with Ledger("budget.db") as ledger:
        spent = ledger.spent("visits")
        facts = {"releases": len(ledger.history("visits")), "epsilon_spent": spent.epsilon}
    for place in Path().glob("budget.db-*"):
        place.unlink()
    Path("facts.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")


def osgt(*words):
    """Run a command of this version."""
    subprocess.run([Path(sys.executable).with_name("osgt"), *words], check=True)


if __name__ == "__main__":
    main()
