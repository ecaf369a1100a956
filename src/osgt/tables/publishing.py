"""Publishing what a query file asks for, into its files: in place, or kept elsewhere, never lost without a word."""

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osgt.files import Target, words_of, written_together
from osgt.tables.about import About
from osgt.tables.kept import keep
from osgt.tables.output import SUFFIXES, check_writable, out_key
from osgt.tables.publication_release import table_files
from osgt.tables.published import with_descriptions
from osgt.tables.settling import settle_command

if TYPE_CHECKING:
    from osgt.tables.publication import Publication
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.query import Query
    from osgt.tables.query_file import QueryFile
    from osgt.tables.release import Release

    Made = Release | PublicationRelease


class UnwrittenError(Exception):
    """The budget is spent and the tables are made, but their files could not be written: `__cause__` says why."""

    def __init__(self, made: "Made") -> None:
        super().__init__("the files could not be written")
        self.made = made


def files_used(file: "QueryFile", query_file: Path | None = None) -> list[str]:
    """What a release reads or charges, and so never replaces."""
    keys = [file.groups.public_keys, *(table.groups.public_keys for table in file.table)]
    found = [text for text in (file.data.source, file.data.ledger, *keys) if isinstance(text, str)]
    return found if query_file is None else [*found, glob.escape(os.fspath(query_file))]


def release_targets(file: "QueryFile", target: Callable[[str, Path, tuple[str, ...]], Target]) -> dict[str, Target]:
    """The files that a release writes; `target` makes one of the key in [output], the path and its endings."""
    out, report = file.output.out, file.output.report
    files: dict[str, str | Path] = {} if report is None else {"report": report}
    if out is not None:
        files = {**(_table_files(file, out) if file.table else {"out": out}), **files}
    keys = {key: "report" if key == "report" else "out" for key in files}
    return with_descriptions({key: target(keys[key], Path(path), SUFFIXES[keys[key]]) for key, path in files.items()})


def _table_files(file: "QueryFile", out: str) -> dict[str, Path]:
    return {out_key(name): path for name, path in table_files([table.name for table in file.table], out).items()}


def check_files(file: "QueryFile", query: "Query | Publication", targets: Iterable[Target]) -> None:
    """Refuse files that cannot be written, or cannot hold the table."""
    for target in targets:
        target.checked()
    if file.output.out is not None:
        for each in query.tables.values():
            check_writable(each, file.output.out)


def publish(
    file: "QueryFile",
    query: "Query | Publication",
    targets: Mapping[str, Target],
    about: About,
    around: AbstractContextManager[Any] | None = None,
) -> "Made":
    """Release and write; `around` surrounds the charge and the reading. Raises UnwrittenError if writing fails then."""
    made: Made | None = None
    try:
        # The files are begun first: what cannot be written is not charged.
        with written_together(targets) as places:
            with around or nullcontext():
                made = query.release(**file.budget.given(), **file.plan_options(), nonnegative=file.output.nonnegative)
            made.fill(targets, places, about)
    except (Exception, KeyboardInterrupt) as error:
        if made is None:
            raise
        raise UnwrittenError(made) from error
    return made


def out_paths(query: "Query | Publication", targets: Mapping[str, Target]) -> list[Path]:
    """Where the tables are to be."""
    return [Path(targets[key].path) for key in map(out_key, query.tables) if key in targets]


def kept_elsewhere(
    made: "Made", what: str, reason: BaseException, *, out: Sequence[Path] = (), about: About | None = None
) -> tuple[bool, str]:
    """Keep finished tables that could not be written or shown: whether that worked, and what to tell.

    `out` is where they were to be.
    """
    why = "interrupted" if isinstance(reason, KeyboardInterrupt) else words_of(reason)
    stands = "" if made.reservation is None else " The charge to the ledger stands."
    tables = [*made.tables.values()]
    it, table = ("it", "table") if len(tables) == 1 else ("them", "tables")
    try:
        paths = keep(tables, about)
    except OSError as error:
        return False, (
            f"Nothing was released: {what} ({why}), and the finished {table} could not be kept elsewhere "
            f"({words_of(error)}).{stands}"
        )
    places = [os.path.abspath(file) for file in out] or ["FILE"] * len(paths)
    words = [word for path, place in zip(paths, places, strict=True) for word in ("--kept", path, "--out", place)]
    how = (
        f"Move {it} to {'its' if len(tables) == 1 else 'their'} place"
        if made.reservation is None
        else f"To put {it} in place, run `{settle_command(made, *words)}`"
    )
    with_it = "with its statement, is" if len(tables) == 1 else "with their statement, are"
    shown = ", ".join(repr(str(path)) for path in paths)
    return True, (
        f"The budget is spent, but {what}: {why}. The finished {table}, {with_it} kept in {shown}."
        f"{stands} {how}; do not release again."
    )
