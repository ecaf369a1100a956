"""The charge of a release before its data are read, and its end: settled, cancelled or annotated.

A charge stands once, even if the answer of the database to its commit is lost. A refusal says why, and what would fit
instead.
"""

import hashlib
import os
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import sqlalchemy as sa

from osgt.ledger.account import Account
from osgt.ledger.accounts import Accounts, Appended
from osgt.ledger.errors import BudgetExceeded, DamagedLedgerError, LedgerError, LostAnswerError
from osgt.ledger.headroom import Headroom, noise_factor, refusal
from osgt.ledger.instalments import standing_series
from osgt.ledger.store import chain
from osgt.ledger.store.chain import Head
from osgt.ledger.subject import LONGEST_NAME, Subject, optional_text, text_of
from osgt.privacy import Charge
from osgt.privacy.filters.planned import Planned
from osgt.sampling.entropy import token


class Reservation:
    """A charge in the ledger, made before the data are read.

    Call `reading` before the first look at the data, and `settle` once the output is durable. `cancel` takes the charge
    back, and only this object can, in the process that made it and before `reading`: nobody else can know that nothing
    was read. If the process dies, the charge stands.
    """

    def __init__(self, new: "NewCharge", sequence: int) -> None:
        self.dataset = new.dataset
        self.sequence = sequence
        #: The hash of the entry, which ties it to all before it; None if several attempts were needed to make it.
        self.entry_hash = new.hashes[0] if len(new.hashes) == 1 else None
        self.charge = new.charge
        self._token = new.secret
        self._record = partial(end_charge, new.accounts, new.dataset, sequence, new.actor)
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._state = "reserved"

    @property
    def state(self) -> str:
        """The stage of the reservation: "reserved", "reading", "cancelling", "cancelled" or "settled"."""
        return self._state

    def reading(self) -> None:
        """Say that from here on data may be read: the charge cannot be cancelled any more."""
        with self._lock:
            self._check_process("read under this reservation")
            self._check_state("read under", "make a new reservation", "reserved", "reading")
            self._state = "reading"

    def settle(self, statement_hash: str, *, output: str | None = None, output_hashes: Sequence[str] = ()) -> None:
        """Record that the output is durable, with the hash of the statement that was published with it.

        `output` says where it went, `output_hashes` are the SHA-256 hashes of its files.
        """
        if not isinstance(statement_hash, str) or not statement_hash:
            raise ValueError(f"statement_hash must be the text of a hash, got {statement_hash!r}")
        values = {"statement_hash": statement_hash, "output": output, "output_hashes": output_hashes}
        with self._lock:
            self._check_state("settle", "make a new reservation for a new release", "reserved", "reading")
            self._record("settle", values)
            self._state = "settled"

    def cancel(self) -> None:
        """Take the charge back. Possible only while nothing was read."""
        with self._lock:
            self._check_process("cancel it")
            self._check_state("cancel", "the charge stands", "reserved", "cancelling")
            # If the transaction fails, it may have been committed all the same: from here on, reading is out.
            self._state = "cancelling"
            self._record("cancel", {"token": self._token})
            self._state = "cancelled"

    def _check_process(self, act: str) -> None:
        if os.getpid() != self._process:
            raise ValueError(
                f"only the process that made a reservation can {act}: it alone knows whether data were read. Make a "
                "reservation in this process"
            )

    def _check_state(self, act: str, advice: str, *allowed: str) -> None:
        if self._state not in allowed:
            raise ValueError(f"cannot {act} a reservation that is {self._state}: {advice}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation cannot be copied or sent elsewhere: two owners could not know of each other")

    def __repr__(self) -> str:
        return f"Reservation(dataset={self.dataset!r}, sequence={self.sequence}, state={self._state!r})"


class NewCharge:
    """A release that is to be charged: its loss and subject, and the content of its entry.

    The secret, by whose hash the entry is known, can cancel the charge.
    """

    def __init__(
        self,
        accounts: Accounts,
        dataset: str,
        charge: Charge,
        subject: Subject,
        values: dict[str, Any],
        actor: str | None,
    ) -> None:
        self.accounts, self.dataset, self.charge, self.actor = accounts, dataset, charge, actor
        self.secret = token(16)
        self.hashes: list[str] = []  # of the entry, in each attempt to append it
        self._subject = subject
        self._token_hash = _hash(self.secret)
        self._values = {
            **values,
            "charge": charge.to_dict(),
            "subject": subject.to_dict(),
            "token_hash": self._token_hash,
        }
        self._refused_by: Headroom | None = None
        self._process, self._lock, self._is_reserved = os.getpid(), threading.Lock(), False

    def reserve(self, lost: LostAnswerError | None = None) -> Reservation:
        """Charge it, or raise BudgetExceeded, OtherSubjectError or LostAnswerError; `lost`: of an earlier attempt.

        After a lost answer it can be asked for again, in the process that wanted the charge, until there is a
        reservation: two for one charge would be two releases.
        """
        if os.getpid() == self._process:
            with self._lock:
                if not self._is_reserved:
                    return self._reserve(lost)
        raise ValueError(
            "one charge is for one release: this one was asked for again before, or by another process. Make a new "
            "reservation"
        )

    def _reserve(self, lost: LostAnswerError | None) -> Reservation:
        try:
            with nothing_charged():
                sequence = self.accounts.append_once(
                    self.dataset, self._decide, self._find, lost=lost, needs=1 if "series" in self._values else None
                )
        except LostAnswerError as error:
            text = str(error) if error is lost else _may_stand(self.accounts, self.dataset, error)
            raise LostAnswerError(text, resume=self.reserve) from error
        if sequence is None and self._refused_by is None:
            with self.accounts.lock:
                sequence = self._find(self.accounts.now(self.dataset, needs=1))
        if sequence is None:
            assert self._refused_by is not None
            raise _exceeded(self.dataset, self._refused_by, self.charge)  # the lock of the data set is released
        self._is_reserved = True
        return Reservation(self, sequence)

    def _decide(self, connection: sa.Connection, head: Head, account: Account) -> Appended | None:
        """Append the charge if it fits, under the lock of the data set."""
        account.check_subject(self.charge, self._subject)
        if "series" in self._values and self._find(account) is not None:
            return None  # charged before, by this process or another
        state = account.state_with(self.charge)
        if state is None:
            self._refused_by = Headroom.of(account, self.charge.part)
            return None
        stored = None if isinstance(state, Planned) else state.to_dict()
        values = {**self._values, "state": stored, "share": state.share}
        entry = chain.append(connection, head, "charge", values, actor=self.actor)
        self.hashes.append(entry.hash)
        return entry, state

    def _find(self, account: Account) -> int | None:
        """The sequence number of the charge, if it stands."""
        if "series" in self._values:
            return standing_series(account, self._values["series"]["name"])
        return next((number for number, one in account.charges.items() if one.token_hash == self._token_hash), None)


def check_fits(accounts: Accounts, name: str, charge: Charge, subject: Subject) -> None:
    """Raise what `NewCharge.reserve` would raise now: BudgetExceeded or OtherSubjectError. Nothing is charged."""
    with nothing_charged(), accounts.lock:
        account = accounts.now(name)
        accounts.check_complete(account)
        account.check_subject(charge, subject)
        fits = account.state_with(charge) is not None
        left = Headroom.of(account, charge.part)
    if not fits:
        raise _exceeded(name, left, charge)


@contextmanager
def nothing_charged() -> Iterator[None]:
    """Say with every error of a ledger that nothing was charged, unless that is not known."""
    try:
        yield
    except (LostAnswerError, DamagedLedgerError):
        raise
    except LedgerError as error:
        text = str(error).rstrip(".")
        raise type(error)(f"{text}. Nothing was charged, and nothing may be released.") from error


def _exceeded(name: str, left: Headroom, charge: Charge) -> BudgetExceeded:
    """The refusal, with what would fit, which takes a while to find."""
    charge = replace(charge, part=None)  # what is left is that of its part
    factor = noise_factor(left, charge)
    return BudgetExceeded(refusal(name, left, charge, factor), dataset=name, noise_factor=factor)


def _may_stand(accounts: Accounts, name: str, error: LostAnswerError) -> str:
    reason = str(error).rstrip(".")
    show = f"osgt ledger show {shlex.quote(accounts.database.name)} {shlex.quote(name)}"
    return f"{reason}. The charge may stand: see `{show}`. Nothing was read, and nothing may be released."


def end_charge(
    accounts: Accounts, name: str, sequence: int, actor: str | None, kind: str, values: dict[str, Any]
) -> bool:
    """Settle or cancel the charge with this sequence number; False if that was done before."""
    _check_number(sequence)
    if kind == "settle":
        values = {
            "statement_hash": optional_text(values["statement_hash"], "statement_hash"),
            "output": optional_text(values["output"], "output"),
            "output_hashes": [text_of(text, "output_hashes", LONGEST_NAME) for text in values["output_hashes"]],
        }

    def decide(connection: sa.Connection, head: Head, account: Account) -> Appended | None:
        _check_charge(account, sequence)
        known = account.ends.get(sequence)
        if known == kind:
            return None  # an earlier attempt was committed, though its answer was lost
        if known is not None:
            void = "the owner has declared that it released nothing. If it did, tell the owner"
            end = void if known == "void" else known
            raise ValueError(f"the charge {sequence} of data set {name!r} already has its end: {end}")
        if kind != "cancel":
            return chain.append(connection, head, kind, values, actor=actor, refers_to=sequence), None
        if _hash(str(values["token"])) != account.charges[sequence].token_hash:
            raise ValueError(f"the charge {sequence} of data set {name!r} can be cancelled by its owner only")
        state = account.state_without(sequence)
        after = {**values, "state": None if state is None else state.to_dict()}
        return chain.append(connection, head, kind, after, actor=actor, refers_to=sequence), state

    def find(account: Account) -> int | None:
        return sequence if account.ends.get(sequence) == kind else None

    return accounts.append_once(name, decide, find, needs=sequence) is not None


def add_note(accounts: Accounts, name: str, sequence: int, text: str, actor: str | None) -> None:
    """Record a remark about the release with this sequence number."""
    _check_number(sequence)

    def decide(connection: sa.Connection, head: Head, account: Account) -> Appended:
        _check_charge(account, sequence)
        return chain.append(connection, head, "note", {"text": text}, actor=actor, refers_to=sequence), None

    accounts.append(name, decide, needs=sequence)


def _check_number(sequence: object) -> None:
    if type(sequence) is not int:
        raise TypeError(f"entry must be the number of a release, got {sequence!r}; `osgt ledger show` lists them")


def _check_charge(account: Account, sequence: int) -> None:
    if sequence not in account.charges:
        raise ValueError(
            f"entry {sequence!r} of data set {account.name!r} is not a release; `osgt ledger show` lists their numbers"
        )


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
