"""Error against the true, uncut table: osgt with nothing chosen by the user, beside peers and its own former way.

Sixteen real tables with several rows for each person, a count and a sum of each (`truth_data.py`), ε = 1 and δ = 1e-8
in all. Error: the root of the median over runs of the mean squared error over groups. Coverage: the share of 95 %
intervals that hold the true number, over all groups and over the largest quarter of at least 20 groups.

- ours: the unit, about how many people there are, ε and δ are given, and nothing else;
- before: `suggest_bounds` (ε = 0.1) and a release with its bounds (ε = 0.9), the way until a release chose its limits;
  the figures are kept in data/truth_baseline.json, since that code is gone;
- OpenDP, PipelineDP and Tumult Analytics with the best bounds in hindsight and with a natural guess (`truth_peers.py`).

Claims, on the held-out tables: the geometric mean of ours / before (aim "coverage") is at most 0.75, none above 1.5; of
ours / best peer in hindsight at most 1.3, none above 1.8; ours is better than each peer with a natural guess; at least
90 % of intervals hold on every table with more than 500 people, also in the largest quarter; the share that is said to
be cut off is within its interval in at least 90 % of releases.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from measure import print_table
from osgt import Dataset
from osgt.support.errors import OsgtError
from truth_data import HELD_OUT, TUNING, Question
from truth_peers import best_bounds, guessed_bounds, median_error

EPSILON, DELTA, RUNS = 1.0, 1e-8, 20
LIBRARIES = ("opendp", "pipelinedp", "tumult")
BASELINE = Path(__file__).resolve().parent / "data" / "truth_baseline.json"
QUICK = ("baseball", "salaries", "records")

#: The largest quarter of fewer groups is too few to speak of.
FEWEST_GROUPS = 20
FEWEST_PEOPLE = 500


@dataclass(frozen=True)
class Run:
    """One release: its mean squared error, the share of intervals that hold, and whether the share cut off does."""

    squared_error: float
    coverage: float
    largest_quarter: float
    share_holds: bool | None


@dataclass(frozen=True)
class Result:
    """The figures of one question."""

    question: Question
    runs: tuple[Run, ...]
    refused: int
    before: dict[str, float]
    best: dict[str, float]
    guessed: dict[str, float]

    @property
    def error(self) -> float:
        """The root of the median of the mean squared error."""
        return math.sqrt(np.median([run.squared_error for run in self.runs]))

    @property
    def coverage(self) -> float:
        """The share of intervals that hold the true number."""
        return float(np.mean([run.coverage for run in self.runs]))

    @property
    def largest_quarter(self) -> float:
        """The share of intervals that hold the true number in the largest quarter of groups; NaN with few groups."""
        return float(np.mean([run.largest_quarter for run in self.runs]))

    @property
    def shares(self) -> list[bool]:
        """Whether the share that was cut off was within its interval, for each release that told one."""
        return [run.share_holds for run in self.runs if run.share_holds is not None]

    @property
    def ratios(self) -> dict[str, float]:
        """Our error over each of the others."""
        others = {f"before, {aim}": error for aim, error in self.before.items()}
        others |= {"best peer": min(self.best.values())}
        others |= {f"{library} guessed": error for library, error in self.guessed.items()}
        return {name: self.error / error for name, error in others.items()}


def release_ours(question: Question) -> Run:
    """Make one release, with nothing chosen but the budget."""
    data = Dataset(question.frame, privacy_unit=question.unit, units=question.about)
    grouped = data.group_by(*question.keys, public_keys=question.groups)
    query = grouped.count() if question.column is None else grouped.sum(question.column)
    release = query.release(epsilon=EPSILON, delta=DELTA)
    name = "count" if question.column is None else f"{question.column}_sum"
    table = question.groups.merge(release.to_pandas(), how="left", on=list(question.keys))
    numbers, low, high = (table[f"{name}{end}"].to_numpy(float) for end in ("", "_low", "_high"))
    holds = (low <= question.truth) & (question.truth <= high)
    largest = np.argsort(-question.truth)[: len(holds) // 4]
    return Run(
        float(np.mean((numbers - question.truth) ** 2)),
        float(holds.mean()),
        float(holds[largest].mean()) if len(holds) >= FEWEST_GROUPS else math.nan,
        _share_holds(question, release),
    )


def _share_holds(question: Question, release: Any) -> bool | None:
    """Whether the exact share of rows, or of a sum, that was cut off is in the interval told; None if none is."""
    told = release.left_out
    if told is None:
        return None
    share, limit = told.rows, told.groups.max_rows
    weights = None
    if question.column is not None:
        share, limit = told.sums.get(question.column, (None, None))
        weights = question.frame[question.column].abs()
    if share is None or limit is None:
        return None
    amounts = np.bincount(question.units, weights=weights)
    cut = np.maximum(amounts - limit, 0).sum() / amounts.sum()
    return bool(share.low <= cut <= share.high)


def measure(question: Question, runs: int, baseline: dict) -> Result:
    """Gather the figures of a question; releases that are refused are named, and are missing in them."""
    ours, refusals = [], []
    for _ in range(runs):
        try:
            ours.append(release_ours(question))
        except (OsgtError, TypeError, ValueError) as reason:
            refusals.append(reason)
    print(f"{question.name}: measured", file=sys.stderr)
    if refusals:
        print(f"{question.name}: {len(refusals)} of {runs} releases refused: {refusals[0]}")
    before = {aim: baseline[question.name][aim]["error"] for aim in ("coverage", "error")}
    errors = {
        how: {library: median_error(question, bounds(library), EPSILON, DELTA, runs) for library in LIBRARIES}
        for how, bounds in (
            ("best", lambda library: best_bounds(question, library, EPSILON, DELTA)),
            ("guessed", lambda library: guessed_bounds(question, library)),
        )
    }
    return Result(question, tuple(ours), len(refusals), before, errors["best"], errors["guessed"])


def print_errors(title: str, results: Sequence[Result]) -> None:
    """Print the errors of all, and the coverage of ours and before."""
    rows = [
        [
            result.question.name,
            f"{result.question.people:,}",
            f"{len(result.question.groups):,}",
            f"{result.error:,.0f}" if result.runs else "",
            *(f"{result.before.get(aim, math.nan):,.0f}" for aim in ("coverage", "error")),
            *(f"{result.best[library]:,.0f} / {result.guessed[library]:,.0f}" for library in LIBRARIES),
            f"{result.coverage:.2f} / {result.largest_quarter:.2f}" if result.runs else "",
            f"{np.mean(result.shares):.2f}" if result.shares else "",
        ]
        for result in results
    ]
    peers = [f"{library}: best / guess" for library in LIBRARIES]
    head = ["", "people", "groups", "ours", "before: coverage", "before: error", *peers, "all / largest", "share told"]
    print_table(f"{title}: errors at ε = {EPSILON:g}, δ = {DELTA:g}; our coverage", head, rows)


def print_summary(title: str, results: Sequence[Result]) -> None:
    """Print the ratios of ours to the others, their geometric means and the worst."""
    made = [result for result in results if result.runs]
    if not made:
        return
    names = list(dict.fromkeys(name for result in made for name in result.ratios))
    rows = []
    for name in names:
        ratios = {result.question.name: result.ratios[name] for result in made if name in result.ratios}
        worst = max(ratios, key=ratios.__getitem__)
        rows.append([f"ours / {name}", f"{_mean(list(ratios.values())):.2f}", f"{ratios[worst]:.2f}", worst])
    print_table(f"{title}: ratios of errors", ["", "geometric mean", "worst", "of"], rows)


def print_claims(results: Sequence[Result]) -> None:
    """Say which of the claims about the held-out tables are met."""
    made = [result for result in results if result.runs]
    if not made:
        return
    before = [result.ratios["before, coverage"] for result in made if "before, coverage" in result.ratios]
    best = [result.ratios["best peer"] for result in made]
    guessed = {library: _mean([result.ratios[f"{library} guessed"] for result in made]) for library in LIBRARIES}
    many = [result for result in made if result.question.people > FEWEST_PEOPLE]
    held = min(result.coverage for result in many)
    largest = min((r.largest_quarter for r in many if not math.isnan(r.largest_quarter)), default=math.nan)
    shares = [holds for result in made for holds in result.shares]
    refused = sum(result.refused for result in results)
    claims = {
        f"every release is made: {refused} refused": refused == 0,
        f"ours / before: mean {_mean(before):.2f} ≤ 0.75, worst {max(before):.2f} ≤ 1.5": _mean(before) <= 0.75
        and max(before) <= 1.5,
        f"ours / best peer: mean {_mean(best):.2f} ≤ 1.3, worst {max(best):.2f} ≤ 1.8": _mean(best) <= 1.3
        and max(best) <= 1.8,
        "better than each natural guess: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in guessed.items()): max(
            guessed.values()
        )
        < 1,
        f"intervals hold: worst table {held:.2f}, largest quarter {largest:.2f} ≥ 0.9": min(held, largest) >= 0.9,
        f"share cut off as told: {np.mean(shares) if shares else math.nan:.2f} ≥ 0.9": bool(shares)
        and np.mean(shares) >= 0.9,
    }
    for claim, is_met in claims.items():
        print(f"{claim}: {'met' if is_met else 'missed'}")


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw the errors on held-out tables, over that of the best peer in hindsight."""
    from matplotlib.figure import Figure  # noqa: PLC0415 - only where a picture is asked for

    figure = Figure(figsize=(8.5, 5.6), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(results))
    best = np.array([min(result.best.values()) for result in results])
    shown = {
        "osgt: nothing chosen by hand": ("o", "#0b6e4f", [result.error for result in results]),
        "OpenDP, natural guess of limits": ("x", "#b23a48", [result.guessed["opendp"] for result in results]),
        "PipelineDP, natural guess of limits": ("+", "#8d6a9f", [result.guessed["pipelinedp"] for result in results]),
    }
    for label, (marker, colour, errors) in shown.items():
        axes.scatter(np.array(errors) / best, places, marker=marker, color=colour, label=label, zorder=3)
    axes.axvline(1, color="#555555", linewidth=1)
    axes.set_xscale("log")
    ticks = [0.5, 1, 2, 5, 10, 20, 50, 100, 200]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlim(0.4, max(max(np.array(errors) / best) for _, _, errors in shown.values()) * 1.3)
    axes.minorticks_off()
    axes.set_yticks(places, [result.question.name for result in results])
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(
        f"error, over that of the best peer with the best limits in hindsight (ε = {EPSILON:g}, δ = {DELTA:g})"
    )
    figure.legend(loc="outside upper left", ncols=3, frameon=False)
    figure.savefig(path, dpi=140)


def _mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(np.mean(np.log(ratios)))


def main() -> None:
    """Measure every question, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--quick", action="store_true", help=f"5 runs on {', '.join(QUICK)}")
    parser.add_argument("--only", nargs="+", help="names of tables")
    parser.add_argument("--picture", type=Path, help="draw the errors on held-out tables here")
    options = parser.parse_args()
    runs = 5 if options.quick else options.runs
    wanted = QUICK if options.quick else options.only
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))["questions"]
    for title, questions in (("Tuning", TUNING), ("Held out", HELD_OUT)):
        chosen = [question for question in questions if wanted is None or question.table in wanted]
        results = [measure(question, runs, baseline) for question in chosen]
        if results:
            print_errors(title, results)
            print_summary(title, results)
        if title == "Held out":
            print_claims(results)
            if options.picture is not None:
                draw(results, options.picture)


if __name__ == "__main__":
    main()
