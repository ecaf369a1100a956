"""Keeping a finished table that could not be written where it was wanted: its budget is spent."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from osgt.files import words_of
from osgt.tables.about import About
from osgt.tables.output import write_parquet

if TYPE_CHECKING:
    from osgt.tables.release import Release


def keep(release: "Release", about: About | None = None) -> Path:
    """Write a release to a new Parquet file with its statement that only its owner can read; OSError if nowhere.

    The first of these that can be written: `osgt` in the user's folder for state (`XDG_STATE_HOME`, or `.local/state`
    in the home folder), and the folder for temporary files.
    """
    reason: Exception | None = None
    for folder in _folders():
        try:
            return _kept(release, about or About(), folder)
        except Exception as error:
            reason = error
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
