"""Counts or sums by group with OpenDP on Polars, at most `limit` rows for each user: `python opendp_truth.py JSON`.

Prints a list with the numbers of every run, in the order of the keys. With `clip` it adds up values between 0 and that.
"""

import json
import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def release(path, keys, epsilon, delta, limit, clip, runs):
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(epsilon=epsilon * runs, delta=delta * runs),
        split_evenly_over=runs,
        margins=[dp.polars.Margin(by=["grp"], max_length=10_000_000)],
    )
    number = dp.len(signed=True) if clip is None else pl.col("value").fill_null(0).dp.sum((0, clip))
    table = pl.read_parquet(keys)
    for _ in range(runs):
        query = context.query().truncate_per_group(limit).group_by("grp").agg(number.alias("number"))
        released = query.with_keys(table.lazy()).release().collect()
        yield table.join(released, on="grp", how="left", maintain_order="left")["number"].to_list()


if __name__ == "__main__":
    print(json.dumps(list(release(**json.loads(sys.argv[1])))))
