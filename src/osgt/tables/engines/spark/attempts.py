"""Answers of one piece: Spark computes again what a lost executor held, and need not find the same rows there.

A unit is bounded in one task, and its groups are summed in others. If the first task is repeated when some of the
others are through, these have counted the unit in groups of the first attempt, and the rest count it in groups of the
second. Where the source gives the same rows both times these are the same groups. Where it does not (`dropDuplicates`
keeps any of several rows, a database has moved on, `rand()`), the unit may be in twice as many as it is allowed. Spark
goes back to the beginning only where it takes a stage for random, which it does not for any of these. So an answer of
which a part was computed twice is thrown away unseen, and the query runs again.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from osgt.sampling.entropy import token

#: How often a query runs before it is given up.
RUNS = 3

#: How long to wait until Spark has written down what happened.
_MILLISECONDS = 60_000

#: Jobs and stages that Spark has to remember: a query has some ten, and others may run beside it.
_REMEMBERED = 100


def check_session(session: Any) -> None:
    """Raise unless the session will tell what was computed twice: nothing must be charged where it does not."""
    if ".connect." in type(session).__module__:
        raise TypeError(
            "a session of Spark Connect does not tell whether rows were read twice after an executor was lost, so the "
            "bounds might not hold; use a session in this process: SparkSession.builder.master(…).getOrCreate()"
        )
    from py4j.clientserver import ClientServer  # noqa: PLC0415 - an extra

    context = session.sparkContext
    if not isinstance(context._gateway, ClientServer):  # a tag might go to the jobs of another thread
        raise ValueError(
            "with PYSPARK_PIN_THREAD=false Spark does not tell which jobs a release has run, so the bounds might not "
            "hold; start Python without it"
        )
    for name in ("spark.ui.retainedJobs", "spark.ui.retainedStages"):
        if int(context.getConf().get(name, "1000")) < _REMEMBERED:
            raise ValueError(
                f"{name} must be at least {_REMEMBERED}: otherwise Spark forgets whether rows were read twice after an "
                "executor was lost, and the bounds might not hold"
            )


def in_one_piece(session: Any, work: Callable[[], pa.Table]) -> pa.Table:
    """What `work` gets from Spark, of which every part was computed once; it is done again until that is so."""
    context, tag = session.sparkContext, f"osgt_{token(8)}"
    spark = context._jsc.sc()
    for run in range(RUNS):
        before = max(_known_jobs(spark), default=-1)
        context.addJobTag(f"{tag}_{run}")
        try:
            answer = work()
        finally:
            context.removeJobTag(f"{tag}_{run}")
        if _knows_all(_known_jobs(spark), before) and not _computed_again(spark, f"{tag}_{run}"):
            return answer
    raise RuntimeError(
        f"in none of {RUNS} runs of the query was it sure that Spark computed every part once: see why executors are "
        "lost, or raise spark.ui.retainedJobs and spark.ui.retainedStages if these are low or very many jobs run at "
        "once; then release again"
    )


def _known_jobs(spark: Any) -> set[int]:
    """The numbers of the jobs that Spark still knows about, whoever started them."""
    spark.listenerBus().waitUntilEmpty(_MILLISECONDS)
    jobs = spark.statusStore().jobsList(None)
    return {jobs.apply(i).jobId() for i in range(jobs.size())}


def _knows_all(known: set[int], before: int) -> bool:
    """Whether no job since the one with the number `before` is forgotten: Spark keeps a limited number of them."""
    return known.issuperset(range(before + 1, max(known, default=before) + 1))


def _computed_again(spark: Any, tag: str) -> bool:
    """Whether some part of the jobs with this tag was computed twice, or may have been: Spark has forgotten it."""
    tracker, store, computed = spark.statusTracker(), spark.statusStore(), []
    jobs = list(tracker.getJobIdsForTag(tag))
    if not jobs:  # every query has one, even where there are no rows
        return True
    # Jobs that run at once share the stages that they both need.
    for number in {number for job in jobs for number in tracker.getJobInfo(job).get().stageIds()}:
        try:
            stage = store.lastStageAttempt(number)
        except Exception:  # those that were skipped are the first that Spark forgets
            return True
        # Asked first: a stage that a job has computed counts as skipped once another one that shares it has ended.
        if stage.attemptId() > 0:
            return True
        if stage.status().toString() != "SKIPPED":
            # A stage that a later job repeats has another number, but makes the same last set of rows.
            computed.append(max(map(int, stage.rddIds().mkString(",").split(","))))
    return len(set(computed)) < len(computed)
