"""Table releases that are charged to a ledger: in the right order, refused in time, and covered whatever happens."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

from osgt import Dataset, Ledger
from osgt.ledger import BudgetExceeded

ROWS = pa.table({"rider": [i % 40 for i in range(200)], "city": ["Bern", "Rome"] * 100})

#: A process that goes on releasing, into one file after the other, until it is stopped.
RELEASER = textwrap.dedent(
    """
    import itertools, sys
    from osgt import Dataset, Ledger
    source, location, folder = sys.argv[1:]
    data = Dataset(source, privacy_unit="rider", ledger=Ledger(location), dataset="rides")
    query = data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["Bern", "Rome"]).count()
    for number in itertools.count():
        release = query.release(epsilon=0.02, delta=1e-9)
        release.write(out=f"{folder}/{number}.csv", report=f"{folder}/{number}.html")
        print(number, flush=True)
    """
)


def counted(ledger, **options):
    data = Dataset(ROWS, privacy_unit="rider", ledger=ledger, dataset="rides", **options)
    return data.group_by("city", max_groups=2, max_rows_per_group=1).count()


def test_a_release_is_charged_as_planned_and_settled_when_written(ledger, tmp_path):
    ledger.open("rides", epsilon=3, delta=1e-6)
    query = counted(ledger)
    plan = query.plan(epsilon=1, delta=1e-7)
    assert ledger.history("rides") == []
    release = query.release(epsilon=1, delta=1e-7)
    (entry,) = ledger.history("rides")
    assert entry.charge == plan.charge
    assert 0 < entry.charge.selection_delta <= 1e-8  # a tenth of δ is set aside for it
    assert json.loads(entry.query)["groups"]["by"] == ["city"]
    assert entry.status != "settled"
    assert "was charged to a ledger" in str(release.statement)
    release.to_csv(tmp_path / "out.csv")
    (entry,) = ledger.history("rides")
    assert entry.status == "settled"
    statement = json.dumps(release.statement.to_dict(), sort_keys=True)
    assert entry.statement_hash == hashlib.sha256(statement.encode()).hexdigest()
    release.to_parquet(tmp_path / "again.parquet")  # a second copy costs nothing
    assert len(ledger.history("rides")) == 1
    assert ledger.verify().ok


def test_what_does_not_fit_is_refused_before_data_are_read(ledger):
    ledger.open("rides", epsilon=1.5, delta=1e-6)
    counted(ledger).release(epsilon=1, delta=1e-7)
    connection = duckdb.connect()  # a look at the data would fail in another way
    connection.execute("CREATE VIEW unreadable AS SELECT error('read')::INT AS rider, 'Bern' AS city FROM range(3)")
    data = Dataset(connection, "rider", table="unreadable", ledger=ledger, dataset="rides")
    with pytest.raises(BudgetExceeded, match="nothing was charged"):
        data.group_by("city", max_groups=2, max_rows_per_group=1).count().release(epsilon=1, delta=1e-7)
    assert len(ledger.history("rides")) == 1


def test_a_data_set_that_is_not_open_is_named(ledger):
    with pytest.raises(ValueError, match="rides"):
        counted(ledger).release(epsilon=1, delta=1e-7)


@pytest.mark.parametrize("kills", [30, pytest.param(300, marks=pytest.mark.long)])
def test_whatever_was_written_was_charged(location, tmp_path, kills):
    """Processes that release are killed at random moments; what they left behind is covered by charges."""
    source = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(ROWS, source)
    with Ledger(location) as ledger:
        ledger.open("rides", epsilon=20, delta=1e-6)
    written = 0
    moments = random.Random(1)
    for round_ in range(kills // 10):
        folder = tmp_path / str(round_)
        folder.mkdir()
        command = [sys.executable, "-c", RELEASER, source, location, folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            process.stdout.readline()  # it has begun; from here on a release takes a fraction of a second
            for _ in range(10):  # freeze it at ten moments, look, and let it go on; the last time for ever
                time.sleep(moments.uniform(0.0, 0.2))
                os.kill(process.pid, signal.SIGSTOP)
                check_covered(location, written + outputs(folder))
                os.kill(process.pid, signal.SIGCONT)
            while not outputs(folder) and process.poll() is None:  # a busy machine may take longer for the first
                time.sleep(0.01)
            time.sleep(moments.uniform(0.0, 0.2))
            process.send_signal(signal.SIGKILL)
        written += outputs(folder)
        check_covered(location, written)
    with Ledger(location) as ledger:
        assert ledger.verify().ok


def outputs(folder):
    """Files in place: a table without its report, or the other way round, counts as one release."""
    return len({path.name.partition(".")[0] for path in folder.iterdir() if not path.name.startswith(".")})


def check_covered(location, written):
    """There are charges for all that was written. A process that is frozen may hold the file: a copy is looked at."""
    with tempfile.TemporaryDirectory() as folder:
        if not location.startswith("postgresql"):
            copy = Path(folder) / "copy.db"
            for suffix in ("", "-journal"):
                if os.path.exists(location + suffix):
                    shutil.copy(location + suffix, f"{copy}{suffix}")
            location = copy
        with Ledger(location) as ledger:
            assert len(ledger.history("rides")) >= written
