"""Reading on Spark: sessions, which keep their settings, CSV files in declared types, and answers of one piece.

Spark computes again what a lost executor held, and need not find the same rows there. A unit is bounded in one task,
and its groups are summed in others. If the first task is repeated when some of the others are through, these have
counted the unit in groups of the first attempt, and the rest count it in groups of the second. Where the source gives
the same rows both times these are the same groups. Where it does not (`dropDuplicates` keeps any of several rows, a
database has moved on, `rand()`), the unit may be in twice as many as it is allowed. Spark goes back to the beginning
only where it takes a stage for random, which it does not for any of these. So an answer of which a part was computed
twice is thrown away unseen, and the query runs again.
"""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from weakref import finalize

import pyarrow as pa

from osgt.data.engines.engine import Engine
from osgt.data.engines.source import Options, Source, check_names, source_of_texts
from osgt.data.engines.spark.connect import REFUSED, check_own, is_connected
from osgt.data.sql import Table
from osgt.data.text_files import CleanFiles, TextForm, header_of
from osgt.data.types import LONGEST, TEXT, Type, parse_types
from osgt.sampling.entropy import token
from osgt.support.errors import ArgumentError, about, missing
from osgt.support.locations import shown

#: How often a query runs before it is given up.
RUNS = 3

#: How long to wait until Spark has written down what happened.
_MILLISECONDS = 60_000

#: Jobs and stages that Spark has to remember: a query has some ten, and others may run beside it.
_REMEMBERED = 100


def check_session(session: Any) -> None:
    """Raise unless the session will tell what was computed twice: nothing must be charged where it does not.

    One of Spark Connect never does, and must be our own.
    """
    if is_connected(session):
        check_own(session)
        return
    from py4j.clientserver import ClientServer  # noqa: PLC0415 - an extra

    gateway, _ = _java_side(session)
    if not isinstance(gateway, ClientServer):  # a tag might go to the jobs of another thread
        raise ValueError(
            "with PYSPARK_PIN_THREAD=false Spark does not tell which jobs a release has run, so the bounds might not "
            "hold; start Python without it"
        )
    for name in ("spark.ui.retainedJobs", "spark.ui.retainedStages"):
        if int(session.sparkContext.getConf().get(name, "1000")) < _REMEMBERED:
            raise ArgumentError(
                f"{name} must be at least {_REMEMBERED}: otherwise Spark forgets whether rows were read twice after an "
                "executor was lost, and the bounds might not hold",
                argument=name,
            )


def _java_side(session: Any) -> tuple[Any, Any]:
    """The way to Java of a session, and its context there.

    PySpark has no public way to what happened to stages and jobs: its own tracker tells neither which jobs have a tag
    or are forgotten, nor what a stage has computed, and it may be behind.
    """
    context = session.sparkContext
    return context._gateway, context._jsc.sc()


def in_one_piece(session: Any, work: Callable[[], pa.Table]) -> pa.Table:
    """Run `work` on Spark, at most `RUNS` times, until every part of its answer was computed once."""
    context, tag = session.sparkContext, f"osgt_{token(8)}"
    _, spark = _java_side(session)
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


# Sessions and their tables

#: What Spark takes for a master. Anything else ends its process with pages of its own.
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")


def connect_address(master: str | None) -> str | None:
    """The server of Spark Connect that a source is to be read by, if so."""
    if master is not None and master.startswith("sc://"):
        return master
    remote = os.environ.get("SPARK_REMOTE")
    if remote is not None and (master is not None or not remote.startswith("sc://")):
        raise ArgumentError(
            "SPARK_REMOTE in the environment makes PySpark use Spark Connect: unset it, or name the server there, as "
            "in sc://host:15002, and leave out master",
            argument="master",
        )
    return remote


def running_session(master: str | None) -> Any:
    """The session that runs already, as it is; otherwise one of our own, on this machine or at `master`."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing("Spark", "PySpark", "spark") from None
    if connect_address(master) is not None:
        raise ArgumentError(f"source: {REFUSED}", argument="source")
    if master is not None and not _MASTER.fullmatch(master):
        raise ArgumentError(
            f"master must be local, local[4], spark://host:7077, sc://host:15002, k8s://https://host:443 or yarn, got "
            f"{shown(master)!r}",
            argument="master",
        )
    if SparkSession.getActiveSession() is not None:
        return SparkSession.builder.getOrCreate()
    builder = SparkSession.builder.appName("osgt").config("spark.ui.enabled", "false")
    # What goes wrong comes as an exception; what Spark would print about it could quote values.
    builder = builder.config("spark.log.level", "OFF").master(master or "local[*]")
    try:
        return builder.getOrCreate()
    except Exception:
        if master is None or master.startswith("local"):
            raise OSError(
                "Spark cannot be started on this machine: it needs Java, on the PATH or in JAVA_HOME"
            ) from None
        words = f"master: Spark cannot be started at {master!r}: check the address, and that it runs"
        raise about("master", OSError(words)) from None


def session_for_files(master: str | None) -> Any:
    """A session with settings and views of its own, whatever else runs; its time zone is UTC."""
    session = running_session(master).newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def table_of_frame(engine: Engine, frame: Any) -> Table:
    """A Spark DataFrame under a name of its own, for as long as somebody uses it.

    On Spark Connect it is kept until the server ends the session, which is our own.
    """
    session, name = frame.sparkSession, f"osgt_{token(8)}"
    check_session(session)
    frame.createOrReplaceTempView(name)
    return engine.stored(session, engine.quote(name), None if is_connected(session) else _View(session, name))


class _View:
    """A temporary view, for as long as somebody has this."""

    def __init__(self, session: Any, name: str) -> None:
        finalize(self, _drop, session, name).atexit = False


def _drop(session: Any, name: str) -> None:
    with suppress(Exception):  # the session has ended, and its views with it
        # The catalogue's own way to drop a view would also end the caching of the frame that it shows.
        session.sql(f"DROP VIEW IF EXISTS {name}")


#: Spark's names for declared types, where they differ.
_NAMES = {"int64": "bigint", "float64": "double", "timestamp": "timestamp_ntz"}

#: The most fields of a row; each takes some bytes of memory while a file is read.
_MOST_FIELDS = 1 << 22


def text_files_as_view(
    engine: Engine, session: Any, name: str, paths: Sequence[Path], suffix: str, options: Options
) -> Source:
    """The files as a view; without `paths` Spark finds them, reads the names itself and checks each file's."""
    form = TextForm.of(options, suffix)
    writing, clean = options.writing, None
    if paths:
        names = header_of(paths, form)
        check_names(names)
        declared = parse_types(options.types, names, writing)
        clean = _clean(session, paths, form)
        frame = _frame(session, [str(path) for path in clean.paths], names, form)
    else:
        _check_elsewhere(session, name, form)
        frame = _frame(session, [name], None, form)
        declared = parse_types(options.types, list(frame.columns), writing)

    def view(columns: dict[str, Any]) -> Table:
        return table_of_frame(engine, frame.select(*(value.alias(name) for name, value in columns.items())))

    return source_of_texts(frame.columns, declared, _value, view, has_fields=True, files=clean)


def _clean(session: Any, paths: Sequence[Path], form: TextForm) -> CleanFiles:
    """The files, or copies of them on this machine, which those of a cluster do not see."""
    clean = CleanFiles(paths, form, one_line_end=True)
    if clean.copied and not session.sparkContext.master.startswith("local"):
        raise ArgumentError(
            f"source: {str(clean.copied[0])!r} must be read through a copy on this machine, which Spark on a cluster "
            "cannot see: it is no CSV file in UTF-8, has a zero byte or a carriage return without a line feed, or its "
            "lines end now with a carriage return and now without; mend the file, or leave out engine and master",
            argument="source",
        )
    return clean


def _check_elsewhere(session: Any, name: str, form: TextForm) -> None:
    """Raise if files that Spark alone can read would have to be read through a copy."""
    if form.encoding != "utf-8":
        raise ArgumentError(
            f"encoding is for CSV files on this machine, got {form.encoding!r}; save the file in UTF-8",
            argument="encoding",
        )
    lines = session.read.option("lineSep", "\n").text(name)
    # The last line of a file may end with a carriage return alone: to Spark it is the end of that row too.
    wrong, ends = lines["value"].rlike(r"\r[\s\S]|\x00"), lines["value"].endswith("\r")
    if not lines.where(wrong).isEmpty() or lines.where(~wrong).select(ends).distinct().count() > 1:
        raise ArgumentError(
            f"source: a file of {shown(name)!r} has a zero byte or a carriage return without a line feed, or its lines "
            "end now with a carriage return and now without, which only files on this machine may do: mend the file",
            argument="source",
        )


def _frame(session: Any, paths: Sequence[str], names: Sequence[str] | None, form: TextForm) -> Any:
    """A DataFrame of text."""
    # Without a quote Spark takes the character 0 for one, which no file has.
    options = {
        "header": "true",
        "sep": form.delimiter,
        "quote": form.quote,
        "escape": form.quote or "\0",
        "encoding": "UTF-8",
        "mode": "PERMISSIVE",
        "multiLine": "true",
        # What stands for a field without text, so that it is told from "": nobody can have written it.
        "nullValue": token(32),
        "emptyValue": "",
        "columnNameOfCorruptRecord": f"osgt_{token(8)}",
        "enforceSchema": "false" if names is None else "true",
        # A row with more fields would be an error.
        "maxColumns": str(_MOST_FIELDS),
    }
    reader = session.read.options(**options)
    if names is not None:
        from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an extra

        reader = reader.schema(StructType([StructField(name, StringType()) for name in names]))
    return reader.csv([_escape_pattern(path) for path in paths] if names is not None else list(paths))


def _escape_pattern(path: str) -> str:
    """A path in which Spark sees no pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _value(column: str, dtype: Type) -> Any:
    """A column of text in its declared type."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    text = functions.col("`" + column.replace("`", "``") + "`")
    if dtype == TEXT:
        return text
    text = functions.when(functions.length(text) <= LONGEST, text)
    kind = _NAMES.get(dtype.name, dtype.name)
    parts = [
        functions.lit(part) if isinstance(part, str) else functions.regexp_extract(text, dtype.whole, part)
        for part in dtype.parts
    ]
    read = functions.concat(*parts) if len(parts) > 1 else parts[0]
    return (functions.replace(read, functions.lit(","), functions.lit(".")) if dtype.comma else read).try_cast(kind)
