"""No mass is lost where losses are cut, added up and made coarser, and what is rounded is rounded up.

Floats are fractions, so sums and products of masses are compared exactly: as fractions, or in ball arithmetic where
there are exponentials. P-masses add up to 1, and so do Q-masses, which are P-masses times exp(-loss).
"""

import itertools
import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from osgt import DiscreteOSGT
from osgt.privacy import loss_distribution
from osgt.privacy.filters import costs
from osgt.privacy.grid import GridLoss, _from_atoms, coarsen, compose, cut, split
from osgt.privacy.pair import POSITION_ERROR, atoms, integers, pair_of

NOISE = [
    (DiscreteOSGT(3, 6), 1),
    (DiscreteOSGT(20, 9), 4),
    (DiscreteOSGT.gaussian(5), 2),
    (DiscreteOSGT.from_rates(0.3, 0.0), 3),
]
#: Integers beyond this have less than 1e-40 of the mass, or the largest loss.
REACH = 400
#: The rounding of a few products, which `Composed.log_delta` allows for.
FEW = 2.0**-47


@pytest.fixture(autouse=True)
def digits():
    with ctx.workprec(400):
        yield


def potential(noise, k):
    k = abs(int(k))
    return arb(noise.slope) * k + arb(noise.curvature) * k * k / 2


def exact_masses(noise, shift):
    """P-mass and Q-mass of every integer."""
    p = {k: (-potential(noise, k)).exp() for k in range(-REACH - shift, REACH + shift + 1)}
    total = sum(p.values(), arb(0))
    return {k: (p[k] / total, p[k + shift] / total) for k in range(-REACH - shift, REACH + 1)}


def surely_at_least(value, exact):
    """Whether a float is at least a number that a ball encloses; balls of 400 bits are much narrower than floats."""
    return arb(float(value)) >= exact - abs(exact) * arb(2) ** -200


def exact_sum(masses, step, start, exponent):
    """Σ mass·exp(exponent·loss), as a ball."""
    losses = (arb(step) * (start + i) for i in range(len(masses)))
    return sum((arb(float(m)) * (exponent * at).exp() for m, at in zip(masses, losses, strict=True)), arb(0))


class TestRoundingUp:
    """The masses and shares of cells and of atoms are at least the exact ones, and hardly larger."""

    @pytest.mark.parametrize(("noise", "shift"), NOISE)
    @pytest.mark.parametrize("step", [0.013, 0.11])
    def test_cells(self, noise, shift, step):
        pair = pair_of(noise, shift)
        end = math.floor(min(3.0, 0.95 * pair.largest_loss) / step)
        grid = np.arange(-end, end + 1) * step
        edges = pair.edges(grid)
        log_p, share = split(pair, edges, grid, precise=False)
        exact, filled = exact_masses(noise, shift), 0
        for i, (low, high) in enumerate(itertools.pairwise(edges)):
            inside = [exact[k] for k in range(math.floor(low) + 1, math.floor(high) + 1)]
            if not inside:
                continue
            p, q = (sum(column, arb(0)) for column in zip(*inside, strict=True))
            assert surely_at_least(log_p[i], p.log())
            assert log_p[i] <= float(p.log()) + 1e-9
            below, above = arb(float(grid[i])), arb(float(grid[i + 1]))
            exact_share = (1 - below.exp() * q / p) / (1 - (below - above).exp())
            assert share[i] == 1 or surely_at_least(share[i], exact_share)
            filled += 1
        assert filled >= 2

    @pytest.mark.parametrize(("noise", "shift"), NOISE)
    def test_atoms(self, noise, shift):
        pair = pair_of(noise, shift)
        first, last = integers(pair, -2.5, 2.5)
        result, exact = atoms(pair, first, last), exact_masses(noise, shift)
        assert last - first >= 3
        below = sum((p for k, (p, _) in exact.items() if k <= first), arb(0))
        above = sum((p for k, (p, _) in exact.items() if k > last), arb(0))
        at_end = pair.largest_loss <= 2.5
        wanted = [below, *(exact[k][0] for k in range(first + 1, last)), exact[last][0] + (above if at_end else 0)]
        for log_p, p in zip(result.log_p, wanted, strict=True):
            assert surely_at_least(log_p, p.log())
            assert log_p <= float(p.log()) + 1e-11
        assert at_end or surely_at_least(result.log_beyond, above.log())
        lost = arb(1) - sum((arb(float(log_p)).exp() for log_p in result.log_p), arb(0))
        assert surely_at_least(math.exp(result.log_beyond) * (1 + 1e-14), lost)

    @pytest.mark.parametrize(("noise", "shift"), NOISE)
    @pytest.mark.parametrize("step", [0.0071, 0.3, 2.0**-7, 0.25])
    def test_shares_of_atoms(self, noise, shift, step):
        """An atom between two grid points hands enough to the upper one: its Q-mass does not grow.

        Where the step is a power of two its place is exact, and the share must be rounded up by itself.
        """
        pair = pair_of(noise, shift)
        first, last = (round(loss / step) for loss in (-2.0, 2.0))
        shares = _from_atoms(pair, step, 1.0, first, last)
        lowest, highest = integers(pair, first * step, last * step)
        losses = atoms(pair, lowest, highest).losses
        for place, share, loss in zip(shares.place, shares.share, losses, strict=True):
            # Positions are exact to this, which `Composed.loss_error` allows for.
            error = POSITION_ERROR * (pair.kink + abs(loss))
            above = arb(float(loss)) - arb(step) * (first + int(place))
            if above > arb(float(error)):
                above -= 0 if math.frexp(step)[0] == 0.5 else arb(float(error))
                assert share == 1 or surely_at_least(share, (1 - (-above).exp()) / (1 - (-arb(step)).exp()))


@pytest.mark.parametrize(("noise", "shift"), NOISE)
@pytest.mark.parametrize("theta", [0.4, 5.0])
@pytest.mark.parametrize(("step", "precise"), [(0.004, True), (0.004, False), (0.09, False)])
def test_cutting_keeps_both_masses(noise, shift, theta, step, precise):
    pair = pair_of(noise, shift)
    loss, log_factor, log_beyond = cut(pair, step, theta, -6.0, 6.0, precise=precise)
    margin = FEW * (1 + theta * 6.0 + abs(log_factor))
    factor, beyond = arb(log_factor).exp(), arb(log_beyond).exp() if log_beyond > -math.inf else arb(0)
    p = exact_sum(loss.masses, loss.step, loss.start, arb(-theta)) * factor
    above = arb(loss.lost) * factor * (-arb(theta) * loss.step * (loss.start + len(loss.masses) - 1)).exp()
    assert float(p + beyond + above) >= 1 - margin
    assert float(p) <= 1 + 1e-10
    q = exact_sum(loss.masses, loss.step, loss.start, arb(-theta - 1)) * factor
    assert float(q) <= 1 + margin
    lowest = -6.0 - step
    lifted = sum((q for k, (_, q) in exact_masses(noise, shift).items() if pair.loss(np.array(k)) < lowest), arb(0))
    assert float(q + lifted) >= 1 - 1e-8 - math.exp(-5.9)


def test_what_lies_above_the_window_is_counted():
    """`lost` holds at least the tilted mass above the window."""
    noise, shift, theta = DiscreteOSGT.gaussian(5), 2, 3.0
    pair = pair_of(noise, shift)
    for step in (0.002, 0.05):
        loss, log_factor, log_beyond = cut(pair, step, theta, -3.0, 0.9, precise=False)
        top = loss.step * (loss.start + len(loss.masses) - 1)
        above = [(float(pair.loss(np.array(k))), p) for k, (p, _) in exact_masses(noise, shift).items()]
        tilted = sum((p * arb(theta * at).exp() for at, p in above if at > top), arb(0)) / arb(log_factor).exp()
        assert float(tilted) * (1 - 1e-9) <= loss.lost + math.exp(log_beyond) <= 3 * float(tilted) + 1e-12


def some_loss(generator, *, start, size, step=0.02, lost=0.0, total=1.0, shape="bell"):
    masses = generator.random(size) + 0.1
    if shape != "bell":
        masses = np.exp(-0.7 * np.arange(size)) * masses
    masses *= total / masses.sum()
    return GridLoss(step, start, masses[:: -1 if shape == "falling down" else 1].copy(), lost, 0.0)


@pytest.mark.parametrize("theta", [0.0, 0.3, 4.0])
@pytest.mark.parametrize(("start", "size"), [(-7, 20), (-8, 21), (3, 8), (0, 1)])
@pytest.mark.parametrize("step", [0.01, 0.4])
def test_a_coarser_grid_keeps_both_masses(theta, start, size, step):
    loss = some_loss(np.random.default_rng(size), start=start, size=size, step=step, lost=1e-7)
    coarse = coarsen(loss, theta)
    assert coarse.step == 2 * step
    for exponent in (arb(-theta), arb(-theta - 1)):
        before = exact_sum(loss.masses, loss.step, loss.start, exponent)
        after = exact_sum(coarse.masses, coarse.step, coarse.start, exponent)
        assert abs(float((after - before) / before)) <= 2.0**-50
    # The largest growth of a tilted mass: that of one at an odd point, whose parts go up and down.
    up = 1 / (1 + (-arb(step)).exp())
    growth = up * (arb(theta) * step).exp() + (1 - up) * (-arb(theta) * step).exp()
    assert coarse.lost >= loss.lost * float(growth) * (1 - 2.0**-50)
    if size > 1:
        assert coarse.spread > loss.spread


def convolved(losses, copies):
    """Exact masses of the sum by index, as fractions."""
    total = {0: Fraction(1)}
    for loss, n in zip(losses, copies, strict=True):
        for _ in range(n):
            more = defaultdict(Fraction)
            for (i, a), (j, b) in itertools.product(total.items(), enumerate(loss.masses)):
                more[i + loss.start + j] += a * Fraction(float(b))
            total = more
    return total


def missing(exact, result):
    """Mass that a result has too little of, all places together."""
    has = {result.start + i: Fraction(float(mass)) for i, mass in enumerate(result.masses)}
    return sum(max(mass - has.get(i, Fraction(0)), Fraction(0)) for i, mass in exact.items())


COMPOSITIONS = [
    ([(-4, 9, "bell", 0.0, 1.0)], [3]),
    ([(-4, 9, "bell", 1e-5, 1.0), (-2, 6, "bell", 2e-5, 1.0)], [2, 3]),
    ([(-3, 8, "bell", 1e-4, 1.3)], [5]),
    ([(-3, 8, "bell", 1e-4, 0.7)], [5]),
    ([(0, 30, "falling", 0.0, 1.0)], [4]),
    ([(-30, 30, "falling down", 0.0, 1.0)], [4]),
]


@pytest.mark.parametrize(("rows", "copies"), COMPOSITIONS)
@pytest.mark.parametrize("tolerance", [1e-40, 1e-9, 1e-3])
def test_what_a_composition_lacks_is_counted(rows, copies, tolerance):
    generator = np.random.default_rng(5)
    losses = [
        some_loss(generator, start=start, size=size, shape=shape, lost=lost, total=total)
        for start, size, shape, lost, total in rows
    ]
    result = compose(losses, copies, tolerance)
    lacking = missing(convolved(losses, copies), result)
    # Of what was lost in one of them: all products in which it occurs.
    whole, kept = Fraction(1), Fraction(1)
    for loss, n in zip(losses, copies, strict=True):
        total = sum(Fraction(float(mass)) for mass in loss.masses)
        whole, kept = whole * (total + Fraction(loss.lost)) ** n, kept * total**n
    assert lacking > 0
    assert result.lost * (1 + 1e-12) >= whole - kept + lacking
    assert result.lost <= 5 * float(whole - kept) + 3 * tolerance + 1e-11


class TestOfFilters:
    """Rows that are added up by direct convolution: every mass is at least the exact one."""

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("tail", [1e-30, 1e-4])
    def test_sums(self, seed, tail):
        generator = np.random.default_rng(seed)
        a = some_loss(generator, start=-9, size=25, lost=1e-6)
        b = some_loss(generator, start=2, size=40, lost=3e-6, shape="falling")
        result, exact = costs._sum(a, b, tail), convolved([a, b], [1, 1])
        for i, mass in enumerate(result.masses):
            assert Fraction(float(mass)) >= exact[result.start + i]
        total = sum(map(Fraction, result.masses.tolist())) + Fraction(result.lost)
        assert total >= sum(exact.values()) + Fraction(a.lost) + Fraction(b.lost)
        assert float(total) <= float(sum(exact.values())) + a.lost + b.lost + 1e-13
        assert result.lost <= (a.lost + b.lost + tail) * (1 + 1e-14)

    def test_what_is_lost_adds_up(self):
        generator = np.random.default_rng(3)
        for lost in generator.random((20, 2)) * 1e-6:
            a, b = (some_loss(generator, start=0, size=5, lost=each) for each in lost)
            assert Fraction(costs._sum(a, b, 1e-30).lost) >= Fraction(a.lost) + Fraction(b.lost)

    def test_a_low_end_moves_up(self):
        masses = np.exp(-0.5 * (np.arange(-60.0, 61.0) / 6) ** 2)
        one = GridLoss(0.02, -60, masses / masses.sum(), 0.0, 0.0)
        result, exact = costs._sum(one, one, 1e-30), convolved([one], [2])
        assert result.start > min(exact)
        first = sum(mass for i, mass in exact.items() if i <= result.start)
        assert Fraction(float(result.masses[0])) >= first

    @pytest.mark.parametrize("n", [1, 2, 5, 7, 12])
    @pytest.mark.parametrize("level", [0, 1, 3])
    def test_copies(self, n, level):
        one = some_loss(np.random.default_rng(n), start=-8, size=17, step=0.002, lost=1e-9)
        result = costs._times(one, n, level, 1e-20)
        assert result.step == one.step * 2**level
        total = sum(map(Fraction, result.masses.tolist())) + Fraction(result.lost)
        mass = sum(map(Fraction, one.masses.tolist()))
        assert total >= mass**n
        assert float(total - mass**n) <= n * 1e-9 * 1.01 + 1e-12
        assert result.lost >= n * one.lost
        q = exact_sum(one.masses, one.step, one.start, arb(-1)) ** n
        coarse = exact_sum(result.masses, result.step, result.start, arb(-1))
        assert abs(float(coarse / q) - 1) < 1e-11

    @pytest.mark.parametrize("step", [0.0013, 0.21])
    def test_a_coarser_grid(self, step):
        """Every mass is at least the exact one: odd points go to their neighbours."""
        up = 1 / (1 + (-arb(step)).exp())
        for seed in range(5):
            one = some_loss(np.random.default_rng(seed), start=-8, size=17, step=step)
            result, fine = costs._coarser(one), [0, *one.masses, 0]
            for i, mass in enumerate(result.masses):
                below, own, above = (arb(float(m)) for m in fine[2 * i : 2 * i + 3])
                assert surely_at_least(mass, own + below * up + above * (1 - up))

    @pytest.mark.parametrize(("noise", "shift"), NOISE)
    def test_a_coordinate(self, noise, shift):
        pair = pair_of(noise, shift)
        loss = costs._cut(pair, 0.01, -2.0, 2.0)
        assert sum(map(Fraction, loss.masses.tolist())) + Fraction(loss.lost) >= 1
        assert math.fsum(loss.masses) <= 1 + 1e-10
        above = sum((p for k, (p, _) in exact_masses(noise, shift).items() if pair.loss(np.array(k)) > 2.02), arb(0))
        assert surely_at_least(loss.lost, above) or pair.largest_loss <= 2.02


class TestOfListedSums:
    @staticmethod
    def some(seed, size=30):
        generator = np.random.default_rng(seed)
        losses = np.sort(generator.choice(np.arange(-60, 60), size, replace=False)) / 32.0
        masses = generator.random(size)
        return loss_distribution.Sums(losses, masses / masses.sum(), 1e-9, 2.0**-53)

    @pytest.mark.parametrize("seed", range(4))
    def test_sums_of_two(self, seed):
        """Equal sums are one, at the larger loss; masses are right to the error that is told."""
        a, b = self.some(seed), self.some(seed + 100)
        result, exact = a.plus(b), defaultdict(Fraction)
        for (x, p), (y, q) in itertools.product(
            zip(a.losses, a.masses, strict=True), zip(b.losses, b.masses, strict=True)
        ):
            exact[float(x + y)] += Fraction(float(p)) * Fraction(float(q))
        assert sorted(exact) == result.losses.tolist()
        for loss, mass in zip(result.losses.tolist(), result.masses.tolist(), strict=True):
            assert Fraction(mass) * (1 + Fraction(result.rounding)) >= exact[loss]
        assert result.beyond >= a.beyond + b.beyond
        assert result.rounding < 1e-13

    @pytest.mark.parametrize("least", [1e-30, 0.02, 0.2])
    def test_trimming_loses_nothing(self, least):
        one = self.some(3)
        result = one.trimmed(least)
        total = sum(map(Fraction, one.masses.tolist())) + Fraction(one.beyond)
        after = sum(map(Fraction, result.masses.tolist())) + Fraction(result.beyond)
        assert after * (1 + Fraction(result.rounding)) >= total
        assert abs(float(after - total)) < 1e-14
        assert result.beyond <= one.beyond + least
        for loss in one.losses:  # what lies above a loss grows, never shrinks
            above = math.fsum(one.masses[one.losses >= loss]) + one.beyond
            assert math.fsum(result.masses[result.losses >= loss]) + result.beyond >= above * (1 - 1e-14)

    @pytest.mark.parametrize("seed", range(4))
    def test_running_sums_are_rounded_apart(self, seed):
        """P-masses from each sum on are rounded up, Q-masses down."""
        one = self.some(seed, 60)
        p, q = loss_distribution._from_each_on(one)
        for i in range(61):
            assert Fraction(float(p[i])) >= sum(map(Fraction, one.masses[i:].tolist()))
            exact = sum((arb(m) * (-arb(x)).exp() for m, x in zip(one.masses[i:], one.losses[i:], strict=True)), arb(0))
            assert arb(float(q[i])) <= exact + arb(2) ** -200
            assert float(q[i]) >= float(exact) * (1 - 1e-13)
