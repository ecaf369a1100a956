"""Files that are written as a whole or not at all, and never over something that nobody said may be replaced.

What is written goes into a temporary file beside its place, `.NAME.osgt.tmp`, and is moved there when it is complete
and on the disk. The temporary file is locked while it is written: so the next run can tell a file that a killed run has
left behind, which it removes, from one that is being written, which it leaves alone.
"""

import glob
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import BinaryIO

from osgt.support.errors import ArgumentError, about

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: What a database keeps beside its file.
_BESIDE_DATABASES = ("", "-wal", "-shm", "-journal", ".wal")


@dataclass(frozen=True)
class Target:
    """A file to be written.

    Parameters
    ----------
    path
        Where. A symbolic link is followed: the file that it leads to is written, and the link stays.
    suffixes
        What its name must end in; anything if empty.
    overwrite
        Whether a file that is there may be replaced.
    apart
        Files that are read or charged, as paths, globs or URLs. These are never replaced.
    name, option
        What messages call the argument, and how the user allows a file to be replaced.
    """

    path: str | Path
    suffixes: tuple[str, ...] = ()
    overwrite: bool = False
    apart: tuple[str, ...] = ()
    name: str = "path"
    option: str = "overwrite=True"

    def checked(self) -> Path:
        """The file itself, all links followed; an error if it may not be written."""
        shown = repr(os.fspath(self.path))
        if self.suffixes and Path(self.path).suffix.lower() not in self.suffixes:
            raise ArgumentError(f"{self.name} must end in {_listed(self.suffixes)}, got {shown}", argument=self.name)
        place = Path(os.path.realpath(self.path))
        if not place.parent.is_dir():
            words = f"{self.name}: there is no folder {str(Path(self.path).parent)!r}"
            raise about(self.name, FileNotFoundError(words))
        if place.is_dir():
            raise about(self.name, IsADirectoryError(f"{self.name}: {shown} is a folder; give the name of a file"))
        if any(_is_read(place, used) for used in self.apart):
            raise ArgumentError(
                f"{self.name}: {shown} is a file in use (data, keys, query or ledger), which is never replaced; give "
                "another name",
                argument=self.name,
            )
        if place.exists():
            if not place.is_file():
                raise ArgumentError(
                    f"{self.name}: {shown} is a device or a pipe; give the name of a file", argument=self.name
                )
            if not self.overwrite:
                raise self.exists()
        return place

    def exists(self) -> FileExistsError:
        """The error that there is such a file."""
        words = f"{self.name}: {os.fspath(self.path)!r} exists; {self.option} replaces it"
        return about(self.name, FileExistsError(words))


@contextmanager
def written(target: Target) -> Iterator[Path]:
    """A temporary file; what is written there takes its place at the end, unless an error comes up."""
    place = target.checked()
    temporary = place.with_name(f".{place.name}.osgt.tmp")
    with _begin(temporary, target) as held:
        try:
            yield temporary
            os.fsync(held.fileno())
            if fcntl is None:
                held.close()  # Windows moves no file that is open
            _move(temporary, place, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync_folder(place.parent)


@contextmanager
def written_together(targets: Mapping[str, Target]) -> Iterator[dict[str, Path]]:
    """A temporary file for each target; none takes its place before all are complete."""
    places = {name: target.checked() for name, target in targets.items()}
    for (name, place), (other, another) in combinations(places.items(), 2):
        if _same(place, another):
            raise ValueError(f"{name} and {other} must be different files, got {str(place)!r} for both")
    with ExitStack() as stack:
        yield {name: stack.enter_context(written(target)) for name, target in targets.items()}


def _listed(words: tuple[str, ...]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _begin(temporary: Path, target: Target) -> BinaryIO:
    """A new, locked temporary file; one that a killed run has left is removed first."""
    shown = os.fspath(target.path)
    while True:
        try:
            is_new, held = _open(temporary)
        except OSError as error:
            words = f"{target.name}: cannot write {shown!r}: {error.strerror}"
            raise about(target.name, type(error)(words)) from None
        if held is None:
            continue
        try:
            if not _try_lock(held, is_new):
                words = f"another run is writing {shown!r}; wait for it, or remove {str(temporary)!r} if there is none"
                raise about(target.name, BlockingIOError(f"{target.name}: {words}"))
            # Between opening and locking it, another run may have moved or removed it.
            still_there = _is_at(held, temporary)
            if is_new and still_there:
                return held
            if still_there:
                temporary.unlink()
        except BaseException:
            held.close()
            raise
        held.close()


def _is_at(held: BinaryIO, place: Path) -> bool:
    """Whether an open file is the one that stands there now."""
    try:
        return os.path.samestat(os.fstat(held.fileno()), place.stat())
    except FileNotFoundError:
        return False


def _open(temporary: Path) -> tuple[bool, BinaryIO | None]:
    """Open the temporary file, and tell if it is new; None if it was there and another run has just moved it."""
    try:
        return True, os.fdopen(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666), "rb+")
    except FileExistsError:
        try:
            return False, os.fdopen(os.open(temporary, os.O_RDWR), "rb+")
        except FileNotFoundError:
            return False, None


def _try_lock(held: BinaryIO, is_new: bool) -> bool:
    """Try to take the lock; False if another run has it. Without locks, a file that was there counts as in use."""
    if fcntl is None:
        return is_new
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return is_new
    return True


def _move(temporary: Path, place: Path, target: Target) -> None:
    """Give the file its name: over what is there only if that is allowed, even if it appeared a moment ago."""
    if target.overwrite:
        temporary.replace(place)
        return
    try:
        os.link(temporary, place)
    except FileExistsError:
        raise target.exists() from None
    except OSError:  # a file system without hard links
        if place.exists():
            raise target.exists() from None
        temporary.replace(place)
    else:
        temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Put the new name on the disk, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _is_read(place: Path, used: str) -> bool:
    """Whether a file is the one that a path, glob or URL names, would be found by the glob, or lies in the folder."""
    text = _path_in(used)
    if not text:
        return False
    paths = [Path(text + suffix) for suffix in _BESIDE_DATABASES]
    paths += [Path(path) for path in glob.glob(text, recursive=True, include_hidden=True)]
    if any(_same(place, path) or any(_same(parent, path) for parent in place.parents) for path in paths):
        return True
    return _matches(place.parts, Path(os.path.realpath(text)).parts)


def _path_in(text: str) -> str | None:
    """The path in the name of a source or a ledger; None for a database server and the like."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        return os.path.expanduser(text.removeprefix("file:"))
    rest = rest.partition("?")[0]
    return rest if scheme == "file" else rest[1:] if scheme == "sqlite" else None


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:  # one of them is not there (yet)
        return os.path.realpath(one) == os.path.realpath(other)


def _matches(parts: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Whether a path matches a glob, part by part."""
    if not patterns or not parts:
        return not parts and all(pattern == "**" for pattern in patterns)
    if patterns[0] == "**":
        return _matches(parts, patterns[1:]) or _matches(parts[1:], patterns)
    return fnmatch(parts[0], patterns[0]) and _matches(parts[1:], patterns[1:])


def words_of(error: BaseException) -> str:
    """The words of an error, without the system's number for it."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    words = os.strerror(error.errno)
    return words if error.filename is None else f"{os.fspath(error.filename)!r}: {words}"
