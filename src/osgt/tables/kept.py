"""Keeping a finished table that could not be written where it was wanted: its budget is spent."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from osgt.files import words_of
from osgt.tables.about import About
from osgt.tables.output import write_parquet

if TYPE_CHECKING:
    from osgt.tables.release import Release


def keep(releases: "Sequence[Release]", about: About | None = None) -> list[Path]:
    """Write tables to new Parquet files with their statement that only their owner can read; OSError if nowhere.

    All go into the first of these that can be written: `osgt` in the user's folder for state (`XDG_STATE_HOME`, or
    `.local/state` in the home folder), and the folder for temporary files.
    """
    reason: Exception | None = None
    for folder in _folders():
        paths: list[Path] = []
        try:
            for release in releases:
                paths.append(_kept(release, about or About(), folder))
        except Exception as error:
            reason = error
            for path in paths:
                path.unlink(missing_ok=True)
        else:
            return paths
    assert reason is not None
    raise OSError(words_of(reason)) from reason


def _folders() -> Iterator[Path]:
    state = os.environ.get("XDG_STATE_HOME")
    yield (Path(state) if state else Path("~/.local/state").expanduser()) / "osgt"
    yield Path(tempfile.gettempdir())


def _kept(release: "Release", about: About, folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = "" if release.reservation is None else f"{release.reservation.sequence}-"
    descriptor, name = tempfile.mkstemp(prefix=f"release-{entry}", suffix=".parquet", dir=folder)  # mode 0600
    path = Path(name)
    try:
        write_parquet(release.table, release.statement, about, path)
        os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)  # pyarrow may have done it
        raise
    finally:
        os.close(descriptor)
    return path
