"""The account of a data set: its chain of entries, read from the first on, and what follows from it.

Nothing that is stored is believed: the sums are added up again from the charges. What cannot be added up, the Gaussian
residue, is proved again for every entry (`strict`, for `verify`); else it is checked to be possible (`plausible`), and
proved again for some entries that are drawn at random (`prove_some`). An account may begin at a `checkpoint` instead of
the first entry; what needs an older charge then raises OlderNeededError.
"""

import hashlib
from fractions import Fraction
from typing import Any

from osgt.ledger import filters
from osgt.ledger.budget import Budget
from osgt.ledger.chain import Entry
from osgt.ledger.charges import Charged, profile_of, stored_charge
from osgt.ledger.checkpoint import Checkpoint
from osgt.ledger.faults import Fault, forged, readable
from osgt.ledger.filter_state import FilterState
from osgt.ledger.planned import Planned
from osgt.ledger.plausible import plausible, possible_sum
from osgt.ledger.subject import Owners, Subject, Table
from osgt.noise.parameters import real_number
from osgt.privacy import Charge, PrivacyProfile
from osgt.sampling.entropy import token

#: By so much a figure of another machine may differ, relative.
_LAST_DIGITS = Fraction(1, 10**6)

#: Charges whose residue is proved again when a process first reads a chain. k forged ones among n are all missed with
#: a probability of (1 - k/n) to this power.
SAMPLE = 32

#: Charges that are added to the composed loss one by one; more are composed anew.
_ONE_BY_ONE = 16


class OlderNeededError(Exception):
    """An account that begins at a checkpoint cannot answer: read the chain from its first entry on."""


class Account:
    """What stands against the budget of a data set after the entries so far."""

    def __init__(self, start: Checkpoint, *, is_whole: bool, strict: bool = False) -> None:
        self.name, self.budget, self.sequence, self.hash = start.name, start.budget, start.sequence, start.hash
        self.state = start.state
        self.changes = start.changes  # the last entry at which the budget was changed
        self.lost = start.lost  # when charges were lost for good
        self.begins_at = 0 if is_whole else start.sequence  # charges up to this entry are not in `charges`
        self.charges: dict[int, Charged] = {}
        self.ends: dict[int, str] = {}
        self._start, self._strict = start, strict
        self._composed: Planned | None = None if self.state is not None else Planned(self.budget)
        self._pending: list[Charge] = []  # charges that are not in `_composed` yet
        self._declared = start.owners
        self._owners: Owners | None = self._declared
        self._declared_at = start.sequence  # what was said up to this entry is in `_declared`

    @classmethod
    def opened(cls, opening: Entry, *, strict: bool = False) -> "Account":
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
                state=_begun(budget, opening),
                owners=Owners.from_dict(opening.values["owners"]),
                releases=0,
                profile=None,
                changes=0,
                lost=None,
            )
        return cls(start, is_whole=True, strict=strict)

    @property
    def is_whole(self) -> bool:
        """Whether it begins with the first entry."""
        return self.begins_at == 0

    def checkpoint(self) -> Checkpoint | None:
        """What others may begin with; None for a plan, whose charges are all needed."""
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
            self.profile(),
            self.changes,
            self.lost,
        )

    def _moved_to(self, entry: Entry) -> None:
        self.sequence, self.hash = entry.sequence, entry.hash

    def _needs(self, sequence: int) -> None:
        if sequence <= self.begins_at:
            raise OlderNeededError

    @property
    def standing(self) -> dict[int, Charged]:
        """The charges that were not cancelled."""
        return {sequence: one for sequence, one in self.charges.items() if self.ends.get(sequence) != "cancel"}

    @property
    def releases(self) -> int:
        """The number of charges that stand."""
        return self._start.releases + len(self.charges) - sum(end == "cancel" for end in self.ends.values())

    @property
    def owners(self) -> Owners:
        """Whose budget it is: what was declared, and what the standing releases have said."""
        if self._owners is None:
            self._owners = self._declared
            for sequence, one in self.standing.items():
                if sequence > self._declared_at:
                    self._owners = self._owners.bound(one.subject)
        return self._owners

    @property
    def planned(self) -> Planned:
        """What stands, composed exactly."""
        if self._composed is None or len(self._pending) > _ONE_BY_ONE:
            self._composed = Planned.of(self.budget, [one.charge for one in self.standing.values()])
        else:
            for charge in self._pending:
                self._composed = self._composed.with_charge(charge)
        self._pending = []
        return self._composed

    # What may come next

    def charged(self, charge: Charge) -> "FilterState | Planned | None":
        """The state with one more charge; None if it does not fit."""
        if self.lost is not None:
            return None
        if self.state is None or self.budget.shares is None:
            return self.planned.charged(charge)
        return filters.charged(self.state, self.budget.shares, charge)

    def cancelled(self, sequence: int) -> FilterState | None:
        """The state without a charge; None where states are not stored."""
        if self.state is None or self.budget.shares is None:
            return None
        return filters.cancelled(self.state, self.budget.shares, self.charges[sequence].charge, self._before(sequence))

    def _before(self, sequence: int) -> FilterState | None:
        """The state before a charge, if every charge since was cancelled and the budget was not changed."""
        later = any(other > sequence and self.ends.get(other) != "cancel" for other in self.charges)
        return self.charges[sequence].before if not later and self.changes < sequence else None

    def rebudgeted(self, budget: Budget) -> FilterState | None:
        """The state under another budget: all that stands, as if it had been there from the first charge on."""
        if budget.shares is None:
            return None
        self._needs(1)
        return filters.replay(budget.shares, [one.charge for one in self.standing.values()])

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
                    if entry.refers_to not in self.charges and not self._is_older(entry):
                        raise Fault(f"entry {entry.sequence} is a note about {entry.refers_to}, which is no charge")
                case _:
                    raise Fault(f"entry {entry.sequence} is of the kind {entry.kind!r}, which cannot stand there")
        self._moved_to(entry)

    def _apply_charge(self, entry: Entry, own: "FilterState | Planned | None") -> None:
        values = entry.values
        charge = stored_charge(values["charge"])
        subject = values["subject"]
        table = None if subject["table"] is None else Table.of(subject["table"])
        about = Subject(subject["unit"], subject["neighbours"], table)
        before = self.state
        if self.lost is not None:
            raise Fault(f"entry {entry.sequence} charges a budget that counts as spent")
        if self.state is not None:
            self.state = own if isinstance(own, FilterState) else self._checked(entry, charge)
        elif isinstance(own, Planned):
            self._composed, self._pending = own, []
        else:
            self._pending.append(charge)
        self.charges[entry.sequence] = Charged(
            charge, about, values["token_hash"], before, self.state, self.budget.shares
        )
        if self._owners is not None:
            self._owners = self._owners.bound(about)

    def _checked(self, entry: Entry, charge: Charge) -> FilterState:
        """The state that an entry says it leaves, if that can be."""
        assert self.state is not None
        assert self.budget.shares is not None
        after = FilterState.from_dict(entry.values["state"])
        judge = filters.follows if self._strict else plausible
        if not judge(self.state, self.budget.shares, charge, after):
            raise forged(entry.sequence)
        if self._strict:
            share = filters.spent(after, self.budget.shares).share
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
            if not filters.follows(one.before, one.shares, one.charge, one.after):
                raise forged(sequence)

    def _apply_end(self, entry: Entry, own: "FilterState | Planned | None") -> None:
        sequence, values = entry.refers_to or 0, entry.values
        if self._is_older(entry):
            if entry.kind == "cancel":
                raise OlderNeededError
            return  # settled: that changes no budget
        one = self.charges.get(sequence)
        if one is None or sequence in self.ends:
            raise Fault(f"entry {entry.sequence} ends charge {sequence}, which is not open")
        if entry.kind == "cancel":
            self.check_plan()
            if hashlib.sha256(str(values.get("token")).encode()).hexdigest() != one.token_hash:
                raise Fault(f"entry {entry.sequence} cancels charge {sequence}, but not by its owner")
            self._check_cancelled(entry, sequence, own)
            self._composed, self._owners = None, None
        self.ends[sequence] = entry.kind

    def _apply_budget(self, entry: Entry, own: "FilterState | Planned | None") -> None:
        self.check_plan()
        budget = Budget.from_dict(entry.values["budget"])
        if (budget.composition, budget.selection_share) != (self.budget.composition, self.budget.selection_share):
            raise Fault(f"entry {entry.sequence} changes how releases are added up, which cannot be changed")
        if budget.shares is not None:
            stored = FilterState.from_dict(entry.values["state"])
            own = own if own is not None or not self._strict else self.rebudgeted(budget)
            if own is not None and not _same(stored, own):
                raise Fault(f"entry {entry.sequence} was forged: its state is not that of the standing charges")
            if own is None and not self._possible(budget, stored):
                raise Fault(f"entry {entry.sequence} was forged: its state cannot be that of the standing charges")
            self.state = stored
        self.budget, self.changes = budget, entry.sequence
        self._composed = None

    def _possible(self, budget: Budget, stored: FilterState) -> bool:
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
        if stored != own and not filters.follows_cancellation(self.state, self.budget.shares, charge, before, stored):
            raise Fault(f"entry {entry.sequence} was forged: its state is not that of the standing charges")
        self.state = stored

    def check_plan(self) -> None:
        """Raise Fault if planned charges exceed their budget. δ only grows: seen before others come off, and last."""
        if self.state is None and self._pending and not self.planned.fits_again():
            raise Fault(f"the charges up to entry {self.sequence} exceed the budget of their time")

    # What is told

    def profile(self) -> PrivacyProfile | None:
        """All that stands, as a profile; None if it has too many different parts, or nothing stands."""
        if self._start.releases and self._start.profile is None:
            return None
        earlier = [] if self._start.profile is None else [Charge(self._start.profile)]
        return profile_of([*earlier, *(one.charge for one in self.standing.values())])


def _begun(budget: Budget, opening: Entry) -> FilterState | None:
    """The state that the opening says, if a budget can begin with it."""
    if budget.shares is None:
        return None
    state = FilterState.from_dict(opening.values["state"])
    if not filters.begins(budget.shares, state):
        raise Fault(f"entry {opening.sequence} was forged: its budget does not begin like that")
    return state


def _same(stored: FilterState, expected: Any) -> bool:
    """Whether a stored state is the expected one, but for the last digits of another machine."""
    if not isinstance(expected, FilterState):
        return False
    exact = ("pure", "unbounded", "selection", "count")
    close = ("renyi", "few", "mu")
    return all(getattr(stored, name) == getattr(expected, name) for name in exact) and all(
        _near(getattr(stored, name), getattr(expected, name)) for name in close
    )


def _near(stored: Fraction | float | None, expected: Fraction | float | None) -> bool:
    if stored is None or expected is None:
        return stored is expected
    return abs(Fraction(stored) - Fraction(expected)) <= _LAST_DIGITS * Fraction(expected)
