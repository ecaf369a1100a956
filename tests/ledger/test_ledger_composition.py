"""Planned composition: never below the exact one, hardly above it, and the budget is never exceeded."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st

from charges import gaussian, laplace, osgt
from osgt import OSGT, DiscreteOSGT, Ledger, PrivacyProfile
from osgt.calibration import Part
from osgt.ledger import BudgetExceeded
from osgt.privacy import Charge
from osgt.privacy.filters import planned
from osgt.privacy.filters.budget import new_budget
from osgt.privacy.filters.planned import Planned

SCALES = np.random.default_rng(3).uniform(20, 90, 60)


def unlike(count, scale_by=1.0):
    """Releases of which no two are alike."""
    generator = np.random.default_rng(5)
    for _ in range(count):
        shape, scale = generator.uniform(0.1, 3), scale_by * generator.uniform(60, 300)
        yield osgt(shape * scale, scale, int(generator.integers(1, 9)), 1e-12)


def stands(charges, epsilon=3.0, delta=1e-6):
    """The composition of these charges, added one by one."""
    result = Planned(new_budget(epsilon, delta, "planned"))
    for charge in charges:
        result = result.with_charge(charge)
    return result


def bounds(stood):
    """ε and δ by the running loss alone."""
    return (
        planned.epsilon_at(stood.running, stood.left, stood.budget.epsilon),
        stood.running.delta(stood.budget.epsilon) + float(stood.selection),
    )


@pytest.fixture
def plan(tmp_path):
    """A ledger with one planned data set."""
    with Ledger(tmp_path / "budget.db") as made:
        made.open("flights", epsilon=3, delta=1e-6, composition="planned")
        yield made


class TestAgainstOthers:
    def test_unlike_releases_against_dp_accounting(self):
        """The sum of unlike releases: both err upward, and the peer, on this grid, by more."""
        charges = [laplace(1 / s) if i % 2 else gaussian(s) for i, s in enumerate(SCALES)]
        interval = 1e-4
        theirs = None
        for i, s in enumerate(SCALES):
            one = (
                pld.from_discrete_laplace_mechanism(1 / s, value_discretization_interval=interval)
                if i % 2
                else pld.from_discrete_gaussian_mechanism(s, value_discretization_interval=interval)
            )
            theirs = one if theirs is None else theirs.compose(one)
        ours, _ = bounds(stands(charges))
        assert 0.99 < ours / theirs.get_epsilon_for_delta(1e-6) < 1 + 1e-6
        exact = Charge.compose(charges).epsilon(1e-6, slack=1e-6)
        assert exact * (1 - 1e-9) <= ours <= exact * 1.001

    @pytest.mark.parametrize(
        ("charges", "epsilon"),
        [
            # dp_accounting 0.6, value_discretization_interval = 1e-5, at δ = 1e-6
            ([laplace(0.1)] * 50, 3.172902734),
            ([laplace(0.2)] * 10 + [laplace(0.05)] * 20, 2.575056099),
        ],
        ids=["equal", "two kinds"],
    )
    def test_golden_values(self, charges, epsilon):
        assert stands(charges, epsilon=6.0).figures()[0] == pytest.approx(epsilon, rel=2e-5)
        assert Planned.of(new_budget(6, 1e-6, "planned"), charges).figures()[0] == pytest.approx(epsilon, rel=2e-5)

    @pytest.mark.parametrize(("epsilon", "delta"), [(3, 1e-6), (1, 1e-9), (0.5, 1e-3), (12, 1e-12)])
    def test_never_below_the_exact_composition(self, epsilon, delta):
        mu = planned.grid_for(float(epsilon), delta).step * planned.STEPS
        charges = []
        for i, charge in enumerate(unlike(24)):
            part = charge.profile.parts[0]
            factor = 0.3 * mu * math.sqrt(24) / math.sqrt(1 + i % 5)
            law = DiscreteOSGT.from_rates(part.noise.slope * factor, part.noise.curvature * factor**2)
            charges.append(Charge(PrivacyProfile(law, 1, part.coordinates), delta * 1e-6))
        quick_epsilon, quick_delta = bounds(stands(charges, float(epsilon), delta))
        exact = Charge.compose(charges)
        found = exact.delta(epsilon, slack=1e-5)
        assert found * (1 - 1e-5) <= quick_delta <= found * 1.05
        found = exact.epsilon(delta)
        assert found * (1 - 1e-4) <= quick_epsilon <= found * 1.003

    @settings(max_examples=25)
    @given(
        st.lists(
            st.tuples(st.floats(0.001, 3), st.floats(1.5, 500), st.integers(1, 40), st.booleans()),
            min_size=1,
            max_size=6,
        ),
        st.floats(0.1, 8),
        st.floats(-12, -2),
    )
    def test_upper_bound_for_any_releases(self, releases, epsilon, log_delta):
        charges = [
            Charge(PrivacyProfile((DiscreteOSGT if on_integers else OSGT)(shape * s, s), coordinates=n))
            for shape, s, n, on_integers in releases
        ]
        delta = 10.0**log_delta
        stood = stands(charges, epsilon, delta)
        exact = Charge.compose(charges).delta(epsilon, slack=1e-5)
        if stood.running is not None:
            assert bounds(stood)[1] >= exact * (1 - 1e-4)
        assert stood._fits(quick=True) <= (exact <= delta)
        assert stood._fits() <= (exact <= delta)


class TestBudget:
    @pytest.mark.parametrize("charge", [osgt(20, 25, 3, 1e-9), laplace(0.3), gaussian(9, 5)])
    def test_as_many_as_the_exact_composition_allows(self, plan, charge):
        count = 0
        with pytest.raises(BudgetExceeded):  # noqa: PT012
            while True:
                plan.reserve("flights", charge, query="q")
                count += 1
        assert Charge.compose([charge] * count).delta(3.0) <= 1e-6
        assert Charge.compose([charge] * (count + 1)).delta(3.0) > 1e-6
        basic = math.floor(3.0 / charge.epsilon(1e-6 - charge.selection_delta))
        assert count >= basic

    def test_many_unlike_releases(self, plan):
        """More kinds than are ever composed exactly: the budget holds, and what is given away for speed is little."""
        stood = []
        for charge in unlike(2000, scale_by=0.5):
            try:
                plan.reserve("flights", charge, query="q")
            except BudgetExceeded:
                break
            stood.append(charge)
        assert len(stood) > 2 * planned.EXACT_PARTS
        total = Charge.compose(stood)
        assert total.delta(3.0) <= 1e-6
        assert Charge.compose([*stood, charge]).delta(3.0) > 1e-6 * 0.98
        assert plan.spent("flights").epsilon == pytest.approx(total.epsilon(1e-6), rel=1e-3)

    def test_pure_budget(self, plan):
        plan.open("pure", epsilon=1, delta=0, composition="planned")
        for _ in range(4):
            plan.reserve("pure", laplace(0.25), query="q")
        assert plan.spent("pure").epsilon == 1
        for charge in (laplace(1e-9), gaussian(1e9)):
            with pytest.raises(BudgetExceeded):
                plan.reserve("pure", charge, query="q")
        assert plan.remaining("pure") == 0

    def test_basic_composition_to_the_last_bit(self, plan):
        """Pure losses that fill ε exactly have δ = 0, whatever a grid would say of them."""
        for _ in range(6):
            plan.reserve("flights", laplace(0.5), query="q")
        assert plan.spent("flights").delta == 0

    def test_selection_adds_up(self, plan):
        for _ in range(10):
            plan.reserve("flights", laplace(0.01, 1e-7), query="q")
        assert plan.spent("flights").delta >= 1e-6
        with pytest.raises(BudgetExceeded):
            plan.reserve("flights", laplace(0.01, 1e-12), query="q")


class TestRemaining:
    @pytest.mark.parametrize(
        "shape",
        [{}, {"coordinates": 8}, {"shift": 3, "coordinates": 2, "selection_share": 0.1, "delta": 1e-7}],
        ids=["one", "eight", "with selection"],
    )
    @pytest.mark.parametrize("composition", ["plan", "sqlite_ledger"])
    def test_what_remains_fits_and_more_does_not(self, request, composition, shape):
        ledger = request.getfixturevalue(composition)
        for charge in unlike(12):
            ledger.reserve("flights", charge, query="q")
        left = ledger.remaining("flights", **shape)
        assert 0 < left < 3
        coordinates, shift = shape.get("coordinates", 1), shape.get("shift", 1)
        delta, share = shape.get("delta", 1e-6), shape.get("selection_share", 0)

        def charge_at(epsilon):
            from osgt import calibrate  # noqa: PLC0415

            law = calibrate(epsilon, delta * (1 - share), shift=shift, coordinates=coordinates)
            return Charge(PrivacyProfile(law, shift, coordinates), delta * share)

        with pytest.raises(BudgetExceeded):
            ledger.reserve("flights", charge_at(1.01 * left), query="q")
        ledger.reserve("flights", charge_at(left), query="q")

    def test_of_an_untouched_budget_all_remains(self, plan, tmp_path):
        for shape in ({"coordinates": 4}, {"parts": [Part(1, 4), Part(50, 4)]}):
            assert plan.remaining("flights", **shape) == pytest.approx(3, rel=5e-3)
        # An adaptive budget keeps shares of δ for what may come.
        plan.open("adaptive", epsilon=3, delta=1e-6, selection_share=0)
        assert 0.93 * 3 < plan.remaining("adaptive", coordinates=4) <= 3

    def test_wrong_shapes(self, sqlite_ledger):
        with pytest.raises(ValueError, match="coordinates must be"):
            sqlite_ledger.remaining("flights", coordinates=0)
        with pytest.raises(ValueError, match="below 1"):
            sqlite_ledger.remaining("flights", selection_share=1)
