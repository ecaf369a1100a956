"""What a process checks of the residue before it charges: a bound for every entry, a proof for some."""

import math

import numpy as np
import pytest
from test_ledger_chain import written_anew

from charges import laplace, osgt
from osgt import DiscreteOSGT, Ledger, PrivacyProfile
from osgt.ledger import DamagedLedgerError, account
from osgt.privacy import Charge
from osgt.privacy.filters import costs, residue, union
from osgt.privacy.filters.budget import shares_for
from osgt.privacy.filters.union import FilterState, plausible

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
SHARES = shares_for(3.0, 1e-6)


def random_charge(generator):
    """Noise of any shape, half of it large, so that a sequence of them ends after some dozens."""
    scale = math.exp(generator.uniform(math.log(20), math.log(400)))
    slope = generator.choice([0.0, generator.uniform(0.1, 3)])
    coordinates = int(generator.integers(1, 9))
    if generator.random() < 0.2:
        return laplace(generator.uniform(0.005, 0.1))
    return Charge(PrivacyProfile(DiscreteOSGT(slope * scale, scale), coordinates=coordinates), 1e-11)


@pytest.mark.parametrize("charges", [150, pytest.param(2_000, marks=pytest.mark.long)])
def test_no_honest_state_is_rejected(charges):
    generator = np.random.default_rng(20)
    state, lengths, length = FilterState.start(SHARES), [], 0
    for _ in range(charges):
        charge = random_charge(generator)
        moved = state.try_charge(charge)
        if moved is None:
            lengths.append(length)
            state, length = FilterState.start(SHARES), 0
            continue
        assert plausible(state, charge, moved)
        assert union.follows(state, charge, moved)
        state, length = moved, length + 1
    assert lengths, "budgets were used up, too"


@pytest.mark.parametrize(
    ("charge", "least", "most"),
    [(laplace(0.1), 1.1, 1.2), (osgt(75, 50, 8), 1.0, 1.03)],
    ids=["laplace", "eight coordinates"],
)
def test_what_the_bound_alone_would_leave_to_a_forger(charge, least, most):
    """docs/ledger.md tells these factors: how many times as many equal charges the bound would let through."""
    parts = charge.profile.parts
    bound = 2 * costs.renyi_divergence(parts, SHARES.order) / (1 + SHARES.order)
    price = residue.price(parts, 3.0, SHARES.gaussian, residue.start(3.0, SHARES.gaussian))
    assert least <= price / bound <= most


def test_residues_within_the_bound_are_found_by_a_new_process(tmp_path):
    """Every residue is forged as far as the bound allows: each draw finds one."""
    charge = laplace(0.1)
    square = residue.start(3.0, SHARES.gaussian) ** 2
    bound = 2 * costs.renyi_divergence(charge.profile.parts, SHARES.order) / (1 + SHARES.order) * (1 + 1e-7)
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("flights", **BUDGET)
        for _ in range(account.SAMPLE + 2):
            ledger.reserve("flights", charge, query="q")

        def forge(values):
            if values["kind"] == "charge":
                values["state"]["mu"] = math.sqrt(square - (values["sequence"] - 1) * bound)

        written_anew(ledger, forge)
        assert not ledger.verify().ok
    with Ledger(tmp_path / "budget.db") as other, pytest.raises(DamagedLedgerError, match="was forged"):
        other.reserve("flights", charge, query="q")


def test_the_draws_differ(tmp_path, monkeypatch):
    """A forger must not know which entries are proved again."""
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("flights", **BUDGET)
        for _ in range(account.SAMPLE + 8):
            ledger.reserve("flights", osgt(3_000, 2_000), query="q")
    seen, follows = [], union.follows

    def noted(before, charge, after):
        seen[-1].append(before.mu)
        return follows(before, charge, after)

    monkeypatch.setattr(union, "follows", noted)
    for _ in range(3):
        seen.append([])
        with Ledger(tmp_path / "budget.db") as other:
            other.spent("flights")
    # Two draws of 32 out of 40 hit the same entries with a probability below 1e-9.
    assert seen[0] != seen[1] != seen[2]
    assert all(1 <= len(each) <= account.SAMPLE for each in seen)
