"""One-run auditing: a lower bound on ε from one release and the guesses about many canaries at once.

Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run (2023), Corollary 5.4 and Appendix D: m canaries
are put in by fair coins, an (ε, δ)-private algorithm runs once, and r of the coins are guessed from its output; on the
others one abstains. Then v or more guesses are right with probability at most

    P[W ≥ v] + 2·m·δ·max over i of P[v > W ≥ v - i]/i,      W binomial with r trials and probability e^ε/(1 + e^ε).

Several independent runs, each with canaries of its own, are one run of all of them.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

#: Of the canaries, the part that is guessed: those that the output speaks most clearly about. All are tried.
PARTS = (0.125, 0.25, 0.5, 1.0)


def p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """The probability, at most, of so many right guesses if the algorithm is (ε, δ)-differentially private."""
    chance = 1.0 / (1.0 + math.exp(-epsilon))
    by_luck = float(binom.sf(right - 1, guesses, chance))
    if delta == 0 or right == 0:
        return min(1.0, by_luck)
    missed = np.arange(1, right + 1)
    below = np.cumsum(binom.pmf(right - missed, guesses, chance))
    return min(1.0, by_luck + 2.0 * canaries * delta * float(np.max(below / missed)))


def guesses_of(scores: NDArray[np.float64], inside: NDArray[np.bool_], part: float) -> tuple[int, int]:
    """How many guesses are made, and how many are right: those with the largest scores in, with the least out."""
    each = max(1, round(part * len(scores) / 2))
    order = np.argsort(scores, kind="stable")
    right = int(np.count_nonzero(inside[order[-each:]])) + int(np.count_nonzero(~inside[order[:each]]))
    return 2 * each, right


def smallest_p_value(scores: NDArray[np.float64], inside: NDArray[np.bool_], epsilon: float, delta: float) -> float:
    """A p-value from all `PARTS`: the least, times how many there are."""
    found = [p_value(len(scores), *guesses_of(scores, inside, part), epsilon, delta) for part in PARTS]
    return min(1.0, len(PARTS) * min(found))


def least_epsilon(scores: NDArray[np.float64], inside: NDArray[np.bool_], delta: float, error: float) -> float:
    """A lower bound on ε at this δ, wrong with probability at most `error`."""
    if smallest_p_value(scores, inside, 0.0, delta) > error:
        return 0.0
    low, high = 0.0, 1.0
    while smallest_p_value(scores, inside, high, delta) <= error and high < 64:
        low, high = high, 2 * high
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if smallest_p_value(scores, inside, middle, delta) <= error else (low, middle)
    return low
