"""Counts or sums by group with PipelineDP on its local back end, called like `opendp_truth.py`.

With `groups` a user counts in at most so many groups, with at most `clip` in each, and `noise` is "laplace" or
"gaussian"; else as at most `limit` rows.
"""

import json
import sys

import pipeline_dp
import pyarrow.parquet as pq


def release(path, keys, epsilon, delta, limit, clip, runs, groups=None, noise="laplace"):
    rows = list(
        zip(*(column.to_pylist() for column in pq.read_table(path, columns=["user", "grp", "value"])), strict=True)
    )
    public = pq.read_table(keys)["grp"].to_pylist()
    if groups is None:
        bounds = {"max_contributions": limit}
        if clip is not None:
            bounds |= {"min_value": 0, "max_value": clip}
    else:
        bounds = {
            "max_partitions_contributed": groups,
            "max_contributions_per_partition": 1,
            "min_sum_per_partition": 0,
            "max_sum_per_partition": clip,
        }
    name = "count" if clip is None else "sum"
    for _ in range(runs):
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        result = engine.aggregate(
            rows,
            pipeline_dp.AggregateParams(
                metrics=[getattr(pipeline_dp.Metrics, name.upper())],
                noise_kind=pipeline_dp.NoiseKind(noise),
                **bounds,
            ),
            pipeline_dp.DataExtractors(
                privacy_id_extractor=lambda row: row[0],
                partition_extractor=lambda row: row[1],
                value_extractor=lambda row: row[2],
            ),
            public_partitions=public,
        )
        budget.compute_budgets()
        numbers = {group: getattr(metrics, name) for group, metrics in result}
        yield [numbers[group] for group in public]


if __name__ == "__main__":
    print(json.dumps(list(release(**json.loads(sys.argv[1])))))
