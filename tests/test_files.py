"""Files are written whole or not at all, never over a file in use, and over another one only if that is allowed."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from osgt.support.files import Target, _is_read, written, written_together

OLD, NEW = "the old file\n", "the new file\n" * 1000

#: Writes half of a file, says so, and waits to be killed.
HALF = """
import sys, time
from osgt.support.files import Target, written
with written(Target(sys.argv[1], overwrite=True)) as place:
    place.write_text("half")
    print("half", flush=True)
    time.sleep(3600)
"""


def put(path, text=NEW, **rules):
    with written(Target(path, **rules)) as place:
        place.write_text(text)


def fail(target, error, meanwhile=lambda: None):
    """An error in the middle of writing."""
    with written(target) as place:
        place.write_text("half")
        meanwhile()
        raise error


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def half_written():
    """A process that has begun to write a path."""
    processes = []

    def start(path):
        process = subprocess.Popen([sys.executable, "-c", HALF, path], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "half\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


class TestWhole:
    def test_written(self, tmp_path):
        put(tmp_path / "x.txt")
        assert (tmp_path / "x.txt").read_text() == NEW
        assert names(tmp_path) == ["x.txt"]

    def test_permissions_follow_the_umask(self, tmp_path):
        before = os.umask(0o027)
        try:
            put(tmp_path / "x.txt")
        finally:
            os.umask(before)
        assert (tmp_path / "x.txt").stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
    def test_an_error_leaves_the_old_file(self, tmp_path, error):
        path = tmp_path / "x.txt"
        path.write_text(OLD)
        with pytest.raises(error):
            fail(Target(path, overwrite=True), error)
        assert path.read_text() == OLD
        assert names(tmp_path) == ["x.txt"]

    def test_name_and_contents_are_on_the_disk(self, tmp_path, monkeypatch):
        synced, sync = [], os.fsync

        def spy(handle):
            synced.append((Path(f"/proc/self/fd/{handle}").readlink(), (tmp_path / "x.txt").exists()))
            sync(handle)

        monkeypatch.setattr(os, "fsync", spy)
        put(tmp_path / "x.txt")
        assert synced == [(tmp_path / ".x.txt.osgt.tmp", False), (tmp_path, True)]

    def test_killed_in_the_middle(self, tmp_path, half_written):
        path = tmp_path / "x.txt"
        path.write_text(OLD)
        process = half_written(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.read_text() == OLD
        assert names(tmp_path) == [".x.txt.osgt.tmp", "x.txt"]
        put(path, overwrite=True)
        assert path.read_text() == NEW
        assert names(tmp_path) == ["x.txt"]

    def test_killed_between_its_two_names(self, tmp_path):
        """A file without `overwrite` has both names for a moment: what is cleaned up is one name, not the file."""
        path = tmp_path / "x.txt"
        path.write_text(OLD)
        os.link(path, tmp_path / ".x.txt.osgt.tmp")
        seen = []
        with pytest.raises(RuntimeError):
            fail(Target(path, overwrite=True), RuntimeError, lambda: seen.append(path.read_text()))
        assert [*seen, path.read_text()] == [OLD, OLD]
        assert names(tmp_path) == ["x.txt"]

    def test_a_full_disk(self, tmp_path):
        """The largest size of a file stands in for the size of the disk: the system refuses to write more."""
        path = tmp_path / "x.txt"
        path.write_text(OLD)
        code = (
            "import resource, signal, sys\nfrom osgt.support.files import Target, written\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
            "with written(Target(sys.argv[1], overwrite=True)) as place:\n    place.write_text('x' * 100_000)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert "File too large" in done.stderr
        assert path.read_text() == OLD
        assert names(tmp_path) == ["x.txt"]

    def test_what_another_process_is_writing_is_left_alone(self, tmp_path, half_written):
        path = tmp_path / "x.txt"
        process = half_written(path)
        with pytest.raises(BlockingIOError, match="another run is writing"):
            put(path, overwrite=True)
        assert (tmp_path / ".x.txt.osgt.tmp").read_text() == "half"
        process.kill()
        process.wait()
        put(path)
        assert names(tmp_path) == ["x.txt"]

    def test_many_writers_of_one_file(self, tmp_path):
        """Each either writes all of its file or is told that another one is at it; no writer disturbs another."""
        path, outcomes = tmp_path / "x.txt", []

        def write(letter):
            for _ in range(60):
                try:
                    put(path, letter * 50_000, overwrite=True)
                    outcomes.append("written")
                except BlockingIOError:
                    outcomes.append("busy")
                except BaseException as error:
                    outcomes.append(repr(error))
                    raise
                found = path.read_text() if path.exists() else "a" * 50_000
                outcomes.append("whole" if len(found) == 50_000 and len(set(found)) == 1 else "torn")

        writers = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        assert set(outcomes) <= {"written", "busy", "whole"}
        assert outcomes.count("written") > 10
        assert names(tmp_path) == ["x.txt"]


class TestReplacing:
    def test_only_if_allowed(self, tmp_path):
        path = tmp_path / "x.txt"
        path.write_text(OLD)
        with pytest.raises(FileExistsError, match="overwrite=True replaces it"):
            put(path)
        assert path.read_text() == OLD
        put(path, overwrite=True)
        assert path.read_text() == NEW

    def test_a_file_that_appears_in_between(self, tmp_path):
        path = tmp_path / "x.txt"
        with pytest.raises(FileExistsError, match="exists"), written(Target(path)):
            path.write_text(OLD)
        assert path.read_text() == OLD
        assert names(tmp_path) == ["x.txt"]

    def test_without_hard_links(self, tmp_path, monkeypatch):
        def link(source, target):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr(os, "link", link)
        put(tmp_path / "x.txt")
        assert names(tmp_path) == ["x.txt"]

    def test_a_link_is_followed_and_stays(self, tmp_path):
        folder = tmp_path / "elsewhere"
        folder.mkdir()
        (folder / "real.txt").write_text(OLD)
        link = tmp_path / "link.txt"
        link.symlink_to(folder / "real.txt")
        with pytest.raises(FileExistsError):
            put(link)
        put(link, overwrite=True)
        assert link.is_symlink()
        assert (folder / "real.txt").read_text() == NEW
        assert names(folder) == ["real.txt"]

    @pytest.mark.parametrize("name", ["folder", "none/x.txt", "pipe", "/dev/null", "/proc/x.txt", "x" * 250])
    def test_what_is_no_file(self, tmp_path, name):
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(
            (OSError, ValueError), match=r"a folder|no folder|a device or a pipe|cannot write"
        ) as raised:
            put(tmp_path / name, overwrite=True)
        assert "Errno" not in str(raised.value)

    def test_suffixes(self, tmp_path):
        put(tmp_path / "x.CSV", suffixes=(".parquet", ".csv"))
        with pytest.raises(ValueError, match=r"path must end in \.parquet or \.csv, got"):
            put(tmp_path / "x.pdf", suffixes=(".parquet", ".csv"))


class TestFilesInUse:
    @pytest.fixture
    def source(self, tmp_path):
        path = tmp_path / "data" / "rows.csv"
        path.parent.mkdir()
        path.write_text(OLD)
        return path

    def test_by_every_name(self, tmp_path, source, monkeypatch):
        (tmp_path / "symbolic.csv").symlink_to(source)
        os.link(source, tmp_path / "hard.csv")
        monkeypatch.chdir(source.parent)
        for name in (source, "rows.csv", "../data/./rows.csv", tmp_path / "symbolic.csv", tmp_path / "hard.csv"):
            for used in (
                str(source),
                "rows.csv",
                "../symbolic.csv",
                f"file://{source}",
                "*.csv",
                f"{tmp_path}/**/*.csv",
            ):
                with pytest.raises(ValueError, match="a file in use"):
                    put(name, overwrite=True, apart=(used,))
        assert source.read_text() == OLD

    @pytest.mark.parametrize(
        ("used", "target", "read"),
        [
            ("data/*.csv", "data/new.csv", True),  # the next release would read it
            ("data/*.csv", "data/new.parquet", False),
            ("data/*.csv", "data/out/new.csv", False),
            ("data/**/*.csv", "data/out/new.csv", True),
            ("data/**", "data/out/new.csv", True),
            ("data/rows.csv", "data/rows.csv.bak", False),
            ("data/year=*/[ab].csv", "data/year=1/b.csv", True),
            ("data/year=*/[ab].csv", "data/year=1/c.csv", False),
            ("data", "data/part.csv", True),
            ("budget.db", "budget.db-wal", True),
            ("sqlite:///budget.db", "budget.db", True),
            ("sqlite:////{folder}/budget.db", "budget.db", True),
            ("base.duckdb", "base.duckdb.wal", True),
            ("postgresql://user@host/data", "data", False),
            ("", "data", False),
        ],
    )
    def test_patterns(self, tmp_path, source, monkeypatch, used, target, read):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "data" / "out").mkdir()
        assert _is_read(Path(os.path.realpath(target)), used.format(folder=str(tmp_path)[1:])) == read

    def test_names_with_brackets(self, tmp_path):
        path = tmp_path / "rows[1].csv"
        path.write_text(OLD)
        with pytest.raises(ValueError, match="a file in use"):
            put(path, overwrite=True, apart=(str(path),))


class TestTogether:
    def test_both_or_none(self, tmp_path):
        targets = {"out": Target(tmp_path / "a.csv"), "report": Target(tmp_path / "a.html")}
        with pytest.raises(ZeroDivisionError), written_together(targets) as places:
            places["out"].write_text(f"{1 / 0}")
        assert names(tmp_path) == []
        with written_together(targets) as places:
            for place in places.values():
                place.write_text(NEW)
        assert names(tmp_path) == ["a.csv", "a.html"]

    def test_one_file_for_both(self, tmp_path):
        (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
        with (
            pytest.raises(ValueError, match="must be different files"),
            written_together({"out": Target(tmp_path / "a.csv"), "report": Target(tmp_path / "link.csv")}),
        ):
            pass
        assert names(tmp_path) == ["link.csv"]
