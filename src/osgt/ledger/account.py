"""The account of a data set: the one replay of its chain of entries, and what follows from it.

Everything is recomputed from the charges; stored state is never trusted by those who decide. What cannot be added up,
the Gaussian residue, is proved again for every entry ("all" checks, for `verify`); else it is checked to be possible,
and proved again for some entries that are drawn at random ("some", for charges). Those who only show what happened
believe what is written ("none"). An account may begin at a `checkpoint` instead of the first entry; what needs an older
charge then raises OlderNeededError.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

from osgt.ledger.instalments import Instalment, follow, series_of
from osgt.ledger.store.chain import Entry, Fault, Fetched, find_voided, follow_links, many_records, readable
from osgt.ledger.store.checkpoint import Checkpoint
from osgt.ledger.subject import Owners, Subject
from osgt.privacy import Charge
from osgt.privacy.filters import parts, union
from osgt.privacy.filters.budget import Budget
from osgt.privacy.filters.parts import States
from osgt.privacy.filters.planned import Planned
from osgt.sampling.entropy import token
from osgt.support.numeric import real_number

#: How many decisions are checked: see the top of this module.
Checks = Literal["none", "some", "all"]

#: The state of a budget with one more charge, or with one less.
State = States | Planned

#: Charges whose residue is proved again when a process first reads a chain. k forged ones among n are all missed with
#: a probability of (1 - k/n) to this power.
SAMPLE = 32

#: How a charge ends that does not stand any more.
_UNDONE = ("cancel", "void")

#: Charges that are added to the composed loss one by one; more are composed anew.
_ONE_BY_ONE = 16

#: Fields of entries that decide nothing: they are shown, and a program must not stumble over them.
_TEXT, _TEXT_OR_NONE = (str,), (str, type(None))
_ALWAYS: dict[str, tuple[type, ...]] = dict.fromkeys(("time", "actor", "session_user", "software"), _TEXT)
_DISPLAYED: dict[str, dict[str, tuple[type, ...]]] = {
    "charge": {**_ALWAYS, "query": _TEXT, "title": _TEXT_OR_NONE, "share": (int, float), "token_hash": _TEXT},
    "settle": {
        **_ALWAYS,
        "statement_hash": _TEXT_OR_NONE,
        "output": _TEXT_OR_NONE,
        "output_hashes": (list, type(None)),
    },
    "cancel": _ALWAYS,
    "note": {**_ALWAYS, "text": _TEXT},
}


class OlderNeededError(Exception):
    """An account that begins at a checkpoint cannot answer: read the chain from its first entry on."""


@dataclass(frozen=True)
class Charged:
    """A charge of the chain."""

    charge: Charge
    subject: Subject
    token_hash: str
    before: States | None  # the state that it was added to
    after: States | None  # the state that it left
    series: Mapping[str, Any] | None = None  # the series that it is for

    @classmethod
    def of(cls, entry: Entry, before: States | None) -> "Charged":
        """Read the charge that an entry holds, without the state that it leaves."""
        values = entry.values
        _check_displayed(entry)
        subject = _read_subject(json.dumps(values["subject"]))
        charge, series = stored_charge(values["charge"]), series_of(entry) if "series" in values else None
        return cls(charge, subject, values["token_hash"], before, None, series)


def _check_displayed(entry: Entry) -> None:
    """Raise TypeError if a field of an entry that is only displayed is missing or of another type."""
    for name, expected in _DISPLAYED[entry.kind].items():
        if not isinstance(entry.values.get(name), expected):
            raise TypeError(f"its {name} is missing, or of another type")


def stored_charge(plain: dict[str, Any]) -> Charge:
    """The charge that an entry holds."""
    return _read_charge(json.dumps(plain))


# Many entries hold the same, and to read it takes longer than to look it up.
@lru_cache(maxsize=4096)
def _read_charge(text: str) -> Charge:
    return Charge.from_dict(json.loads(text))


@lru_cache(maxsize=4096)
def _read_subject(text: str) -> Subject:
    return Subject.of(**json.loads(text))


@many_records()
def replay(
    fetched: Fetched, account: "Account | None" = None, *, checks: Checks = "some", voided: Set[int] = frozenset()
) -> "Account":
    """The account after the entries that were fetched; Fault if they do not lead from the one given to the head.

    Without an account they begin with the first entry. `voided`: entries that count as void, besides those that are
    declared so among the entries.
    """
    sequence, link = (0, fetched.first_link) if account is None else (account.sequence, account.hash)
    is_new = account is None or not account.charges
    voided = voided | find_voided(fetched.entries)
    for entry in follow_links(fetched.entries, sequence, link, fetched.head, voided):
        if account is None:
            account = Account.begin(entry, checks)
        elif entry.sequence in voided:
            account.pass_over(entry)
        else:
            account.apply(entry)
    assert account is not None
    account.check_plan()
    if is_new and checks == "some":
        account.prove_some()
    return account


class Account:
    """The charges that stand against the budget of a data set after the entries so far."""

    def __init__(self, start: Checkpoint, *, is_whole: bool, checks: Checks = "some") -> None:
        self.name, self.budget, self.sequence, self.hash = start.name, start.budget, start.sequence, start.hash
        self.state = start.state
        self.changes = start.changes  # the last entry at which the budget was changed
        self.lost = start.lost  # when charges were lost for good
        self.begins_at = 0 if is_whole else start.sequence  # charges up to this entry are not in `charges`
        self.charges: dict[int, Charged] = {}
        self.ends: dict[int, str] = {}
        self.instalments: dict[int, dict[str, Instalment]] = {}  # of series, by the entry of their charge
        self.voided: set[int] = set()  # entries that are declared void later on
        self._start, self._checks = start, checks
        self._composed: Planned | None = None if self.state is not None else Planned(self.budget)
        self._pending: list[Charge] = []  # charges that are not in `_composed` yet
        self._declared = start.owners
        self._owners: Owners | None = self._declared
        self._declared_at = start.sequence  # what was said up to this entry is in `_declared`

    @classmethod
    def begin(cls, opening: Entry, checks: Checks) -> "Account":
        """The account after the first entry of a chain."""
        if opening.kind != "open" or opening.sequence != 1:
            raise Fault("it does not begin with its opening")
        with readable(opening):
            values = opening.values
            budget, owners = Budget.from_dict(values["budget"]), Owners.from_dict(values["owners"])
            state = None if budget.shares is None else parts.read(values["state"], budget.partition, budget.shares)
            if state is not None and checks != "none" and not parts.begins(state):
                raise _forged(opening.sequence)
            if budget.partition is not None and budget.partition.neighbours != owners.neighbours:
                raise Fault(f"entry {opening.sequence} divides people by another neighbour relation than its own")
            start = Checkpoint(str(values["dataset"]), 1, opening.hash, budget, state, owners, 0, 0, None)
        return cls(start, is_whole=True, checks=checks)

    @property
    def is_whole(self) -> bool:
        """Whether it begins with the first entry."""
        return self.begins_at == 0

    def checkpoint(self) -> Checkpoint | None:
        """Make a checkpoint that others may begin with; None for a plan, whose charges are all needed."""
        if self.state is None:
            return None
        return Checkpoint(**{field.name: getattr(self, field.name) for field in fields(Checkpoint)})

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
                    self._owners = self._owners.learn(one.subject)
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

    @property
    def current(self) -> State:
        """The state that decides what may come next."""
        return self.planned if self.state is None else self.state

    def state_with(self, charge: Charge) -> State | None:
        """The state with one more charge; None if it does not fit."""
        return self.current.try_charge(charge) if self.lost is None else None

    def state_without(self, sequence: int) -> States | None:
        """The state without a charge; None where states are not stored."""
        if self.state is None:
            return None
        return parts.without_charge(self.state, self.charges[sequence].charge, self._before(sequence))

    def _before(self, sequence: int) -> States | None:
        """The state before a charge, if every charge since was cancelled and the budget was not changed."""
        later = any(other > sequence and self.ends.get(other) not in _UNDONE for other in self.charges)
        return self.charges[sequence].before if not later and self.changes < sequence else None

    def state_under(self, budget: Budget) -> States | None:
        """The state under another budget: all that stands, as if it had been there from the first charge on."""
        if budget.shares is None:
            return None
        return parts.add_all(budget.partition, budget.shares, self._standing_charges())

    def check_subject(self, charge: Charge, subject: Subject) -> None:
        """Refuse a release that is about others than the budget is for, or about a part that it has not."""
        self.owners.check(self.name, subject)
        self.owners.check_part(self.name, charge.part, subject, self.budget.partition)

    def _standing_charges(self) -> list[Charge]:
        if not self.is_whole:
            raise OlderNeededError
        return [one.charge for one in self.standing.values()]

    # What has come

    def apply(self, entry: Entry, *, own: State | None = None) -> None:
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
                    _check_displayed(entry)
                    if entry.refers_to not in self.charges and not self._is_older(entry):
                        self._doubt(f"entry {entry.sequence} is a note about {entry.refers_to}, which is no charge")
                    self._apply_instalment(entry)
                case _:
                    raise Fault(f"entry {entry.sequence} is of the kind {entry.kind!r}, which cannot stand there")
        self.sequence, self.hash = entry.sequence, entry.hash

    def _apply_instalment(self, note: Entry) -> None:
        one = self.charges.get(note.refers_to or 0)
        if one is not None and note.refers_to is not None:
            periods = () if one.series is None else one.series["periods"]
            follow(self.instalments.setdefault(note.refers_to, {}), note, periods)

    def pass_over(self, entry: Entry) -> None:
        """Go on to the next entry, which is declared void later on, without judging it.

        Until that declaration the state is the one that it says, if it can be read: entries in between were decided
        with it. Planned charges have none, and fit without this one if they did with it.
        """
        self.voided.add(entry.sequence)
        with suppress(Fault, RecursionError), readable(entry):
            state = entry.values.get("state")
            if self.state is not None and state is not None:
                self.state = parts.read(state, self.budget.partition, self.state.shares)
            if entry.kind == "charge":
                self.charges[entry.sequence] = Charged.of(entry, None)
                if self.state is None:
                    self.ends[entry.sequence] = "void"
        self._owners = None
        self.sequence, self.hash = entry.sequence, entry.hash

    def _doubt(self, fault: str) -> None:
        """Raise Fault, unless what is written is believed."""
        if self._checks != "none":
            raise Fault(fault)

    def _apply_charge(self, entry: Entry, own: State | None) -> None:
        new, before = Charged.of(entry, self.state), self.state
        if self.lost is not None:
            self._doubt(f"entry {entry.sequence} charges a budget that counts as spent")
        if before is not None:
            judge = parts.follows if self._checks == "all" else parts.plausible
            self.owners.check_part(self.name, new.charge.part, new.subject, self.budget.partition)
            self.state = self._read_state(entry, self.budget, own, lambda after: judge(before, new.charge, after))
            if self._checks == "all":
                share = real_number("share", entry.values["share"], positive=False)
                if abs(self.state.share - share) > union.LAST_DIGITS:
                    raise _forged(entry.sequence, "it does not leave the share of the budget that it says")
        elif isinstance(own, Planned):
            self._composed, self._pending = own, []
        else:
            self._pending.append(new.charge)
        self.charges[entry.sequence] = replace(new, after=self.state)
        if self._owners is not None:
            self._owners = self._owners.learn(new.subject)

    def _read_state(
        self, entry: Entry, budget: Budget, own: State | None, is_right: Callable[[States], bool]
    ) -> States:
        """The state that an entry says it leaves, if that can be."""
        if own is not None and not isinstance(own, Planned):
            return own
        assert budget.shares is not None
        state = parts.read(entry.values["state"], budget.partition, budget.shares)
        if self._checks != "none" and not is_right(state):
            raise _forged(entry.sequence)
        return state

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
            if one.before is None or one.after is None:
                continue
            if not parts.follows(one.before, one.charge, one.after):
                raise _forged(sequence)

    def _apply_end(self, entry: Entry, own: State | None) -> None:
        sequence, values = entry.refers_to or 0, entry.values
        _check_displayed(entry)
        if self._is_older(entry):
            if entry.kind == "cancel":
                raise OlderNeededError
            return  # settled: that changes no budget
        one = self.charges.get(sequence)
        if one is None or (sequence in self.ends and sequence not in self.voided):
            self._doubt(f"entry {entry.sequence} ends charge {sequence}, which is not open")
        if one is None:
            return
        if entry.kind == "cancel":
            self.check_plan()
            if hashlib.sha256(str(values.get("token")).encode()).hexdigest() != one.token_hash:
                self._doubt(f"entry {entry.sequence} cancels charge {sequence}, but not by its owner")
            state, before = self.state, self._before(sequence)
            if state is not None:
                self.state = self._read_state(
                    entry,
                    self.budget,
                    own,
                    lambda after: parts.follows_cancellation(state, one.charge, before, after),
                )
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

    def _apply_budget(self, entry: Entry, own: State | None) -> None:
        self.check_plan()
        if entry.values.get("void"):
            self.declare_void(entry.values["void"])
        budget = Budget.from_dict(entry.values["budget"])
        kept = ("composition", "selection_share", "partition")
        if any(getattr(budget, name) != getattr(self.budget, name) for name in kept):
            raise Fault(f"entry {entry.sequence} changes how releases are added up, which cannot be changed")
        if budget.shares is not None:
            self.state = self._read_state(entry, budget, own, lambda state: self._is_sum(state, budget))
        self.budget, self.changes = budget, entry.sequence
        self._composed = None

    def _is_sum(self, state: States, budget: Budget) -> bool:
        """Whether a state is that of all standing charges under a budget; without proofs, whether it can be."""
        charges = self._standing_charges()
        if self._checks == "all":
            return parts.is_same(state, parts.add_all(budget.partition, state.shares, charges))
        return parts.possible_sum(state, charges, budget.partition)

    def check_plan(self) -> None:
        """Raise Fault if planned charges exceed their budget: checked before charges are cancelled, and at the end."""
        if self._checks != "none" and self.state is None and self._pending and not self.planned.fits_again():
            raise Fault(f"the charges up to entry {self.sequence} exceed the budget of their time")


def _forged(sequence: int, fault: str = "it does not fit, or does not leave the state that it says") -> Fault:
    """The fault of an entry that was made up."""
    return Fault(f"entry {sequence} was forged: {fault}")
