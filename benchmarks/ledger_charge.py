"""How long does one charge take when many releases went before, and how long do writers wait for each other?

Claims: one charge to an SQLite ledger takes at most 15 ms of CPU whatever came before; a refusal and `remaining` take
at most 0.3 s; the history of 10,000 releases is read in a second; and of eight processes that charge without a pause
none waits long. The peer is SQLite's own way to wait, without the queue before it.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from measure import print_table
from osgt import OSGT, DiscreteOSGT, Ledger, PrivacyProfile
from osgt.ledger import BudgetExceeded, queue
from osgt.privacy import Charge

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
FURTHER = 25
SIZES = (100, 1_000, 10_000)
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


def charge_times():
    """One more charge, a refusal, what remains, and reading it all, after many others."""
    rows = []
    further, huge = different_charges(7), Charge(PrivacyProfile(DiscreteOSGT.gaussian(0.3)))
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "budget.db") as ledger:
        ledger.open("data", **BUDGET)
        count = 0
        for earlier in SIZES:
            while count < earlier:
                # Noise on the reals is added up in closed form: it only fills the ledger.
                charge = Charge(PrivacyProfile(OSGT.gaussian(2_000.0 + count)))
                ledger.reserve("data", charge, query="a release").settle("hash")
                count += 1
            charge_cpu = []
            for charge in islice(further, FURTHER):
                charge_cpu.append(timed(partial(ledger.reserve, "data", charge, query="q"))[1])
            count += FURTHER
            _, refusal = timed(lambda: ledger.reserve("data", huge, query="q"))
            _, left = timed(lambda: ledger.remaining("data", coordinates=8, delta=1e-7))
            _, history = timed(lambda: ledger.history("data"))
            with Ledger(ledger.name) as fresh:
                _, first = timed(lambda f=fresh: f.reserve("data", next(further), query="q"))
            count += 1
            figures = (statistics.median(charge_cpu), max(charge_cpu), refusal, left, history, first)
            rows.append((f"{earlier:,} earlier", *map(milliseconds, figures)))
    rows.append(("bar", "15 ms", "15 ms", "300 ms", "300 ms", "1,000 ms", ""))
    columns = ("releases", "charge: median", "largest", "refusal", "remaining", "history", "first charge of a process")
    print_table(f"SQLite ledger, CPU; {FURTHER} different charges (ε = 3, δ = 1e-6)", columns, rows)


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
    if sys.argv[1:2] == ["charge"]:
        if sys.argv[4] == "0":
            queue._opened = lambda path: None
        charge_without_pause(sys.argv[2], float(sys.argv[3]))
    else:
        waiting()
        charge_times()
