"""How many modules a release, a plan and a charge walk through; `python tests/test_walk.py` prints them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: The most modules that each may walk through; the aims are 80, 50 and 25. The numbers only shrink.
MOST = {"release": 103, "plan": 71, "charge": 25}

QUERY = """
[data]
source = "visits.csv"
privacy_unit = "patient"
types = { cost = "float64" }
where = "cost >= 0"
ledger = "budget.db"
dataset = "visits"

[groups]
by = ["ward"]
max_groups = 2
max_rows_per_group = 2

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "mean"
column = "cost"
bounds = [0, 400]

[budget]
epsilon = 1
delta = 1e-6

[output]
out = "wards.csv"
report = "wards.html"
"""

WALK = """
import json, sys
from osgt import Ledger
from osgt.cli import app

def walk(act):
    seen = set()
    def note(frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        code = frame.f_code
        # Functions that somebody has written: neither bodies of modules and classes nor what dataclasses generate.
        if event == "call" and name.startswith("osgt.") and code.co_flags & 1 and code.co_filename != "<string>":
            seen.add(name)
    sys.setprofile(note)
    try:
        act()
    except SystemExit as end:
        assert end.code in (0, None), end.code
    finally:
        sys.setprofile(None)
    return sorted(seen)

def command(*words):
    return lambda: app(list(words))

with Ledger("budget.db") as ledger:
    ledger.open("visits", epsilon=3, delta=1e-5, unit="patient")
found = {"plan": walk(command("plan", "--query", "query.toml"))}
found["release"] = walk(command("release", "--query", "query.toml"))
with Ledger("budget.db") as ledger:
    charge = ledger.history("visits")[-1].charge
    found["charge"] = walk(lambda: ledger.reserve("visits", charge, query="again", unit="patient").cancel())
print("WALKED " + json.dumps(found))
"""


def walked(folder):
    """The modules that each walks through, in a process of its own."""
    rows = "".join(f"{i % 300},{'ABCD'[i % 4]},{i % 400}\n" for i in range(1200))
    (folder / "visits.csv").write_text("patient,ward,cost\n" + rows)
    (folder / "query.toml").write_text(QUERY)
    done = subprocess.run([sys.executable, "-c", WALK], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("WALKED ")]
    return json.loads(line.removeprefix("WALKED "))


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    return walked(tmp_path_factory.mktemp("walk"))


@pytest.mark.parametrize("what", MOST)
def test_few_modules_are_on_the_way(modules, what):
    assert len(modules[what]) <= MOST[what], "\n".join(modules[what])


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for what, names in walked(Path(folder)).items():
            print(f"{what}: {len(names)} modules", *names, sep="\n  ")
