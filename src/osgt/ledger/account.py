"""The account of a data set: its chain of entries, read from the first on, and what follows from it.

Everything is recomputed from the charges; stored state is never trusted. What cannot be added up, the Gaussian residue,
is proved again for every entry (`strict`, for `verify`); else it is checked to be possible (`plausible`), and proved
again for some entries that are drawn at random (`prove_some`). An account may begin at a `checkpoint` instead of the
first entry; what needs an older charge then raises OlderNeededError.
"""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from osgt.ledger.store.chain import Entry, Fault, forged, readable
from osgt.ledger.store.checkpoint import Checkpoint
from osgt.ledger.subject import Owners, Subject, Table
from osgt.noise.arguments import real_number
from osgt.privacy import Charge
from osgt.privacy.filters import union
from osgt.privacy.filters.budget import Budget, Shares
from osgt.privacy.filters.planned import Planned
from osgt.privacy.filters.union import FilterState, plausible, possible_sum
from osgt.sampling.entropy import token

#: Charges that were read last, by what is stored: many are equal.
_CHARGES: dict[str, Charge] = {}
_MOST_CHARGES = 4096


@dataclass(frozen=True)
class Charged:
    """A charge of the chain."""

    charge: Charge
    subject: Subject
    token_hash: str
    before: FilterState | None  # the state that it was added to
    after: FilterState | None  # the state that it left, and the shares by which that was decided
    shares: Shares | None


_NOTHING = type(None)

#: What entries tell besides what decides: it is shown, and a program must not stumble over it.
_ALWAYS: dict[str, Any] = {"time": str, "actor": str, "session_user": str, "software": str}
_TOLD: dict[str, dict[str, Any]] = {
    "charge": {
        **_ALWAYS,
        "query": str,
        "title": (str, _NOTHING),
        "share": (int, float),
        "token_hash": str,
    },
    "settle": {
        **_ALWAYS,
        "statement_hash": (str, _NOTHING),
        "output": (str, _NOTHING),
        "output_hashes": (list, _NOTHING),
    },
    "cancel": _ALWAYS,
    "note": {**_ALWAYS, "text": str},
}


def check_told(kind: str, values: dict[str, Any]) -> None:
    """Raise TypeError if a field of an entry that is only displayed is missing or of another type."""
    for name, expected in _TOLD[kind].items():
        if not isinstance(values.get(name), expected):
            raise TypeError(f"its {name} is missing, or of another type")


def stored_charge(plain: dict[str, Any]) -> Charge:
    """The charge that an entry holds. Many entries hold the same."""
    text = repr(plain)
    charge = _CHARGES.get(text)
    if charge is None:
        charge = Charge.from_dict(plain)
        if len(_CHARGES) >= _MOST_CHARGES:
            _CHARGES.clear()
        _CHARGES[text] = charge
    return charge


#: By so much a figure of another machine may differ, relative.
_LAST_DIGITS = Fraction(1, 10**6)

#: Charges whose residue is proved again when a process first reads a chain. k forged ones among n are all missed with
#: a probability of (1 - k/n) to this power.
SAMPLE = 32

#: How a charge ends that does not stand any more.
_UNDONE = ("cancel", "void")

#: Charges that are added to the composed loss one by one; more are composed anew.
_ONE_BY_ONE = 16


class OlderNeededError(Exception):
    """An account that begins at a checkpoint cannot answer: read the chain from its first entry on."""


class Account:
    """The charges that stand against the budget of a data set after the entries so far."""

    def __init__(self, start: Checkpoint, *, is_whole: bool, strict: bool = False) -> None:
        self.name, self.budget, self.sequence, self.hash = start.name, start.budget, start.sequence, start.hash
        self.state = start.state
        self.changes = start.changes  # the last entry at which the budget was changed
        self.lost = start.lost  # when charges were lost for good
        self.begins_at = 0 if is_whole else start.sequence  # charges up to this entry are not in `charges`
        self.charges: dict[int, Charged] = {}
        self.ends: dict[int, str] = {}
        self.voided: set[int] = set()  # entries that are declared void later on
        self._start, self._strict = start, strict
        self._composed: Planned | None = None if self.state is not None else Planned(self.budget)
        self._pending: list[Charge] = []  # charges that are not in `_composed` yet
        self._declared = start.owners
        self._owners: Owners | None = self._declared
        self._declared_at = start.sequence  # what was said up to this entry is in `_declared`

    @classmethod
    def begin(cls, opening: Entry, *, strict: bool = False) -> "Account":
        """The account after the first entry of a chain."""
        if opening.kind != "open" or opening.sequence != 1:
            raise Fault("it does not begin with its opening")
        with readable(opening):
            budget = Budget.from_dict(opening.values["budget"])
            start = Checkpoint(
                name=str(opening.values["dataset"]),
                sequence=1,
                hash=opening.hash,
                budget=budget,
                state=_starting_state(budget, opening),
                owners=Owners.from_dict(opening.values["owners"]),
                releases=0,
                changes=0,
                lost=None,
            )
        return cls(start, is_whole=True, strict=strict)

    @property
    def is_whole(self) -> bool:
        """Whether it begins with the first entry."""
        return self.begins_at == 0

    def checkpoint(self) -> Checkpoint | None:
        """Make a checkpoint that others may begin with; None for a plan, whose charges are all needed."""
        if self.state is None:
            return None
        return Checkpoint(
            self.name,
            self.sequence,
            self.hash,
            self.budget,
            self.state,
            self.owners,
            self.releases,
            self.changes,
            self.lost,
        )

    def _move_to(self, entry: Entry) -> None:
        self.sequence, self.hash = entry.sequence, entry.hash

    def _needs(self, sequence: int) -> None:
        if sequence <= self.begins_at:
            raise OlderNeededError

    @property
    def standing(self) -> dict[int, Charged]:
        """The charges that were neither cancelled nor declared void."""
        return {sequence: one for sequence, one in self.charges.items() if self.ends.get(sequence) not in _UNDONE}

    @property
    def releases(self) -> int:
        """The number of charges that stand."""
        return self._start.releases + len(self.charges) - sum(end in _UNDONE for end in self.ends.values())

    @property
    def last(self) -> Charge | None:
        """The latest charge that stands; None if there is none among those that this account has read."""
        return next((one.charge for one in reversed(self.standing.values())), None)

    @property
    def owners(self) -> Owners:
        """The owners of the budget: as declared, and as the standing releases have said."""
        if self._owners is None:
            self._owners = self._declared
            for sequence, one in self.standing.items():
                if sequence > self._declared_at:
                    self._owners = self._owners.bound(one.subject)
        return self._owners

    @property
    def planned(self) -> Planned:
        """The standing charges, composed exactly."""
        if self._composed is None or len(self._pending) > _ONE_BY_ONE:
            self._composed = Planned.of(self.budget, [one.charge for one in self.standing.values()])
        else:
            for charge in self._pending:
                self._composed = self._composed.with_charge(charge)
        self._pending = []
        return self._composed

    # What may come next

    def state_with(self, charge: Charge) -> "FilterState | Planned | None":
        """The state with one more charge; None if it does not fit."""
        if self.lost is not None:
            return None
        if self.state is None or self.budget.shares is None:
            return self.planned.charged(charge)
        return union.charged(self.state, self.budget.shares, charge)

    def state_without(self, sequence: int) -> FilterState | None:
        """The state without a charge; None where states are not stored."""
        if self.state is None or self.budget.shares is None:
            return None
        return union.cancelled(self.state, self.budget.shares, self.charges[sequence].charge, self._before(sequence))

    def _before(self, sequence: int) -> FilterState | None:
        """The state before a charge, if every charge since was cancelled and the budget was not changed."""
        later = any(other > sequence and self.ends.get(other) not in _UNDONE for other in self.charges)
        return self.charges[sequence].before if not later and self.changes < sequence else None

    def state_under(self, budget: Budget) -> FilterState | None:
        """The state under another budget: all that stands, as if it had been there from the first charge on."""
        if budget.shares is None:
            return None
        self._needs(1)
        return union.replay(budget.shares, [one.charge for one in self.standing.values()])

    # What has come

    def apply(self, entry: Entry, *, own: "FilterState | Planned | None" = None) -> None:
        """Go on to the next entry; raise Fault if it cannot be. `own`: the state, where this process computed it."""
        with readable(entry):
            match entry.kind:
                case "charge":
                    self._apply_charge(entry, own)
                case "settle" | "cancel":
                    self._apply_end(entry, own)
                case "budget":
                    self._apply_budget(entry, own)
                case "tables":
                    self._declared = self.owners.with_tables(entry.values["tables"])
                    self._owners, self._declared_at = self._declared, entry.sequence
                case "restore":
                    if entry.values["charges_unknown"]:
                        self.lost = str(entry.values["time"])
                case "note":
                    check_told(entry.kind, entry.values)
                    if entry.refers_to not in self.charges and not self._is_older(entry):
                        raise Fault(f"entry {entry.sequence} is a note about {entry.refers_to}, which is no charge")
                case _:
                    raise Fault(f"entry {entry.sequence} is of the kind {entry.kind!r}, which cannot stand there")
        self._move_to(entry)

    def pass_over(self, entry: Entry) -> None:
        """Go on to the next entry, which is declared void later on, without judging it.

        Until that declaration the state is the one that it says, if it can be read: entries in between were decided
        with it. Planned charges have none, and fit without this one if they did with it.
        """
        self.voided.add(entry.sequence)
        with suppress(Fault, RecursionError), readable(entry):
            state = entry.values.get("state")
            if self.state is not None and state is not None:
                self.state = FilterState.from_dict(state)
            if entry.kind == "charge":
                self.charges[entry.sequence] = self._read_charge(entry, None, None)
                if self.state is None:
                    self.ends[entry.sequence] = "void"
        self._owners = None
        self._move_to(entry)

    def _apply_charge(self, entry: Entry, own: "FilterState | Planned | None") -> None:
        new = self._read_charge(entry, self.state, self.budget.shares)
        charge = new.charge
        if self.lost is not None:
            raise Fault(f"entry {entry.sequence} charges a budget that counts as spent")
        if self.state is not None:
            self.state = own if isinstance(own, FilterState) else self._check_state(entry, charge)
        elif isinstance(own, Planned):
            self._composed, self._pending = own, []
        else:
            self._pending.append(charge)
        self.charges[entry.sequence] = replace(new, after=self.state)
        if self._owners is not None:
            self._owners = self._owners.bound(new.subject)

    @staticmethod
    def _read_charge(entry: Entry, before: FilterState | None, shares: Shares | None) -> Charged:
        """The charge that an entry holds, without the state that it leaves."""
        values = entry.values
        check_told(entry.kind, values)
        subject = values["subject"]
        table = None if subject["table"] is None else Table.of(subject["table"])
        about = Subject.of(subject["unit"], subject["neighbours"], table)
        return Charged(stored_charge(values["charge"]), about, values["token_hash"], before, None, shares)

    def _check_state(self, entry: Entry, charge: Charge) -> FilterState:
        """The state that an entry says it leaves, if that can be."""
        assert self.state is not None
        assert self.budget.shares is not None
        after = FilterState.from_dict(entry.values["state"])
        judge = union.follows if self._strict else plausible
        if not judge(self.state, self.budget.shares, charge, after):
            raise forged(entry.sequence)
        if self._strict:
            share = union.spent(after, self.budget.shares).share
            if abs(real_number("share", entry.values["share"], positive=False) - share) > _LAST_DIGITS:
                raise Fault(
                    f"entry {entry.sequence} was forged: it does not leave the share of the budget that it says"
                )
        return after

    def _is_older(self, entry: Entry) -> bool:
        """Whether an entry refers to one before those that this account has read."""
        return entry.refers_to is not None and 1 < entry.refers_to <= self.begins_at

    def prove_some(self) -> None:
        """Prove again what some charges leave to the residue: drawn at random, so that no forger knows which."""
        known = list(self.charges)
        if len(known) > SAMPLE:
            known = sorted({known[int(token(8), 16) % len(known)] for _ in range(SAMPLE)})
        for sequence in known:
            one = self.charges[sequence]
            if one.before is None or one.after is None or one.shares is None:
                continue
            if not union.follows(one.before, one.shares, one.charge, one.after):
                raise forged(sequence)

    def _apply_end(self, entry: Entry, own: "FilterState | Planned | None") -> None:
        sequence, values = entry.refers_to or 0, entry.values
        check_told(entry.kind, values)
        if self._is_older(entry):
            if entry.kind == "cancel":
                raise OlderNeededError
            return  # settled: that changes no budget
        one = self.charges.get(sequence)
        if one is None or (sequence in self.ends and sequence not in self.voided):
            raise Fault(f"entry {entry.sequence} ends charge {sequence}, which is not open")
        if entry.kind == "cancel":
            self.check_plan()
            if hashlib.sha256(str(values.get("token")).encode()).hexdigest() != one.token_hash:
                raise Fault(f"entry {entry.sequence} cancels charge {sequence}, but not by its owner")
            self._check_cancelled(entry, sequence, own)
            self._composed, self._owners = None, None
        self.ends[sequence] = entry.kind

    def declare_void(self, numbers: Iterable[int]) -> None:
        """Take charges off for good that released nothing. They must have been passed over before."""
        for number in numbers:
            if number not in self.voided:
                raise OlderNeededError
            if number in self.charges:
                self.ends[number] = "void"
        self._composed, self._owners = None, None

    def _apply_budget(self, entry: Entry, own: "FilterState | Planned | None") -> None:
        self.check_plan()
        if entry.values.get("void"):
            self.declare_void(entry.values["void"])
        budget = Budget.from_dict(entry.values["budget"])
        if (budget.composition, budget.selection_share) != (self.budget.composition, self.budget.selection_share):
            raise Fault(f"entry {entry.sequence} changes how releases are added up, which cannot be changed")
        if budget.shares is not None:
            stored = FilterState.from_dict(entry.values["state"])
            own = own if own is not None or not self._strict else self.state_under(budget)
            if own is not None and not _is_same(stored, own):
                raise Fault(f"entry {entry.sequence} was forged: its state is not that of the standing charges")
            if own is None and not self._can_be_state(budget, stored):
                raise Fault(f"entry {entry.sequence} was forged: its state cannot be that of the standing charges")
            self.state = stored
        self.budget, self.changes = budget, entry.sequence
        self._composed = None

    def _can_be_state(self, budget: Budget, stored: FilterState) -> bool:
        """Whether a state can be that of all standing charges under a new budget, without computing it anew."""
        self._needs(1)
        assert budget.shares is not None
        charges = [one.charge for one in self.standing.values()]
        return possible_sum(FilterState.start(budget.shares), budget.shares, charges, stored)

    def _check_cancelled(self, entry: Entry, sequence: int, own: "FilterState | Planned | None") -> None:
        if self.state is None or self.budget.shares is None:
            return
        charge, before = self.charges[sequence].charge, self._before(sequence)
        stored = FilterState.from_dict(entry.values["state"])
        if stored != own and not union.follows_cancellation(self.state, self.budget.shares, charge, before, stored):
            raise Fault(f"entry {entry.sequence} was forged: its state is not that of the standing charges")
        self.state = stored

    def check_plan(self) -> None:
        """Raise Fault if planned charges exceed their budget: checked before charges are cancelled, and at the end."""
        if self.state is None and self._pending and not self.planned.fits_again():
            raise Fault(f"the charges up to entry {self.sequence} exceed the budget of their time")


def _starting_state(budget: Budget, opening: Entry) -> FilterState | None:
    """The state that the opening says, if a budget can begin with it."""
    if budget.shares is None:
        return None
    state = FilterState.from_dict(opening.values["state"])
    if not union.begins(budget.shares, state):
        raise Fault(f"entry {opening.sequence} was forged: its budget does not begin like that")
    return state


def _is_same(stored: FilterState, expected: Any) -> bool:
    """Whether a stored state is the expected one, but for the last digits of another machine."""
    if not isinstance(expected, FilterState):
        return False
    exact = ("pure", "unbounded", "selection", "count")
    close = ("renyi", "few", "mu")
    return all(getattr(stored, name) == getattr(expected, name) for name in exact) and all(
        _is_near(getattr(stored, name), getattr(expected, name)) for name in close
    )


def _is_near(stored: Fraction | float | None, expected: Fraction | float | None) -> bool:
    if stored is None or expected is None:
        return stored is expected
    return abs(Fraction(stored) - Fraction(expected)) <= _LAST_DIGITS * Fraction(expected)
