"""Sessions of Spark: they are left as they are, with their settings, time zone and views."""

import re
from contextlib import suppress
from typing import Any
from weakref import finalize

import ibis
import ibis.expr.types as ir

from osgt.extras import missing
from osgt.sampling.entropy import token
from osgt.tables.engines.spark.attempts import check_session

#: What Spark takes for a master. Anything else ends its process with pages of its own.
_MASTER = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+")


def connection_to(session: Any) -> Any:
    """The session for Ibis, whose own way to connect sets the session's time zone and more."""
    check_session(session)
    ibis.pyspark  # noqa: B018 - its options are known once it is named
    from ibis.backends.pyspark import Backend  # noqa: PLC0415 - an extra

    backend = Backend(session)
    backend._session, backend._mode = session, "batch"
    return backend


def running_session(master: str | None) -> Any:
    """The session that runs already, as it is; otherwise one of our own, on this machine or at `master`."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing("Spark", "PySpark", "spark") from None
    if master is not None and not _MASTER.fullmatch(master):
        raise ValueError(
            f"master must be local, local[4], spark://host:7077, k8s://https://host:443 or yarn, got {master!r}"
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
        raise OSError(f"master: Spark cannot be started at {master!r}: check the address, and that it runs") from None


def session_for_files(master: str | None) -> Any:
    """A session with settings and views of its own, whatever else runs; its time zone is UTC."""
    session = running_session(master).newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def table_of_frame(connection: Any, frame: Any) -> ir.Table:
    """A Spark DataFrame under a name of its own, for as long as somebody uses it."""
    view, session = f"osgt_{token(8)}", connection._session
    frame.createOrReplaceTempView(view)
    found: ir.Table = connection.table(view)
    finalize(found.op(), _drop, session, view).atexit = False
    return found


def _drop(session: Any, view: str) -> None:
    with suppress(Exception):  # the session has ended, and its views with it
        session.catalog.dropTempView(view)
