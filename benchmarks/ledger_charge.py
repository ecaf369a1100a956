"""How long does one charge take when many releases went before, and how long do writers wait for each other?

Aims, printed below what was measured: one charge to an SQLite ledger takes at most 15 ms of CPU whatever came before; a
refusal and `remaining` take at most 0.3 s; `osgt ledger show` of 10,000 releases takes a second, without the start of
the program; and of eight processes that charge without a pause none waits long. The peer is SQLite's own way to wait,
without the queue. Also told: what it costs that a copy of the file alone has every charge, and how long an exact
composition (`composition="planned"`) takes for each different release.

The earlier releases are written in one transaction, by the code that writes them one by one: with a commit for each it
would take half an hour. They are not part of any figure. `--sizes 100,1000` measures less.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partial
from itertools import count as count_up
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import sqlalchemy as sa

from measure import print_table
from osgt import OSGT, Dataset, DiscreteOSGT, Ledger, PrivacyProfile
from osgt.ledger import BudgetExceeded
from osgt.ledger.account import replay
from osgt.ledger.store import chain, database
from osgt.privacy import Charge
from osgt.privacy.filters.budget import new_budget
from osgt.privacy.filters.planned import Planned

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
FURTHER, REPEATS = 25, 3
SIZES = "100,1000,10000"
WRITERS, SECONDS = 8, 8.0


def different_charges(seed):
    """Releases of which no two are alike: shape, scale and coordinates at random."""
    generator = np.random.default_rng(seed)
    while True:
        shape, scale, coordinates = generator.uniform(0.1, 3), generator.uniform(500, 1250), generator.integers(1, 9)
        yield Charge(PrivacyProfile(DiscreteOSGT(shape * scale, scale), coordinates=int(coordinates)), 1e-12)


def timed(work):
    """Wall and CPU seconds."""
    start, cpu = time.perf_counter(), time.process_time()
    with contextlib.suppress(BudgetExceeded):
        work()
    return time.perf_counter() - start, time.process_time() - cpu


def milliseconds(seconds):
    return f"{seconds * 1e3:,.1f} ms"


def fill(ledger, first, last):
    """Charge and settle releases. Noise on the reals is added up in closed form: it only fills the ledger."""

    def work(connection):
        head = chain.find(connection, "data", lock=True)
        fetched = chain.fetch(connection, head)
        account = replay(fetched)

        def add(kind, values, own=None, refers_to=None):
            nonlocal head
            entry = chain.append(connection, head, kind, values, actor="benchmark", refers_to=refers_to)
            account.apply(entry, own=own)
            head = replace(head, sequence=entry.sequence, hash=entry.hash)
            return entry.sequence

        for number in range(first, last):
            charge = Charge(PrivacyProfile(OSGT.gaussian(2_000.0 + number)))
            state = account.state_with(charge)
            values = {
                "query": "a release",
                "title": None,
                "epsilon": None,
                "delta": None,
                "charge": charge.to_dict(),
                "subject": {"unit": None, "neighbours": None, "table": None},
                "token_hash": "",
                "state": state.to_dict(),
                "share": 0.0,
            }
            sequence = add("charge", values, own=state)
            add("settle", {"statement_hash": "hash", "output": None}, refers_to=sequence)

    ledger._database.write(work)


def cpu_of(*command):
    """CPU seconds of a program."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *map(str, command)], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def shown(location):
    """CPU seconds of `osgt ledger show`."""
    return min(
        cpu_of("-c", "from osgt.cli import app; app()", "ledger", "show", location, "data") for _ in range(REPEATS)
    )


def first_charge(location, seed, state):
    """CPU seconds of the first charge of a new process, whose user has this folder for state."""
    command = [sys.executable, __file__, "first", location, str(seed)]
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def a_query():
    """Counts and means by city."""
    rows = pd.DataFrame({"rider": [1, 2], "city": ["Bern", "Rome"], "fare": [1.5, 2.5]})
    data = Dataset(rows, privacy_unit="rider")
    return data.group_by("city", max_groups=2, max_rows_per_group=1).count().mean("fare", bounds=(0, 30))


def charge_times(sizes):
    """One more charge, a refusal, what remains, and reading it all, after many others."""
    rows, firsts, filled = [], [], 0
    further, small, query = different_charges(7), (0.001 * n for n in count_up()), a_query()
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "first.db") as ledger:
        # What is imported and computed once in a process is not part of the figures.
        ledger.open("data", **BUDGET)
        ledger.reserve("data", next(further), query="q")
        ledger.remaining("data", coordinates=3, delta=1e-8)
        ledger.remaining("data", query=query, delta=1e-8)
        start = shown(ledger.name)
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "budget.db") as ledger:
        ledger.open("data", **BUDGET)
        for earlier in sizes:
            fill(ledger, filled, earlier)
            filled = earlier
            ledger.spent("data")
            charge_cpu = []
            for charge in islice(further, FURTHER):
                charge_cpu.append(timed(partial(ledger.reserve, "data", charge, query="q"))[1])
            # Never the same twice: what was computed before is remembered.
            huge = [Charge(PrivacyProfile(DiscreteOSGT.gaussian(0.3 + next(small)))) for _ in range(REPEATS)]
            refusal = min(timed(lambda c=c: ledger.reserve("data", c, query="q"))[1] for c in huge)
            deltas = [1e-7 * (1.0 + next(small)) for _ in range(2 * REPEATS)]
            left = min(timed(lambda d=d: ledger.remaining("data", coordinates=8, delta=d))[1] for d in deltas[:REPEATS])
            asked = min(timed(lambda d=d: ledger.remaining("data", query=query, delta=d))[1] for d in deltas[REPEATS:])
            figures = (statistics.median(charge_cpu), max(charge_cpu), refusal, left, asked, shown(ledger.name) - start)
            rows.append((f"{earlier:,} earlier", *map(milliseconds, figures)))
            state = Path(folder) / f"state-{earlier}"
            runs = [first_charge(ledger.name, 2 * earlier + i, state) for i in range(2)]
            firsts.append((f"{earlier:,} earlier", *map(milliseconds, runs)))
    rows.append(("bar", "15 ms", "15 ms", "300 ms", "300 ms", "300 ms", "1,000 ms"))
    columns = ("releases", "charge: median", "largest", "refusal", "remaining", "of a query", "show")
    print_table(f"SQLite ledger, CPU; {FURTHER} different charges (ε = 3, δ = 1e-6)", columns, rows)
    print_table("First charge of a process, CPU", ("releases", "first of its user", "second of its user"), firsts)


def journals():
    """A charge with the journal that a copy of the file does not need, and with a write-ahead log."""
    rows, charge = [], Charge(PrivacyProfile(OSGT.gaussian(1e5)))
    for name, pragmas in (("as it is", ()), ("write-ahead log", ("journal_mode = WAL", "synchronous = FULL"))):
        with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "budget.db") as ledger:
            ledger.open("data", **BUDGET)
            ledger.close()

            def changed(connection, _record, pragmas=pragmas):
                for pragma in pragmas:
                    connection.execute(f"PRAGMA {pragma}")

            sa.event.listen(ledger._database.engine(), "connect", changed)
            waits = [timed(lambda: ledger.reserve("data", charge, query="q"))[0] for _ in range(100)]
        rows.append((name, *map(milliseconds, np.percentile(waits, [50, 99]))))
    print_table("One writer, equal charges: time of a charge", ("journal", "median", "99 %"), rows)


def planned_times():
    """The exact composition that a process makes when it first uses a data set with a plan."""
    charges, budget = list(islice(different_charges(3), 100)), new_budget(3.0, 1e-6, "planned")
    Planned.of(budget, charges[:1])
    seconds = timed(lambda: Planned.of(budget, charges))[1]
    print(f"Exact composition of {len(charges)} different releases: {milliseconds(seconds / len(charges))} of CPU each")


def charge_without_pause(location, seconds):
    """Charge until the time is up; print the seconds that each charge took."""
    charge = Charge(PrivacyProfile(OSGT.gaussian(1e5)))
    end, waits = time.monotonic() + seconds, []
    with Ledger(location) as ledger:
        while time.monotonic() < end:
            waits.append(timed(lambda: ledger.reserve("data", charge, query="q"))[0])
    print(json.dumps(waits))


def waiting():
    """Eight processes that charge one ledger without a pause."""
    rows = []
    for name, queued in (("with the queue", True), ("SQLite's own waiting", False)):
        with tempfile.TemporaryDirectory() as folder:
            location = Path(folder) / "budget.db"
            with Ledger(location) as ledger:
                ledger.open("data", **BUDGET)
            command = [sys.executable, __file__, "charge", location, str(SECONDS), str(int(queued))]
            workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)]
            waits = [wait for worker in workers for wait in json.loads(worker.communicate()[0])]
        at = np.percentile(waits, [50, 99, 100])
        rows.append((name, f"{len(waits):,}", *map(milliseconds, at)))
    title = f"{WRITERS} processes charge without a pause for {SECONDS:g} s on {os.cpu_count()} cores: time of a charge"
    print_table(title, ("", "charges", "median", "99 %", "longest"), rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["first"]:
        with Ledger(sys.argv[2]) as ledger:
            charge = next(different_charges(int(sys.argv[3])))
            print(timed(lambda: ledger.reserve("data", charge, query="q"))[1])
    elif sys.argv[1:2] == ["charge"]:
        if sys.argv[4] == "0":
            database._open_lock = lambda path: None
        charge_without_pause(sys.argv[2], float(sys.argv[3]))
    else:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("--sizes", default=SIZES, help="numbers of earlier releases")
        waiting()
        journals()
        planned_times()
        charge_times([int(size) for size in parser.parse_args().sizes.split(",")])
