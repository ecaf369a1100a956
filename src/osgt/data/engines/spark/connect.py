"""Spark Connect: Parquet files on a server, which must be the same before and after a query.

A server does not tell what it computed twice, so a release from it must come out the same however often a part is
computed (`reading` says what could go wrong otherwise). The query is of our own making and sums whole numbers; what may
differ is what its tables hold. So these are made here alone, in a session of our own: one scan of Parquet files. They
are listed with their lengths and times of modification before the query and after it. An answer between two lists that
differ is thrown away unseen, and the query runs again.

Two equal lists tell that no file has changed, since

- a file is used only when it has been left alone for `_SETTLED`: a later change has a later time, however coarse the
  times of the storage, and with clocks that differ by less;
- Parquet ends with what says where its rows are, so that nobody can append to a file that is being read. CSV files can
  grow, and HDFS tells neither length nor time of one that is still being written: they are refused;
- no read passes over a file that is missing or damaged, and none takes its rows from what others keep in the memory of
  the server, which may be older than the file and is read from the file once it is lost: an option that nobody else has
  tells our scan from theirs.
"""

import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from osgt.sampling.entropy import token
from osgt.support.errors import ArgumentError, about
from osgt.support.locations import shown

#: How often a query runs before it is given up.
_RUNS = 3

#: How long a file must have been left alone, in milliseconds.
_SETTLED = 10_000

#: How often a server is called again that does not answer at first: for a quarter of a minute.
_TRIES = 5

#: Why sources of Spark Connect are refused, and what to do.
REFUSED = (
    "a server of Spark Connect does not tell whether rows were read twice after an executor was lost, so the limits "
    'might not hold; from it, osgt reads Parquet files alone: give their path with engine="spark" and '
    'master="sc://…", or use a session in this process, SparkSession.builder.master(…).getOrCreate()'
)

#: The paths that our own sessions read, and nothing else.
_PATHS: WeakKeyDictionary[Any, str] = WeakKeyDictionary()

#: One line for each file, and nothing of what is in it.
_FILE = ("path", "length", "unix_millis(modificationTime) AS changed")


def is_connected(session: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return ".connect." in type(session).__module__


def check_own(session: Any) -> None:
    """Raise unless a session of Spark Connect is our own: of others nobody knows what their tables are made of."""
    if session not in _PATHS:
        raise TypeError(REFUSED)


def frame_of_files(address: str, path: str) -> Any:
    """Parquet files as a server of Spark Connect sees them, in a session of their own.

    The server ends it by itself. A program that ends it would wait some minutes for a server that is gone.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra

    try:
        from pyspark.sql.connect.client.retries import DefaultPolicy  # noqa: PLC0415 - an extra

        session = SparkSession.builder.remote(address).create()
        usual = session.client.get_retry_policies()
        # By itself PySpark tries a wrong address for ten minutes.
        session.client.set_retry_policies([DefaultPolicy(max_retries=_TRIES)])
        session.conf.set("spark.sql.session.timeZone", "UTC")
        session.client.set_retry_policies(usual)
    except ImportError:
        raise ImportError('Spark Connect needs further packages: pip install "pyspark[connect]"') from None
    except Exception:  # it may quote the address, and a token in it
        words = f"master: there is no answer from Spark Connect at {shown(address)!r}: check the address, and that it "
        raise about("master", OSError(f"{words}runs a version like that of PySpark here")) from None
    _PATHS[session] = path
    _files(session)
    options = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false", "osgt": token(8)}
    return session.read.options(**options).parquet(path)


def with_same_files(session: Any, work: Callable[[], pa.Table]) -> pa.Table:
    """Run `work`, at most `_RUNS` times, until the files are the same before and after."""
    for _ in range(_RUNS):
        before = settled_files(session)
        answer = work()
        if _files(session) == before:
            return answer
    raise RuntimeError(f"in each of {_RUNS} runs of the query its files changed: release when nobody writes to them")


def settled_files(session: Any) -> list[tuple[str, int, int]]:
    """The files, with their lengths and times of modification, once the last change was long ago; it waits for that."""
    for _ in range(2):
        # Asked first: what changes behind the list has a later time than any in it.
        now = session.sql("SELECT unix_millis(now())").collect()[0][0]
        files = _files(session)
        wait = max(changed for _, _, changed in files) + _SETTLED - now
        if wait <= 0:
            return files
        time.sleep(min(wait, _SETTLED) / 1000)
    raise ArgumentError(
        "source: a file was changed within the last 10 seconds, or its time is in the future: wait until nobody writes",
        argument="source",
    )


def _files(session: Any) -> list[tuple[str, int, int]]:
    """The files as they are now. There is at least one."""
    path = _PATHS[session]
    try:
        # The option is new each time: Spark Connect may otherwise answer with a plan that it has made before.
        listed = session.read.option("osgt", token(8)).format("binaryFile").load(path).selectExpr(*_FILE).collect()
    except Exception:
        listed = []
    if not listed:
        words = f"source: Spark Connect finds no file {shown(path)!r}: paths are those of its server"
        raise about("source", FileNotFoundError(words))
    return sorted((name, length, changed) for name, length, changed in listed)
