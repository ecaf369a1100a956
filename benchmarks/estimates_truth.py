"""Best estimates of sparse and of dense real tables: error and coverage against the true, uncut table.

The sixteen real tables of `truth_data.py`, a count of rows by fine keys and one by coarse ones, ε = 1 and δ = 1e-8 in
all, nothing chosen by the user but about how many people there are. From each release: the root of the mean squared
error over groups of the published numbers, of these with negative ones shown as 0 and the sum kept
(`nonnegative=True`), and of `release.estimates()`; the shares of 95 % intervals that hold the true number, and how
many times narrower they are on average. The error of a perfect estimate of each number by itself, which knows how
often each true number occurs, is beside them.

Claims: where estimates are offered, their error is below that of both others on average over the runs, and their
intervals hold 90 to 99 % of the true numbers; where they are not offered, nothing changes; of the tables with fine keys
they are offered on at least eight.
"""

import argparse
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from measure import print_table
from osgt import Dataset
from osgt.estimation.rounding import with_sum_kept
from truth_data import QUESTIONS, Question

EPSILON, DELTA, RUNS = 1.0, 1e-8, 10

#: Fine keys, by which most groups are small.
FINE = {
    "flights": ("tailnum", "dest carrier month"),
    "ratings": ("student", "d service"),
    "baseball": ("player", "team year"),
    "visits": ("patient", "year age education kids"),
    "expenses": ("person", "plan site year lfam"),
    "inspections": ("business", "year score weekend"),
    "patents": ("company", "industry year"),
    "movies": ("user", "movieId"),
    "records": ("customer", "month weekday number_of_cds"),
    "groceries": ("customer", "PRODUCT_SUBCLASS month"),
    "salaries": ("player", "team year"),
    "laboratory": ("patient", "value year"),
    "work": ("woman", "industry year occupation"),
    "schools": ("pupil", "school grade eth"),
    "tests": ("patient", "clinic week"),
    "pitching": ("player", "team year"),
}


@dataclass(frozen=True)
class Run:
    """One release: errors, coverage and widths, and whether estimates are offered."""

    offered: bool
    raw: float
    clamped: float
    estimated: float
    perfect: float
    coverage: float
    raw_coverage: float
    width: float


def release_once(question: Question) -> Run:
    """Make one release, and its estimates."""
    data = Dataset(question.frame, privacy_unit=question.unit, units=question.about)
    release = data.group_by(*question.keys, public_keys=question.groups).count().release(EPSILON, DELTA)
    found = release.estimates()
    truth = question.truth
    raw, low, high = (found[f"count{end}"].astype(float) for end in ("", "_low", "_high"))
    best, best_low, best_high = (found[f"count_estimate{end}"].astype(float) for end in ("", "_low", "_high"))

    def error(numbers: np.ndarray) -> float:
        return math.sqrt(np.mean((numbers - truth) ** 2))

    return Run(
        found.gains["count"] is not None,
        error(raw),
        error(with_sum_kept(raw.astype(np.int64))),
        error(best),
        _perfect(truth, release.plan.columns[0].std),
        float(np.mean((best_low <= truth) & (truth <= best_high))),
        float(np.mean((low <= truth) & (truth <= high))),
        float(np.mean(high - low) / max(np.mean(best_high - best_low), 1e-9)),
    )


def _perfect(truth: np.ndarray, std: float) -> float:
    """The error of the posterior mean with Gaussian noise, given how often each true number occurs."""
    values, times = np.unique(truth, return_counts=True)
    rng = np.random.default_rng(1)
    some = rng.choice(truth, size=2_000)
    noisy = some + std * rng.standard_normal(len(some))
    weights = np.log(times) - 0.5 * ((noisy[:, None] - values) / std) ** 2
    shares = np.exp(weights - weights.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return math.sqrt(np.mean((shares @ values - some) ** 2))


def measure(title: str, questions: Sequence[Question], runs: int) -> None:
    """Print a line for each table."""
    rows, all_runs = [], []
    for question in questions:
        results = [release_once(question) for _ in range(runs)]
        all_runs.append(results)
        offered = [run for run in results if run.offered]
        shown = offered or results

        def mean(name: str, shown: Sequence[Run] = shown) -> float:
            return float(np.mean([getattr(run, name) for run in shown]))

        raw, clamped, best = mean("raw"), mean("clamped"), mean("estimated")
        rows.append(
            [
                question.name,
                f"{len(question.groups):,}",
                f"{question.truth.mean():,.1f}",
                f"{len(offered)} of {runs}",
                f"{raw:,.1f} / {clamped:,.1f} / {best:,.1f} / {mean('perfect'):,.1f}",
                f"{100 * (1 - best / raw):.0f} % / {100 * (1 - best / clamped):.0f} %",
                f"{100 * mean('coverage'):.1f} % ({100 * mean('raw_coverage'):.1f} %)",
                f"{mean('width'):.1f}",
            ]
        )
        print(rows[-1], flush=True)
    head = [
        "",
        "groups",
        "mean",
        "offered",
        "error: published / nonnegative / estimate / perfect",
        "less than published / nonnegative",
        "intervals that hold (published)",
        "times narrower",
    ]
    print_table(f"{title}: ε = {EPSILON:g}, δ = {DELTA:g}", head, rows)
    offered = [[run for run in results if run.offered] for results in all_runs]
    offered = [results for results in offered if len(results) > runs / 2]
    if offered:
        less = [
            sorted(100 * (1 - np.mean([run.estimated / getattr(run, name) for run in results])) for results in offered)
            for name in ("raw", "clamped")
        ]
        holds = sorted(100 * np.mean([run.coverage for run in results]) for results in offered)
        against = [f"{some[0]:.0f} to {some[-1]:.0f} % (median {np.median(some):.0f} %)" for some in less]
        print(
            f"{title}: offered on {len(offered)} tables; error less than published by {against[0]}, than nonnegative "
            f"by {against[1]}; intervals hold {holds[0]:.1f} to {holds[-1]:.1f} % (median {np.median(holds):.1f} %)"
        )


def main() -> None:
    """Measure all tables by fine and by coarse keys."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", nargs="+", help="names of tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    fine = [Question(table, unit, tuple(keys.split()), None, True) for table, (unit, keys) in FINE.items()]
    coarse = [question for question in QUESTIONS if question.column is None]
    for title, questions in (("Fine keys", fine), ("Coarse keys", coarse)):
        chosen = [question for question in questions if options.only is None or question.table in options.only]
        measure(title, chosen, options.runs)


if __name__ == "__main__":
    main()
