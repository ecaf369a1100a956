"""Noisy counts by group with Tumult Analytics on Spark: what its user writes."""

import math

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    QueryBuilder,
    Session,
)
from tmlt.analytics.config import config


def start():
    # Keys of its own choice are behind a flag; without it they take a query of their own, which is slower.
    config.features.auto_partition_selection.enable()
    return SparkSession.builder.master("local[2]").config("spark.driver.memory", "8g").getOrCreate()


def query(path, keys, epsilon, delta, max_groups, max_rows_per_group):
    spark = start()
    budget = ApproxDPBudget(epsilon, delta)
    session = Session.from_dataframe(
        privacy_budget=budget,
        source_id="rows",
        dataframe=spark.read.parquet(path),
        protected_change=AddRowsWithID("user"),
    )
    counts = (
        QueryBuilder("rows")
        .enforce(MaxGroupsPerID("grp", max_groups))
        .enforce(MaxRowsPerGroupPerID("grp", max_rows_per_group))
        .groupby(KeySet.from_dataframe(spark.read.parquet(keys)) if keys else ["grp"])
        .count()
    )
    return session, counts, budget


def release(**question):
    session, counts, budget = query(**question)
    return session.evaluate(counts, budget).collect()


def noise_std(**question):
    # It knows the scale of its two-sided geometric noise.
    session, counts, budget = query(**question)
    return 1 / (math.sqrt(2) * math.sinh(0.5 / float(session._noise_info(counts, budget)[0]["noise_parameter"])))
