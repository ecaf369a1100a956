"""Where data and ledgers are, as it may be shown: without passwords, however the location was typed."""

import re
from urllib.parse import unquote

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
