"""OpenDP, PipelineDP and Tumult Analytics for `tables_truth.py`; run by itself, it checks what is simulated here.

Each keeps at most `limit` rows of a person, drawn at random (`truncate_per_group`, `max_contributions`,
`MaxRowsPerID`), values cut off at `clip`, and adds Laplace noise of scale limit·clip/ε; δ is not used. PipelineDP can
also keep a number of groups of a person and cut off the sum in each (`max_partitions_contributed`,
`max_sum_per_partition`), with Laplace or Gaussian noise. A run of a library takes seconds, so that the mechanisms are
simulated; the check is that the errors of runs of the libraries and of simulated runs agree.

"Best in hindsight" is the choice with the least expected error against the true table: nobody has it without seeing the
data. "Natural guess": 10 rows (10 groups), and values up to the power of ten at or above their 99 % quantile, which
somebody who has not seen the data may not know either.
"""

import json
import math
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import optimize
from scipy.stats import norm

from measure import print_table
from tables_peers import interpreter, version
from truth_data import QUESTIONS, Question

PROGRAMS = Path(__file__).resolve().parent / "peers"
GUESSED = 10
ROWS_STEP, CLIP_STEP = 1.15, 1.3
generator = np.random.default_rng()


@dataclass(frozen=True)
class Bounds:
    """At most `limit` rows of a unit, or groups with `by_group`, and the largest value of a row, or sum of a group."""

    limit: int
    clip: int
    by_group: bool = False
    noise: Literal["laplace", "gaussian"] = "laplace"

    def std(self, epsilon: float, delta: float) -> float:
        """The standard deviation of the noise."""
        if self.noise == "gaussian":
            return gaussian_scale(epsilon, delta) * math.sqrt(self.limit) * self.clip
        return math.sqrt(2) * self.limit * self.clip / epsilon


@cache
def gaussian_scale(epsilon: float, delta: float) -> float:
    """σ of the Gaussian mechanism for vectors of length 1: the root of its exact δ."""

    def excess(mu: float) -> float:
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return 1 / optimize.brentq(excess, 1e-3, 20)


def expected_error(question: Question, bounds: Bounds, epsilon: float, delta: float) -> float:
    """The root of the expected mean squared error over groups, with rows or groups drawn without replacement."""
    number = len(question.groups)
    if bounds.by_group:
        units, places, sums, _ = pair_sums(question, None)
        sizes = np.bincount(units)[units]
        kept = np.minimum(1, bounds.limit / sizes)
        cut = np.minimum(sums, bounds.clip)
        lost, variance = sums - kept * cut, kept * (1 - kept) * cut**2
    else:
        units, places, sums, squares = pair_sums(question, bounds.clip)
        true = pair_sums(question, None)[2]
        rows = np.bincount(question.units)[units]
        kept = np.minimum(1, bounds.limit / rows)
        spread = (squares - sums**2 / rows) / np.maximum(rows - 1, 1)
        lost, variance = true - kept * sums, np.minimum(bounds.limit, rows) * (1 - kept) * spread
    bias = np.bincount(places, lost, number)
    drawn = np.bincount(places, variance, number)
    return math.sqrt(np.mean(bias**2 + drawn) + bounds.std(epsilon, delta) ** 2)


@cache
def pairs(question: Question) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The units and groups of distinct pairs, and each row's number among them."""
    codes, inverse = np.unique(question.units * len(question.groups) + question.places, return_inverse=True)
    return codes // len(question.groups), codes % len(question.groups), inverse


@cache
def pair_sums(question: Question, clip: int | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Units, groups, sums and sums of squares of values up to `clip`, for each pair of unit and group."""
    units, places, inverse = pairs(question)
    values = question.values if clip is None else np.minimum(question.values, clip)
    values = values.astype(float)
    return units, places, np.bincount(inverse, values, len(units)), np.bincount(inverse, values**2, len(units))


def squared_error(question: Question, bounds: Bounds, epsilon: float, delta: float) -> float:
    """The mean squared error over groups of one simulated run."""
    number = len(question.groups)
    if bounds.by_group:
        units, places, values, _ = pair_sums(question, None)
    else:
        units, places, values = question.units, question.places, question.values
    ranks = np.zeros(len(units), dtype=np.int64)
    crowded = np.flatnonzero(np.bincount(units)[units] > bounds.limit)
    order = crowded[np.lexsort((generator.random(len(crowded)), units[crowded]))]
    starts = np.flatnonzero(np.diff(units[order], prepend=-1))
    ranks[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    kept = ranks < bounds.limit
    cut = np.bincount(places[kept], np.minimum(values[kept], bounds.clip), number)
    if bounds.noise == "gaussian":
        noise = generator.normal(0, bounds.std(epsilon, delta), number)
    else:
        noise = generator.laplace(0, bounds.limit * bounds.clip / epsilon, number)
    return float(np.mean((cut + noise - question.truth) ** 2))


@cache
def median_error(question: Question, bounds: Bounds, epsilon: float, delta: float, runs: int) -> float:
    """The root of the median of the mean squared error over groups; one figure for libraries that do the same."""
    return math.sqrt(np.median([squared_error(question, bounds, epsilon, delta) for _ in range(runs)]))


def _steps(last: float, step: float) -> list[int]:
    count = math.ceil(math.log(max(last, 1)) / math.log(step))
    return sorted({round(step**i) for i in range(count + 1)})


def best_bounds(question: Question, library: str, epsilon: float, delta: float) -> Bounds:
    """The bounds with the least expected error, over a grid of limits and clips in small steps."""
    counted = question.column is None
    rows = _steps(np.bincount(question.units).max(), ROWS_STEP)
    clips = [1] if counted else _steps(np.quantile(question.values, 0.9999), CLIP_STEP)
    choices = [Bounds(limit, clip) for limit in rows for clip in clips]
    if library == "pipelinedp" and not counted:
        units, _, sums, _ = pair_sums(question, None)
        limits, tops = _steps(np.bincount(units).max(), ROWS_STEP), _steps(np.quantile(sums, 0.9999), CLIP_STEP)
        for noise in ("laplace", "gaussian"):
            choices += [Bounds(limit, top, by_group=True, noise=noise) for limit in limits for top in tops]
    # Noise alone is a lower limit of the error, which spares most of the grid.
    choices.sort(key=lambda bounds: bounds.std(epsilon, delta))
    best, least = choices[0], math.inf
    for bounds in choices:
        if bounds.std(epsilon, delta) > least:
            break
        error = expected_error(question, bounds, epsilon, delta)
        if error < least:
            best, least = bounds, error
    return best


def guessed_bounds(question: Question, library: str) -> Bounds:
    """The bounds that somebody who has not seen the data might take."""
    if question.column is None:
        return Bounds(GUESSED, 1)
    clip = 10 ** math.ceil(math.log10(max(np.quantile(question.values, 0.99), 1)))
    return Bounds(
        min(GUESSED, len(question.groups)) if library == "pipelinedp" else GUESSED, clip, library == "pipelinedp"
    )


def run_library(
    library: str, question: Question, bounds: Bounds, epsilon: float, delta: float, runs: int
) -> np.ndarray:
    """The numbers that the library itself publishes, a row for each run."""
    with tempfile.TemporaryDirectory() as folder:
        rows, keys = Path(folder) / "rows.parquet", Path(folder) / "keys.parquet"
        columns = {"user": question.units, "grp": question.places, "value": question.values}
        pq.write_table(pa.table(columns), rows)
        pq.write_table(pa.table({"grp": np.arange(len(question.groups))}), keys)
        asked = {"path": str(rows), "keys": str(keys), "epsilon": epsilon, "delta": delta, "runs": runs}
        asked |= {"limit": bounds.limit, "clip": None if question.column is None else bounds.clip}
        if bounds.by_group:
            asked |= {"groups": bounds.limit, "noise": bounds.noise}
        command = [interpreter(library), PROGRAMS / f"{library}_truth.py", json.dumps(asked)]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{library}: {done.stderr.strip().splitlines()[-1]}")
    return np.array(json.loads(done.stdout.splitlines()[-1]), dtype=float)


def check() -> None:
    """Compare errors of the libraries' own runs with those of simulated runs."""
    epsilon, delta, runs, table = 1.0, 1e-8, 5, []
    checked = [question for question in QUESTIONS if question.table == "baseball"]
    for question in checked:
        for library in ("opendp", "pipelinedp", "tumult"):
            for bounds in {guessed_bounds(question, library), best_bounds(question, library, epsilon, delta)}:
                published = run_library(library, question, bounds, epsilon, delta, runs)
                real = math.sqrt(np.median(np.mean((published - question.truth) ** 2, axis=1)))
                drawn = [math.sqrt(squared_error(question, bounds, epsilon, delta)) for _ in range(200)]
                low, high = np.quantile(drawn, [0.005, 0.995])
                table.append(
                    [
                        f"{library} {version(interpreter(library), library)}",
                        question.name,
                        f"{bounds.limit} × {bounds.clip}{' by group' if bounds.by_group else ''} {bounds.noise}",
                        f"{real:,.1f}",
                        f"{np.median(drawn):,.1f}",
                        "met" if low <= real <= high else "missed",
                    ]
                )
    print_table(
        f"Error of {runs} runs of the library, and simulated", ["", "", "bounds", "library", "simulated", ""], table
    )


if __name__ == "__main__":
    check()
