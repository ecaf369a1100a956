"""The locations of data and ledgers: kinds of files by their endings, and passwords, which reach nobody but the server
that asks for them.
"""

import os
import re
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qsl, unquote

#: Endings of Parquet files, of spreadsheets, and of files of statistics programs.
PARQUET = (".parquet", ".pq")
SHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
STATISTICS = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")

#: What stands for a part that is not shown.
HIDDEN = "…"

#: The beginning of a URL, also of one that lacks a slash; a single letter is a drive of Windows.
_SCHEME = re.compile(r"((?:jdbc:)?[A-Za-z][A-Za-z0-9+.\-]+):(/*)")

#: Hosts with their ports, and what follows them.
_HOST = r"(?:\[[0-9A-Fa-f:.]*\]|[\w.\-]*)(?::[0-9]{1,5})?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*(?:/.*)?")

#: Settings as libpq and JDBC write them, and those among them that are secrets.
_SECRETS = re.compile(r"(?i)(?:password|passwd|pwd|secret|token)\s*=")
_SETTINGS = re.compile(rf"{_SECRETS.pattern}|\s*\w+\s*=\s*\S+\s+\w+\s*=")

#: Paths that begin with a drive of Windows.
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")


def suffix_of(name: str) -> str:
    """The ending of a file's name that says what is in it."""
    path = Path(name)
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in (".gz", ".zst") else suffix


def is_office(name: str | os.PathLike[str]) -> bool:
    """Whether a file is a spreadsheet, or one of SPSS, Stata or SAS, by its ending."""
    return is_spreadsheet(name) or Path(name).suffix.lower() in STATISTICS


def is_spreadsheet(name: str | os.PathLike[str]) -> bool:
    """Whether a file is a spreadsheet, by its ending."""
    return Path(name).suffix.lower() in SHEETS


def shown(location: str) -> str:
    """The path, or the URL without user, password and settings. What might be a password is hidden.

    Examples
    --------
    >>> shown("postgresql://ann:secret@db.example.org:5432/town?sslmode=require")
    'postgresql://db.example.org:5432/town'
    >>> shown("people.parquet")
    'people.parquet'
    """
    scheme = _SCHEME.match(location)
    if scheme is None:
        user_and_password = re.search(r":.*@", location) and not _DRIVE.match(location)
        return HIDDEN if user_and_password or _SETTINGS.search(location) else location
    start, rest = scheme.group(0), location[scheme.end() :]
    place = re.split(r"[?#;]", rest)[0]
    settings = rest[len(place) :]
    if "@" in settings:  # in a password, before or behind the host: nobody can tell
        return start + HIDDEN
    host = place.rpartition("@")[2]
    return start + (host if _HOSTS.fullmatch(host) and not _SETTINGS.search(host) else HIDDEN)


def holds_secret(location: str) -> bool:
    """Whether a location names a user or a password, so that it must not be written down as it is.

    Examples
    --------
    >>> holds_secret("postgresql://db.example.org/town?password=secret")
    True
    >>> holds_secret("postgresql://db.example.org/town?sslmode=require")
    False
    """
    safe = shown(location)
    return safe != location and ("@" in location or HIDDEN in safe or _SECRETS.search(location) is not None)


def without_secrets(message: str, location: str) -> str:
    """A message about the location, of a driver that may quote it or a part of it."""
    shown_part = shown(location)
    if shown_part == location:
        return message
    message = message.replace(location, shown_part)
    scheme = _SCHEME.match(location)
    password = location[scheme.end() if scheme else 0 :].rpartition("@")[0].partition(":")[2]
    names = set(re.findall(r"(\w+)\s*=", location)) | set(re.split(r"\W+", shown_part))
    pieces = {password, *password.split("@"), *re.split(r"[:/@?&=;#,'\s]+", location)} - names
    for secret in sorted({*pieces, *map(unquote, pieces)} - {""}, key=len, reverse=True):
        message = message.replace(secret, HIDDEN)
    return message


#: URLs that name a file.
_FILES = ("file", "sqlite")

#: What a server may ask for that gives nothing away by which somebody else could learn the password.
_SAFE_METHODS = ("scram-sha-256", "gss", "sspi", "none")

#: Settings that say where a server is, whatever stands before them.
_PLACES = ("host", "hostaddr", "port", "service", "servicefile")

#: The first libpq that knows `require_auth`.
_LIBPQ = 160_000


def names_server(location: str) -> bool:
    """Whether a location is on a server, so that opening it sends something there.

    Examples
    --------
    >>> names_server("postgresql://db.example.org/town"), names_server("sqlite:///budget.db")
    (True, False)
    """
    scheme, separator, _ = location.partition("://")
    return bool(separator) and scheme.isascii() and scheme.partition("+")[0].lower() not in _FILES


def shown_server(location: str) -> str:
    """The URL of a server as it may be shown, with the host that it really leads to where settings name another.

    Examples
    --------
    >>> shown_server("postgresql://ann:secret@db.example.org/town?hostaddr=192.0.2.7")
    'postgresql://db.example.org/town (hostaddr=192.0.2.7)'
    """
    settings = dict(parse_qsl(location.partition("?")[2]))
    other = ", ".join(f"{name}={settings[name]}" for name in _PLACES if name in settings)
    return shown(location) + (f" ({other})" if other else "")


def auth_options(host: str | None, settings: Mapping[str, str | Iterable[str]]) -> dict[str, str]:
    """The option of libpq by which no server but one on this computer is given the password as it is.

    `host` and `settings` are those of the URL. A server that wants the password in clear text gets nothing, unless the
    environment says so (PGREQUIREAUTH), or a URL that holds its own password.
    """
    given = {name: value if isinstance(value, str) else ",".join(value) for name, value in settings.items()}
    if "PGREQUIREAUTH" in os.environ or _is_here(host, given):
        return {}
    wanted = given.get("require_auth")
    if wanted is None:
        return {"require_auth": _known("scram-sha-256")}
    if "password" not in given and not all(method.strip() in _SAFE_METHODS for method in wanted.split(",")):
        raise ValueError(
            "require_auth in the URL of a server on another computer must be scram-sha-256, gss, sspi or none: the "
            "password of your environment would go there in clear text, or nearly. If you want that, set PGREQUIREAUTH"
        )
    return {}


def wrong_method(message: str) -> str | None:
    """Advise where a server asked for the password in another way; None if that is not what went wrong."""
    if "authentication method requirement" not in message:
        return None
    return (
        "the server on another computer did not ask for the password by SCRAM, so it was not sent: who answers might "
        "not be the server that is meant. Let the server ask by scram-sha-256, or set PGREQUIREAUTH to what it uses "
        "(none for certificates, gss, md5 or password)"
    )


def _known(option: str) -> str:
    import psycopg  # noqa: PLC0415 - the extra "postgres"

    if psycopg.pq.version() < _LIBPQ:
        raise ValueError(
            "the installed libpq is too old to keep a password from a server that wants it in clear text: install "
            "version 16 or later (pip install 'psycopg[binary]'), or set PGREQUIREAUTH to an empty text to do without"
        )
    return option


def _is_here(host: str | None, given: Mapping[str, str]) -> bool:
    """Whether a server runs on this computer: a socket of the file system, or an address that never leaves it."""
    if given.get("service") or os.environ.get("PGSERVICE"):
        return False  # its file names the host
    names = given.get("host") or host or os.environ.get("PGHOST") or ""
    addresses = given.get("hostaddr") or os.environ.get("PGHOSTADDR") or ""
    return all(_is_this_computer(host_name) for text in (names, addresses) for host_name in unquote(text).split(","))


def _is_this_computer(host: str) -> bool:
    name = host.strip().lower()
    if not name or name == "localhost" or name.startswith(("/", "@")):
        return True
    try:
        return ip_address(name.strip("[]")).is_loopback
    except ValueError:  # a name, or a host with its port
        plain, colon, port = name.rpartition(":")
        return bool(colon) and port.isdecimal() and _is_this_computer(plain)
