"""`osgt web`: the server on this computer alone, its link, and the browser that is opened with it."""

import gc
import os
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any

import uvicorn

from osgt.web.app import Web
from osgt.web.gate import BACKLOG, Connection, raise_limit

#: Seconds that requests may take after the server was told to end.
_LAST_SECONDS = 3


def serve(start: dict[str, Any], *, port: int, opens: bool, say: Callable[[str], None]) -> None:
    """Serve the page until somebody ends it; releases that have begun are finished first.

    Parameters
    ----------
    start
        What the page starts with, as a query file in plain values.
    port
        The port on 127.0.0.1; 0 for any that is free.
    opens
        Whether to open the browser.
    say
        Tells the user what to do.
    """
    raise_limit()
    listening = _listening(port)
    number = listening.getsockname()[1]
    address = f"http://127.0.0.1:{number}"
    web = Web(number, start, lambda path: say(f"Opened. For another browser: {address}{path}"))
    config = uvicorn.Config(
        web.gate,
        http=Connection,
        backlog=BACKLOG,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=_LAST_SECONDS,
    )
    # What was imported stays: the collector of cycles need not go through it again, which takes a tenth of a second.
    gc.freeze()
    try:
        with tempfile.TemporaryDirectory(prefix="osgt-web-") as folder:

            def tell() -> None:
                say(f"osgt web is at {address}{web.gate.link}\nThe link works once. Press Ctrl-C to end.")
                if opens:
                    # In a thread: a browser of the terminal returns only when it is closed.
                    link = f"{address}{web.gate.link}"
                    threading.Thread(target=_open, args=(link, Path(folder)), name="osgt browser", daemon=True).start()

            # A signal ends the server, which then passes it on: it must not end what has begun as well.
            signal.signal(signal.SIGTERM, signal.default_int_handler)
            with suppress(KeyboardInterrupt):
                _Server(config, tell).run(sockets=[listening])
        _finish(web, say)
    finally:
        web.opened.close()


class _Server(uvicorn.Server):
    """A server that tells when it accepts connections: whoever comes sooner is refused."""

    def __init__(self, config: uvicorn.Config, tell: Callable[[], None]) -> None:
        super().__init__(config)
        self._tell = tell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then tell."""
        await super().startup(sockets)
        self._tell()


def _listening(port: int) -> socket.socket:
    """A socket that only this computer can reach. Nobody listens to it before the server has started."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except OSError as error:
        made.close()
        raise OSError(
            f"--port: cannot listen on port {port} ({os.strerror(error.errno or 0)}); give another, or leave it out"
        ) from None
    return made


def _open(link: str, folder: Path) -> None:
    """Open the browser by a page that only this user can read: others can see the arguments of programs."""
    page = folder / "open.html"
    content = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={escape(link)}">'
    page.touch(mode=0o600)
    page.write_text(content, encoding="utf-8")
    webbrowser.open(page.as_uri())


def _finish(web: Web, say: Callable[[str], None]) -> None:
    """Wait for what has begun; whoever does not want to wait is told what stands."""
    running = web.jobs.running()
    if not running:
        return
    say("Finishing what has begun. Press Ctrl-C again to give it up: what was charged stays charged.")
    try:
        for job in running:
            if job.thread is not None:
                job.thread.join()
    except KeyboardInterrupt:
        say("Given up. `osgt ledger show` tells what was charged.")
