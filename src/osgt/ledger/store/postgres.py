"""A ledger on a PostgreSQL server: connections, and an end to all waiting."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from osgt.support.errors import missing
from osgt.support.locations import auth_options

#: Seconds. A client that holds a lock and falls silent loses it after IDLE; whoever waits for a lock longer than LOCK,
#: for a statement longer than STATEMENT or for the whole transaction longer than ANSWER gets an error.
CONNECT, IDLE, LOCK, STATEMENT, ANSWER = 15.0, 20.0, 40.0, 60.0, 90.0

#: So that a broken network is noticed while waiting: probes after 10 seconds of silence, given up after 30.
_NETWORK = {
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}


def engine_for(url: sa.URL) -> sa.Engine:
    """The engine of a server."""
    options: dict[str, Any] = {"connect_timeout": int(CONNECT), **_NETWORK}
    options = {name: value for name, value in options.items() if name not in url.query}
    # A pooler between us and the server may hand each transaction to another session: no prepared statements.
    options["prepare_threshold"] = None
    try:
        options |= auth_options(url.host, {"password": url.password, **url.query} if url.password else url.query)
        return sa.create_engine(url, pool_size=2, connect_args=options)
    except ModuleNotFoundError as error:
        raise missing("a ledger in PostgreSQL", "psycopg", "postgres") from error


def begin(connection: sa.Connection, *, read_only: bool) -> str:
    """Set the limits of this transaction, and return the user as the server knows it."""
    settings = {
        "lock_timeout": f"{LOCK * 1000:.0f}",
        "statement_timeout": f"{STATEMENT * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{IDLE * 1000:.0f}",
    }
    if not read_only:
        # As with SQLite: a commit has reached the disk before anything is released, whatever the server's default.
        settings["synchronous_commit"] = "on"
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
    return str(connection.exec_driver_sql(f"SELECT session_user::text, {calls}").one()[0])


@contextmanager
def bounded(connection: sa.Connection) -> Iterator[None]:
    """Cut the connection if what is done on it takes too long: a server that was frozen never answers by itself."""
    driver = connection.connection.driver_connection
    timer = threading.Timer(ANSWER, _cut, [driver])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _cut(driver: Any) -> None:
    """End the conversation on the socket, which wakes whoever waits for it."""
    try:
        copy = socket.socket(fileno=os.dup(driver.pgconn.socket))
    except Exception:  # it is closed already
        return
    with copy:
        copy.shutdown(socket.SHUT_RDWR)
