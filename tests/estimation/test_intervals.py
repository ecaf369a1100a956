"""Noise intervals: they cover what they say, for small groups and large, and are no wider than need be."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from goodness import FALSE_ALARM
from osgt import DiscreteOSGT
from osgt.estimation.intervals import Numbers, ratio_interval, variance_interval
from osgt.noise.error import Combination
from osgt.query.groups import STEPS
from osgt.query.measures import Centred, CentredOnAll, CentredSum, UnitsInAny
from osgt.release.measuring import noisy_numbers
from spies import people

GROUPS = 20_000


def alone(law):
    """The noise of a number that is measured as it is."""
    return Combination(((Fraction(1), law),))


PAIRS = [
    # Largest ratio, noise of the numerator, noise of the denominator.
    (1, DiscreteOSGT.laplace(0.5), DiscreteOSGT.laplace(0.5)),
    (1, DiscreteOSGT.gaussian(0.4), DiscreteOSGT.gaussian(0.4)),
    (2, DiscreteOSGT(3, 2), DiscreteOSGT(2, 1.5)),
    (5, DiscreteOSGT(3, 5), DiscreteOSGT(1, 1)),
    (1, DiscreteOSGT.laplace(4), DiscreteOSGT.laplace(4)),
    (64, DiscreteOSGT.laplace(3), DiscreteOSGT.laplace(0.3)),
    (64, DiscreteOSGT.gaussian(3), DiscreteOSGT.gaussian(5)),
    (1000, DiscreteOSGT.laplace(4000), DiscreteOSGT.laplace(4)),
]


class TestRatios:
    @pytest.mark.parametrize(("largest", "first", "second"), PAIRS, ids=repr)
    def test_exact_coverage(self, largest, first, second):
        """The interval around noisy numbers holds the true ratio with at least the confidence: by going through noise.

        Outcomes of both noises, as far as they have a probability that counts, for true numbers of every kind.
        """
        y2 = np.arange(-int(second.isf(1e-6)), int(second.isf(1e-6)) + 1)
        y1 = np.unique(np.round(first.ppf((np.arange(200) + 0.5) / 200))).astype(np.int64)
        small = first.isf(1e-6) <= 60
        if small:  # every outcome; else a few hundred that are equally probable
            y1 = np.arange(-int(first.isf(1e-6)), int(first.isf(1e-6)) + 1)
            p1 = first.pmf(y1)
        else:
            between = (y1[:-1] + y1[1:]) // 2
            p1 = np.diff(np.concatenate([[0.0], first.cdf(between), [1.0]]))
        probabilities = np.outer(p1, second.pmf(y2)).ravel()
        for count, confidence in ((1, 0.95), (7, 0.95), (7, 0.5)):
            for part in (-1.0, 0.6):
                total = round(part * largest * count)
                top = np.repeat(total + y1, len(y2))
                bottom = np.tile(count + y2, len(y1))
                numerator, denominator = Numbers(top, alone(first)), Numbers(bottom, alone(second))
                low, high = ratio_interval(numerator, denominator, largest, confidence)
                assert np.all(low <= high)
                ratio = total / count
                covered = probabilities[(low <= ratio + 1e-9) & (ratio - 1e-9 <= high)].sum()
                assert covered >= confidence - (1e-5 if small else 8e-3), (count, part)

    def test_the_hull_and_nothing_but_the_hull(self):
        """The ends are those of the set of ratios that fit, found here by trying many."""
        first, second, largest = DiscreteOSGT.laplace(20), DiscreteOSGT.laplace(4), 5
        rng = np.random.default_rng(1)
        top, bottom = rng.integers(-120, 121, 60), rng.integers(-25, 26, 60)
        low, high = ratio_interval(Numbers(top, alone(first)), Numbers(bottom, alone(second)), largest, 0.9)
        ratios = np.linspace(-largest, largest, 501)
        y2 = np.arange(-40, 41)
        p2 = second.pmf(y2)
        inside = np.zeros((60, len(ratios)), dtype=bool)
        for i, ratio in enumerate(ratios):
            residual = np.abs(top - ratio * bottom)
            # P[|Y₁ - ratio·Y₂| < residual]: below the confidence, the ratio fits
            upper = first.cdf(np.ceil(ratio * y2 + residual[:, None]) - 1)
            lower = first.cdf(np.floor(ratio * y2 - residual[:, None]))
            inside[:, i] = (upper - lower) @ p2 < 0.9
        some = inside.any(axis=1)
        assert some.sum() > 40
        first_fit, last_fit = ratios[inside.argmax(axis=1)], ratios[-1 - inside[:, ::-1].argmax(axis=1)]
        assert np.all(low[some] <= first_fit[some] + 0.021)
        assert np.all(high[some] >= last_fit[some] - 0.021)
        wide = np.mean((high - low)[some]) / np.mean((last_fit - first_fit)[some])
        assert wide < 1.15

    def test_large_groups_are_like_the_delta_method(self):
        """Where noise is small against the count, half the length is q/count with q the quantile of Y₁ - ρ·Y₂."""
        first, second, largest = DiscreteOSGT(3000, 2000), DiscreteOSGT(3, 2), 1000
        for part in (0.0, 0.5, 0.9):
            count, total = np.array([100_000]), np.array([int(part * largest * 100_000)])
            low, high = ratio_interval(Numbers(total, alone(first)), Numbers(count, alone(second)), largest, 0.95)
            std = math.sqrt(first.var() + (part * largest) ** 2 * second.var())
            assert (high - low)[0] / 2 <= 1.3 * stats.norm.isf(0.025) * std / 100_000


#: Values of a group, from 0 to 8: in the middle, spread, off the middle, at an end, all the same.
SHAPES = {
    "two ends": [0, 8],
    "around the middle": [2, 6, 4],
    "off the middle": [1, 2, 1, 3],
    "mostly at an end": [0, 0, 0, 8],
    "all in the middle": [4],
    "all at an end": [8],
}


class TestVariances:
    LAWS = DiscreteOSGT.laplace(3), DiscreteOSGT(20, 30), DiscreteOSGT(200, 300)
    SIZES = (0, 1, 3, 30, 300, 10_000)
    DRAWS = 4_000

    @pytest.fixture(scope="class")
    @staticmethod
    def groups():
        """Many groups of each shape and size: their noisy sums, and the variance of each."""
        sums, truth = ([], [], []), []
        for shape in SHAPES.values():
            for size in TestVariances.SIZES:
                z = 2 * np.resize(shape, size) - 8
                for noisy, law, number in zip(
                    sums, TestVariances.LAWS, (size, z.sum(), (2 * z * z - 64).sum()), strict=True
                ):
                    noisy.append(int(number) + law.sample(TestVariances.DRAWS))
                truth.append(z.var() if size else 0.0)
        return tuple(np.concatenate(each) for each in sums), np.array(truth)

    def measured(self, groups, confidence):
        """For each shape and size how often the interval holds the variance, and its mean length."""
        sums, truth = groups
        ends = variance_interval(*map(Numbers, sums, map(alone, self.LAWS)), 8, confidence)
        low, high = (end.reshape(-1, self.DRAWS) for end in ends)
        assert np.all((low >= 0) & (low <= high) & (high <= 64))
        hits = np.sum((low <= truth[:, None] + 1e-9) & (truth[:, None] - 1e-9 <= high), axis=1)
        form = len(SHAPES), len(self.SIZES)
        return hits.reshape(form), np.mean(high - low, axis=1).reshape(form)

    def too_few(self, hits, confidence):
        """The shapes and sizes with too few hits, at a false-alarm rate of 1e-9 over all confidences together."""
        return stats.binom.cdf(hits, self.DRAWS, confidence) < FALSE_ALARM / (3 * hits.size)

    @pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
    def test_coverage(self, groups, confidence):
        """At least what is asked for, in groups of every shape and size; where 50 % are asked for, below 90 %."""
        hits, lengths = self.measured(groups, confidence)
        assert not np.any(self.too_few(hits, confidence)), hits / self.DRAWS
        # A variance that is 0 or all there can be is at the end of its interval, which then errs to one side alone.
        inside = [i for i, name in enumerate(SHAPES) if not name.startswith("all")]
        if confidence == 0.5:
            assert np.max(hits[inside, -1]) < 0.9 * self.DRAWS
        for i, shape in enumerate(SHAPES.values()):
            for j, size in enumerate(self.SIZES[4:], start=4):
                assert lengths[i, j] < 1.05 * self.box_length(shape, size, confidence), (shape, size)

    def test_the_check_has_power(self, groups):
        """Intervals for 2 % are rejected where 50 % are asked for."""
        hits, _ = self.measured(groups, 0.02)
        assert np.any(self.too_few(hits, 0.5))

    def box_length(self, shape, size, confidence):
        """Mean length of the interval between variances at the corners of a box: count, sum and sum of squares are
        within their own intervals at once. An interval over all of the box is no shorter.
        """
        z = 2 * np.resize(shape, size) - 8
        halves = [alone(law).half_width(1 - (1 - confidence) / 3) for law in self.LAWS]
        truth = len(z), int(z.sum()), int((2 * z * z - 64).sum())
        sums = [number + law.sample(self.DRAWS) for number, law in zip(truth, self.LAWS, strict=True)]
        corners = []
        for signs in np.ndindex(3, 3, 3):
            n, s, t = (x + (sign - 1) * half for x, sign, half in zip(sums, signs, halves, strict=True))
            corners.append(np.clip((t / n + 64) / 2 - (s / n) ** 2, 0, 64))
        return float(np.mean(np.max(corners, axis=0) - np.min(corners, axis=0)))

    def test_nothing_is_known_of_a_group_that_may_be_empty(self):
        low, high = variance_interval(*map(Numbers, map(np.array, ([2], [0], [0])), map(alone, self.LAWS)), 6, 0.95)
        assert (low[0], high[0]) == (0.0, 36.0)

    def test_large_groups_get_narrow_intervals(self):
        z = np.array([-6, 6] * 50_000)
        sums = tuple(np.array([int(n)]) for n in (len(z), z.sum(), (2 * z * z - 36).sum()))
        low, high = variance_interval(*map(Numbers, sums, map(alone, self.LAWS)), 6, 0.95)
        assert high[0] == 36
        assert low[0] > 35.9


def test_half_widths_are_the_least():
    for law in (DiscreteOSGT(3, 5), DiscreteOSGT.laplace(0.3), DiscreteOSGT.gaussian(50)):
        for confidence in (0.5, 0.95, 0.9999):
            half = alone(law).half_width(confidence)
            assert 1 - 2 * law.sf(half) >= confidence * (1 - 1e-14)
            assert half == 0 or 1 - 2 * law.sf(half - 1) < confidence


class TestCoverage:
    """Through the plan, the noise and the columns of a release: many groups whose exact numbers are known."""

    @pytest.fixture(scope="class")
    @staticmethod
    def plan():
        query = people().group_by("city", max_groups=1, max_rows_per_group=1, public_keys=["a", "b"])
        query = query.count().sum("rides", (-3, 9)).mean("rides", (0, 8)).variance("rides", (0, 8))
        return query.plan(2, 1e-6)

    @staticmethod
    def columns(plan, values, confidence=0.95):
        """The released columns of many groups that each hold these values."""
        values = np.asarray(values)
        z = 2 * values - 8

        def rows(measure):
            """What each row adds."""
            if isinstance(measure, Centred):
                return measure.times * rows(measure.base) - measure.by * rows(measure.on)
            if type(measure) is CentredSum:
                low, high = measure.grid.low, measure.grid.high
                return 2 * np.clip(values, low, high) - low - high
            return {
                "Rows": np.ones_like(values),
                "Units": np.ones_like(values),
                "Values": np.ones_like(values),
                "ClippedSum": np.clip(values, -3, 9),
                "Squares": 2 * z * z - 64,
            }[type(measure).__name__]

        def number(measure):
            """The number in steps: each row is worth all of its unit's, and what it adds is rounded toward 0."""
            if isinstance(measure, UnitsInAny):
                return 3 * len(values)
            if isinstance(measure, CentredOnAll):
                return measure.times * number(measure.base) - measure.by * number(UnitsInAny())
            if not plan.groups.is_weighted(measure):
                return int(rows(measure).sum())
            return sum(int(np.sign(a)) * (STEPS * abs(int(a)) // measure.largest) for a in rows(measure))

        # Each group stands for a table of its own: what is measured for the table has noise of its own as well.
        _, noisy = noisy_numbers(plan, {measure: np.full((GROUPS, 1), number(measure)) for measure in plan.parts})
        answers = replace(plan.noisy(noisy, nonnegative=False), confidence=confidence)
        columns = {}
        for aggregate in plan.aggregates:
            columns |= {
                name: array.to_numpy(zero_copy_only=False) for name, array in aggregate.columns(answers).items()
            }
        return columns

    @pytest.mark.parametrize(
        "values",
        [[0], [8], [4], [0, 8], [8, 8, 8], [1, 2, 3, 4, 5], [8] * 40, [0, 8] * 100, [3] * 3000, [8] * 3000],
        ids=lambda values: f"{len(values)} values from {min(values)} to {max(values)}",
    )
    def test_coverage(self, plan, values):
        """At least nominal, at a false-alarm rate of 1e-9; the same test rejects it of 90 % intervals."""
        truths = {
            "count": len(values),
            "rides_sum": sum(values),
            "rides_mean": np.mean(values),
            "rides_variance": np.var(values),
        }
        columns = self.columns(plan, values)
        for name, truth in truths.items():
            low, value, high = columns[f"{name}_low"], columns[name], columns[f"{name}_high"]
            assert np.all(np.isnan(value) | ((low <= value) & (value <= high))), name  # no value where nothing is known
            hits = int(np.sum((low <= truth + 1e-9) & (truth - 1e-9 <= high)))
            assert stats.binomtest(hits, GROUPS, 0.95, alternative="less").pvalue > FALSE_ALARM, (name, hits / GROUPS)

    def test_the_check_has_power(self, plan):
        columns = self.columns(plan, [3] * 3000, confidence=0.9)
        for name, truth in (("count", 3000), ("rides_mean", 3)):
            hits = int(np.sum((columns[f"{name}_low"] <= truth) & (truth <= columns[f"{name}_high"])))
            assert stats.binomtest(hits, GROUPS, 0.95, alternative="less").pvalue < FALSE_ALARM, name

    def test_means_stay_within_their_bounds(self, plan):
        columns = self.columns(plan, [8])
        for name in ("rides_mean", "rides_mean_low", "rides_mean_high"):
            assert np.nanmin(columns[name]) >= 0
            assert np.nanmax(columns[name]) <= 8
        for name in ("rides_variance", "rides_variance_low", "rides_variance_high"):
            assert np.nanmin(columns[name]) >= 0
            assert np.nanmax(columns[name]) <= 16

    def test_intervals_of_large_groups_are_narrow(self, plan):
        """Against the delta method with normal noise: a mean at most 1.3 times as long, a variance at most 3 times."""
        values = [1, 3, 8] * 3000
        columns = self.columns(plan, values)
        noises = plan.noise.scheme.noises(plan.laws)
        laws = {type(asked).__name__: noise for asked, noise in noises.items()}
        z = 2 * np.asarray(values) - 8
        n, mean, mean_square = len(z), z.mean(), (2 * z * z - 64).mean()
        first = [-mean / n, 1 / n, 0]
        gradients = {"rides_mean": np.array(first) / 2}
        gradients["rides_variance"] = (np.array([-mean_square / n, 0, 1 / n]) / 2 - 2 * mean * np.array(first)) / 4
        for name, most in (("rides_mean", 1.3), ("rides_variance", 3)):
            stds = np.array([laws[kind].std() for kind in ("Values", "CentredSum", "Squares")])
            delta_method = stats.norm.isf(0.025) * math.sqrt(np.sum((gradients[name] * stds) ** 2))
            half = np.mean(columns[f"{name}_high"] - columns[f"{name}_low"]) / 2
            assert half <= most * delta_method, name
            assert half >= 0.9 * delta_method, name
