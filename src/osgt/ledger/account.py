"""The account of a data set: its budget and all that stands charged against it.

Sums are kept as fractions, so that what is cancelled is taken off exactly. The composed loss on its grid cannot be
divided again: a cancelled charge that is in it already stays in it, which keeps it an upper bound, until it matters and
the loss is built anew.
"""

import hashlib
import json
import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from osgt.ledger.budget import Budget
from osgt.ledger.chain import Entry, canonical
from osgt.ledger.running import Grid, TooCoarseError, from_parts, grid_for
from osgt.privacy import Charge, Part, PrivacyProfile
from osgt.privacy.engine import Composed
from osgt.privacy.grid import GridLaw

#: Unlike parts up to which an exact composition is made where the running loss cannot decide.
EXACT_PARTS = 32

Counts = dict[tuple[Any, float], int]


@dataclass(frozen=True)
class Account:
    """What stands against a budget after some entry of the chain."""

    budget: Budget
    charges: int = 0
    selection: Fraction = Fraction(0)  # Σ selection δ
    pure: Fraction = Fraction(0)  # Σ largest losses, of the charges that have one
    unbounded: int = 0  # number of the charges that have none
    moment: Fraction = Fraction(0)  # Σ log E[exp(rate·loss)]
    counts: Counts | None = field(default_factory=dict)  # coordinates by law and shift; None: too many to keep
    running: Composed | None = None  # the loss of all but the pending charges
    pending: tuple[tuple[int, Charge], ...] = ()  # by the sequence number of their entries
    cancelled_inside: int = 0  # cancelled charges that are in `running` all the same

    @property
    def grid(self) -> Grid | None:
        """The grid of the running loss, where the budget has use for one."""
        needed = self.budget.composition == "exact" and self.budget.delta > 0
        return grid_for(self.budget.epsilon, self.budget.delta) if needed else None

    def charged(self, sequence: int, charge: Charge) -> "Account":
        """The account with one more charge."""
        return replace(self._moved(charge, 1), pending=(*self.pending, (sequence, charge)))

    def cancelled(self, sequence: int, charge: Charge) -> "Account":
        """The account without a charge."""
        kept = tuple(item for item in self.pending if item[0] != sequence)
        inside = self.cancelled_inside + (len(kept) == len(self.pending) and self.running is not None)
        return replace(self._moved(charge, -1), pending=kept, cancelled_inside=inside)

    def _moved(self, charge: Charge, sign: int) -> "Account":
        loss = charge.profile._pure_loss()
        return replace(
            self,
            charges=self.charges + sign,
            selection=self.selection + sign * Fraction(charge.selection_delta),
            pure=self.pure + sign * (loss or 0),
            unbounded=self.unbounded + sign * (loss is None),
            moment=self.moment + sign * Fraction(self.budget.moment(charge)),
            counts=_counted(self.counts, charge, sign),
        )

    def apply(self, entry: Entry) -> "Account":
        """The account after one more entry."""
        match entry.kind, entry.refers_to:
            case "charge", None:
                return self.charged(entry.sequence, Charge.from_dict(entry.values()["charge"]))
            case "cancel", int(sequence):
                return self.cancelled(sequence, Charge.from_dict(entry.values()["charge"]))
            case "budget", None:
                return replace(self, budget=Budget(**entry.values()["budget"]))
        return self

    def rebuilt(self) -> "Account":
        """The account with its running loss built from all pending charges, equal ones together."""
        assert self.running is None
        grid = self.grid
        if grid is None or not self.pending:
            return replace(self, pending=())
        counts: Counts = {}
        for _, charge in self.pending:
            counts = _add(counts, charge, 1)
        parts = [(Part(noise, shift, 1), n) for (noise, shift), n in counts.items()]
        try:
            running = from_parts(parts, grid)
        except TooCoarseError:
            return self
        kept = counts if len(counts) <= EXACT_PARTS else None
        return replace(self, running=running, pending=(), counts=kept, cancelled_inside=0)

    def storable(self) -> "Account | None":
        """The account as it can be stored; None while charges wait to be put on the grid."""
        if self.grid is None:
            return replace(self, pending=())
        return None if self.pending else self

    def profile(self) -> PrivacyProfile | None:
        """All that stands, as a profile; None if it has too many unlike parts, or nothing stands."""
        return PrivacyProfile.of(_parts(self.counts)) if self.counts else None

    def selection_delta(self) -> float:
        """Σ selection δ, never rounded down."""
        return rounded_up(self.selection)

    def to_bytes(self) -> bytes:
        """The account in a form that can be stored. Pending charges are not: they are read from the chain again."""
        header: dict[str, Any] = {
            "budget": self.budget.to_dict(),
            "charges": self.charges,
            "selection": str(self.selection),
            "pure": str(self.pure),
            "unbounded": self.unbounded,
            "moment": str(self.moment),
            "parts": None if self.counts is None else _plain(self.counts),
            "cancelled_inside": self.cancelled_inside,
            "running": None,
        }
        masses = b""
        if self.running is not None:
            run, law = self.running, self.running.law
            header["running"] = {
                "theta": run.theta.hex(),
                "log_factor": run.log_factor.hex(),
                "log_beyond": run.log_beyond.hex(),
                "loss_error": run.loss_error.hex(),
                "step": law.step.hex(),
                "start": law.start,
                "lost": law.lost.hex(),
                "spread": law.spread.hex(),
            }
            masses = law.masses.astype("<f8").tobytes()
        return canonical(header).encode() + b"\n" + masses

    @classmethod
    def from_bytes(cls, body: bytes) -> "Account":
        """The account that `to_bytes` wrote."""
        text, _, masses = body.partition(b"\n")
        header = json.loads(text)
        running = None
        if header["running"] is not None:
            stored = header["running"]
            number = {name: float.fromhex(stored[name]) for name in stored if name != "start"}
            row = np.frombuffer(masses, dtype="<f8").astype(np.float64)
            law = GridLaw(number["step"], stored["start"], row, number["lost"], number["spread"])
            running = Composed(law, number["theta"], number["log_factor"], number["log_beyond"], number["loss_error"])
        counts: Counts | None = None
        if header["parts"] is not None:
            counts = {}
            for plain in header["parts"]:
                counts = _add(counts, Charge.from_dict({"parts": [plain], "selection_delta": 0}), 1)
        return cls(
            Budget(**header["budget"]),
            header["charges"],
            Fraction(header["selection"]),
            Fraction(header["pure"]),
            header["unbounded"],
            Fraction(header["moment"]),
            counts,
            running,
            (),
            header["cancelled_inside"],
        )


class Replay:
    """All entries of a data set, one after the other: in a dict, since a tuple would be copied for each charge."""

    def __init__(self, opening: Entry) -> None:
        self._account = Account(Budget(**opening.values()["budget"]))
        self._pending: dict[int, Charge] = {}

    def apply(self, entry: Entry) -> None:
        """Add one more entry."""
        moved = self._account.apply(entry)
        for sequence, charge in moved.pending:
            self._pending[sequence] = charge
        if entry.kind == "cancel" and entry.refers_to is not None:
            self._pending.pop(entry.refers_to, None)
        self._account = replace(moved, pending=())

    def account(self) -> Account:
        """The account, all standing charges pending."""
        return replace(self._account, pending=tuple(self._pending.items()))


def digest(body: bytes, hash_: str) -> str:
    """Ties a stored account to the entry after which it was taken."""
    return hashlib.sha256(hash_.encode() + body).hexdigest()


def rounded_up(value: Fraction) -> float:
    """The least float that is not smaller."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _counted(counts: Counts | None, charge: Charge, sign: int) -> Counts | None:
    if counts is None:
        return None
    added = _add(dict(counts), charge, sign)
    return added if len(added) <= EXACT_PARTS else None


def _add(counts: Counts, charge: Charge, sign: int) -> Counts:
    for part in charge.profile.parts:
        key = (part.noise, part.shift)
        counts[key] = counts.get(key, 0) + sign * part.coordinates
        if counts[key] == 0:
            del counts[key]
    return counts


def _parts(counts: Counts) -> list[Part]:
    return [Part(noise, shift, n) for (noise, shift), n in counts.items()]


def _plain(counts: Counts) -> list[dict[str, Any]]:
    parts = Charge(PrivacyProfile.of(_parts(counts))).to_dict()["parts"] if counts else []
    return list(parts)
