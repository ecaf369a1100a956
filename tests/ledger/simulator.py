"""A small world of processes that charge one SQLite ledger, release tables, and meet with every misfortune.

    PYTHONPATH=tests/helpers python tests/ledger/simulator.py 17    run number 17 again, and tell what happens

A run is a number: it decides every step. Two processes charge, read, publish, settle and cancel, also about parts of
the people, and publish the instalments of a series from two private folders; others are forked and die at some
statement, commit or file operation. Answers to commits are lost, the disk is full, a reader does not let
go, one process charges in the middle of another's transaction, clocks jump, the same message comes twice, an old copy
is put back with `restore` or without telling anybody, an entry is forged. The store is real, and so is each release:
what fails, fails at seams that exist (events of SQLAlchemy, file functions, the clock).

After every step the ledger is compared with what the processes were told. The budget is never exceeded, also by what an
old copy has forgotten; no output is without its charge; nothing is charged twice; what was refused is not charged; no
instalment is seen with two sets of numbers; and the chain can be verified. Else `Violation` is raised.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from charges import gaussian, laplace, osgt
from osgt import Dataset, Ledger
from osgt.api.memory import ForgottenError
from osgt.api.publish import publish
from osgt.api.series import Series
from osgt.ledger import (
    BudgetExceeded,
    DamagedLedgerError,
    HandedOutError,
    LedgerError,
    LostAnswerError,
    accounts,
)
from osgt.ledger.store import chain, database, schema
from osgt.privacy import Charge
from osgt.query.about import About
from osgt.query.file.reading import query_file_of
from osgt.release.measuring import Presentation
from osgt.render.published import with_descriptions
from osgt.support.files import Target, written

HELPERS = Path(__file__).parents[1] / "helpers"

DELTA = 1e-6
KINDS = (laplace(0.4), gaussian(6, 2, 1e-8), osgt(8, 10, 3), gaussian(40, 1, 9e-8))
COMPOSITIONS = {"flights": "planned", "O'Hare; --": "adaptive", "regions": "adaptive"}
PARTS = {"regions": {"north": "y > 0", "south": "y < 0"}}
BUDGETS = (1.0, 2.0, 3.0)
STEPS = 15

#: The data that are released, and the kind of charge of such a release.
DAYS = [date(2026, 1 + i % 3, 1) for i in range(40)]
ROWS = pa.table({"rider": [i % 40 for i in range(80)], "city": ["Bern", "Rome"] * 40, "day": DAYS * 2})
TABLE, SERIES = len(KINDS), len(KINDS) + 1

#: The series of a data set; the private folder and the files have the place in their names.
MONTHS, QUARTER = ("2026-01", "2026-02", "2026-03"), "2026-Q1"
PLACES = ("here", "elsewhere")
AFTERWARDS = date(2027, 1, 1)


class Violation(AssertionError):  # noqa: N818 - of what a ledger promises
    """A run in which the ledger did not keep its promise, with all that happened."""


@dataclass
class Request:
    """A release that somebody wanted to charge, and the statuses that it may have by what was told about it."""

    dataset: str
    kind: int
    may: set[str | None]
    part: str | None = None
    is_out: bool = False
    is_told: bool = False  # that it stands


@dataclass
class Process:
    """A process that has the ledger open, and its reservations that are not settled or cancelled."""

    ledger: Ledger
    held: list[tuple[str, Any]] = field(default_factory=list)
    unanswered: list[tuple[str, LostAnswerError]] = field(default_factory=list)


@dataclass
class Backup:
    """A copy of the ledger, and what was known when it was made."""

    path: Path
    requests: dict[str, set[str | None]]
    seen: set[str]
    budgets: dict[str, float]
    heads: dict[str, Any]


def people_of(dataset: str, part: str | None = "all") -> dict[str, Any]:
    """The arguments for whom a data set is about, and of a charge about a part of them; None: about everybody."""
    if dataset not in PARTS:
        return {}
    about = {} if part is None else {"parts": PARTS[dataset]}
    return {"unit": "rider", **about, **({} if part in (None, "all") else {"part": part})}


def query_of(**options: Any) -> Any:
    """The query of every release of a table."""
    data = Dataset(ROWS, privacy_unit="rider", **options)
    return data.group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["Bern"]).count()


@cache
def plan_of_table() -> Any:
    """The plan of every release of a table."""
    return query_of().plan(epsilon=0.4, delta=1e-9)


@cache
def plan_of_instalment() -> Any:
    """The plan of each instalment, of which a rider counts in one: another one than that of a table."""
    return query_of().plan(epsilon=0.3, delta=1e-9)


def series_of(folder: Path, place: str, dataset: str, ledger: Ledger) -> Series:
    """The series of a data set, as somebody publishes it who has a private folder at this place."""
    plain = {
        "data": {"source": str(folder / "rows.parquet"), "privacy_unit": "rider", "ledger": "-", "dataset": dataset},
        "groups": {"by": ["city"], "max_groups": 1, "max_rows_per_group": 1, "public_keys": ["Bern"]},
        "aggregates": [{"kind": "count"}],
        "budget": {"epsilon": 0.3, "delta": 1e-9},
        "series": {
            **{"column": "day", "from": MONTHS[0], "until": MONTHS[-1], "totals": ["quarter"]},
            "store": str(folder / place / dataset[:3]),
        },
        "output": {"out": str(folder / f"{dataset[:3]} {place} {{period}}.csv")},
    }
    return Series.of(query_file_of(plain), ledger)


@cache
def composed_delta(counts: tuple[int, ...], epsilon: float) -> float:
    """δ of so many charges of each kind, composed exactly: an oracle that knows nothing of ledgers."""
    kinds = (*KINDS, plan_of_table().charge, plan_of_instalment().charge)
    charges = [charge for charge, count in zip(kinds, counts, strict=True) for _ in range(count)]
    return Charge.compose(charges).delta(epsilon) if charges else 0.0


# Misfortunes


@contextlib.contextmanager
def lost_answers(ledger: Ledger, cut: str, cuts: int) -> Iterator[None]:
    """Let commits fail that write something: after they are made ("answer"), or instead ("question")."""
    dialect = ledger._database.engine().dialect
    commit, left, changes = dialect.do_commit, [cuts], {}

    def cutting(connection: Any) -> None:
        before = changes.get(id(connection), 0)
        changes[id(connection)] = connection.total_changes
        if left[0] == 0 or connection.total_changes <= before:
            return commit(connection)
        left[0] -= 1
        if cut == "answer":
            commit(connection)
        raise sqlite3.OperationalError("disk I/O error")

    with patch.object(dialect, "do_commit", cutting):
        yield


@contextlib.contextmanager
def full_disk(ledger: Ledger) -> Iterator[None]:
    """Let the file of the ledger grow no more."""

    def allow(pages: str) -> None:
        raw = ledger._database.engine().raw_connection()
        raw.driver_connection.execute(f"PRAGMA max_page_count = {pages}")
        raw.close()

    with contextlib.closing(sqlite3.connect(ledger.name)) as other:
        size = other.execute("PRAGMA page_count").fetchone()[0]
    allow(size)
    try:
        yield
    finally:
        allow("1073741823")


@contextlib.contextmanager
def slow_reader(ledger: Ledger) -> Iterator[None]:
    """Let somebody read the file who does not come to an end."""
    with contextlib.closing(sqlite3.connect(ledger.name)) as reader:
        cursor = reader.execute("SELECT * FROM osgt_entries")
        cursor.fetchone()
        yield
        cursor.fetchall()


@contextlib.contextmanager
def at_moment(moment: int, act: Callable[[], None], engine: Any = sa.Engine) -> Iterator[Callable[..., None]]:
    """Do something at a statement, a commit or the beginning of a transaction, counted from here."""
    count = 0

    def step(*_arguments: Any, **_more: Any) -> None:
        nonlocal count
        count += 1
        if count == moment:
            act()

    names = ("before_cursor_execute", "after_cursor_execute", "commit", "begin")
    for name in names:
        sa.event.listen(engine, name, step)
    try:
        yield step
    finally:
        for name in names:
            sa.event.remove(engine, name, step)


class CutOff(BaseException):
    """The end of what somebody does, in the middle of it."""


@contextlib.contextmanager
def cut_off(moment: int) -> Iterator[None]:
    """Let whatever is done end at a file operation, counted from here."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1
        if count == moment:
            raise CutOff

    with contextlib.ExitStack() as stack:
        for function in ("fsync", "link", "replace", "open", "unlink"):
            stack.enter_context(patch.object(os, function, _stepping(getattr(os, function), step)))
        yield


class Clock(datetime):
    """A clock that jumps."""

    jump = timedelta(0)

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(tz) + cls.jump


class World:
    """One run."""

    def __init__(self, number: int, folder: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self.random, self.tell = random.Random(number), tell
        self.folder = folder
        self.path, self.out = folder / "budget.db", folder / "out"
        self.out.mkdir()
        pq.write_table(ROWS, folder / "rows.parquet")
        self.shown: dict[tuple[str, str], bytes] = {}  # the files of instalments, as they were seen first
        self.log: list[str] = []
        self.requests: dict[str, Request] = {}
        self.backups: list[Backup] = []
        self.lost: set[str] = set()  # data sets that count as spent
        self.seen: set[str] = set()  # requests whose charges were seen to stand
        self.forgotten: list[Request] = []  # were out, and an old copy was restored since
        with Ledger(self.path) as ledger:
            for name, composition in COMPOSITIONS.items():
                ledger.open(name, epsilon=BUDGETS[-1], delta=DELTA, composition=composition, **people_of(name))
            self.heads: dict[str, Any] | None = ledger.verify().heads
        self.budgets = dict.fromkeys(COMPOSITIONS, BUDGETS[-1])
        self.processes = [Process(Ledger(self.path)) for _ in range(2)]

    def run(self) -> None:
        """Take all steps, and check after each."""
        acts = {
            self.charge: 8, self.publish: 3, self.instalments: 2, self.old_folder: 1,
            self.go_on: 3, self.settle: 2, self.cancel: 2, self.ask_again: 1,
            self.die: 3, self.restart: 1, self.change_budget: 1, self.jump: 1, self.back_up: 1, self.restore: 1,
            self.roll_back: 1, self.forge: 1, self.open_again: 1,
        }  # fmt: skip
        for _ in range(STEPS):
            (act,) = self.random.choices([*acts], [*acts.values()])
            try:
                act()
                self.check()
            except Exception as error:
                if isinstance(error, AssertionError):
                    words = f"{type(error).__name__}: {error}"
                else:
                    words = f"an error that nobody expects: {error!r}"
                raise Violation("\n".join([*self.log, words])) from error
        self.close()

    def close(self) -> None:
        """Close what is open."""
        for process in self.processes:
            process.ledger.close()

    def say(self, words: str) -> None:
        """Note what happens."""
        self.log.append(words)
        self.tell(words)

    # What processes do

    def new_request(self, kind: int | None = None) -> tuple[str, Request]:
        """Begin with another release."""
        name = f"request {len(self.requests)}"
        dataset = self.random.choice([*COMPOSITIONS])
        part = self.random.choice([None, *PARTS[dataset]]) if dataset in PARTS and kind is None else None
        self.requests[name] = Request(dataset, self.random.randrange(TABLE) if kind is None else kind, {None}, part)
        return name, self.requests[name]

    @contextlib.contextmanager
    def misfortune(self, process: Process) -> Iterator[None]:
        """Let something go wrong, or not."""
        ledger = process.ledger
        faults = [
            lambda: lost_answers(ledger, self.random.choice(["answer", "question"]), self.random.choice([1, 1, 2, 9])),
            lambda: full_disk(ledger),
            lambda: slow_reader(ledger),
            lambda: self.meanwhile(process),
            *[contextlib.nullcontext] * 5,
        ]
        place = self.random.randrange(len(faults))
        self.say(f"  with {['lost answers', 'a full disk', 'a slow reader', 'others between', 'luck'][min(place, 4)]}")
        with faults[place]():
            yield

    @contextlib.contextmanager
    def meanwhile(self, process: Process) -> Iterator[None]:
        """Let the other process charge at some moment within what this one does."""
        (other,) = (each for each in self.processes if each is not process)

        def act() -> None:
            self.reserve(other, *self.new_request())

        with at_moment(self.random.randrange(1, 30), act, process.ledger._database.engine()):
            yield

    def charge(self) -> None:
        """Reserve."""
        process = self.random.choice(self.processes)
        name, request = self.new_request()
        self.say(f"charge {name} of {request.dataset}")
        with self.misfortune(process):
            self.reserve(process, name, request)

    def reserve(self, process: Process, name: str, request: Request, again: LostAnswerError | None = None) -> None:
        """Ask for a charge, or for one again whose answer was lost."""
        text = name + " " * 20_000 * (self.random.random() < 0.3)
        ask = (
            again.reserve
            if again
            else partial(
                process.ledger.reserve,
                request.dataset,
                KINDS[request.kind],
                query=text,
                actor="somebody",
                **people_of(request.dataset, request.part),
            )
        )
        try:
            reservation = ask()
        except LostAnswerError as error:
            process.unanswered.append((name, error))
            request.may = {None, "reserved"}
        except BudgetExceeded:
            self.check_refusal(request)
            request.may = {None}
        except LedgerError as error:
            says_so(error)
            request.may = {None}
        else:
            request.may, request.is_told = {"reserved"}, True
            process.held.append((name, reservation))
        self.say(f"  {name}: {request.may}")

    def check_refusal(self, request: Request) -> None:
        """Check that a planned charge was not refused that would have fitted."""
        if request.dataset in self.lost or COMPOSITIONS[request.dataset] == "adaptive":
            return
        counts = [*self.counts(request.dataset, surely=False)]
        counts[request.kind] += 1
        assert composed_delta(tuple(counts), self.budgets[request.dataset]) * 1.001 > DELTA, "refused, but it fits"

    def publish(self) -> None:
        """Release a table into a file, as commands and pages do."""
        process = self.random.choice(self.processes)
        name, request = self.new_request(TABLE)
        self.say(f"publish {name} of {request.dataset}")
        with self.misfortune(process):
            self.release(process.ledger, name, request)
        self.say(f"  {name}: {request.may}, {'out' if request.is_out else 'not out'}")

    def release(self, ledger: Ledger, name: str, request: Request) -> None:
        """Release, and tell from the outcome what may stand."""
        query = query_of(ledger=ledger, dataset=request.dataset)
        named = patch("osgt.api.publish._title", lambda _: name)  # by which the entry is known
        place = self.out / f"{name}.csv"
        try:
            with named:
                targets = with_descriptions({"out": Target(place)})
                outcome = publish(query, plan_of_table(), targets, About(), Presentation())
        except LostAnswerError:
            request.may = {None, "reserved"}
        except BudgetExceeded:
            self.check_refusal(request)
        except LedgerError as error:
            says_so(error)
        else:
            request.may = {"settled"} if outcome.left_to_do is None else {"reserved", "settled"}
            request.is_told = True
        finally:
            query.dataset.close()
        request.is_out = place.exists()

    def instalments(self) -> None:
        """Publish what is due of a series, from one of two private folders; files that are out may be taken away."""
        process, place = self.random.choice(self.processes), self.random.choice(PLACES)
        dataset = self.random.choice([name for name in COMPOSITIONS if name not in PARTS])
        name = f"series of {dataset}"
        request = self.requests.setdefault(name, Request(dataset, SERIES, {None}))
        before, moment = set(request.may), self.random.choice([0, 0, self.random.randrange(1, 200)])
        self.say(f"publish the {name} {place}, until moment {moment}")
        period = self.random.choice([None, *MONTHS, QUARTER])
        try:
            with self.misfortune(process), cut_off(moment), patch("osgt.api.series.title_of", lambda _: name):
                series = series_of(self.folder, place, dataset, process.ledger)
                for one in series.publish(AFTERWARDS, only=period):
                    self.say(f"  {one.period}: {one.status}")
        except BudgetExceeded:
            self.check_refusal(request)
        except (CutOff, LedgerError, LostAnswerError) as error:
            self.say(f"  {type(error).__name__}")
            request.may = before | {"reserved", "settled"}
        except (ForgottenError, HandedOutError, FileExistsError) as error:
            self.say(f"  {type(error).__name__}")
            request.may = {"reserved", "settled"}
        else:
            request.may, request.is_told = {"reserved", "settled"}, True
        self.look_at_instalments(dataset, take=self.random.random() < 0.3)

    def look_at_instalments(self, dataset: str, *, take: bool) -> None:
        """See every file of a series that is out: of one month, and of the quarter, there is one set of numbers."""
        for place in PLACES:
            for month in (*MONTHS, QUARTER):
                path = self.folder / f"{dataset[:3]} {place} {month}.csv"
                if path.exists():
                    content = path.read_bytes()
                    assert self.shown.setdefault((dataset, month), content) == content, f"{month} is out twice: {path}"
                    self.requests[f"series of {dataset}"].is_out = True
                    if take:
                        path.unlink()

    def old_folder(self) -> None:
        """Keep a copy of the private folders, or put one back."""
        place, copy = self.random.choice(PLACES), self.folder / "copy of folders"
        if not copy.exists():
            self.say("copy the private folders")
            copy.mkdir()
            for each in PLACES:
                (self.folder / each).mkdir(exist_ok=True)
                shutil.copytree(self.folder / each, copy / each)
        else:
            self.say(f"put the private folder {place} back")
            shutil.rmtree(self.folder / place)
            shutil.copytree(copy / place, self.folder / place)

    def pick(self) -> tuple[Process, str, Any] | None:
        """A reservation that a process has."""
        held = [(process, *one) for process in self.processes for one in process.held]
        return self.random.choice(held) if held else None

    def go_on(self) -> None:
        """Read, and write an output."""
        if picked := self.pick():
            _, name, reservation = picked
            self.say(f"go on with {name}")
            request = self.requests[name]
            try:
                reservation.reading()
            except ValueError:
                assert reservation.state != "reserved"
                return
            request.is_out = True

    def settle(self) -> None:
        """Settle, also twice, and by another process."""
        if picked := self.pick():
            process, name, reservation = picked
            self.say(f"settle {name}")
            request = self.requests[name]
            with self.misfortune(process):
                self.end(request, partial(reservation.settle, "hash"), "settled")
            if reservation.state == "settled" and self.random.random() < 0.5:
                other = self.random.choice(self.processes).ledger
                self.end(request, partial(other.settle, request.dataset, reservation.sequence), "settled")

    def cancel(self) -> None:
        """Take a charge back; refused after it was read."""
        if picked := self.pick():
            process, name, reservation = picked
            self.say(f"cancel {name}, which is {reservation.state}")
            request = self.requests[name]
            is_read = reservation.state in ("reading", "settled")
            with self.misfortune(process):
                try:
                    self.end(request, reservation.cancel, "cancelled")
                except ValueError:
                    assert reservation.state not in ("reserved", "cancelling") or request.may != {"reserved"}
                else:
                    assert not is_read, "a charge was taken back after the data were read"

    def end(self, request: Request, act: Callable[[], Any], status: str) -> None:
        """End a charge, and tell from the outcome how it may stand."""
        try:
            act()
        except LostAnswerError:
            request.may |= {status}
        except LedgerError:
            pass
        except ValueError:
            if status == "cancelled":
                raise
        else:
            request.may = {status}
        self.say(f"  {request.may}")

    def ask_again(self) -> None:
        """Ask again for what was not answered; there is one reservation for one charge."""
        process = self.random.choice(self.processes)
        if not process.unanswered:
            return
        name, error = process.unanswered.pop()
        self.say(f"ask again for {name}")
        with self.misfortune(process):
            self.reserve(process, name, self.requests[name], again=error)
        if self.requests[name].may == {"reserved"}:
            with contextlib.suppress(ValueError):
                error.reserve()
                raise Violation("one charge, two reservations")

    def die(self) -> None:
        """Release in a process that is killed at some moment."""
        name, request = self.new_request()
        moment, gives_up = self.random.randrange(1, 70), self.random.random() < 0.3
        self.say(f"{name} of {request.dataset} in a process that dies at moment {moment}")
        status = mortal().live(self.path, self.out, request.dataset, request.kind, request.part, name, moment, gives_up)
        if status not in (0, -signal.SIGKILL):
            raise Violation(f"a process came to another end: {status}")
        request.is_out = (self.out / f"{name}.csv").exists()
        request.may = {"reserved", "settled"} if request.is_out else {"reserved", "cancelled", None}
        self.say(f"  {'killed' if status else 'not killed'}, {'out' if request.is_out else 'not out'}")

    def restart(self) -> None:
        """End a process, with all that it has."""
        self.say("restart")
        place = self.random.randrange(2)
        self.processes[place].ledger.close()
        self.processes[place] = Process(Ledger(self.path))

    def restart_all(self) -> None:
        """End all processes: the file is another one."""
        self.close()
        self.processes = [Process(Ledger(self.path)) for _ in range(2)]

    def change_budget(self) -> None:
        """Give a data set another budget."""
        name, epsilon = self.random.choice([*COMPOSITIONS]), self.random.choice(BUDGETS)
        self.say(f"budget of {name}: {epsilon}")
        if name not in self.lost:
            self.random.choice(self.processes).ledger.change_budget(name, epsilon=epsilon, delta=DELTA, reason="r")
            self.budgets[name] = epsilon

    def open_again(self) -> None:
        """Open what is open, with another budget."""
        name, epsilon = self.random.choice([*COMPOSITIONS]), self.random.choice(BUDGETS)
        self.say(f"open {name} with {epsilon}")
        with contextlib.ExitStack() as stack:
            if epsilon != self.budgets[name]:
                stack.enter_context(refused("open already"))
            ledger = self.random.choice(self.processes).ledger
            ledger.open(name, epsilon=epsilon, delta=DELTA, composition=COMPOSITIONS[name], **people_of(name))

    def jump(self) -> None:
        """Set the clock."""
        Clock.jump = timedelta(days=self.random.randrange(-4000, 4000))
        self.say(f"the clock jumps by {Clock.jump}")

    # Copies

    def back_up(self) -> None:
        """Make a copy."""
        self.say("backup")
        path = self.folder / f"backup-{len([*self.folder.glob('backup-*.db')])}.db"
        self.processes[0].ledger.backup(path)
        may = {name: set(request.may) for name, request in self.requests.items()}
        self.backups.append(Backup(path, may, set(self.seen), dict(self.budgets), self.heads))

    def restore(self) -> None:
        """Put a copy in the place of the ledger, with the latest heads or without."""
        if not self.backups:
            return
        backup, knows = self.random.choice(self.backups), self.random.random() < 0.8
        self.say(f"restore {backup.path.name} {'with' if knows else 'without'} heads")
        heads = self.heads if knows else None
        self.processes[0].ledger.restore(backup.path, heads=heads, charges_unknown=not knows, reason="r")
        self.restart_all()
        for name in COMPOSITIONS:
            if not knows or self.heads[name] != backup.heads[name]:
                self.lost.add(name)
        for name, request in self.requests.items():
            if name in self.seen and name not in backup.requests:
                self.forgotten.append(request)
            request.may = set(backup.requests.get(name, {None}))
        self.seen, self.budgets, self.heads = set(backup.seen), dict(backup.budgets), None
        self.backups = [backup]

    def roll_back(self) -> None:
        """Put a copy in its place without telling anybody, and the ledger back again after somebody has noticed."""
        if not self.backups:
            return
        backup = self.random.choice(self.backups)
        self.say(f"{backup.path.name} is put in the place of the ledger")
        behind = [name for name in COMPOSITIONS if self.heads[name] != backup.heads[name] and name not in self.lost]
        # Who charged since, and was told so, notices it; that the ledger was restored since is no charge.
        since = {name: charges(self.path, name) - charges(backup.path, name) for name in behind}
        charged = [
            name
            for name, entries in since.items()
            if any(self.requests[text].is_told or self.requests[text].is_out for _, text in entries)
        ]
        with self.another_file() as ledger:
            shutil.copy(backup.path, self.path)
            assert not behind or not ledger.verify(self.heads).ok, "a copy that lacks entries counts as whole"
            for name in charged:
                self.is_damaged(ledger, name)

    def forge(self) -> None:
        """Write a charge anew that leaves more of the budget than it does, with hashes that fit."""
        name = [*COMPOSITIONS][1]
        self.say(f"a charge of {name} is forged")
        with self.another_file(keep=True) as ledger:
            if forge_last_charge(self.path, name):
                assert not ledger.verify().ok, "a forged state was verified"
                with patch.object(accounts.checkpoint, "last_seen", lambda *_: None):
                    self.is_damaged(ledger, name)

    @contextlib.contextmanager
    def another_file(self, *, keep: bool = False) -> Iterator[Ledger]:
        """Move the ledger away, or a copy of it, for a while in which another file is in its place."""
        self.close()
        away = self.folder / "away.db"
        shutil.copy(self.path, away) if keep else self.path.rename(away)
        try:
            with Ledger(self.path) as ledger:
                yield ledger
        finally:
            away.replace(self.path)
            self.restart_all()

    def is_damaged(self, ledger: Ledger, name: str) -> None:
        """Check that nothing can be charged."""
        try:
            ledger.reserve(name, laplace(1e-3), query="of a false file")
        except DamagedLedgerError:
            return
        raise Violation(f"{name}: a charge to a file that is not the ledger")

    # What must be so

    def delta(self, dataset: str) -> float:
        """Compose what must count against the budget, for those of whom most is charged."""
        parts = [None, *PARTS.get(dataset, ())]
        counts = [self.counts(dataset, surely=True, part=part) for part in parts]
        return max(composed_delta(each, self.budgets[dataset]) for each in counts)

    def counts(self, dataset: str, *, surely: bool, part: str | None = None) -> tuple[int, ...]:
        """Count the charges of each kind that stand about a part: all that may, or what must count."""
        standing = [
            request
            for name, request in self.requests.items()
            if request.dataset == dataset and (name in self.seen if surely else request.may - {None, "cancelled"})
        ]
        standing += [request for request in self.forgotten if request.dataset == dataset]
        own = [request for request in standing if request.part in (None, part)]
        return tuple(sum(request.kind == kind for request in own) for kind in range(SERIES + 1))

    def check(self) -> None:
        """Compare the ledger with what the processes were told."""
        with Ledger(self.path) as ledger:
            result = ledger.verify(self.heads)
            assert result.ok, result.problems
            for name in COMPOSITIONS:
                self.check_one(name, ledger)
            self.heads = result.heads

    def check_one(self, dataset: str, ledger: Ledger) -> None:
        """Compare one data set."""
        statuses: dict[str, str] = {}
        for record in ledger.history(dataset):
            text = request_of(record)
            assert text not in statuses, f"{text} was charged twice"
            assert self.requests[text].dataset == dataset
            statuses[text] = record.status
        grew = False
        for name, request in self.requests.items():
            if request.dataset != dataset:
                continue
            status = statuses.get(name)
            assert status in request.may, f"{name} is {status}, and may be {request.may}"
            is_charged = status in ("reserved", "settled")
            is_covered = is_charged or (request in self.forgotten and dataset in self.lost)
            assert is_covered or not request.is_out, f"{name} is out, but not charged"
            request.may = {status} | ({"settled"} & request.may if status == "reserved" else set())
            if any(name == one for process in self.processes for one, _ in process.unanswered) and status is None:
                request.may = {None, "reserved"}
            grew |= is_charged and name not in self.seen
            self.seen = self.seen | {name} if is_charged else self.seen - {name}
        if grew:
            assert dataset not in self.lost, f"{dataset}: a charge after charges were lost"
            delta = self.delta(dataset)
            assert delta <= DELTA, f"{dataset}: the budget is exceeded, δ = {delta}"
        spent = ledger.spent(dataset)
        assert dataset in self.lost or spent.delta >= self.delta(dataset) * (1 - 1e-3), "more is spent than it says"
        assert spent.releases == sum(status != "cancelled" for status in statuses.values())
        if dataset in self.lost:
            assert spent.share == 1, f"{dataset}: charges were lost, and the budget is not spent"


@contextlib.contextmanager
def refused(words: str) -> Iterator[None]:
    """Expect a ValueError with these words."""
    try:
        yield
    except ValueError as error:
        if words in str(error):
            return
        raise
    raise Violation(f"nobody said: {words}")


def says_so(error: LedgerError) -> None:
    """Check that an error says that nothing was charged."""
    assert "Nothing was charged" in str(error), error


def _stepping(function: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    """A file function that may be the last one that is called, or the one before it."""

    def stepping(*arguments: Any, **more: Any) -> Any:
        step()
        result = function(*arguments, **more)
        step()
        return result

    return stepping


def forge_last_charge(path: Path, dataset: str) -> bool:
    """Let the last entry of a data set, if it is a charge, say that nothing was spent."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        head = connection.execute(
            "SELECT number, head_sequence FROM osgt_datasets WHERE name = ?", [dataset]
        ).fetchone()
        one = "FROM osgt_entries WHERE dataset = ? AND sequence = ?"
        kind, content, previous = connection.execute(f"SELECT kind, content, previous_hash {one}", head).fetchone()
        values = json.loads(content)
        if kind != "charge" or values["state"] is None:
            return False
        values["state"] |= {"pure": "0", "few": "0", "renyi": "0"}
        content = chain.canonical(values)
        hash_ = chain.hash_of(previous, content)
        for guard in schema._SQLITE_GUARDS:
            connection.execute(f"DROP TRIGGER {guard}")
        connection.execute(
            "UPDATE osgt_entries SET content = ?, hash = ? WHERE dataset = ? AND sequence = ?", [content, hash_, *head]
        )
        connection.execute("UPDATE osgt_datasets SET head_hash = ? WHERE number = ?", [hash_, head[0]])
        for guard in schema._SQLITE_GUARDS:
            connection.execute(schema._sqlite_statement(guard))
        connection.commit()
    return True


def request_of(record: Any) -> str:
    """The request that a charge in the ledger is of."""
    return str(record.title or record.query.strip()).removesuffix(f", {len(MONTHS)} instalments")


def charges(path: Path, name: str) -> set[tuple[int, str]]:
    """The entries of all charges of a data set in a file, and the requests that they are of."""
    with Ledger(path) as ledger:
        return {(record.sequence, request_of(record)) for record in ledger.history(name)}


def simulate(number: int, tell: Callable[[str], None] = lambda _: None) -> None:
    """Run the world of this number; Violation if the ledger does not keep its promise."""
    with tempfile.TemporaryDirectory(prefix="osgt-world-") as folder, contextlib.ExitStack() as stack:
        Clock.jump = timedelta(0)
        stack.enter_context(patch.dict(os.environ, {"XDG_STATE_HOME": f"{folder}/state"}))
        stack.enter_context(patch.object(database, "PATIENCE", 0.02))
        stack.enter_context(patch.object(accounts, "PAUSES", (0.0, 0.0)))
        stack.enter_context(patch.object(chain, "datetime", Clock))
        try:
            World(number, Path(folder), tell).run()
        except Violation as violation:
            raise Violation(f"run {number}\n{violation}") from violation


class Mortal:
    """A process that makes processes to be killed: it has but one thread, so that it can fork."""

    def __init__(self) -> None:
        folder = Path(__file__).parent
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.environ.get("PYTHONPATH", ""), str(HELPERS)])}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(folder / "simulator.py"), "mortal"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def live(self, path: Path, out: Path, *life: Any) -> int:
        """Let a process live, and return how it ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = [str(path), str(out), os.environ["XDG_STATE_HOME"], *life]
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@cache
def mortal() -> Mortal:
    """The one that all runs use."""
    return Mortal()


def live_and_die() -> None:
    """Fork a process for each order, and tell how it ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BudgetExceeded, LedgerError):
                live(*json.loads(line))
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def live(
    path: str, out: str, state: str, dataset: str, kind: int, part: str | None, name: str, moment: int, gives_up: bool
) -> None:
    """Release, or reserve and cancel, and die at that moment: a statement, a commit or a file function."""
    os.environ["XDG_STATE_HOME"] = state
    with at_moment(moment, lambda: os.kill(os.getpid(), signal.SIGKILL)) as step, contextlib.ExitStack() as stack:
        for function in ("fsync", "link", "replace", "open", "unlink"):
            stack.enter_context(patch.object(os, function, _stepping(getattr(os, function), step)))
        with Ledger(path) as ledger:
            reservation = ledger.reserve(dataset, KINDS[kind], query=name, **people_of(dataset, part))
            if gives_up:
                reservation.cancel()
                return
            reservation.reading()
            with written(Target(f"{out}/{name}.csv")) as place:
                place.write_text(str(reservation.sequence))
            reservation.settle("hash")


if __name__ == "__main__":
    if sys.argv[1:] == ["mortal"]:
        live_and_die()
    else:
        for given in sys.argv[1:]:
            simulate(int(given), print)
