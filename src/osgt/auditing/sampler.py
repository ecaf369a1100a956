"""The sampler: draws against the probabilities of their distribution, in the middle, in the tails and bit by bit."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.evidence import Counts, count_hits, log_against, log_against_cells, log_mean, p_value
from osgt.auditing.result import Budget, Check, Finding
from osgt.noise import IntegerDistribution
from osgt.support.numeric import Floats, Integers

Sampler = Callable[[int], NDArray[np.int64]]

#: Cells in the middle, of equal probability; beyond them each is half as probable as the one before.
_MIDDLE = 64

#: Pairs of neighbours (2i, 2i + 1) around zero whose ratio is looked at.
_PAIRS = 64

#: Scales up to which the probabilities of odd numbers are added up; beyond, they are ½ to ten digits.
_ADDED_UP = 1e4

#: Spans of values of which each is counted by itself, which is ten times faster than a search for its cell.
_SPAN = 1 << 16

#: The part of the draws that is learned from, how many are counted at a time, and the fewest.
_LEARNED, _BATCH, _FEWEST = 0.125, 1 << 20, 100


@dataclass(frozen=True, eq=False)
class Cells:
    """A partition of the integers: cell i holds edges[i-1] < y ≤ edges[i]. `pairs` are even numbers: 2i and 2i + 1."""

    noise: IntegerDistribution
    edges: Integers
    probability: Floats
    pairs: Integers

    @classmethod
    def of(cls, noise: IntegerDistribution, draws: int) -> "Cells":
        """Cells in which about eight of the draws are expected, or more."""
        tails = 2.0 ** -np.arange(7, max(8, math.log2(max(draws, 256) / 8)))
        upper = np.concatenate([np.arange(1, _MIDDLE) / _MIDDLE, 1.0 - tails])
        edges = np.unique([*noise.ppf(upper[upper <= 0.5]), *(-1 - np.asarray(noise.ppf(upper[upper <= 0.5])))])
        edges = np.unique([*edges, *np.asarray(noise.ppf(tails)), *(-1 - np.asarray(noise.ppf(tails)))]).astype(
            np.int64
        )
        below = np.asarray(noise.cdf(edges), dtype=np.float64)
        above = np.asarray(noise.sf(edges), dtype=np.float64)
        # Each from the side on which it is small: no digits are lost in the tails.
        from_below = np.diff(np.concatenate([[0.0], below]))
        from_above = -np.diff(np.concatenate([[1.0], above]))
        middle = np.where(edges < 0, from_below, from_above)
        probability = np.concatenate([middle, above[-1:]])
        most = int(min(_PAIRS, max(1, abs(int(noise.ppf(1e-3))) // 2)))
        return cls(noise, edges, probability, 2 * np.arange(-most, most, dtype=np.int64))

    def count(self, draws: Integers) -> Integers:
        """Count the draws in each cell, at each value near zero, and the odd ones: one after the other."""
        first, last = int(self.pairs[0]), int(self.pairs[-1]) + 1
        low, high = min(first, int(self.edges[0])) - 1, max(last, int(self.edges[-1])) + 1
        if high - low < _SPAN:
            values = np.bincount(np.clip(draws, low, high) - low, minlength=high - low + 1).astype(np.int64)
            cells = np.add.reduceat(values, [0, *(self.edges - low + 1)])
            near = values[first - low : last - low + 1]
        else:
            cells = np.bincount(np.searchsorted(self.edges, draws), minlength=len(self.probability))
            near = np.bincount(draws[(draws >= first) & (draws <= last)] - first, minlength=last - first + 1)
        return np.concatenate([cells, near, [np.count_nonzero(draws & 1)]]).astype(np.int64)

    def in_cells(self, counts: Counts) -> Counts:
        """The draws in each cell, of all that were counted."""
        return counts.of(lambda hits: hits[: len(self.probability)])

    def log_evidence(self, counts: Counts) -> dict[str, float]:
        """Evidence against the distribution, by what it looks at."""
        cells = self.in_cells(counts)
        below = np.asarray(self.noise.cdf(self.edges), dtype=np.float64)
        thresholds = self.edges[self.edges >= 0]
        tail = np.minimum(2.0 * np.asarray(self.noise.sf(thresholds), dtype=np.float64), 1.0)
        return {
            "values up to a level": log_mean(log_against(cells.of(lambda hits: np.cumsum(hits)[:-1]), below)),
            "values beyond a level": log_mean(log_against(cells.of(lambda hits: _beyond(self.edges, hits)), tail)),
            "values in a cell": log_mean(log_against(cells, self.probability)),
            "all cells together": log_against_cells(cells, self.probability),
            "the ratios of neighbouring values": self._log_of_pairs(counts),
            "odd values": float(log_against(counts.of(lambda hits: hits[-1:]), np.array([self._odd()]))[0]),
        }

    def _log_of_pairs(self, counts: Counts) -> float:
        """Evidence against the ratio of the two values of each pair, all pairs together."""
        ratio = np.asarray(
            self.noise.pmf(self.pairs + 1) / (self.noise.pmf(self.pairs) + self.noise.pmf(self.pairs + 1))
        )
        near = counts.of(lambda hits: hits[len(self.probability) : -1].reshape(-1, 2))
        return sum(
            float(log_against(Counts(old[1:], int(old.sum()), new[1:], int(new.sum())), second)[0])
            for old, new, second in zip(near.learned, near.judged, ratio, strict=True)
        )

    def _odd(self) -> float:
        if self.noise.std() > _ADDED_UP:
            return 0.5
        most = int(self.noise.isf(1e-18)) // 2 + 1
        return float(min(1.0, math.fsum(2.0 * np.asarray(self.noise.pmf(2 * np.arange(most) + 1)))))


def _beyond(edges: Integers, cells: Integers) -> Integers:
    """Count the draws with |y| > t, for each edge t ≥ 0; the edges are symmetric: -1 - t is one where t is."""
    total = np.concatenate([[0], np.cumsum(cells)])
    result = []
    for t in edges[edges >= 0]:
        above = total[-1] - total[np.searchsorted(edges, t) + 1]
        below = total[np.searchsorted(edges, -1 - t) + 1]
        result.append(int(above + below))
    return np.array(result, dtype=np.int64)


def sampler(noise: IntegerDistribution, budget: Budget, draw: Sampler | None = None, *, name: str = "sampler") -> Check:
    """Judge a sampler by its draws against the distribution that it promises; by fewer if it fails before.

    Parameters
    ----------
    draw
        The sampler: so many draws. That of the distribution if not given.
    """
    cells, counts = _count(noise, budget, draw or (lambda size: np.asarray(noise.sample(size), dtype=np.int64)), name)
    logs, draws = cells.log_evidence(counts), counts.learned_draws + counts.judged_draws
    evidence = log_mean(list(logs.values()))
    p = p_value(evidence)
    details: dict[str, Any] = {
        "noise": repr(noise),
        "draws": draws,
        "p_value": p,
        "outermost": float(cells.probability[-1]),
        "residuals": _residuals(cells, cells.in_cells(counts)),
    }
    if evidence >= -math.log(budget.false_alarm):
        worst = max(logs, key=lambda key: logs[key])
        what = f"{worst} are not as in {noise!r}: p-value {p:.2g} after {draws:,} draws"
        words, findings = "The draws do not follow their distribution.", (Finding(name, what),)
        return Check(name, words, findings, budget.false_alarm, details)
    words = (
        f"{draws:,} draws follow {noise!r}: {len(cells.probability)} cells, the outermost with a probability of "
        f"{cells.probability[-1]:.1g}, and the ratios of {2 * len(cells.pairs)} neighbouring values."
    )
    return Check(name, words, (), budget.false_alarm, details)


def _count(noise: IntegerDistribution, budget: Budget, draw: Sampler, name: str) -> tuple[Cells, Counts]:
    """Draw, learn and count, until the distribution is refuted or the budget is used up."""
    planned = budget.affordable(draw)
    cells = Cells.of(noise, planned)
    to_learn = replace(budget, draws=max(_FEWEST, int(_LEARNED * planned)), seconds=_LEARNED * budget.seconds)

    def count(size: int) -> Integers:
        return cells.count(draw(size))

    def is_refuted(counts: Counts) -> bool:
        return log_mean(list(cells.log_evidence(counts).values())) >= -math.log(budget.false_alarm)

    learned = count_hits(count, (count(_FEWEST), _FEWEST), to_learn, name, lambda counts: False, _BATCH)
    both = learned.learned + learned.judged, learned.learned_draws + learned.judged_draws
    return cells, count_hits(count, both, budget, name, is_refuted, _BATCH)


def _residuals(cells: Cells, counts: Counts) -> list[dict[str, Any]]:
    """Observed and expected draws of each cell."""
    expected = cells.probability * counts.judged_draws
    return [
        {
            "up_to": edge,
            "observed": int(number),
            "expected": float(mean),
            "residual": float((number - mean) / math.sqrt(mean)),
        }
        for edge, number, mean in zip([*cells.edges.tolist(), None], counts.judged, expected, strict=True)
    ]
