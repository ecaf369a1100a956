"""What can be wrong with a disk, a file or a server: a clear error, and no reservation."""

import contextlib
import json
import os
import pwd
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from charges import laplace, osgt
from osgt import Ledger
from osgt.ledger import DamagedLedgerError, LedgerError, LostAnswerError
from osgt.ledger.store import database, schema


def in_child(work):
    """What `work` raises in a forked process, as text; None if it raises nothing."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the child does little, and leaves without cleaning up
        pid = os.fork()
    if pid == 0:
        text = None
        try:
            work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, json.dumps(text).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = json.load(pipe)
    os.waitpid(pid, 0)
    return text


def as_nobody(work):
    """Run `work` as a user with no rights, where we are root, whom no permission stops."""

    def stripped():
        if os.geteuid() == 0:
            os.setgid(pwd.getpwnam("nobody").pw_gid)
            os.setuid(pwd.getpwnam("nobody").pw_uid)
        work()

    return in_child(stripped)


@pytest.fixture
def path(tmp_path):
    """A ledger file that nobody has open, in a folder that everyone may enter."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with Ledger(folder / "budget.db") as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        ledger.reserve("flights", laplace(0.1), query="q")
        ledger.spent("flights")
    for above in (folder, *folder.parents):
        if above.is_relative_to("/tmp") and above != Path("/tmp"):
            above.chmod(0o755)
    return folder / "budget.db"


def charge(path):
    with Ledger(path) as ledger:
        ledger.reserve("flights", laplace(0.1), query="q")


class TestPermissions:
    def test_read_only_file_and_folder(self, path):
        path.chmod(0o444)
        path.parent.chmod(0o555)
        text = as_nobody(lambda: charge(path))
        assert text.startswith("LedgerError")
        assert "cannot be written" in text or "cannot be opened" in text
        assert "Nothing was charged, and nothing may be released" in text
        path.parent.chmod(0o755)
        with Ledger(path) as ledger:
            assert ledger.spent("flights").releases == 1

    def test_a_folder_that_nobody_may_enter(self, path):
        """The ledger is neither gone nor damaged, and the message says neither."""
        path.parent.chmod(0o600)
        text = as_nobody(lambda: Ledger(path).verify())
        path.parent.chmod(0o755)
        assert text.startswith("LedgerError")
        assert "cannot be reached: Permission denied" in text

    def test_whoever_may_only_read_can_look_and_check(self, path):
        path.chmod(0o444)
        path.parent.chmod(0o555)
        heads = Ledger(path).verify().heads

        def look():
            with Ledger(path) as ledger:
                assert ledger.verify(heads).ok
                assert [release.query for release in ledger.history("flights")] == ["q"]
                assert ledger.spent("flights").releases == 1
                assert ledger.remaining("flights") > 0
                assert ledger.export()["heads"] == heads

        assert as_nobody(look) is None
        path.parent.chmod(0o755)

    def test_a_file_of_someone_else(self, path):
        path.chmod(0o000)
        text = as_nobody(lambda: charge(path))
        assert text.startswith("LedgerError")
        assert "this user may not" in text

    def test_a_new_ledger_in_a_read_only_folder(self, path):
        path.parent.chmod(0o555)
        text = as_nobody(lambda: Ledger(path.parent / "new.db").open("flights", epsilon=1, delta=1e-6))
        assert text.startswith("LedgerError")
        assert "its folder" in text
        path.parent.chmod(0o755)

    def test_a_folder_that_does_not_exist(self, tmp_path):
        with pytest.raises(LedgerError, match="its folder does not exist"):
            Ledger(tmp_path / "none" / "budget.db").open("flights", epsilon=1, delta=1e-6)

    def test_a_folder_instead_of_a_file(self, tmp_path):
        with pytest.raises(LedgerError, match="cannot be opened"):
            Ledger(tmp_path).open("flights", epsilon=1, delta=1e-6)


class TestReaders:
    """A reader that does not let go: SQLite cannot commit, and says so before it has written anything."""

    def test_an_open_query_blocks_a_charge_for_one_wait(self, path, monkeypatch):
        monkeypatch.setattr(database, "PATIENCE", 0.2)
        with Ledger(path) as ledger:
            ledger.spent("flights")
            commits = []
            sa.event.listen(ledger._database.engine(), "commit", commits.append)
            with contextlib.closing(sqlite3.connect(path)) as reader:
                cursor = reader.execute("SELECT * FROM osgt_entries")
                cursor.fetchone()
                before = len(commits)
                with pytest.raises(LedgerError, match="was in use by others") as error:
                    ledger.reserve("flights", laplace(0.1), query="q")
                assert not isinstance(error.value, LostAnswerError)
                assert "Nothing was charged, and nothing may be released" in str(error.value)
                assert len(commits) - before == 1
                cursor.fetchall()
            assert ledger.spent("flights").releases == 1
            ledger.reserve("flights", laplace(0.1), query="q")
            assert ledger.verify().ok

    def test_ends_of_a_charge(self, path, monkeypatch):
        """Neither is recorded; both can be tried again."""
        monkeypatch.setattr(database, "PATIENCE", 0.2)
        with Ledger(path) as ledger:
            first, second = (ledger.reserve("flights", laplace(0.1), query="q") for _ in range(2))
            with contextlib.closing(sqlite3.connect(path)) as reader:
                cursor = reader.execute("SELECT * FROM osgt_entries")
                cursor.fetchone()
                for act in (lambda: first.settle("hash"), second.cancel):
                    with pytest.raises(LedgerError, match="was in use by others") as error:
                        act()
                    assert not isinstance(error.value, LostAnswerError)
                cursor.fetchall()
            first.settle("hash")
            second.cancel()
            assert [release.status for release in ledger.history("flights")][1:] == ["settled", "cancelled"]


class TestDiskFull:
    def test_files_may_not_grow(self, path):
        def starved():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            size = path.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
            for _ in range(200):
                charge(path)

        text = in_child(starved)
        assert text.startswith("LedgerError")
        assert "the disk is full, or fails" in text
        with Ledger(path) as ledger:
            stands = ledger.spent("flights").releases
            assert len(ledger.history("flights")) == stands
            assert ledger.verify().ok
            ledger.reserve("flights", laplace(0.1), query="after making room")

    def test_the_database_says_full(self, path):
        with Ledger(path) as ledger:
            pages = ledger._database.write(lambda c: c.exec_driver_sql("PRAGMA page_count").scalar_one())
            engine = ledger._database.engine()
            engine.dispose()

            @sa.event.listens_for(engine, "connect")
            def _limit(connection, _record):
                connection.execute(f"PRAGMA max_page_count = {pages}")

            with pytest.raises(LedgerError, match="the disk is full, or fails"):
                ledger.reserve("flights", laplace(0.001), query="q" * 100_000)
            assert ledger.verify().ok

    @pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="only root may mount a file system")
    def test_a_file_system_that_is_full(self, tmp_path):
        small = tmp_path / "small"
        small.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=False)
        if mounted.returncode:
            pytest.skip("this machine does not let root mount a file system")
        try:
            with Ledger(small / "budget.db") as ledger:
                ledger.open("flights", epsilon=3, delta=1e-6)
                granted = 0
                with pytest.raises(LedgerError, match="the disk is full, or fails"):  # noqa: PT012
                    for _ in range(1000):
                        ledger.reserve("flights", laplace(0.001), query="q" * 5000)
                        granted += 1
            with Ledger(small / "budget.db") as ledger:
                assert len(ledger.history("flights")) == granted
        finally:
            subprocess.run(["umount", small], check=True)


class TestDamage:
    def test_not_a_database(self, tmp_path):
        path = tmp_path / "budget.db"
        path.write_text("name,value\n" * 100)
        for act in (charge, lambda p: Ledger(p).open("flights", epsilon=1, delta=1e-6)):
            with pytest.raises(DamagedLedgerError, match=r"not a database, or is damaged.*backup"):
                act(path)
        assert path.read_text().startswith("name,value")

    def test_overwritten_pages(self, path):
        with Ledger(path) as ledger:
            for i in range(40):
                ledger.reserve("flights", osgt(300 + i, 400), query="q" * 2000)
        body = bytearray(path.read_bytes())
        for start in range(4096, len(body), 4096):
            body[start : start + 4096] = os.urandom(min(4096, len(body) - start))
        path.write_bytes(body)
        with pytest.raises(DamagedLedgerError, match=r"backup"):
            charge(path)

    def test_cut_short(self, path):
        path.write_bytes(path.read_bytes()[:5000])
        with pytest.raises(LedgerError):
            charge(path)

    def test_another_database(self, tmp_path):
        path = tmp_path / "other.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE things (name)")
        connection.close()
        with pytest.raises(LedgerError, match="there is no ledger in it"):
            charge(path)

    def test_no_file_is_made_by_looking(self, tmp_path):
        path = tmp_path / "typo.db"
        for act in (charge, lambda p: Ledger(p).spent("flights"), lambda p: Ledger(p).verify()):
            with pytest.raises(LedgerError, match=r"there is no ledger at .*typo.db"):
                act(path)
        assert not path.exists()


class TestVersions:
    def test_a_newer_version(self, ledger):
        ledger._database.write(lambda c: c.execute(schema.schema.update().values(version=99)))
        for act in (
            lambda: ledger.reserve("flights", laplace(0.1), query="q"),
            lambda: ledger.open("trains", epsilon=1, delta=1e-6),
            lambda: ledger.spent("flights"),
            ledger.verify,
        ):
            with pytest.raises(LedgerError, match=r"schema version 99.*a newer osgt wrote it"):
                act()


class TestServer:
    def test_no_server(self):
        with pytest.raises(LedgerError, match="cannot be reached"):
            Ledger("postgresql://ann:secret@127.0.0.1:1/x").open("flights", epsilon=1, delta=1e-6)

    def test_wrong_password_is_not_repeated(self, postgres_url):
        wrong = postgres_url.replace("postgres:", "postgres:wrong")
        with pytest.raises(LedgerError, match="cannot be reached") as error:
            Ledger(wrong).open("flights", epsilon=1, delta=1e-6)
        assert wrong.split(":")[2].split("@")[0] not in str(error.value)

    def test_a_user_who_may_only_read(self, postgres_database):
        with Ledger(postgres_database) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
            connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        try:
            host = postgres_database.split("@")[1]
            with Ledger(f"postgresql://reader:reader@{host}") as ledger:
                with pytest.raises(LedgerError, match="this user may not change it"):
                    ledger.reserve("flights", laplace(0.1), query="q")
                assert ledger.spent("flights").releases == 0
        finally:
            with psycopg.connect(postgres_database, autocommit=True) as connection:
                connection.execute("DROP OWNED BY reader")
                connection.execute("DROP ROLE reader")

    def test_a_connection_that_breaks(self, postgres_database):
        """The next transaction makes a new one."""
        with Ledger(postgres_database) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
            with psycopg.connect(postgres_database, autocommit=True) as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            ledger.reserve("flights", laplace(0.1), query="q")

    def test_serialisation_failures_are_tried_again(self, postgres_database):
        with Ledger(postgres_database) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
            attempts = []

            def unlucky(connection):
                attempts.append(1)
                if len(attempts) < 3:
                    connection.exec_driver_sql("DO $$ BEGIN RAISE SQLSTATE '40001'; END $$")
                return "done"

            assert ledger._database.write(unlucky) == "done"
            assert len(attempts) == 3


def test_nothing_is_imported_that_is_not_needed():
    """`import osgt` stays quick: neither SQLAlchemy nor a driver comes with it."""
    code = "import osgt, sys; assert not {'sqlalchemy', 'psycopg', 'sqlite3'} & set(sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
