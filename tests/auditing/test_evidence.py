"""Evidence: exact on small numbers, valid at any time, and with the power that it says."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from osgt.auditing.canaries import guesses_of, least_epsilon
from osgt.auditing.canaries import p_value as one_run_p_value
from osgt.auditing.evidence import Claim, Counts, log_against, log_against_cells, log_against_line, log_mean, p_value


def counts(learned, learned_draws, judged, judged_draws):
    return Counts(np.atleast_1d(learned), learned_draws, np.atleast_1d(judged), judged_draws)


@pytest.mark.parametrize(("learned", "of", "p"), [(0, 0, 0.3), (3, 10, 0.5), (9, 10, 0.02)])
def test_the_mean_under_the_truth_is_one(learned, of, p):
    """Σ over all outcomes of probability times evidence, at several numbers of draws: a martingale that starts at 1."""
    for n in (1, 2, 7, 30):
        k = np.arange(n + 1)
        logs = log_against(counts(np.full(n + 1, learned), of, k, n), np.full(n + 1, p))
        assert np.sum(stats.binom.pmf(k, n, p) * np.exp(logs)) == pytest.approx(1, rel=2e-3)


def test_the_mean_over_cells_is_one():
    p, n = np.array([0.5, 0.3, 0.2]), 6
    total = 0.0
    for outcome in itertools.product(range(n + 1), repeat=3):
        if sum(outcome) == n:
            log = log_against_cells(counts(np.array([4, 1, 0]), 5, np.array(outcome), n), p)
            total += stats.multinomial.pmf(outcome, n, p) * math.exp(log)
    assert total == pytest.approx(1, rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.2])
def test_the_least_over_a_claim(epsilon, delta):
    """Against a general minimiser over the same set."""
    for k, n, h, m in ((50, 60, 3, 70), (10, 60, 30, 70), (1, 500, 0, 400), (60, 60, 20, 70), (0, 9, 0, 9)):
        first, second = counts(k // 2, n // 2, k, n), counts(h // 2, m // 2, h, m)

        def cost(x, k=k, n=n, h=h, m=m):
            p, q = np.clip(x, 1e-12, 1 - 1e-12)
            return -(k * math.log(p) + (n - k) * math.log1p(-p) + h * math.log(q) + (m - h) * math.log1p(-q))

        starts = [
            (0.01, 0.5),
            (0.3, 0.3),
            (0.001, 0.001),
            ((k + 0.5) / (n + 1), (h + 0.5) / (m + 1)),
            (min(0.9, math.exp(epsilon) * 0.2), 0.2),
        ]
        inside = {"type": "ineq", "fun": lambda x: math.exp(epsilon) * x[1] + delta - x[0]}
        least = min(
            found.fun
            for start in starts
            for found in [minimize(cost, start, bounds=[(1e-12, 1 - 1e-12)] * 2, constraints=inside, method="SLSQP")]
            if found.success and inside["fun"](found.x) > -1e-9
        )
        expected = float(first.explained[0] + second.explained[0] + least)
        assert float(log_against_line(first, second, epsilon, delta)[0]) == pytest.approx(expected, abs=0.02)


def test_a_true_claim_is_rarely_refuted_however_often_one_looks():
    """Randomised response on the line, looked at after every batch: 400 runs at α = 5 %.

    The number of alarms is at most binomial(400, 0.05); more than 60 have a probability below 1e-11.
    """
    rng, epsilon = np.random.default_rng(), 0.7
    p = 1 / (1 + math.exp(-epsilon))
    claim, runs = Claim.of(epsilon, 0.0), 400
    hits = [np.cumsum(rng.binomial(50, each, size=(12, runs)), axis=0) for each in (p, 1 - p)]
    alarmed = np.zeros(runs, dtype=bool)
    for i in range(1, 12):
        first, second = (Counts(h[0], 50, h[i] - h[0], 50 * i) for h in hits)
        alarmed |= claim.log_evidence(first, second) >= -math.log(0.05)
    assert np.count_nonzero(alarmed) <= 60
    # Power: the same claim for a smaller ε is refuted by nearly every such run that is longer.
    less = Claim.of(0.5 * epsilon, 0.0)
    first, second = (counts(round(500 * each), 500, round(5000 * each), 5000) for each in (p, 1 - p))
    assert p_value(float(less.log_evidence(first, second)[0])) < 1e-20


def test_a_curve_allows_what_its_profile_allows():
    from osgt import OSGT, PrivacyProfile  # noqa: PLC0415

    profile = PrivacyProfile(OSGT.gaussian(2.0))
    claim = Claim.of(None, None, profile)
    share = np.array([0.01, 0.2, 0.5, 0.9])
    assert np.all(claim.most(share) >= 1 - profile.tradeoff(share) - 1e-9)
    assert claim.most(share) == pytest.approx(1 - profile.tradeoff(share), abs=2e-3)


def test_limits_are_where_the_evidence_is_enough():
    for found in (counts(3, 10, 30, 100), counts(0, 0, 0, 50), counts(5, 5, 20, 20)):
        (low,), (high,) = found.limits(0.01)
        assert low <= found.judged[0] / found.judged_draws <= high
        for end in (low, high):
            if 0 < end < 1:
                assert log_against(found, np.array([end]))[0] == pytest.approx(math.log(100), abs=1e-6)
    # With a guess from a quarter of the draws, they are hardly wider than those for a number of draws fixed before.
    low, high = counts(30_000, 100_000, 90_000, 300_000).limits(1e-6)
    fixed = stats.binomtest(90_000, 300_000).proportion_ci(1 - 1e-6, method="exact")
    assert (high - low)[0] < 1.2 * (fixed.high - fixed.low)


def test_limits_hold_at_any_time():
    """1,000 runs that are looked at 40 times, at 5 %: more than 95 misses have a probability below 1e-8."""
    rng, runs, p = np.random.default_rng(), 1000, 0.2
    hits, missed = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=bool)
    sizes = np.unique(np.geomspace(1, 5000, 40).astype(int))
    for before, now in itertools.pairwise([0, *sizes]):
        hits += rng.binomial(now - before, p, runs)
        low, high = Counts(np.zeros(runs, dtype=np.int64), 0, hits, int(now)).limits(0.05)
        missed |= (p < low) | (p > high)
    assert 0 < np.count_nonzero(missed) <= 95


def test_log_mean():
    assert log_mean([0.0, math.log(3)]) == pytest.approx(math.log(2))
    assert log_mean([-1e9, 1000.0]) == pytest.approx(1000 - math.log(2))


class TestOneRun:
    def test_the_example_of_the_paper(self):
        assert one_run_p_value(100, 100, 75, math.log(3), 0.0) == pytest.approx(0.553, abs=1e-3)

    @pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
    def test_holds_for_an_algorithm_that_uses_up_its_budget(self, delta):
        """With probability δ a coin is given away, else told by randomised response: right answers are binomial."""
        m, epsilon = 40, 0.8
        right = delta + (1 - delta) / (1 + math.exp(-epsilon))
        for v in range(m + 1):
            assert stats.binom.sf(v - 1, m, right) <= one_run_p_value(m, m, v, epsilon, delta) + 1e-12

    @pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.02])
    @pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
    def test_holds_where_several_coins_are_given_away_at_once(self, delta, epsilon):
        """With probability m·δ/i a random set of i coins is given away, so each with probability δ; in all cases exact.

        That is as bad as it can be but for a factor of about two: the bound is used up to a half where it matters.
        """
        m, nearest = 60, 0.0
        q = 1 / (1 + math.exp(-epsilon))
        v = np.arange(m + 1)
        bound = np.array([one_run_p_value(m, m, each, epsilon, delta) for each in v])
        for i in range(1, m + 1):
            chance = min(1.0, m * delta / i)
            right = (1 - chance) * stats.binom.sf(v - 1, m, q) + chance * stats.binom.sf(v - i - 1, m - i, q)
            assert np.all(right <= bound + 1e-15)
            nearest = max(nearest, float(np.max((right / bound)[bound < 0.5], initial=0)))
        assert nearest > 0.4 or delta > 1e-3

    def test_the_term_of_delta(self):
        """Written out: 2mδ·max over i of P[v > W ≥ v - i]/i."""
        m, r, v, epsilon, delta = 30, 20, 17, 0.5, 1e-4
        w = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
        most = max((w.cdf(v - 1) - w.cdf(v - i - 1)) / i for i in range(1, v + 1))
        assert one_run_p_value(m, r, v, epsilon, delta) == pytest.approx(w.sf(v - 1) + 2 * m * delta * most)

    def test_guesses(self):
        scores, inside = np.arange(8.0), np.arange(8) >= 3
        assert guesses_of(scores, inside, 0.5) == (4, 4)
        assert guesses_of(scores, inside, 1.0) == (8, 7)
        assert least_epsilon(np.arange(400.0), np.arange(400) >= 200, 0.0, 1e-9) > 1.5
        assert least_epsilon(np.arange(400.0), np.arange(400) % 2 == 0, 1e-6, 1e-9) == 0
