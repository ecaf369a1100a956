"""Telling the ledger that a release is out: where it went, and how to say so later."""

import hashlib
import json
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osgt.files import words_of
from osgt.tables.errors import NotSettledError

if TYPE_CHECKING:
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.release import Release

#: Characters of the names of files, in the ledger.
_LONGEST_PLACES = 2000


def statement_hash(values: Mapping[str, Any]) -> str:
    """The hash by which the ledger knows a statement, given its plain values.

    Of one of several tables that were released together it is that of the statement of all.
    """
    values = values.get("publication", values)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def places(files: Sequence[str | Path]) -> str:
    """Where files are, as the ledger tells it."""
    return ", ".join(os.path.abspath(file) for file in files)[:_LONGEST_PLACES]


def file_hash(file: str | Path) -> str:
    """The SHA-256 hash of a file."""
    with Path(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def settle(release: "Release | PublicationRelease", files: Sequence[str | Path], place: str | None) -> None:
    """Tell the ledger that a release is out. Raises NotSettledError if it cannot be told."""
    if release.reservation is None:
        return
    digest = statement_hash(release.statement.to_dict())
    try:
        hashes = [file_hash(file) for file in files]
        release.reservation.settle(digest, output=places(files) or place, output_hashes=hashes)
    except OSError as error:  # errors of a ledger are
        options = [word for file in files for word in ("--out", os.path.abspath(file))]
        command = settle_command(release, "--statement-hash", digest, *options)
        raise NotSettledError(words_of(error), command=command) from error
    release.reservation = None


def settle_command(release: "Release | PublicationRelease", *options: str | Path) -> str:
    """The command that settles a release, with the options given."""
    ledger = getattr(release.query.dataset.ledger, "name", "LEDGER")
    words = ["osgt", "ledger", "settle", ledger, release.query.dataset.dataset, release.reservation.sequence]
    return " ".join(shlex.quote(str(word)) for word in (*words, *options))
