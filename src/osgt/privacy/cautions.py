"""Budgets that promise little: allowed, but said in so many words."""

import math

#: From here on a budget is called large.
LARGE_EPSILON, LARGE_DELTA = 10.0, 1e-3


def budget_warnings(epsilon: float, delta: float) -> tuple[str, ...]:
    """What somebody should know who relies on the promise (ε, δ); empty for budgets in ordinary use."""
    found = []
    if epsilon > LARGE_EPSILON:
        factor = f"{math.exp(epsilon):,.0f}" if epsilon < 25 else f"e^{epsilon:.15g}"
        found.append(
            f"ε = {epsilon:.15g} is very large: one person can change the probability of a result by a factor of "
            f"{factor}. This protects hardly anybody; use an ε of at most {LARGE_EPSILON:g}, better of about 1."
        )
    if delta > LARGE_DELTA:
        found.append(
            f"δ = {delta:.15g} is very large: for each person the protection may fail with about this probability. "
            "Use a δ far below one over the number of people in the data."
        )
    return tuple(found)
