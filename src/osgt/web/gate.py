"""The gate of the server: it admits the browser that came with the link of this start, from this address, and no other.

Every request passes `Gate` first. It refuses another `Host` (a name that an attacker points at this machine), lets in
who follows the link that was printed, once, and from then on asks for the cookie that this browser got. Whatever
changes something is a POST, whose `Origin` must be this server and whose body must hold the token of the page's forms.

Browsers send the cookies of one port to all others of the same computer, where another user may listen. So the cookie
is for one path, which nobody can guess: without it, a browser sends the cookie nowhere.

Any user of this computer can open as many connections as they like: few at a time, and none for long. Each takes a file
descriptor, and a release under way needs some too. Whoever has the link is let in first: the oldest connection of
somebody else makes room for a new one.
"""

import asyncio
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import parse_qsl

import h11
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # Windows, which has no such limit
    resource = None  # type: ignore[assignment]

#: Bytes and fields of a form at most: query files are small, and so are forms.
LARGEST_BODY, MOST_FIELDS = 1 << 20, 5_000

#: The name of the field that every form has.
TOKEN_FIELD = "token"

#: The key of a request that has come from the browser with the link.
ADMITTED = "osgt.admitted"

#: The key of an event of a request: nobody waits for the answer any more.
GONE = "osgt.gone"

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "same-origin",  # without a referrer, browsers hide the origin of forms too
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}

#: A link from elsewhere would lose a strict cookie on the way through a redirect; a page of our own does not.
_WELCOME = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={root}/">'
    '<link rel="icon" href="data:,">'
    '<title>osgt</title><p><a href="{root}/">Go on to the planner</a></p></html>'
)


class Gate:
    """The application behind checks of address, cookie, origin, size and form token.

    Parameters
    ----------
    app
        What is behind the gate.
    port
        The port of this server, which `Host` and `Origin` must name.
    new_link
        Called with the path of the next link whenever one was used up: each works once.
    """

    def __init__(self, app: ASGIApp, port: int, new_link: Callable[[str], None] = lambda path: None) -> None:
        self._app, self._new_link = app, new_link
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        # There may be several servers, each with a cookie.
        self._cookie = f"osgt-{port}"
        self._session, self._link = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        #: The path below which all pages are.
        self.root = f"/{secrets.token_urlsafe(16)}"
        #: What a form must hold.
        self.form_token = secrets.token_urlsafe(32)

    @property
    def link(self) -> str:
        """The path that lets a browser in, once."""
        return f"/?{TOKEN_FIELD}={self._link}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, refuse or pass on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nothing here speaks over web sockets

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        if refusal is None:
            scope[ADMITTED] = True
        if refusal is None and scope["method"] == "POST":
            refusal = await self._read(scope, receive)
        if refusal is not None:
            await refusal(scope, receive, send_safely)
            return
        gone = scope[GONE] = threading.Event()
        watching = asyncio.create_task(_watch(receive, gone))
        try:
            await self._app({**scope, "root_path": self.root}, receive, send_safely)
        finally:
            watching.cancel()
            gone.set()

    async def _read(self, scope: Scope, receive: Receive) -> Response | None:
        """Read the form into the scope; the answer to one that is too large, cannot be read, or is not ours."""
        body = await _body(receive)
        if body is None:
            return _no(413, f"A form may have at most {LARGEST_BODY:,} bytes.")
        fields = _fields(body)
        if fields is None:
            return _no(400, "The form could not be read.")
        given = [value for name, value in fields if name == TOKEN_FIELD]
        if not any(_same(value, self.form_token) for value in given):
            return _no(403, "This form is not from a page of this server. Load the page again.")
        scope["osgt.fields"] = [(name, value) for name, value in fields if name != TOKEN_FIELD]
        return None

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to who may not come in, or to who has just come with the link; None for who may."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return _no(403, "This server answers on 127.0.0.1 alone.")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _no(405, "Only GET and POST.")
        if scope["method"] == "GET" and scope["path"] == "/" and scope["query_string"]:
            return self._with_link(scope["query_string"].decode("latin-1"))
        root = f"/{scope['path'].split('/')[1]}" if scope["path"].count("/") > 1 else ""
        knows_path, has_cookie = (
            _same(given, ours)
            for given, ours in ((root, self.root), (_cookie(headers.get("cookie", ""), self._cookie), self._session))
        )
        if not (knows_path and has_cookie):
            return _no(
                403,
                "This page is for the browser that `osgt web` has opened. Use the link that stands in the terminal; "
                "each link works once.",
            )
        if scope["method"] == "POST" and headers.getlist("origin") != [f"http://{hosts[0]}"]:
            return _no(403, "This request comes from another page.")
        return None

    def _with_link(self, query: str) -> Response:
        if not _same(query, f"{TOKEN_FIELD}={self._link}"):
            return _no(403, "This link was used before, or is of another start: take the last one in the terminal.")
        self._link = secrets.token_urlsafe(32)
        self._new_link(self.link)
        answer = HTMLResponse(_WELCOME.format(root=self.root))
        answer.set_cookie(self._cookie, self._session, httponly=True, samesite="strict", path=self.root)
        return answer


def _no(status: int, words: str) -> Response:
    return PlainTextResponse(f"{words}\n", status)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


def _cookie(header: str, name: str) -> str:
    """The value of a cookie; those of other servers on this machine come along and may hold anything."""
    pairs = (pair.strip().partition("=") for pair in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


async def _watch(receive: Receive, gone: threading.Event) -> None:
    """Say when the browser no longer waits for the answer."""
    while (await receive())["type"] != "http.disconnect":
        pass
    gone.set()


async def _body(receive: Receive) -> bytes | None:
    """Read the whole body; None if it is too large or breaks off."""
    body: bytes = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > LARGEST_BODY or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body"):
            return body


def _fields(body: bytes) -> list[tuple[str, str]] | None:
    try:
        text = body.decode("ascii")
        return parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict")
    except ValueError:
        return None


#: Connections that are accepted at once, in one turn of the loop.
BACKLOG = 32

#: Connections at a time: browsers open six for all of their tabs. More than are accepted in the three turns until the
#: first bytes of a new one are read, so that nobody is pushed out who sends a request at once.
MOST = 4 * BACKLOG

#: Seconds until a request must have arrived, with its form.
SECONDS = 10.0

#: File descriptors that must be free before a release begins: for itself, and for the connections that may yet come.
FREE = 2 * MOST

#: The limit of descriptors that is asked for where there is none.
_MANY = 65_536


class Connection(H11Protocol):
    """A connection that makes room for others, and ends if a request does not arrive."""

    _began: float
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; if there are too many connections, end one."""
        super().connection_made(transport)
        self._began = time.monotonic()
        self._watch()
        open_ones = [connection for connection in self.connections if not connection.transport.is_closing()]
        if len(open_ones) > MOST:
            strangers = [
                connection
                for connection in open_ones
                if isinstance(connection, Connection) and not connection._is_admitted
            ]
            min(strangers, key=lambda stranger: stranger._began).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take a part of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    @property
    def _is_admitted(self) -> bool:
        """Whether its last request came from the browser with the link."""
        return self.scope is not None and ADMITTED in self.scope

    def _watch(self) -> None:
        """Let the time run as long as a request has not arrived, with its form."""
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop()
        elif self._timer is None:
            self._timer = self.loop.call_later(SECONDS, self.transport.abort)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def raise_limit() -> None:
    """Allow this process as many file descriptors as it may have."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY if hard == resource.RLIM_INFINITY else min(hard, _MANY)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def check_descriptors() -> None:
    """Refuse to begin what is charged if its files could not be opened later."""
    taken: list[int] = []
    try:
        for _ in range(FREE):
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise OSError(
            f"fewer than {FREE} file descriptors are free ({os.strerror(error.errno or 0)}), which a release may need: "
            "close other pages of the planner, or start it again after `ulimit -n 4096`"
        ) from None
    finally:
        for descriptor in taken:
            os.close(descriptor)
