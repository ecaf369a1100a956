"""Noisy counts by group with PipelineDP on its local back end: what its user writes."""

import pipeline_dp
import pyarrow.parquet as pq


def query(path, keys, epsilon, delta, max_groups, max_rows_per_group):
    table = pq.read_table(path, columns=["user", "grp"])
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=delta)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    result = engine.aggregate(
        zip(table["user"].to_pylist(), table["grp"].to_pylist(), strict=True),
        pipeline_dp.AggregateParams(
            metrics=[pipeline_dp.Metrics.COUNT],
            noise_kind=pipeline_dp.NoiseKind.LAPLACE,
            max_partitions_contributed=max_groups,
            max_contributions_per_partition=max_rows_per_group,
            output_noise_stddev=True,
        ),
        pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0],
            partition_extractor=lambda row: row[1],
            value_extractor=lambda row: 0,
        ),
        public_partitions=pq.read_table(keys)["grp"].to_pylist() if keys else None,
    )
    budget.compute_budgets()
    return result


def release(**question):
    return [(group, metrics.count) for group, metrics in query(**question)]


def noise_std(**question):
    # It reports the deviation beside each count.
    return next(iter(query(**question)))[1].count_noise_stddev
