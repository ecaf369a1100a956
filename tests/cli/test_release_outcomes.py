"""What happens between the charge and the end of `osgt release`, with real faults, and what the command says of it."""

import contextlib
import hashlib
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from osgt import Dataset, Ledger
from osgt.api.charge import NotSettledError
from osgt.api.publish import keep
from osgt.api.release import Release
from osgt.cli import app
from postgres_server import new_schema, postgres_server

QUERY = ["--unit", "user", "--by", "city", "--count", "--max-groups", 1, "--max-rows-per-group", 1]
PRICE = ["--epsilon", 1, "--delta", "1e-6"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(params=["sqlite", "postgresql"])
def location(request, tmp_path):
    if request.param == "sqlite":
        yield opened(str(tmp_path / "budget.db"))
        return
    with new_schema(request.getfixturevalue("postgres_url")) as url:
        yield opened(url)


@pytest.fixture
def budget(tmp_path):
    return opened(str(tmp_path / "budget.db"))


def opened(location):
    with Ledger(location) as ledger:
        ledger.open("rides", epsilon=20, delta=1e-3)
    return location


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pa.table({"user": range(900), "city": ["Rome", "Bern", "Oslo"] * 300}), path)
    return path


def arguments(rows, location, *more):
    return ["release", rows, *QUERY, *PRICE, "--ledger", location, "--dataset", "rides", *more]


def history(location):
    with Ledger(location) as ledger:
        assert ledger.verify().ok
        return ledger.history("rides")


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def command_in(message):
    """The arguments of the `osgt …` command that a message says to run."""
    return shlex.split(re.search(r"`osgt (ledger settle [^`]*)`", message)[1])


def as_program(argv, *, prelude="", **options):
    """Run `osgt` in a process of its own, after some lines of Python."""
    code = f"{textwrap.dedent(prelude)}\nfrom osgt.cli import app\napp()"
    command = [sys.executable, "-c", code, *map(str, argv)]
    return subprocess.run(command, check=False, text=True, **{"stderr": subprocess.PIPE, **options})


class TestPrinting:
    @pytest.mark.parametrize("more", [[], ["--json"]])
    def test_a_release_that_only_prints_is_settled(self, run, rows, location, more):
        result = run(*arguments(rows, location, *more))
        assert result.exit_code == 0, result.stderr
        (entry,) = history(location)
        assert (entry.status, entry.output, entry.output_hashes) == ("settled", "standard output", ())
        if more:
            told = json.loads(result.stdout)
            del told["table"]
            assert entry.statement_hash == hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()

    def test_nobody_reads_the_pipe(self, run, rows, budget, tmp_path):
        read, write = os.pipe()
        os.close(read)
        result = as_program(arguments(rows, budget), stdout=write)
        os.close(write)
        assert result.returncode == 4
        assert "could not be printed, or not all of it: Broken pipe" in result.stderr
        assert "Traceback" not in result.stderr
        assert "Exception ignored" not in result.stderr
        assert history(budget)[0].status == "reserved"
        (kept,) = (tmp_path / "state" / "osgt").glob("*.parquet")
        before, out = kept.read_bytes(), str(tmp_path / "out.parquet")
        result = run(*(out if word == "FILE" else word for word in command_in(result.stderr)))
        assert result.exit_code == 0, result.stderr
        assert Path(out).read_bytes() == before
        assert history(budget)[0].output == out

    def test_the_disk_behind_standard_output_is_full(self, rows, budget, tmp_path):
        """With its files in place, a release is out whether it can be printed or not."""
        with Path("/dev/full").open("w") as full:
            result = as_program(arguments(rows, budget, "--json", "--out", tmp_path / "out.csv"), stdout=full)
        assert result.returncode == 0
        assert "The table is in place, but it could not be printed: No space left on device" in result.stderr
        assert history(budget)[0].status == "settled"


class TestLedgerIsGone:
    """Between output and settling."""

    def before_settling(self, monkeypatch, fault):
        settle = Release.settle

        def after_the_fault(release, *files, **places):
            fault()
            settle(release, *files, **places)

        monkeypatch.setattr(Release, "settle", after_the_fault)

    def check(self, result, out):
        assert result.exit_code == 4
        assert isinstance(result.exception, SystemExit)
        assert "The table is in place, but the ledger could not be told" in result.stderr
        assert "do not release again" in result.stderr
        assert "Nothing may be released" not in result.stderr
        assert pyarrow.csv.read_csv(out).num_rows == 3
        assert "Rome" in result.stdout
        return command_in(result.stderr)

    def test_a_file_that_comes_back(self, run, rows, budget, tmp_path, monkeypatch):
        out, away = tmp_path / "out.csv", tmp_path / "away.db"
        self.before_settling(monkeypatch, lambda: os.rename(budget, away))
        command = self.check(run(*arguments(rows, budget, "--out", out, "--report", tmp_path / "out.html")), out)
        assert run(*command).exit_code == 2  # still away
        away.rename(budget)
        assert history(budget)[0].status == "reserved"
        result = run(*command)
        assert result.exit_code == 0, result.stderr
        (entry,) = history(budget)
        assert entry.status == "settled"
        files = [out, tmp_path / "out.csv-metadata.json", tmp_path / "out.html"]
        assert entry.output == ", ".join(map(str, files))
        assert entry.output_hashes == tuple(sha256(file) for file in files)
        assert len(entry.statement_hash) == 64
        again = run(*command)
        assert again.exit_code == 0
        assert "settled before" in again.stdout
        assert len(history(budget)) == 1

    def test_a_file_that_cannot_be_written(self, rows, tmp_path):
        """Made read-only for its user, whom root is not."""
        folder = tmp_path / "ledger"
        folder.mkdir()
        location, out = opened(str(folder / "budget.db")), tmp_path / "out.csv"
        prelude = f"""
            import os
            from osgt.api.release import Release
            settle = Release.settle
            def after_the_fault(release, *files, **places):
                os.chmod({location!r}, 0o444)
                os.chmod({str(folder)!r}, 0o555)
                if os.geteuid() == 0:
                    os.seteuid(65534)
                try:
                    settle(release, *files, **places)
                finally:
                    if os.getuid() == 0:
                        os.seteuid(0)
                    os.chmod({str(folder)!r}, 0o755)
            Release.settle = after_the_fault
        """
        for above in (tmp_path, *tmp_path.parents):
            if above.is_relative_to("/tmp") and above != Path("/tmp"):
                above.chmod(0o755)
        out.touch()
        result = as_program(arguments(rows, location, "--out", out, "--overwrite"), prelude=prelude, stdout=-3)
        assert result.returncode == 4, result.stderr
        assert "The table is in place, but the ledger could not be told" in result.stderr
        assert "Traceback" not in result.stderr
        assert history(location)[0].status == "reserved"

    def test_a_server_that_was_stopped(self, run, rows, tmp_path, monkeypatch):
        out = tmp_path / "out.csv"
        with contextlib.ExitStack() as server:
            location = opened(server.enter_context(postgres_server()))
            self.before_settling(monkeypatch, server.close)
            result = run(*arguments(rows, location, "--out", out))
        command = self.check(result, out)
        assert "cannot be reached, or stopped answering" in result.stderr
        assert command[:3] == ["ledger", "settle", location.partition("://")[0] + "://" + location.rpartition("@")[2]]
        assert location.split(":")[2].partition("@")[0] not in result.stderr  # the password

    def test_in_python(self, rows, budget, tmp_path, monkeypatch):
        with Ledger(budget) as ledger:
            data = Dataset(rows, privacy_unit="user", ledger=ledger, dataset="rides")
            query = data.group_by("city", max_groups=1, max_rows_per_group=1).count()
            release = query.release(epsilon=1, delta=1e-6)
            os.rename(budget, tmp_path / "away.db")
            with pytest.raises(NotSettledError, match="The table is in place"):
                release.to_parquet(tmp_path / "out.parquet")
            os.rename(tmp_path / "away.db", budget)
            assert ledger.history("rides")[0].status == "reserved"
            release.settle(tmp_path / "out.parquet")
            assert ledger.history("rides")[0].output_hashes == (sha256(tmp_path / "out.parquet"),)
            query.release(epsilon=1, delta=1e-6).settle(place="our site")
            assert [entry.output for entry in ledger.history("rides")] == [str(tmp_path / "out.parquet"), "our site"]


def test_killed_between_output_and_settling(run, rows, budget, tmp_path):
    out = tmp_path / "out.parquet"
    prelude = """
        import os, signal
        from osgt.api.release import Release
        Release.settle = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
    """
    result = as_program(arguments(rows, budget, "--out", out), prelude=prelude, stdout=-3)
    assert result.returncode == -signal.SIGKILL
    (entry,) = history(budget)
    assert entry.status == "reserved"
    assert "reserved" in run("ledger", "show", budget, "rides").stdout
    result = run("ledger", "settle", budget, "rides", entry.sequence, "--out", out, "--actor", "ann")
    assert result.exit_code == 0, result.stderr
    (entry,) = history(budget)
    told = json.loads(pyarrow.parquet.read_schema(out).metadata[b"osgt"])
    assert entry.statement_hash == hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
    assert (entry.status, entry.settled_by, entry.output) == ("settled", "ann", str(out))


class TestDiskFull:
    """Files may not grow beyond a limit; the CSV needs more than that, the Parquet file less."""

    @pytest.fixture
    def many(self, tmp_path):
        path = tmp_path / "keys.parquet"
        pyarrow.parquet.write_table(pa.table({"city": [f"{'a long name ' * 20}{i:05}" for i in range(3000)]}), path)
        return path

    def released(self, rows, many, budget, tmp_path, limit):
        def limited():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        more = ["--public-keys", many, "--out", tmp_path / "out.csv"]
        return as_program(arguments(rows, budget, *more), stdout=-3, preexec_fn=limited)

    def test_the_table_is_kept_and_can_be_put_in_place(self, run, rows, many, budget, tmp_path):
        result = self.released(rows, many, budget, tmp_path, 300_000)
        assert result.returncode == 4, result.stderr
        assert "The budget is spent, but the files could not be written: File too large" in result.stderr
        assert not [path for path in tmp_path.iterdir() if "out" in path.name]
        (kept,) = (tmp_path / "state" / "osgt").glob("*.parquet")
        assert kept.stat().st_mode & 0o777 == 0o600
        assert str(kept) in result.stderr
        table = pyarrow.parquet.read_table(kept)
        assert table.num_rows == 3000
        assert json.loads(table.schema.metadata[b"osgt"])["ledger"]["dataset"] == "rides"
        assert history(budget)[0].status == "reserved"
        assert run(*command_in(result.stderr)).exit_code == 0
        assert not kept.exists()
        (entry,) = history(budget)
        files = [tmp_path / "out.csv", tmp_path / "out.csv-metadata.json"]
        assert (entry.status, entry.output_hashes) == ("settled", tuple(sha256(file) for file in files))
        assert len(entry.statement_hash) == 64
        assert pyarrow.csv.read_csv(tmp_path / "out.csv")["count"].to_pylist() == table["count"].to_pylist()

    def test_not_even_that(self, run, rows, many, budget, tmp_path):
        result = self.released(rows, many, budget, tmp_path, 50_000)
        assert result.returncode == 3, result.stderr
        assert "could not be kept elsewhere (File too large). The charge to the ledger stands." in result.stderr
        assert "Traceback" not in result.stderr
        assert not list((tmp_path / "state" / "osgt").glob("*.parquet"))
        assert history(budget)[0].status == "reserved"

    def test_a_folder_that_cannot_be_made(self, rows, tmp_path, monkeypatch):
        (tmp_path / "temporary").mkdir()
        monkeypatch.setenv("XDG_STATE_HOME", str(rows))  # a file
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
        data = Dataset(rows, privacy_unit="user")
        query = data.group_by("city", max_groups=1, max_rows_per_group=1).count()
        [path] = keep([query.release(epsilon=1, delta=1e-6)])
        assert path.parent == tmp_path / "temporary"
        assert path.stat().st_mode & 0o777 == 0o600
        assert pyarrow.parquet.read_table(path).num_rows == 3


class TestNothingCameOut:
    def test_the_answer_to_the_charge_is_lost(self, run, rows, tmp_path, postgres_database, monkeypatch):
        from osgt.ledger import accounts  # noqa: PLC0415
        from proxy import proxy_for  # noqa: PLC0415

        monkeypatch.setattr(accounts, "PAUSES", (0.0,))
        opened(postgres_database)
        with proxy_for(postgres_database) as proxy:
            proxy.cuts, proxy.down_after_cut = 1, True
            result = run(*arguments(rows, proxy.url, "--out", tmp_path / "out.csv"))
            assert result.exit_code == 3, result.stderr
            assert "The charge may stand: see `osgt ledger show " in result.stderr
            assert not (tmp_path / "out.csv").exists()
            proxy.down = False
            proxy.cuts, proxy.down_after_cut = 1, False
            result = run(*arguments(rows, proxy.url, "--out", tmp_path / "out.csv"))
            assert result.exit_code == 0, result.stderr
        assert [entry.status for entry in history(postgres_database)] == ["reserved", "settled"]

    def test_interrupted(self, rows, budget, tmp_path):
        prelude = """
            import os, signal
            from osgt.release import measuring
            def interrupted(*_):
                os.kill(os.getpid(), signal.SIGINT)
            measuring.fetch = interrupted
        """
        result = as_program(arguments(rows, budget, "--out", tmp_path / "out.csv"), prelude=prelude, stdout=-3)
        assert result.returncode == 3
        assert "Interrupted: nothing was released" in result.stderr
        assert f"osgt ledger show {budget} rides" in result.stderr
        assert len(history(budget)) == 1
        assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == []


class TestSettleAndNote:
    @pytest.fixture
    def charged(self, run, rows, location, tmp_path, monkeypatch):
        result = run(*arguments(rows, location, "--json"))
        (tmp_path / "told.json").write_text(result.stdout)
        with monkeypatch.context() as patch:
            patch.setattr(Release, "settle", lambda *_, **__: None)
            assert run(*arguments(rows, location, "--out", tmp_path / "out.parquet")).exit_code == 0
        return location

    def test_what_is_wrong_is_named(self, run, charged, tmp_path):
        settled, reserved = (entry.sequence for entry in history(charged))
        for words, message in (
            ([1], "is not a release"),
            ([99], "is not a release; the latest ones: 2, 4"),
            ([reserved, "--statement", tmp_path / "told.json"], "that of another release"),
            ([reserved, "--statement", tmp_path / "rows.parquet"], "is not JSON"),
            ([reserved, "--out", tmp_path / "none.csv"], "No such file"),
            ([reserved, "--out", tmp_path / "out.parquet", "--statement-hash", "x"], "not the hash"),
            ([reserved, "--kept", tmp_path / "out.parquet"], "needs one --out"),
        ):
            result = run("ledger", "settle", charged, "rides", *words)
            assert result.exit_code == 2
            assert message in result.stderr
        assert [entry.status for entry in history(charged)] == ["settled", "reserved"]
        assert "settled before" in run("ledger", "settle", charged, "rides", settled).stdout
        assert run("ledger", "settle", charged, "rides", reserved).exit_code == 0
        assert [entry.status for entry in history(charged)] == ["settled", "settled"]

    def test_a_cancelled_charge(self, run, charged):
        with Ledger(charged) as ledger:
            charge = ledger.history("rides")[0].charge
            ledger.reserve("rides", charge, query="q", unit="user").cancel()
            last = ledger.history("rides")[-1].sequence
        assert "cancelled" in run("ledger", "settle", charged, "rides", last).stderr

    def test_notes(self, run, charged):
        entry = history(charged)[0].sequence
        assert (
            run("ledger", "note", charged, "rides", entry, "sent to\x1b[31m the press", "--actor", "ann").exit_code == 0
        )
        assert run("ledger", "note", charged, "rides", entry, "withdrawn").exit_code == 0
        first, second = history(charged)[0].notes
        assert re.fullmatch(r"sent to�\[31m the press \(ann, \d{4}-\d\d-\d\d\)", first)
        assert second.startswith("withdrawn (")
        for text, message in (("x" * 2001, "2,000 characters"), (" ", "must say something")):
            result = run("ledger", "note", charged, "rides", entry, text)
            assert result.exit_code == 2
            assert message in result.stderr
        assert run("ledger", "note", charged, "rides", 1, "about the opening").exit_code == 2
        assert len(history(charged)[0].notes) == 2
