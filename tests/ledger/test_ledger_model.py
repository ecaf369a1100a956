"""Random sequences of everything that can be done to a ledger, against a model that is a list in memory."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

from charges import gaussian, laplace, osgt
from osgt import Ledger
from osgt.ledger import BudgetExceeded
from osgt.privacy import Charge

DELTA = 1e-6
KINDS = (laplace(0.4), gaussian(6, 2, 1e-8), osgt(8, 10, 3), gaussian(40, 1, 9e-8))
COMPOSITIONS = {"flights": "planned", "O'Hare; --": "adaptive"}
NAMES = st.sampled_from(list(COMPOSITIONS))


@cache
def composed_delta(counts, epsilon):
    """δ of so many charges of each kind."""
    charges = [charge for charge, count in zip(KINDS, counts, strict=True) for _ in range(count)]
    return Charge.compose(charges).delta(epsilon) if charges else 0.0


class LedgerMachine(RuleBasedStateMachine):
    """The model: for each data set its budget and the status of each charge."""

    reservations = Bundle("reservations")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="osgt-model-"))
        self.ledger = Ledger(self.folder / "budget.db")
        self.budgets = {}
        self.charges = {}
        self.heads = None

    @initialize()
    def first(self):
        self.open("flights", 3.0)

    @rule(name=NAMES, epsilon=st.sampled_from([1.0, 3.0]))
    def open(self, name, epsilon):
        if name in self.budgets and self.budgets[name] != epsilon:
            with pytest.raises(ValueError, match="open already"):
                self.ledger.open(name, epsilon=epsilon, delta=DELTA, composition=COMPOSITIONS[name])
            return
        self.ledger.open(name, epsilon=epsilon, delta=DELTA, composition=COMPOSITIONS[name])
        if name not in self.budgets:
            self.budgets[name], self.charges[name] = epsilon, []

    @rule(name=NAMES, epsilon=st.sampled_from([1.0, 2.0, 3.0]))
    def change(self, name, epsilon):
        if name in self.budgets:
            self.ledger.change_budget(name, epsilon=epsilon, delta=DELTA, reason="for a test")
            self.budgets[name] = epsilon

    def counts(self, name):
        standing = [charge["kind"] for charge in self.charges[name] if charge["status"] != "cancelled"]
        return tuple(standing.count(kind) for kind in range(len(KINDS)))

    @rule(target=reservations, name=NAMES, kind=st.integers(0, len(KINDS) - 1))
    def charge(self, name, kind):
        if name not in self.budgets:
            with pytest.raises(ValueError, match="no data set"):
                self.ledger.reserve(name, KINDS[kind], query="q")
            return multiple()
        counts = list(self.counts(name))
        counts[kind] += 1
        delta = composed_delta(tuple(counts), self.budgets[name])
        try:
            reservation = self.ledger.reserve(name, KINDS[kind], query="q")
        except BudgetExceeded:
            assert delta * 1.001 > DELTA or COMPOSITIONS[name] == "adaptive"
            return multiple()
        assert delta <= DELTA
        self.charges[name].append({"kind": kind, "status": "reserved"})
        return {"reservation": reservation, "charge": self.charges[name][-1], "read": False, "owner": self.ledger}

    @rule(held=reservations)
    def read(self, held):
        if held["charge"]["status"] == "reserved":
            held["reservation"].reading()
            held["read"] = True

    @rule(held=reservations)
    def settle(self, held):
        if held["charge"]["status"] != "reserved":
            with pytest.raises(ValueError, match="cannot settle"):
                held["reservation"].settle("hash")
            return
        held["reservation"].settle("hash")
        held["charge"]["status"] = "settled"

    @rule(held=reservations)
    def cancel(self, held):
        if held["read"] or held["charge"]["status"] != "reserved":
            with pytest.raises(ValueError, match="cannot cancel"):
                held["reservation"].cancel()
            return
        held["reservation"].cancel()
        held["charge"]["status"] = "cancelled"

    @rule()
    def crash(self):
        """The process is gone; a new one finds what was committed. (Old reservations go on as another process.)"""
        self.ledger = Ledger(self.folder / "budget.db")

    @rule()
    def keep_heads(self):
        self.heads = self.ledger.verify(self.heads).heads

    @invariant()
    def what_stands_is_what_the_model_says(self):
        for name in self.budgets:
            spent = self.ledger.spent(name)
            delta = composed_delta(self.counts(name), self.budgets[name])
            assert spent.releases == sum(self.counts(name))
            assert delta * (1 - 1e-3) <= spent.delta
            assert (spent.delta <= DELTA) <= (delta <= DELTA)
            statuses = [release.status for release in self.ledger.history(name)]
            assert statuses == [charge["status"] for charge in self.charges[name]]

    def teardown(self):
        assert self.ledger.verify(self.heads).ok
        shutil.rmtree(self.folder)


TestLedgerModel = LedgerMachine.TestCase
TestLedgerModel.settings = settings(max_examples=8, stateful_step_count=20)
