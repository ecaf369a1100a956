"""The charge of a release: reserved in the ledger before any data are read, settled when the release is out.

Nothing else in this package talks to the ledger.
"""

import hashlib
import json
import logging
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from osgt.data.rows import PrivateRows
from osgt.facts.statement import Statement
from osgt.privacy import Charge
from osgt.query.aggregates.base import QuerySpec
from osgt.support.errors import ArgumentError, OsgtError
from osgt.support.files import words_of

#: Charges, refusals, lost answers and retries, for whoever listens; never data, and never values of rows.
_LOG = logging.getLogger("osgt")
_LOG.addHandler(logging.NullHandler())

#: Characters of a title, and of the names of files, in the ledger.
_LONGEST_TITLE, _LONGEST_PLACES = 500, 2000


class NotSettledError(OsgtError, OSError):
    """The release is out, but the ledger could not be told. The charge stands, and nothing has to be released again.

    Attributes
    ----------
    command : str
        The command that tells the ledger later. `Release.settle` does that, too.
    """

    def __init__(self, reason: str, *, command: str) -> None:
        super().__init__(
            f"The table is in place, but the ledger could not be told: {reason.rstrip('.')}. The charge stands; do not "
            f"release again. When the ledger is back, run `{command}`."
        )
        self.command = command


class Charged(Protocol):
    """The parts of a plan that a ledger needs: its charge, ε and δ."""

    @property
    def charge(self) -> Charge:
        """The charge that is taken out of the budget."""

    @property
    def epsilon(self) -> float:
        """The ε that was asked for."""

    @property
    def delta(self) -> float:
        """The δ that was asked for."""


class Settled(Protocol):
    """The parts of a release that a ledger is told about."""

    reservation: Any

    @property
    def dataset(self) -> PrivateRows:
        """The rows whose budget was charged."""

    @property
    def statement(self) -> Statement:
        """The statement, by whose hash the ledger knows the release."""

    def settle(self, *files: str | Path, place: str | None = None) -> None:
        """Tell the ledger that the release is out."""


@dataclass
class SharedReservation:
    """The entry of a release in the ledger: the first of its tables that is out settles it for all."""

    reservation: Any
    #: Records at the entry that the release corrects, if it corrects one, by which entry.
    note_correction: Callable[[Any], None] | None = None
    is_settled: bool = False

    @property
    def sequence(self) -> Any:
        """The number of the entry."""
        return self.reservation.sequence

    @property
    def entry_hash(self) -> str | None:
        """The hash of the entry, where the ledger tells it."""
        return getattr(self.reservation, "entry_hash", None)

    def settle(self, digest: str, **places: Any) -> None:
        """Tell the ledger, once."""
        if not self.is_settled:
            self.reservation.settle(digest, **places)
            self.is_settled = True
            if self.note_correction is not None:
                self.note_correction(self.sequence)


def check_corrected(data: PrivateRows, entry: int | None) -> None:
    """Raise unless the entry that a release corrects is that of a release from the same budget that may be out."""
    if entry is None:
        return
    if data.ledger is None:
        raise ArgumentError(
            "corrects must be left out without a ledger: it is the number of an entry there", argument="corrects"
        )
    check_released(data.ledger, str(data.dataset), entry)


def check_released(ledger: Any, dataset: str, entry: int) -> None:
    """Raise unless an entry is that of a release, and stands."""
    status = {release.sequence: release.status for release in ledger.history(dataset)}
    if entry not in status:
        known = ", ".join(map(str, list(status)[-8:])) or "it has none"
        raise ValueError(f"entry {entry} of {dataset!r} is not a release; the latest ones: {known}")
    if status[entry] == "void":
        raise ValueError(f"entry {entry} of {dataset!r} was declared void by the owner. If it is out, tell the owner")
    if status[entry] == "cancelled":
        raise ValueError(f"entry {entry} of {dataset!r} was cancelled before data were read: nothing can be out")


def correction_note(entry: object) -> str:
    """The remark at an entry that was corrected."""
    return f"corrected by entry {entry}"


def charge(
    data: PrivateRows, plan: Charged, title: str, query: Mapping[str, Any], corrects: int | None = None
) -> SharedReservation | None:
    """Charge a plan to the ledger of its data set, before these are read; None if it has no ledger."""
    if data.ledger is None:
        return None
    title = title if corrects is None else f"{title} (corrects entry {corrects})"
    about = f"epsilon={plan.epsilon!r}, delta={plan.delta!r} of {data.dataset!r}"
    try:
        reservation = data.ledger.reserve(
            data.dataset,
            plan.charge,
            query=json.dumps(query, sort_keys=True, default=str),
            title=title if len(title) <= _LONGEST_TITLE else title[: _LONGEST_TITLE - 1] + "…",
            epsilon=plan.epsilon,
            delta=plan.delta,
            **subject_of(data),
        )
    except OsgtError as error:
        # A refusal, a lost answer or a ledger that fails: by its kind alone.
        _LOG.warning("not charged, or not known to be: %s (%s)", about, type(error).__name__)
        raise
    _LOG.info("charged: %s as entry %s", about, reservation.sequence)
    reservation.reading()
    if corrects is None:
        return SharedReservation(reservation)
    ledger, name = data.ledger, data.dataset
    return SharedReservation(reservation, lambda entry: ledger.note(name, corrects, correction_note(entry)))


def check_charge(data: PrivateRows, plan: Charged) -> None:
    """Raise what `charge` would raise now, if the ledger of the data set would refuse the charge."""
    if data.ledger is not None:
        data.ledger.check(data.dataset, plan.charge, **subject_of(data))


def subject_of(data: PrivateRows) -> dict[str, Any]:
    """The arguments of a ledger that say whom a charge is about, and which table and part of it."""
    part = {} if data.part is None else data.part.to_dict()
    return {"unit": data.privacy_unit, "neighbours": data.neighbours, "table": data.identity, **part}


def title_of(query: QuerySpec) -> str:
    """Describe a query in a few words: "count, mean(delay) by month"."""
    by = f" by {', '.join(query.groups.by)}" if query.groups.by else ""
    return ", ".join(aggregate.title for aggregate in query.aggregates) + by


def statement_hash(values: Mapping[str, Any]) -> str:
    """The hash by which the ledger knows a statement, given its plain values.

    Of one of several tables that were released together it is that of the statement of all.
    """
    values = values.get("publication", values)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def places(files: Sequence[str | Path]) -> str:
    """Join the paths of files into one text, as the ledger tells it."""
    return ", ".join(os.path.abspath(file) for file in files)[:_LONGEST_PLACES]


def file_hash(file: str | Path) -> str:
    """The SHA-256 hash of a file."""
    with Path(file).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def settle(release: Settled, files: Sequence[str | Path], place: str | None) -> None:
    """Tell the ledger that a release is out. Raises NotSettledError if it cannot be told."""
    if release.reservation is None:
        return
    digest = statement_hash(release.statement.to_dict())
    try:
        hashes = [file_hash(file) for file in files]
        release.reservation.settle(digest, output=places(files) or place, output_hashes=hashes)
    except OSError as error:  # errors of a ledger are
        command = settle_command(release, "--statement-hash", digest, *_out_options(files))
        raise NotSettledError(words_of(error), command=command) from error
    release.reservation = None


def settle_or_explain(release: Settled, files: Sequence[Path], place: str | None = None) -> str | None:
    """Tell the ledger that a release is out; if that fails or is interrupted, say what is left to do."""
    try:
        release.settle(*files, place=place)
    except NotSettledError as error:
        return str(error)
    except KeyboardInterrupt:
        if release.reservation is not None:
            command = settle_command(release, *_out_options(files))
            return str(NotSettledError("interrupted", command=command))
    return None


def settle_command(release: Settled, *options: str | Path) -> str:
    """The command that settles a release, with the options given."""
    ledger = getattr(release.dataset.ledger, "name", "LEDGER")
    words = ["osgt", "ledger", "settle", ledger, release.dataset.dataset, release.reservation.sequence]
    return " ".join(shlex.quote(str(word)) for word in (*words, *options))


def _out_options(files: Sequence[str | Path]) -> list[str]:
    return [word for file in files for word in ("--out", os.path.abspath(file))]
