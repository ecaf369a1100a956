"""Counts or sums by group with Tumult Analytics on Spark, at most `limit` rows for each user: as `opendp_truth.py`."""

import json
import os
import sys

from pyspark.sql import SparkSession
from tmlt.analytics import AddRowsWithID, ApproxDPBudget, KeySet, MaxRowsPerID, QueryBuilder, Session

os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark's workers are of another environment


def release(path, keys, epsilon, delta, limit, clip, runs):
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    frame = spark.read.parquet(keys)
    order = [row[0] for row in frame.collect()]
    for _ in range(runs):
        session = Session.from_dataframe(
            privacy_budget=ApproxDPBudget(epsilon, delta),
            source_id="rows",
            dataframe=spark.read.parquet(path),
            protected_change=AddRowsWithID("user"),
        )
        grouped = QueryBuilder("rows").enforce(MaxRowsPerID(limit)).groupby(KeySet.from_dataframe(frame))
        query = grouped.count() if clip is None else grouped.sum("value", low=0, high=clip)
        numbers = {row[0]: row[1] for row in session.evaluate(query, ApproxDPBudget(epsilon, delta)).collect()}
        yield [numbers[group] for group in order]


if __name__ == "__main__":
    print(json.dumps(list(release(**json.loads(sys.argv[1])))))
