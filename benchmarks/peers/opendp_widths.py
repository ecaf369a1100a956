"""Half-widths of the 95 % intervals of counts and sums by group with OpenDP on Polars, as its summary says them.

`python opendp_widths.py '{"epsilon": …, "delta": …, "groups": 8, "rows": 3, "by": ["month"], "keys": [[1], …],
"asked": [["count", null, null], ["sum", "spent", [0, 5000]]]}'` prints a list, one for each number that is asked for.
With "split": 2 it is one of two queries with this budget.
"""

import json
import sys

import opendp.prelude as dp
import polars as pl

dp.enable_features("contrib")


def widths(epsilon, delta, groups, rows, by, keys, asked, split=1):
    columns = sorted({column for _, column, _ in asked if column})
    data = pl.LazyFrame({name: [1, 2] for name in ["person", *by, *columns]})
    context = dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1, identifier="person"),
        privacy_loss=dp.loss_of(epsilon=epsilon, delta=delta),
        split_evenly_over=split,
        margins=[dp.polars.Margin(by=by, max_length=1_000_000)],
    )
    numbers = [
        dp.len(signed=True).alias(f"n{i}")
        if kind == "count"
        else pl.col(column).fill_null(0).dp.sum(tuple(bounds)).alias(f"n{i}")
        for i, (kind, column, bounds) in enumerate(asked)
    ]
    query = context.query().truncate_per_group(rows, by=by).truncate_num_groups(groups, by=by, keep="first")
    query = query.group_by(by).agg(*numbers)
    if keys is not None:
        query = query.with_keys(pl.LazyFrame(dict(zip(by, map(list, zip(*keys, strict=True)), strict=True))))
    return query.summarize(alpha=0.05)["accuracy"].to_list()


if __name__ == "__main__":
    print(json.dumps(widths(**json.loads(sys.argv[1]))))
