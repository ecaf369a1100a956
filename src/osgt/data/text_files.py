"""CSV files: every column is text, and nothing about them is guessed but their names, which stand in the first line.

Every engine that reads them does so by the same rules (docs/tables.md), under which no row is an error.

A carriage return that no line feed follows ends a row to some readers, and programs that write CSV need not quote it:
one person's text would become many rows, with units of their own. Bytes that are no text cost whole rows. So a file
with one of them, or in another encoding, is read through a copy in UTF-8. In it such a carriage return is a space, and
what is no text is U+FFFD. Nothing else is changed: what one row holds changes no other. A copy is for its user alone,
and is removed with the last data set that reads it. What a killed process has left behind is removed by the next one
that makes a copy. Spreadsheets and files of statistics programs are read through copies as well.
"""

import codecs
import csv
import errno
import io
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, finalize

import pyarrow as pa

from osgt.data.office_files import csv_text, office_lines
from osgt.support.errors import ArgumentError, about
from osgt.support.locations import is_office

#: The delimiter for each ending, where none is given.
DELIMITERS = {".csv": ",", ".tsv": "\t"}

#: What stands around fields, where nothing is given: programs that write .tsv files mean text as it is.
_QUOTES = {".csv": '"', ".tsv": ""}

#: The word for no quotes.
NO_QUOTES = "none"

#: The most characters of a first line.
_LONGEST_HEADER = 1_000_000

#: Encodings in which one person's bytes may change how those of others are read, and which are no encodings of files.
_STATEFUL = ("utf-7", "hz", "idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined")


@dataclass(frozen=True)
class TextForm:
    """The form of the text in a file: `quote` is empty if no character stands around fields."""

    delimiter: str
    quote: str
    encoding: str
    #: The sheet of a spreadsheet.
    sheet: str | None = None

    @classmethod
    def of(cls, options: Any, suffix: str) -> "TextForm":
        """The form of files with this suffix, with what was given."""
        if suffix not in DELIMITERS:  # that of copies in place of the files
            return cls(",", '"', "utf-8", options.table)
        delimiter = DELIMITERS[suffix] if options.delimiter is None else _character("delimiter", options.delimiter)
        quote = _QUOTES[suffix]
        if options.quote is not None:
            quote = "" if options.quote == NO_QUOTES else _character("quote", options.quote)
        if delimiter == (quote or '"'):
            raise ArgumentError(
                f"delimiter must be one character that is not the quote, got {delimiter!r}", argument="delimiter"
            )
        return cls(delimiter, quote, _encoding(options.encoding))


def _character(name: str, given: object) -> str:
    if not isinstance(given, str) or len(given) != 1 or given in "\r\n\0" or not given.isascii():
        examples = '";" or "\\t"' if name == "delimiter" else f'"\'", or "{NO_QUOTES}"'
        raise ArgumentError(f"{name} must be one character, as {examples}, got {given!r}", argument=name)
    return given


def _encoding(given: object) -> str:
    """The name of an encoding as Python has it; UTF-8 with and without a mark at its beginning are one."""
    if given is None:
        return "utf-8"
    try:
        result = codecs.lookup(given) if isinstance(given, str) else None
    except (LookupError, ValueError):
        result = None
    if result is None or not result._is_text_encoding:
        raise ArgumentError(
            f'encoding must be the name of a text encoding, as "latin-1", "cp1252" or "utf-16", got {given!r}',
            argument="encoding",
        )
    name = result.name.replace("_", "-")
    if name in _STATEFUL or name.startswith("iso2022"):
        raise ArgumentError(
            f"encoding must be one in which the text of one row does not change how the next is read, got {given!r}; "
            "save the file in UTF-8",
            argument="encoding",
        )
    return "utf-8" if name in ("utf-8", "utf-8-sig") else name


def header_of(paths: Sequence[Path], form: TextForm) -> list[str]:
    """The names of the columns, which all files must have in the same order."""
    headers = [_office_header(path, form) if is_office(path) else _header(path, form) for path in paths]
    for path, header in zip(paths, headers, strict=True):
        if header != headers[0]:
            raise ArgumentError(
                f"source: the files must have the same columns in the same order; {str(path)!r} has others than "
                f"{str(paths[0])!r}",
                argument="source",
            )
    return headers[0]


def _office_header(path: Path, form: TextForm) -> list[str]:
    names = next(office_lines(path, form.sheet, 0), [])
    if not any(names):
        raise ArgumentError(
            f"source: the first row of {str(path)!r} must hold the names of the columns", argument="source"
        )
    return [name or f"column_{i}" for i, name in enumerate(names, start=1)]


def _header(path: Path, form: TextForm) -> list[str]:
    named = f"source: the first line of {str(path)!r} must"
    names: list[str] = []
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            # What follows the first line may be anything.
            text = io.TextIOWrapper(stream, form.encoding, errors="replace", newline="\n")
            lines = (line.removeprefix("\ufeff") for line in iter(lambda: text.readline(_LONGEST_HEADER), ""))
            quoting: dict[str, Any] = {"quotechar": form.quote} if form.quote else {"quoting": csv.QUOTE_NONE}
            names = next(csv.reader(lines, delimiter=form.delimiter, strict=True, **quoting), [])
    except csv.Error as error:
        if "new-line" in str(error):
            raise ValueError(
                f"{named} end with a line feed, not with a carriage return alone, as old Macs wrote; save the file "
                "with the line ends of Unix or Windows"
            ) from None
        raise ValueError(f"{named} hold the names of the columns") from None
    except OSError:
        raise ValueError(f"{named} hold the names of the columns; the file cannot be read") from None
    except UnicodeError:  # UTF-16 without the mark that says which byte comes first
        names = ["\ufffd"]
    if not any(names):
        raise ValueError(f"{named} hold the names of the columns")
    if "\ufffd" in "".join(names):
        raise ValueError(
            f"{named} hold the names of the columns, in {form.encoding.upper()}; if the file has another encoding, as "
            "latin-1 or utf-16-le, give that as encoding"
        )
    return [name or f"column_{i}" for i, name in enumerate(names, start=1)]


# Copies

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

#: What is read at once.
_CHUNK = 1 << 24

#: What the folder of a copy is called, and how old it is before another process may take it for a forgotten one.
_PREFIX, _SECONDS = "osgt-copy-", 60

#: A file as it was: its place, and what changes when it does.
_Stamp = tuple[int, int, int, int]

_LOCK = threading.Lock()


class CleanFiles:
    """Files as engines may read them: themselves, or copies, which are kept as long as this is.

    With `one_line_end` no file has lines that end with a carriage return and others that end without: for readers to
    which the first line says how all of them end. In copies of such files, all end without.
    """

    def __init__(self, files: Sequence[Path], form: TextForm, *, one_line_end: bool = False) -> None:
        self._stamps = {path: _stamp(path) for path in files}
        self._copies: dict[Path, _Copy] = {}
        for path, stamp in self._stamps.items():
            look = _Look() if form.encoding != "utf-8" or is_office(path) else _look(path, stamp)
            if not look.is_clean or (one_line_end and look.is_mixed):
                self._copies[path] = _copy_of(path, stamp, form, unix=one_line_end)

    @property
    def paths(self) -> list[Path]:
        """The paths to read: of a file that is copied, that of the copy."""
        return [self._copies[path].path if path in self._copies else path for path in self._stamps]

    @property
    def copied(self) -> list[Path]:
        """The files that are read through a copy."""
        return [*self._copies]

    def check(self) -> None:
        """Raise if a file is not what it was: what is in it now was not looked at."""
        for path, stamp in self._stamps.items():
            if _stamp(path) != stamp:
                raise ArgumentError(
                    f"source: {str(path)!r} has changed since it was opened; open it again", argument="source"
                )

    def close(self) -> None:
        """Leave the copies to whoever else reads them, or remove them."""
        self._copies.clear()


class _Copy:
    """A copy in a folder of its own, which goes when this does."""

    def __init__(self, path: Path, form: TextForm, *, unix: bool) -> None:
        _remove_forgotten()
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # nobody else can look into it
        remove = finalize(self, _remove, folder, _lock(folder))
        self.path = folder / "rows.csv"
        try:
            _write(path, form, self.path, unix=unix)
        except OSError as error:
            remove()
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            words = (
                f"source: {str(path)!r} must be read through a copy (it is no CSV file in UTF-8, or has a carriage "
                f"return without a line feed), and there is no room for one in {str(folder.parent)!r}; make room, or "
                "name another folder in the environment variable TMPDIR"
            )
            raise about("source", OSError(words)) from None
        except BaseException:
            remove()
            raise


#: The copies that somebody reads.
_COPIES: "WeakValueDictionary[tuple[Path, _Stamp, TextForm, bool], _Copy]" = WeakValueDictionary()


def _copy_of(path: Path, stamp: _Stamp, form: TextForm, *, unix: bool) -> _Copy:
    key = (path.absolute(), stamp, form, unix)
    with _LOCK:
        copy = _COPIES.get(key)
        if copy is None:
            copy = _COPIES[key] = _Copy(path, form, unix=unix)
        return copy


def _stamp(path: Path) -> _Stamp:
    now = path.stat()
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns


@dataclass(frozen=True)
class _Look:
    """The result of a look at a file.

    `is_clean`: it is UTF-8 without zeros in which every carriage return has its line feed. `is_mixed`: it is that, and
    some lines end with a carriage return and others without.
    """

    is_clean: bool = False
    is_mixed: bool = False


@lru_cache(maxsize=1000)
def _look(path: Path, stamp: _Stamp) -> _Look:
    """Look at all bytes of a file; with another stamp it is another file."""
    decoder, some, others = codecs.getincrementaldecoder("utf-8")(), False, False
    try:
        for chunk in _chunks(path):
            both = chunk.count(b"\r\n") if b"\r" in chunk else 0
            if b"\0" in chunk or (b"\r" in chunk and chunk.count(b"\r") != both):
                return _Look()
            some = some or both > 0
            others = others or (chunk.count(b"\n") > both if both else b"\n" in chunk)
            if decoder.getstate()[0] or not chunk.isascii():
                decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return _Look()
    return _Look(is_clean=True, is_mixed=some and others)


def _chunks(path: Path) -> Iterator[bytes]:
    """Read a file in pieces, unpacked; none ends between a carriage return and what follows it."""
    held = b""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            while chunk := held + stream.read(_CHUNK):
                held = b"\r" if chunk.endswith(b"\r") and len(chunk) > len(held) else b""
                yield chunk.removesuffix(held)
    except OSError as error:
        raise about("source", OSError(f"source: {str(path)!r} cannot be read, or not be unpacked")) from error


def _write(path: Path, form: TextForm, place: Path, *, unix: bool) -> None:
    decoder, held = codecs.getincrementaldecoder(form.encoding)("replace"), ""
    with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        if is_office(path):
            copy.writelines(_clean(line, unix=True) for line in csv_text(office_lines(path, form.sheet)))
            return
        for chunk in _chunks(path):
            text = held + decoder.decode(chunk)
            held = "\r" if text.endswith("\r") else ""
            copy.write(_clean(text.removesuffix(held), unix=unix))
        copy.write(_clean(held + decoder.decode(b"", final=True), unix=unix))


def _clean(text: str, *, unix: bool) -> bytes:
    if text.count("\r") != text.count("\r\n"):
        text = re.sub("\r(?!\n)", " ", text)
    if unix:
        text = text.replace("\r\n", "\n")
    return text.replace("\0", "\ufffd").encode("utf-8", "replace")


def _lock(folder: Path) -> int | None:
    """The folder, opened and locked for as long as this process lives, if the system can do that."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return handle


def _remove(folder: Path, handle: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if handle is not None:
        os.close(handle)


def _remove_forgotten() -> None:
    """Remove the copies of this user whose process has ended without doing so."""
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            there = folder.lstat()
            if there.st_uid != os.getuid() or time.time() - there.st_mtime < _SECONDS:
                continue
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)
