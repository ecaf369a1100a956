"""Charging a release before its data are read, and what becomes of the charge: settled, cancelled, remarked upon."""

import hashlib
import shlex
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from osgt.ledger import book, filters
from osgt.ledger.account import Account
from osgt.ledger.accounts import Accounts, Appended
from osgt.ledger.book import Head
from osgt.ledger.chain import Entry
from osgt.ledger.errors import BudgetExceeded, LostAnswerError
from osgt.ledger.headroom import Headroom
from osgt.ledger.lost import Again, nothing_charged
from osgt.ledger.planned import Planned
from osgt.ledger.refusal import noise_factor, refusal
from osgt.ledger.reservation import Reservation
from osgt.ledger.subject import Subject
from osgt.privacy import Charge
from osgt.sampling.entropy import token


@dataclass(frozen=True)
class Wish:
    """A release that is to be charged: what it takes out of the budget, whom it is about, and what is told of it."""

    charge: Charge
    subject: Subject
    query: str
    title: str | None
    epsilon: float | None
    delta: float | None

    def values(self) -> dict[str, Any]:
        """What its entry says of it."""
        return {
            "query": self.query,
            "title": self.title,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "charge": self.charge.to_dict(),
            "subject": self.subject.to_dict(),
        }


def reserve(accounts: Accounts, name: str, wish: Wish, actor: str | None) -> Reservation:
    """Charge a release, or raise BudgetExceeded, OtherSubjectError or LostAnswerError."""
    secret = token(16)
    values = {**wish.values(), "token_hash": _hashed(secret)}
    refused: list[Headroom] = []

    def work(connection: sa.Connection, head: Head, account: Account) -> Appended | None:
        account.owners.check(name, wish.subject)
        state = account.charged(wish.charge)
        if state is None:
            refused.append(Headroom.of(account))
            return None
        after: dict[str, Any]
        if isinstance(state, Planned):
            after = {"state": None, "share": min(state.figures()[0] / account.budget.epsilon, 1.0)}
        else:
            assert account.budget.shares is not None
            after = {"state": state.to_dict(), "share": filters.spent(state, account.budget.shares).share}
        return book.append(connection, head, "charge", {**values, **after}, actor=actor), state

    def reserved(lost: LostAnswerError | None = None) -> Reservation:
        try:
            with nothing_charged():
                sequence = accounts.append_once(name, work, partial(_charged_with, values["token_hash"]), lost)
        except LostAnswerError as error:
            told = str(error) if error is lost else _may_stand(accounts, name, error)
            raise LostAnswerError(told, again=Again(reserved)) from error
        if sequence is None:
            raise _exceeded(name, refused[-1], wish.charge)  # the lock is released
        return Reservation(name, sequence, wish.charge, secret, partial(end, accounts, name, sequence, actor))

    return reserved()


def check(accounts: Accounts, name: str, charge: Charge, subject: Subject) -> None:
    """Raise what `reserve` would raise now: BudgetExceeded or OtherSubjectError. Nothing is charged."""
    with nothing_charged(), accounts.lock:
        account = accounts.now(name)
        account.owners.check(name, subject)
        fits = account.charged(charge) is not None
        left = Headroom.of(account)
    if not fits:
        raise _exceeded(name, left, charge)


def _exceeded(name: str, left: Headroom, charge: Charge) -> BudgetExceeded:
    """The refusal, with what would fit, which takes a while to find."""
    factor = noise_factor(left, charge)
    return BudgetExceeded(refusal(name, left, charge, factor), dataset=name, noise_factor=factor)


def end(accounts: Accounts, name: str, sequence: int, actor: str | None, kind: str, values: dict[str, Any]) -> bool:
    """Settle or cancel the charge with this sequence number; False if that was done before."""
    _check_number(sequence)
    before: list[bool] = []

    def work(connection: sa.Connection, head: Head, account: Account) -> Appended | None:
        _check_charge(account, sequence)
        known = account.ends.get(sequence)
        if known == kind:
            before.append(True)
            return None  # an earlier attempt was committed, though its answer was lost
        if known is not None:
            raise ValueError(f"the charge {sequence} of data set {name!r} already has its end: {known}")
        more = dict(values)
        state = None
        if kind == "cancel":
            if _hashed(str(values["token"])) != account.charges[sequence].token_hash:
                raise ValueError(f"the charge {sequence} of data set {name!r} can be cancelled by its owner only")
            state = account.cancelled(sequence)
            more["state"] = None if state is None else state.to_dict()
        return book.append(connection, head, kind, more, actor=actor, refers_to=sequence), state

    def find(account: Account) -> int | None:
        return sequence if account.ends.get(sequence) == kind else None

    accounts.append_once(name, work, find, needs=sequence)
    return not before


def note(accounts: Accounts, name: str, sequence: int, text: str, actor: str | None) -> None:
    """Record a remark about the release with this sequence number."""
    _check_number(sequence)
    if not text.strip():
        raise ValueError("text must say something: it is recorded for ever")

    def work(connection: sa.Connection, head: Head, account: Account) -> tuple[Entry, None]:
        _check_charge(account, sequence)
        return book.append(connection, head, "note", {"text": text}, actor=actor, refers_to=sequence), None

    accounts.append(name, work, needs=sequence)


def _may_stand(accounts: Accounts, name: str, error: LostAnswerError) -> str:
    reason = str(error).rstrip(".")
    show = f"osgt ledger show {shlex.quote(accounts.database.name)} {shlex.quote(name)}"
    return f"{reason}. The charge may stand: see `{show}`. Nothing was read, and nothing may be released."


def _charged_with(token_hash: str, account: Account) -> int | None:
    """The sequence number of the charge with this token, if it stands."""
    return next((number for number, one in account.charges.items() if one.token_hash == token_hash), None)


def _check_number(sequence: object) -> None:
    if type(sequence) is not int:
        raise TypeError(f"entry must be the number of a release, got {sequence!r}; `osgt ledger show` lists them")


def _check_charge(account: Account, sequence: int) -> None:
    if sequence not in account.charges:
        raise ValueError(
            f"entry {sequence!r} of data set {account.name!r} is not a release; `osgt ledger show` lists their numbers"
        )


def _hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
