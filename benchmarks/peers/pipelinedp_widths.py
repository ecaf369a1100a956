"""Half-widths of the 95 % intervals of a count and a sum by group with PipelineDP, from the deviations that it reports.

Called like `opendp_widths.py`; at most one count and one sum. Its noise is Laplace's.
"""

import json
import math
import sys

import pipeline_dp


def widths(epsilon, delta, groups, rows, by, keys, asked):
    metrics = {"count": pipeline_dp.Metrics.COUNT, "sum": pipeline_dp.Metrics.SUM}
    bounds = next((bounds for kind, _, bounds in asked if kind == "sum"), [0, 1])
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    people = [(person, 0, 1) for person in range(2000)]
    result = engine.aggregate(
        people,
        pipeline_dp.AggregateParams(
            metrics=[metrics[kind] for kind, _, _ in asked],
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            max_partitions_contributed=groups,
            max_contributions_per_partition=rows,
            min_value=bounds[0],
            max_value=bounds[1],
            output_noise_stddev=True,
        ),
        pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: row[2],
        ),
        public_partitions=None if keys is None else list(range(len(keys))),
    )
    budget.compute_budgets()
    found = next(iter(result))[1]
    return [getattr(found, f"{kind}_noise_stddev") / math.sqrt(2) * math.log(20) for kind, _, _ in asked]


if __name__ == "__main__":
    print(json.dumps(widths(**json.loads(sys.argv[1]))))
