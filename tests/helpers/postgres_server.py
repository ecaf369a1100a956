"""A PostgreSQL server of the tests' own: a new cluster in a temporary folder, on a free loopback port."""

import contextlib
import getpass
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
import uuid
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

_SECONDS = 60
_ATTEMPTS = 5

# Nothing here has to survive a power cut, and a test server should be small.
_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "64",
    "shared_buffers": "32MB",
    "timezone": "UTC",
}


class PostgresMissingError(RuntimeError):
    """The tests need PostgreSQL, and it is not there or does not start."""


def programs():
    """The folder of initdb and pg_ctl: Debian keeps them off the path, by version."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda f: float(f.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists():
            return folder
    raise PostgresMissingError(
        "these tests need a PostgreSQL server and found no initdb on the path or in /usr/lib/postgresql/*/bin: "
        "install it with `apt-get install postgresql`"
    )


def server_user():
    """The user that the server runs as: ourselves, but never root, as which PostgreSQL refuses to run."""
    if os.geteuid() != 0:
        return getpass.getuser()
    with contextlib.suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    raise PostgresMissingError(
        "PostgreSQL does not run as root and there is no user postgres to run it as: run the tests as another user, "
        "or install Debian's package, which makes that user"
    )


@contextlib.contextmanager
def postgres_server(**settings):
    """Start a server, give its URL, and remove it in the end. Settings are in place of, or beside, those above."""
    folder, user = programs(), server_user()
    home = Path(tempfile.mkdtemp(prefix="osgt-postgres-"))
    as_root = os.geteuid() == 0
    if as_root:
        shutil.chown(home, user, pwd.getpwnam(user).pw_gid)
    identity = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []} if as_root else {}

    def run(program, *arguments, check=True):
        # pg_ctl leaves the server running with its output: a file, since a pipe would never end.
        with (home / "output").open("w+") as output:
            done = subprocess.run(
                [folder / program, "-D", home / "data", *arguments],
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=2 * _SECONDS,
                check=False,
                **identity,
            )
            output.seek(0)
            if check and done.returncode:
                raise PostgresMissingError(f"{program} failed:\n{output.read()}{_log(home)}")
        return done.returncode == 0

    try:
        password = secrets.token_hex(16)
        (home / "password").write_text(password)
        (home / "password").chmod(0o644)  # the folder itself is closed to others
        run(
            "initdb", "--username=postgres", f"--pwfile={home / 'password'}", "--auth=scram-sha-256", "--encoding=UTF8",
            "--locale=C", "--no-sync",
        )  # fmt: skip
        for attempt in range(_ATTEMPTS):  # another process may take the port before the server does
            port = _free_port()
            chosen = {**_SETTINGS, **settings, "port": port, "unix_socket_directories": home}
            options = " ".join(f"-c {name}={value}" for name, value in chosen.items())
            last = attempt == _ATTEMPTS - 1
            if run("pg_ctl", "-w", "-t", str(_SECONDS), "-l", home / "log", "-o", options, "start", check=last):
                break
        yield f"postgresql://postgres:{password}@127.0.0.1:{port}/postgres"
    finally:
        if (home / "data" / "postmaster.pid").exists():
            run("pg_ctl", "-w", "-m", "immediate", "stop", check=False)
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def new_database(server_url):
    """A database of a test's own on the server: its URL; dropped in the end, connections or not."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextlib.contextmanager
def new_schema(server_url):
    """A schema of a test's own in the server's database: quicker to make than a database."""
    name = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    try:
        yield f"{server_url}?options=-csearch_path%3D{name}"
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _log(home):
    path = home / "log"
    return path.read_text(errors="replace") if path.exists() else ""
