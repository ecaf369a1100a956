"""Error against the truth with `suggest_bounds` and a release with its bounds, kept in data/truth_baseline.json.

`suggest_bounds(0.1, release_epsilon=0.9, release_delta=1e-8, aim=…)`, then `apply().release(0.9, 1e-8)`: the shares in
docs/choose-bounds.md for thousands of people. Both aims read one draw of the histograms. A suggestion that
refuses ("nothing could be told from the noise") is drawn again without charge, in its favour, and counted.
"""

import dataclasses
import datetime
import json
import sys
import warnings
from pathlib import Path

import numpy as np

from osgt import Dataset
from osgt.api import publish
from osgt.api.suggestion import histograms
from osgt.limits import recommendation
from osgt.limits.bounding import fresh_salt
from osgt.release.measuring import NothingReleasedError
from tables_data import BUILD
from truth_data import HELD_OUT, TUNING

RUNS, PART, DELTA, TRIES = 20, 0.1, 1e-8, 10
RUNS_OF_ERROR = 10
recommendation._TRIALS = 0  # they tell how far the recommendation could vary, and decide nothing
AIMS = ("coverage", "error")

crashes = []

#: Compiling SQL takes most of the time: once for each query, then with a fresh salt in its place.
compiled = {}


def compile_once(compile_with, key, *inputs):
    fresh = fresh_salt()
    if key not in compiled:
        compiled[key] = fresh, compile_with(*inputs, salt=fresh), inputs
    salt, ready, _ = compiled[key]
    return dataclasses.replace(ready, sql=ready.sql.replace(str(salt), str(fresh)))


compile_histograms, compile_release = histograms.prepared_histograms, publish.prepared
histograms.prepared_histograms = lambda query, layout: compile_once(compile_histograms, "histograms", query, layout)
publish.prepared = lambda query, plan: compile_once(compile_release, (id(query), id(plan)), query, plan)


def suggest(query):
    for _ in range(TRIES):
        try:
            return query.suggest_bounds(PART, 0, release_epsilon=1 - PART, release_delta=DELTA, aim=AIMS[0])
        except NothingReleasedError:  # an overflow, where few units show next to nothing
            crashes.append(query)
    raise RuntimeError("no suggestion")


def measure(question):
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"baseline-{question.table}-{question.column}.parquet"
    question.frame.assign(**{question.unit: question.units}).to_parquet(path)
    data = Dataset(path, privacy_unit=question.unit)
    queries = {}
    grouped = data.group_by(*question.keys, public_keys=question.groups)
    query = grouped.count() if question.column is None else grouped.sum(question.column)
    name = "count" if question.column is None else f"{question.column}_sum"
    quarter = np.argsort(-question.truth)[: len(question.truth) // 4]
    compiled.clear()
    crashes.clear()
    runs = {aim: [] for aim in AIMS}
    refused = dict.fromkeys(AIMS, 0)
    for run in range(RUNS):
        first = suggest(query)
        for aim in AIMS if run < RUNS_OF_ERROR else AIMS[:1]:
            suggestion = first
            for _ in range(TRIES):
                if aim != suggestion.aim:
                    noise = histograms._noise(suggestion.query, 1 - PART, DELTA)
                    again = recommendation.recommend(suggestion.evidence, suggestion.query.wanted, noise, aim)
                    suggestion = dataclasses.replace(suggestion, recommendation=again, aim=aim)
                try:
                    bounded = suggestion.apply()
                    break
                except ValueError:
                    refused[aim] += 1
                    suggestion = suggest(query)
            else:
                continue
            bounded = queries.setdefault(str(suggestion.recommendation.choice), bounded)  # plans once
            table = bounded.release(epsilon=1 - PART, delta=DELTA).to_pandas()
            table = question.groups.merge(table, how="left", on=list(question.keys))
            published, low, high = (table[f"{name}{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            held = (low <= question.truth) & (question.truth <= high)
            choice = suggestion.recommendation.choice
            runs[aim].append(
                {
                    "mse": float(np.mean((published - question.truth) ** 2)),
                    "all": float(held.mean()),
                    "quarter": float(held[quarter].mean()) if len(quarter) else None,
                    "kept": float(published.sum() / question.truth.sum()),
                    "bounds": [choice.max_groups, choice.max_rows, *map(list, choice.bounds.values())],
                }
            )
    facts = {}
    for aim in AIMS:
        if not runs[aim]:
            facts[aim] = {"refused": refused[aim], "runs": 0}
            continue
        facts[aim] = {
            "error": float(np.sqrt(np.median([run["mse"] for run in runs[aim]]))),
            "coverage": float(np.mean([run["all"] for run in runs[aim]])),
            "coverage_largest_quarter": float(np.mean([run["quarter"] for run in runs[aim]])),
            "published_over_truth": float(np.median([run["kept"] for run in runs[aim]])),
            "runs": len(runs[aim]),
            "refused": refused[aim],
            "bounds_of_first_runs": [run["bounds"] for run in runs[aim][:3]],
        }
    return facts | ({"crashed": len(crashes)} if crashes else {})


def main():
    which, path = sys.argv[1], Path(sys.argv[2])
    results = json.loads(path.read_text()) if path.exists() else {}
    warnings.simplefilter("ignore")
    for question in HELD_OUT if which == "held_out" else TUNING:
        if question.name not in results:
            results[question.name] = measure(question)
            path.write_text(json.dumps(results, indent=1))
            print(
                datetime.datetime.now().isoformat(timespec="seconds"), question.name, results[question.name], flush=True
            )


if __name__ == "__main__":
    main()
