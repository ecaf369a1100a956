"""A proxy before a PostgreSQL server that can cut conversations at the moment of a COMMIT, or refuse all of them."""

import contextlib
import re
import select
import socket
import threading
from urllib.parse import urlsplit, urlunsplit

#: Not "READ COMMITTED".
_COMMIT = re.compile(b"COMMIT(?!TED)")


class Proxy:
    """Hands bytes on in both directions.

    `cut` says what becomes of the next COMMITs: "answer" hands them on and loses what the server says, "question" loses
    the COMMIT itself. `cuts` is the number of them that are left. `down`: nobody gets through.
    """

    def __init__(self, url):
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = urlunsplit(parts._replace(netloc=f"{parts.netloc.rsplit(':', 1)[0]}:{port}"))
        self.cut, self.cuts, self.down = "answer", 0, False
        self.down_after_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.down:
                client.close()
                continue
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client):
        wrote = False  # whether the transaction has added an entry: others are left alone
        with client, socket.create_connection(self._server) as server, contextlib.suppress(OSError):
            while not self.down:
                ready, _, _ = select.select([client, server], [], [], 0.1)
                for one in ready:
                    data = one.recv(65536)
                    if not data:
                        return
                    if one is server:
                        client.sendall(data)
                        continue
                    wrote = wrote or b"INSERT INTO osgt_entries" in data
                    if wrote and _COMMIT.search(data):
                        wrote = False
                        if self.cuts:
                            self.cuts -= 1
                            self._lose(server, data)
                            return
                    server.sendall(data)

    def _lose(self, server, data):
        """The client never hears of this COMMIT again."""
        if self.cut == "answer":
            server.sendall(data)
            server.recv(65536)  # it is committed by now
        self.down = self.down_after_cut


@contextlib.contextmanager
def proxy_for(url):
    proxy = Proxy(url)
    try:
        yield proxy
    finally:
        proxy.close()
