"""Noisy counts by group with OpenDP on Polars: what its user writes."""

import math

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def query(path, keys, epsilon, delta, max_groups, max_rows_per_group):
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(epsilon=epsilon, delta=delta),
        split_evenly_over=1,
    )
    # The default, keep="sample", fails on one column: "multiple fields with name 'grp' found".
    counts = (
        context.query()
        .truncate_per_group(max_rows_per_group, by=["grp"])
        .truncate_num_groups(max_groups, by=["grp"], keep="first")
        .group_by("grp")
        .agg(dp.len(signed=True))
    )
    return counts.with_keys(pl.read_parquet(keys)) if keys else counts


def release(**question):
    return query(**question).release().collect().rows()


def noise_std(**question):
    # Its summary says the scale of its integer Laplace noise.
    return 1 / (math.sqrt(2) * math.sinh(0.5 / query(**question).summarize()["scale"][0]))
