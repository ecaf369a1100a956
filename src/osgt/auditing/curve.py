"""The curve: any mechanism as a black box, judged by its outputs on a data set and on a neighbour.

The claim holds if and only if no event is more probable on the one than its line allows from the other. Events are
levels of scores; the evidence against the claim (`evidence`) is valid whenever one stops, so that it may stop early.

A score is large where an output speaks for the data and small where it speaks for the neighbour. An event is "the score
is at least t". Where the privacy loss is known it is the best score (Neyman and Pearson).
Otherwise scores are learned from draws that are not judged afterwards; a bad one costs power and never validity.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from osgt.auditing.evidence import Claim, Counts, count_hits, log_mean, p_value
from osgt.auditing.result import Budget, Check, Finding
from osgt.support.numeric import Floats, Integers
from osgt.support.text import rounded_percent

Score = Callable[[NDArray[np.generic]], Floats]

#: Cells of each number's values in a learned score.
_CELLS = 32

#: Numbers whose values and bits make a score, if there are more; and those that are scores by themselves.
_TELLING, _NAMED = 8, 3

#: Numbers beyond this are as large as any.
_LARGEST = 1e300

#: Places of the lowest bit that are told apart, around the place of the lowest bit of 1.
_BITS = 80


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A score, the thresholds that are looked at in rising order, and the events that they are reached in words."""

    score: Score
    levels: Floats
    events: Sequence[str]

    @classmethod
    def of(cls, name: str, score: Score, outputs: Sequence[NDArray[np.generic]]) -> "Thresholds | None":
        """Thresholds all over the range of a score, and far out in its tails; None if it tells nothing apart."""
        values = np.concatenate([score(drawn) for drawn in outputs])
        least = 8.0 / len(values)
        tails = 2.0 ** -np.arange(1.0, max(1.0, -np.log2(least)) + 1)
        shares = np.unique(np.concatenate([np.linspace(0.04, 0.96, 24), tails, 1.0 - tails]))
        levels = np.unique(np.quantile(values, shares, method="higher"))
        levels = levels[levels > values.min()]
        return cls(score, levels, [f"{name} reaches {level:.6g}" for level in levels]) if len(levels) else None

    def hits(self, outputs: NDArray[np.generic]) -> Integers:
        """Count the outputs that reach each threshold."""
        places = np.searchsorted(self.levels, self.score(outputs), side="right")
        counts = np.bincount(places, minlength=len(self.levels) + 1)
        return np.cumsum(counts[::-1])[::-1][1:].astype(np.int64)


def learn_scores(
    first: NDArray[np.generic], second: NDArray[np.generic], names: Sequence[str] = ()
) -> list[Thresholds]:
    """Scores from outputs on the data (`first`) and on the neighbour, each of shape (draws, numbers).

    Of many numbers those that differ most are told apart by their values. Where numbers have names, each of these is a
    score of its own, so that what is found can be told.
    """
    both = [first, second]
    value_cells = _value_cells(first, second)
    telling = _telling(value_cells(first), value_cells(second))
    by_bits = _telling(lowest_bits(first), lowest_bits(second))
    made = [
        *(_of_number(first, second, at, names[at]) for at in telling[:_NAMED] if names),
        Thresholds.of("the weighted sum of the numbers", _linear(first, second), both),
        Thresholds.of("the score of the values", _by_cells(first, second, value_cells, telling), both),
        Thresholds.of("the score of the lowest bits", _by_cells(first, second, lowest_bits, by_bits), both),
    ]
    return [thresholds for thresholds in made if thresholds is not None]


def _telling(first: Integers, second: Integers) -> list[int]:
    """The places of the numbers whose cells differ most between data and neighbour, the most telling one first."""
    size = int(max(first.max(initial=0), second.max(initial=0))) + 1
    told = []
    for one, other in zip(first.T, second.T, strict=True):
        a, b = (np.bincount(cells, minlength=size) for cells in (one, other))
        told.append(float(np.sum((a - b) ** 2 / np.maximum(a + b, 1)) / max(1, np.count_nonzero(a + b) - 1)))
    return [int(at) for at in np.argsort(-np.asarray(told), kind="stable")[:_TELLING]]


def _of_number(first: NDArray[np.generic], second: NDArray[np.generic], at: int, name: str) -> Thresholds | None:
    """One number as a score, with the sign with which it speaks for the data; the least of all where it is missing."""

    def values(outputs: NDArray[np.generic]) -> Floats:
        column = outputs[:, at].astype(np.float64)
        return np.where(np.isnan(column), -_LARGEST, np.clip(column, -_LARGEST, _LARGEST))

    one, other = values(first), values(second)
    every = np.sort(np.concatenate([one, other]))
    ranks = [np.searchsorted(every, column, side=side).mean() for column in (one, other) for side in ("left", "right")]
    if ranks[0] + ranks[1] < ranks[2] + ranks[3]:
        made = Thresholds.of(name, lambda outputs: -values(outputs), [first, second])
        return made and replace(
            made,
            events=[
                f"{name} is {'not there' if level == _LARGEST else f'at most {-level:.6g}'}" for level in made.levels
            ],
        )
    made = Thresholds.of(name, values, [first, second])
    is_flag = set(every.tolist()) <= {-_LARGEST, 1.0}
    return replace(made, events=[f"{name} is there"]) if made and is_flag else made


def _finite(outputs: NDArray[np.generic]) -> Floats:
    floats = outputs.astype(np.float64)
    return np.where(np.isfinite(floats), floats, 0.0)


def _linear(first: NDArray[np.generic], second: NDArray[np.generic]) -> Score:
    """Σ (difference of the means / variance)·number."""
    one, other = _finite(first), _finite(second)
    middle = np.median(np.concatenate([one, other]), axis=0)
    spread = np.maximum(np.var(one - middle, axis=0) + np.var(other - middle, axis=0), 1e-300)
    weights = (one.mean(axis=0) - other.mean(axis=0)) / spread
    return lambda outputs: np.asarray((_finite(outputs) - middle) @ weights)


def _value_cells(first: NDArray[np.generic], second: NDArray[np.generic]) -> Callable[[NDArray[np.generic]], Integers]:
    """The cell of each number by its value; numbers that are none have cells of their own."""
    pooled = np.concatenate([first, second]).astype(np.float64)
    shares = np.linspace(0.0, 1.0, _CELLS + 1)[1:-1]
    edges = [
        np.unique(np.quantile(column[np.isfinite(column)], shares)) if np.isfinite(column).any() else np.zeros(1)
        for column in pooled.T
    ]

    def cells(outputs: NDArray[np.generic]) -> Integers:
        floats = outputs.astype(np.float64)
        result = np.stack(
            [np.searchsorted(edge, column, side="right") for edge, column in zip(edges, floats.T, strict=True)], axis=1
        )
        result = np.where(np.isposinf(floats), _CELLS, result)
        result = np.where(np.isneginf(floats), _CELLS + 1, result)
        return np.where(np.isnan(floats), _CELLS + 2, result).astype(np.int64)

    return cells


def lowest_bits(outputs: NDArray[np.generic]) -> Integers:
    """The place of the lowest bit of each number: noise that is made of floats gives data away there (Mironov 2012)."""
    mantissa, exponent = np.frexp(_finite(outputs))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.log2(np.maximum((whole & -whole).astype(np.float64), 1.0)).astype(np.int64)
    place = exponent.astype(np.int64) - 53 + lowest
    return np.where(whole == 0, _BITS, np.clip(place + 60, 0, _BITS - 1))


def _by_cells(
    first: NDArray[np.generic],
    second: NDArray[np.generic],
    cells: Callable[[NDArray[np.generic]], Integers],
    places: Sequence[int],
) -> Score:
    """Σ log of how much more often a number's cell was hit by the data than by the neighbour, of some numbers."""
    one, other = cells(first), cells(second)
    size = int(max(one.max(initial=0), other.max(initial=0), _BITS, _CELLS + 2)) + 1
    ratios = []
    for i in places:
        a, b = (np.bincount(cell[:, i], minlength=size) + 0.5 for cell in (one, other))
        ratios.append(np.log(a / a.sum()) - np.log(b / b.sum()))

    def score(outputs: NDArray[np.generic]) -> Floats:
        result = cells(outputs)
        return np.asarray(sum(ratio[result[:, i]] for i, ratio in zip(places, ratios, strict=True)))

    return score


class NothingToldError(ValueError):
    """All outputs are the same, on the data and on the neighbour."""


Outputs = NDArray[np.generic]
#: A mechanism for many draws: (data set, how many) to an array of shape (draws, numbers).
Draws = Callable[[Any, int], Outputs]

#: The part of the draws from which scores and guesses are learned.
_LEARNED = 0.25

#: Draws that are made at a time, and the fewest that anything can be learned from.
_BATCH, _FEWEST = 1 << 16, 256

#: Numbers of each side that are kept in memory to learn from.
_KEPT = 1 << 22

#: Batches in which the draws are made, at least: after each it is told how many are done.
_BATCHES = 64

#: Standard deviations by which counts are worse than expected in what is said about power: nine of ten are better.
_BAD_LUCK = 1.3


@dataclass(frozen=True, eq=False)
class Measured:
    """Events in words, and how often each was hit on the data and on the neighbour."""

    events: Sequence[str]
    data: Counts
    neighbour: Counts

    def log_evidence(self, claim: Claim) -> float:
        """Evidence against the claim, from all events together."""
        return log_mean(claim.log_evidence(self.data, self.neighbour))

    def refuted_share(self, claim: Claim, false_alarm: float) -> float:
        """The largest factor, up to 1, for which the claim with every ε times it is refuted; 0 if none is."""
        return _largest(lambda factor: self.log_evidence(claim.with_epsilons(factor)) >= -math.log(false_alarm))

    def seen(self, claim: Claim, false_alarm: float) -> float | None:
        """Noise smaller by this part would have been seen, nine times out of ten; None if not even by nine tenths.

        Smaller noise moves the two probabilities of an event apart: on the scale of normal quantiles, by 1/scale. It
        starts from where the events are on the claimed curve, or from what was measured if that is clearly less.
        """
        q = self.neighbour.share
        measured = self.data.share + 2 * np.sqrt(self.data.share * (1 - self.data.share) / self.data.judged_draws)
        p = np.minimum(claim.most(q), measured)

        def is_seen(smaller: float) -> bool:
            return self._expected(p, q, 1.0 - smaller).log_evidence(claim) >= -math.log(false_alarm)

        if not is_seen(0.9):
            return None
        return 0.9 - 0.9 * _largest(lambda part: is_seen(0.9 - 0.9 * part))

    def _expected(self, p: Floats, q: Floats, scale: float) -> "Measured":
        """Counts as they would be with noise of this scale, a little worse than on average."""
        a, b = (scipy.special.ndtri(np.clip(share, 1e-12, 1 - 1e-12)) for share in (p, q))
        middle, half = (a + b) / 2, (a - b) / 2 / scale
        sides = (
            (self.data, scipy.special.ndtr(middle + half), -1),
            (self.neighbour, scipy.special.ndtr(middle - half), 1),
        )
        made = []
        for counts, probability, side in sides:
            lucky = np.sqrt(probability * (1 - probability) / counts.judged_draws)
            worse = np.clip(probability + side * _BAD_LUCK * lucky, 0.0, 1.0)
            judged = np.rint(worse * counts.judged_draws).astype(np.int64)
            guessed = np.rint(probability * counts.learned_draws).astype(np.int64)
            made.append(Counts(guessed, counts.learned_draws, judged, counts.judged_draws))
        return Measured(self.events, made[0], made[1])


def curve(
    mechanism: Draws,
    data: Any,
    neighbour: Any,
    claim: Claim,
    budget: Budget,
    *,
    loss: Score | None = None,
    name: str = "curve",
) -> Check:
    """Judge a mechanism by its outputs on each of the two data sets; by fewer than planned if it fails before.

    Parameters
    ----------
    loss
        The privacy loss of outputs, or any other score; learned from a quarter of the draws if not given.
    """
    measured = measure(mechanism, (data, neighbour), claim, budget, loss, name)
    return judge(measured, claim, budget.false_alarm, name)


def measure(
    mechanism: Draws,
    both: tuple[Any, Any],
    claim: Claim,
    budget: Budget,
    loss: Score | None,
    name: str,
    names: Sequence[str] = (),
) -> Measured:
    """Draw, learn and count, until the claim is refuted or the budget is used up; `names` are those of the numbers."""
    planned = budget.affordable(lambda size: [mechanism(data, size) for data in both])
    outputs = _draw_to_learn(mechanism, both, max(_FEWEST, math.ceil(_LEARNED * planned)), budget)
    scores = _scores(outputs, loss, names)
    events = [event for score in scores for event in score.events]

    def hits(outputs: Sequence[Outputs]) -> Integers:
        return np.stack([np.concatenate([score.hits(on_one) for score in scores]) for on_one in outputs])

    def measure_of(counts: Counts) -> Measured:
        return Measured(events, *(counts.of(itemgetter(side)) for side in (0, 1)))

    counts = count_hits(
        lambda size: hits([mechanism(data, size) for data in both]),
        (hits(outputs), len(outputs[0])),
        budget,
        name,
        lambda counts: measure_of(counts).log_evidence(claim) >= -math.log(budget.false_alarm),
        min(_BATCH, max(_FEWEST, planned // _BATCHES)),
    )
    return measure_of(counts)


def _draw_to_learn(mechanism: Draws, both: tuple[Any, Any], wanted: int, budget: Budget) -> list[Outputs]:
    """Outputs on each data set to learn from: so many, or as many as fit into their part of the time and the memory."""
    pieces: tuple[list[Outputs], list[Outputs]] = ([], [])
    done = 0
    while done < wanted and (done < _FEWEST or budget.used() < _LEARNED):
        size = min(_BATCH if done else _FEWEST, wanted - done)
        for kept, data in zip(pieces, both, strict=True):
            kept.append(mechanism(data, size))
        done += size
        wanted = min(wanted, max(_FEWEST, _KEPT // pieces[0][0].shape[1]))
    return [np.concatenate(kept) for kept in pieces]


def _scores(outputs: Sequence[Outputs], loss: Score | None, names: Sequence[str]) -> list[Thresholds]:
    """The privacy loss as the only score if it is known, else those that can be learned."""
    known = None if loss is None else Thresholds.of("the privacy loss", loss, outputs)
    scores = learn_scores(outputs[0], outputs[1], names) if loss is None else [] if known is None else [known]
    if not scores:
        raise NothingToldError("all outputs are the same: the mechanism adds no noise, or the data sets say nothing")
    return scores


def judge(measured: Measured, claim: Claim, false_alarm: float, name: str) -> Check:
    """Judge the claim by the counts, in words."""
    logs = claim.log_evidence(measured.data, measured.neighbour)
    evidence = log_mean(logs)
    worst = int(np.argmax(logs))
    data, neighbour = measured.data, measured.neighbour
    event = measured.events[worst]
    counts = (
        f"{data.judged[worst]:,} of {data.judged_draws:,} draws on the data and {neighbour.judged[worst]:,} of "
        f"{neighbour.judged_draws:,} on the neighbour"
    )
    drawn = data.learned_draws + data.judged_draws
    details: dict[str, Any] = {
        "claim": claim.words,
        "draws": drawn,
        "judged": data.judged_draws,
        "events": len(logs),
        "p_value": p_value(evidence),
        "curve": _curve(measured, claim, false_alarm),
    }
    if evidence >= -math.log(false_alarm):
        details |= {"event": event, "counts": [int(data.judged[worst]), int(neighbour.judged[worst])]}
        what = f"{event} in {counts}. p-value {p_value(evidence):.2g}."
        return Check(name, f"The claim ({claim.words}) is broken.", (Finding(name, what),), false_alarm, details)
    share, smaller = measured.refuted_share(claim, false_alarm), measured.seen(claim, false_alarm)
    details |= {"proved_share_of_epsilon": share, "smaller_noise_seen": smaller}
    words = f"{drawn:,} draws on each of two neighbouring data sets: no evidence against {claim.words}."
    words += f" The loss is at least {rounded_percent(share)} of what is claimed." if share > 0 else ""
    words += (
        " So few draws say little."
        if smaller is None
        else f" Noise on a scale {rounded_percent(smaller)} too small would have been seen."
    )
    return Check(name, words, (), false_alarm, details)


def _curve(measured: Measured, claim: Claim, false_alarm: float) -> list[dict[str, float]]:
    """For each event the two kinds of error, with limits that hold together, and what is claimed: for a picture."""
    error = false_alarm / (2 * len(measured.data.judged))
    (p_low, p_high), (q_low, q_high) = measured.data.limits(error), measured.neighbour.limits(error)
    p, q = measured.data.share, measured.neighbour.share
    most = claim.most(q)
    # The claim is broken for certain where even the least p is more than what the largest q allows.
    least, largest = claim.most(q_low) - p_high, claim.most(q_high) - p_low
    order = np.argsort(q)
    return [
        {
            "type_1": float(q[i]),
            "type_1_low": float(q_low[i]),
            "type_1_high": float(q_high[i]),
            "type_2": float(1 - p[i]),
            "type_2_low": float(1 - p_high[i]),
            "type_2_high": float(1 - p_low[i]),
            "claimed_type_2": float(1 - most[i]),
            "room": float(most[i] - p[i]),
            "room_low": float(least[i]),
            "room_high": float(largest[i]),
        }
        for i in order
    ]


def _largest(holds: Callable[[float], bool]) -> float:
    """The largest number from 0 to 1 for which something holds that holds for all smaller ones."""
    low, high = 0.0, 1.0
    for _ in range(14):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def one_by_one(mechanism: Callable[[Any], Any]) -> Draws:
    """A mechanism that gives one output at a time, as one for many draws."""

    def draws(data: Any, size: int) -> Outputs:
        return np.stack([np.atleast_1d(np.asarray(mechanism(data))).ravel() for _ in range(size)])

    return draws


def many(mechanism: Callable[[Any, int], Any]) -> Draws:
    """A mechanism that gives many outputs, checked: the first axis is that of the draws."""

    def draws(data: Any, size: int) -> Outputs:
        outputs = np.asarray(mechanism(data, size))
        if outputs.shape[:1] != (size,):
            raise ValueError(f"mechanism must give {size} outputs along the first axis, got shape {outputs.shape}")
        return outputs.reshape(size, -1)

    return draws
