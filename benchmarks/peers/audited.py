"""Our own query as other libraries answer it, audited: `python audited.py`, with osgt, OpenDP and PipelineDP beside it.

The query: visits by place, add or remove one user, who counts in at most two groups with one row in each (twenty where
places are put together). Each function compiles it once and is then called with made tables. Faults that we planted
come first. The sum is about three rows of a unit that change all at once, on two tables that are given. Printed are the
version, the query, the result and the evidence, with the name of the neighbours.
"""

import os
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version

import numpy as np
import pandas as pd

from osgt import Dataset, audit

MOST, MANY = 2, 20
PLACES = list(range(40))
DRAWS = int(os.environ.get("DRAWS_OF_FUNCTIONS", "6000"))
RNG = np.random.default_rng()


def described(most=MOST):
    """The query, on a table of which no row is used."""
    table = pd.DataFrame({"user": ["a", "a", "b"], "place": [1, 2, 1]})
    groups = Dataset(table, "user").group_by("place", max_groups=most, max_rows_per_group=1, public_keys=PLACES)
    return groups.count()


def own(scale, most=MOST):
    """A release of our own: discrete Laplace noise on counts of at most so many groups for each user."""
    p = 1 - np.exp(-1 / scale)

    def release(table):
        pairs = sorted({*zip(table["user"].tolist(), table["place"].tolist(), strict=True)}, key=str)
        used, counts = {}, dict.fromkeys(PLACES, 0)
        for user, place in pairs:
            if place in counts and used.get(user, 0) < most:
                used[user] = used.get(user, 0) + 1
                counts[place] += 1
        noise = RNG.geometric(p, len(counts)) - RNG.geometric(p, len(counts))
        return dict(zip(counts, np.array(list(counts.values())) + noise, strict=True))

    return release


def opendp_counts(coarser):
    """OpenDP: truncated by place; with `coarser`, places are put together afterwards, in a column of the same name."""
    import opendp.prelude as dp  # noqa: PLC0415 - it may not be there
    import polars as pl  # noqa: PLC0415 - it may not be there

    dp.enable_features("contrib")
    schema = pl.LazyFrame(schema={"user": pl.String, "place": pl.Int64})
    context = dp.Context.compositor(
        data=schema,
        privacy_unit=dp.unit_of(contributions=1, identifier="user"),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=1_000_000)],
    )
    most = MANY if coarser else MOST
    query = context.query().truncate_per_group(1, by=["place"]).truncate_num_groups(most, by=["place"], keep="first")
    keys = PLACES
    if coarser:
        query, keys = query.with_columns(place=pl.col("place") // 100), [0]
    query = query.group_by("place").agg(dp.len(signed=True).alias("visits"))
    measurement = query.with_keys(pl.LazyFrame({"place": keys}, schema={"place": pl.Int64})).resolve()

    def release(table):
        frame = pl.DataFrame(
            {"user": table["user"].tolist(), "place": table["place"].tolist()}, schema=schema.collect_schema()
        )
        return dict(measurement(frame.lazy()).collect().sort("place").iter_rows())

    return release


def opendp_sum(max_length):
    """OpenDP: the sum of values in one group, where six rows may differ; with `max_length` rows in a group at most."""
    import opendp.prelude as dp  # noqa: PLC0415 - it may not be there
    import polars as pl  # noqa: PLC0415 - it may not be there

    dp.enable_features("contrib")
    schema = pl.LazyFrame(schema={"g": pl.String, "v": pl.Int64})
    context = dp.Context.compositor(
        data=schema,
        privacy_unit=dp.unit_of(contributions=6),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["g"], max_length=max_length, max_groups=1)],
    )
    query = context.query().group_by("g").agg(pl.col("v").dp.sum((-10, 10)))
    measurement = query.with_keys(pl.LazyFrame({"g": ["a"]})).resolve()
    return lambda rows: measurement(pl.LazyFrame({"g": ["a"] * len(rows), "v": rows.tolist()})).collect()["v"].to_list()


def pipelinedp_counts():
    """PipelineDP: users in at most MOST places, once in each, on its local back end.

    It refuses a collection without rows (ValueError), so that there is always one more, of no public place.
    """
    import pipeline_dp  # noqa: PLC0415 - it may not be there

    def release(table):
        budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1.0, total_delta=0)
        engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
        result = engine.aggregate(
            [("nobody", -1), *zip(table["user"].tolist(), table["place"].tolist(), strict=True)],
            pipeline_dp.AggregateParams(
                metrics=[pipeline_dp.Metrics.COUNT],
                noise_kind=pipeline_dp.NoiseKind.LAPLACE,
                max_partitions_contributed=MOST,
                max_contributions_per_partition=1,
            ),
            pipeline_dp.DataExtractors(
                privacy_id_extractor=lambda row: row[0],
                partition_extractor=lambda row: row[1],
                value_extractor=lambda row: 0,
            ),
            public_partitions=PLACES,
        )
        budget.compute_budgets()
        return {place: metrics.count for place, metrics in sorted(result)}

    return release


def known(name):
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def judged(library, query, make, **inputs):
    """Audit one function, and print what came of it."""
    begin = time.perf_counter()
    try:
        release = make()
    except ImportError as error:
        print(f"{library} | {query} | not installed: {error.name}", flush=True)
        return
    compiled = time.perf_counter() - begin
    begin = time.perf_counter()
    result = audit(release, 1, 0, draws=DRAWS, **inputs)
    took = f"{compiled:.0f} s to compile, {time.perf_counter() - begin:.0f} s to audit"
    print(f"{library} | {query} | {'no evidence' if result.passed else 'BROKEN'} | {took}", flush=True)
    for check in result.checks:
        print(f"  {check.name}: " + " ".join([check.words, *map(str, check.findings)]), flush=True)


def main(chosen):
    warnings.simplefilter("ignore")
    tables = {"data": described(), "missing_values": False, "real_rows": False}
    many = tables | {"data": described(MANY)}
    rows = {"data": np.array([10, 10, 10]), "neighbour": np.array([-10, -10, -10])}
    cases = [
        ("osgt's planted fault", "counts, noise for half the groups", lambda: own(MOST / 2), tables),
        ("osgt's planted fault", "counts, limit of groups forgotten", lambda: own(MOST, most=1000), tables),
        ("by hand", "counts", lambda: own(MOST), tables),
        (known("opendp"), "counts, place redefined after truncation", lambda: opendp_counts(coarser=True), many),
        (known("opendp"), "counts", lambda: opendp_counts(coarser=False), tables),
        (known("opendp"), "sum, max_length=3, three rows of a unit change", lambda: opendp_sum(3), rows),
        (known("opendp"), "sum, max_length=6, three rows of a unit change", lambda: opendp_sum(6), rows),
        (known("pipeline-dp"), "counts", pipelinedp_counts, tables),
    ]
    for i, (library, query, make, inputs) in enumerate(cases):
        if not chosen or str(i) in chosen:
            judged(library, query, make, **inputs)


if __name__ == "__main__":
    main(sys.argv[1:])
