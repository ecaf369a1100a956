"""The sampler: draws against the probabilities of their distribution, in the middle, in the tails and bit by bit."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.auditing.check import Budget, Check, Finding
from osgt.auditing.evidence import Counts, log_against, log_against_cells, log_mean, p_value
from osgt.noise import IntegerDistribution
from osgt.support.arrays import Floats, Integers

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

    law: IntegerDistribution
    edges: Integers
    probability: Floats
    pairs: Integers

    @classmethod
    def of(cls, law: IntegerDistribution, draws: int) -> "Cells":
        """Cells in which about eight of the draws are expected, or more."""
        tails = 2.0 ** -np.arange(7, max(8, math.log2(max(draws, 256) / 8)))
        upper = np.concatenate([np.arange(1, _MIDDLE) / _MIDDLE, 1.0 - tails])
        edges = np.unique([*law.ppf(upper[upper <= 0.5]), *(-1 - np.asarray(law.ppf(upper[upper <= 0.5])))])
        edges = np.unique([*edges, *np.asarray(law.ppf(tails)), *(-1 - np.asarray(law.ppf(tails)))]).astype(np.int64)
        below = np.asarray(law.cdf(edges), dtype=np.float64)
        above = np.asarray(law.sf(edges), dtype=np.float64)
        # Each from the side on which it is small: no digits are lost in the tails.
        from_below = np.diff(np.concatenate([[0.0], below]))
        from_above = -np.diff(np.concatenate([[1.0], above]))
        middle = np.where(edges < 0, from_below, from_above)
        probability = np.concatenate([middle, above[-1:]])
        most = int(min(_PAIRS, max(1, abs(int(law.ppf(1e-3))) // 2)))
        return cls(law, edges, probability, 2 * np.arange(-most, most, dtype=np.int64))

    def count(self, draws: Integers) -> dict[str, Integers]:
        """Count the draws in each cell, at each value near zero, and the odd ones."""
        first, last = int(self.pairs[0]), int(self.pairs[-1]) + 1
        low, high = min(first, int(self.edges[0])) - 1, max(last, int(self.edges[-1])) + 1
        if high - low < _SPAN:
            values = np.bincount(np.clip(draws, low, high) - low, minlength=high - low + 1).astype(np.int64)
            cells = np.add.reduceat(values, [0, *(self.edges - low + 1)])
            near = values[first - low : last - low + 1]
        else:
            cells = np.bincount(np.searchsorted(self.edges, draws), minlength=len(self.probability))
            near = np.bincount(draws[(draws >= first) & (draws <= last)] - first, minlength=last - first + 1)
        odd = np.array([np.count_nonzero(draws & 1)])
        return {"cells": cells.astype(np.int64), "near": near.astype(np.int64), "bits": odd.astype(np.int64)}

    def log_evidence(self, learned: dict[str, Integers], judged: dict[str, Integers]) -> dict[str, float]:
        """Evidence against the distribution, by what it looks at."""
        before, after = int(learned["cells"].sum()), int(judged["cells"].sum())
        up_to = {name: np.cumsum(each["cells"])[:-1] for name, each in (("before", learned), ("after", judged))}
        below = np.asarray(self.law.cdf(self.edges), dtype=np.float64)
        beyond = [_beyond(self.edges, each["cells"]) for each in (learned, judged)]
        thresholds = np.unique(np.abs(self.edges[self.edges >= 0]))
        tail = np.minimum(2.0 * np.asarray(self.law.sf(thresholds), dtype=np.float64), 1.0)
        ratio = np.asarray(self.law.pmf(self.pairs + 1) / (self.law.pmf(self.pairs) + self.law.pmf(self.pairs + 1)))
        near = [each["near"].reshape(-1, 2) for each in (learned, judged)]
        pairs = sum(
            float(log_against(Counts(old[1:], int(old.sum()), new[1:], int(new.sum())), r)[0])
            for old, new, r in zip(*near, ratio, strict=True)
        )
        each_cell = Counts(learned["cells"], before, judged["cells"], after)
        return {
            "values up to a level": log_mean(
                log_against(Counts(up_to["before"], before, up_to["after"], after), below)
            ),
            "values beyond a level": log_mean(log_against(Counts(beyond[0], before, beyond[1], after), tail)),
            "values in a cell": log_mean(log_against(each_cell, self.probability)),
            "all cells together": log_against_cells(each_cell, self.probability),
            "the ratios of neighbouring values": pairs,
            "odd values": float(
                log_against(Counts(learned["bits"], before, judged["bits"], after), np.array([self._odd()]))[0]
            ),
        }

    def _odd(self) -> float:
        if self.law.std() > _ADDED_UP:
            return 0.5
        most = int(self.law.isf(1e-18)) // 2 + 1
        return float(min(1.0, math.fsum(2.0 * np.asarray(self.law.pmf(2 * np.arange(most) + 1)))))


def _beyond(edges: Integers, cells: Integers) -> Integers:
    """Count the draws with |y| > t, for each edge t ≥ 0; the edges are symmetric: -1 - t is one where t is."""
    total = np.concatenate([[0], np.cumsum(cells)])
    found = []
    for t in edges[edges >= 0]:
        above = total[-1] - total[np.searchsorted(edges, t) + 1]
        below = total[np.searchsorted(edges, -1 - t) + 1]
        found.append(int(above + below))
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Counted:
    """Draws in cells: those that are judged, the number of all, and the evidence in them by what it looks at."""

    cells: Cells
    judged: dict[str, Integers]
    draws: int
    logs: dict[str, float]

    @property
    def evidence(self) -> float:
        """The logarithm of all evidence together."""
        return log_mean(list(self.logs.values()))

    @property
    def residuals(self) -> list[dict[str, Any]]:
        """Observed and expected draws of each cell."""
        seen = self.judged["cells"]
        expected = self.cells.probability * int(seen.sum())
        return [
            {
                "up_to": edge,
                "observed": int(number),
                "expected": float(mean),
                "residual": float((number - mean) / math.sqrt(mean)),
            }
            for edge, number, mean in zip([*self.cells.edges.tolist(), None], seen, expected, strict=True)
        ]


def sampler(law: IntegerDistribution, budget: Budget, draw: Sampler | None = None, *, name: str = "sampler") -> Check:
    """Judge a sampler by its draws against the distribution that it promises; by fewer if it fails before.

    Parameters
    ----------
    draw
        The sampler: so many draws. That of the distribution if not given.
    """
    counted = _count(law, budget, draw or (lambda size: np.asarray(law.sample(size), dtype=np.int64)), name)
    cells, p = counted.cells, p_value(counted.evidence)
    details: dict[str, Any] = {
        "noise": repr(law),
        "draws": counted.draws,
        "p_value": p,
        "outermost": float(cells.probability[-1]),
        "residuals": counted.residuals,
    }
    if counted.evidence >= -math.log(budget.false_alarm):
        worst = max(counted.logs, key=lambda key: counted.logs[key])
        what = f"{worst} are not as in {law!r}: p-value {p:.2g} after {counted.draws:,} draws"
        words, findings = "The draws do not follow their distribution.", (Finding(name, what),)
        return Check(name, words, findings, budget.false_alarm, details)
    words = (
        f"{counted.draws:,} draws follow {law!r}: {len(cells.probability)} cells, the outermost with a probability of "
        f"{cells.probability[-1]:.1g}, and the ratios of {2 * len(cells.pairs)} neighbouring values."
    )
    return Check(name, words, (), budget.false_alarm, details)


def _count(law: IntegerDistribution, budget: Budget, draw: Sampler, name: str) -> _Counted:
    """Draw, learn and count, until the distribution is refuted or the budget is used up."""
    planned, clock = budget.affordable(draw), budget.clock(name)
    cells = Cells.of(law, planned)
    learned = cells.count(draw(_FEWEST))
    judged = {key: np.zeros_like(counts) for key, counts in learned.items()}
    done, after, learn, look = _FEWEST, 0, max(_FEWEST, int(_LEARNED * planned)), 1 << 14
    logs = {"nothing": 0.0}
    while done < budget.draws and not (after and clock.is_over):
        counts = learned if done < learn and clock.share(done) < _LEARNED else judged
        size = min(_BATCH, (learn if counts is learned else budget.draws) - done)
        for key, number in cells.count(draw(size)).items():
            counts[key] += number
        done += size
        clock.tell(done)
        after = int(judged["cells"].sum())
        if after >= look or (after and (done >= budget.draws or clock.is_over)):
            look *= 2
            logs = cells.log_evidence(learned, judged)
            if log_mean(list(logs.values())) >= -math.log(budget.false_alarm):
                break
    return _Counted(cells, judged, done, logs)
