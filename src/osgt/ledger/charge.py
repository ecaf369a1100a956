"""Charging a release before its data are read, and the end of the charge: settled, cancelled or annotated.

A charge stands once, even if the answer of the database to its commit is lost. A refusal says why, and what would fit
instead.
"""

import hashlib
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import sqlalchemy as sa

from osgt.ledger.account import Account
from osgt.ledger.accounts import Accounts, Appended
from osgt.ledger.errors import BudgetExceeded, DamagedLedgerError, LedgerError, LostAnswerError
from osgt.ledger.headroom import Headroom, noise_factor, refusal
from osgt.ledger.reservation import Reservation
from osgt.ledger.store import chain
from osgt.ledger.store.chain import Entry, Head
from osgt.ledger.subject import LONGEST_NAME, Subject, optional_text, text_of
from osgt.privacy import Charge
from osgt.privacy.filters import union
from osgt.privacy.filters.planned import Planned
from osgt.sampling.entropy import token


@dataclass(repr=False)  # it has the secret that can cancel the charge
class NewCharge:
    """A release that is to be charged: its loss and subject, and the content of its entry, which `token_hash` marks."""

    accounts: Accounts
    dataset: str
    charge: Charge
    subject: Subject
    values: dict[str, Any]
    actor: str | None
    secret: str = field(default_factory=partial(token, 16))
    refused_by: Headroom | None = None

    def __post_init__(self) -> None:
        self.values = {
            **self.values,
            "charge": self.charge.to_dict(),
            "subject": self.subject.to_dict(),
            "token_hash": _hash(self.secret),
        }

    def reserve(self, lost: LostAnswerError | None = None) -> Reservation:
        """Charge it, or raise BudgetExceeded, OtherSubjectError or LostAnswerError; `lost`: of an earlier attempt."""
        accounts, name = self.accounts, self.dataset
        try:
            with nothing_charged():
                sequence = accounts.append_once(name, self._decide, self._find, lost=lost)
        except LostAnswerError as error:
            told = str(error) if error is lost else _may_stand(accounts, name, error)
            raise LostAnswerError(told, resume=ResumeToken(self.reserve)) from error
        if sequence is None:
            assert self.refused_by is not None
            raise _exceeded(name, self.refused_by, self.charge)  # the lock is released
        record = partial(end_charge, accounts, name, sequence, self.actor)
        return Reservation(name, sequence, self.charge, self.secret, record)

    def _decide(self, connection: sa.Connection, head: Head, account: Account) -> Appended | None:
        """Append the charge if it fits, under the lock of the data set."""
        account.owners.check(self.dataset, self.subject)
        state = account.state_with(self.charge)
        if state is None:
            self.refused_by = Headroom.of(account)
            return None
        after: dict[str, Any]
        if isinstance(state, Planned):
            after = {"state": None, "share": min(state.figures()[0] / account.budget.epsilon, 1.0)}
        else:
            assert account.budget.shares is not None
            after = {"state": state.to_dict(), "share": union.spent(state, account.budget.shares).share}
        return chain.append(connection, head, "charge", {**self.values, **after}, actor=self.actor), state

    def _find(self, account: Account) -> int | None:
        """The sequence number of the charge, if it stands."""
        mark = self.values["token_hash"]
        return next((number for number, one in account.charges.items() if one.token_hash == mark), None)


class ResumeToken:
    """One-shot token to resume a charge after a lost commit, in the process that wanted the charge.

    Two reservations for one charge would be two releases, so nobody else ever gets this right.
    """

    def __init__(self, reserve: Callable[[LostAnswerError], Reservation]) -> None:
        self._reserve: Callable[[LostAnswerError], Reservation] | None = reserve
        self._process = os.getpid()
        self._lock = threading.Lock()

    def __call__(self, lost: LostAnswerError) -> Reservation:
        with self._lock:
            reserve, self._reserve = self._reserve, None
        if reserve is None or os.getpid() != self._process:
            raise ValueError(
                "one charge is for one release: this one was asked for again before, or by another process. Make a new "
                "reservation"
            )
        return reserve(lost)


def check_fits(accounts: Accounts, name: str, charge: Charge, subject: Subject) -> None:
    """Raise what `NewCharge.reserve` would raise now: BudgetExceeded or OtherSubjectError. Nothing is charged."""
    with nothing_charged(), accounts.lock:
        account = accounts.now(name)
        accounts.check_complete(account)
        account.owners.check(name, subject)
        fits = account.state_with(charge) is not None
        left = Headroom.of(account)
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
            told = "the owner has declared that it released nothing. If it did, tell the owner" * (known == "void")
            raise ValueError(f"the charge {sequence} of data set {name!r} already has its end: {told or known}")
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
    if not text.strip():
        raise ValueError("text must say something: it is recorded for ever")

    def decide(connection: sa.Connection, head: Head, account: Account) -> tuple[Entry, None]:
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
