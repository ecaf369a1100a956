"""Requests to an application without a network: what comes back, header by header."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode()


def request(app, method, path, *, query="", headers=(), body=b"", parts=1):
    """Ask the application; the body arrives in so many parts."""
    size = max(len(body) // parts, 1)
    pieces = [body[i : i + size] for i in range(0, len(body), size)] or [b""]
    messages = [
        {"type": "http.request", "body": piece, "more_body": i + 1 < len(pieces)} for i, piece in enumerate(pieces)
    ]
    sent = []

    async def receive():
        if not messages:
            await asyncio.Event().wait()  # the browser stays
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50000),
        "root_path": "",
    }
    with ThreadPoolExecutor(1) as elsewhere:  # a test of a browser may have a loop running here
        elsewhere.submit(asyncio.run, app(scope, receive, send)).result()
    start = sent[0]
    found = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))


class Browser:
    """Somebody who came with the link: keeps the cookie, and sends what a browser would. Paths are below the root."""

    def __init__(self, web, port):
        self.web, self.host = web, f"127.0.0.1:{port}"
        path, _, query = web.gate.link.partition("?")
        answer = request(web.gate, "GET", path, query=query, headers=[("Host", self.host)])
        assert answer.status == 200
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path):
        path = self.web.gate.root + path
        return request(self.web.gate, "GET", path, headers=[("Host", self.host), ("Cookie", self.cookie)])

    def post(self, path, fields, token=None, **changed):
        headers = {"Host": self.host, "Cookie": self.cookie, "Origin": f"http://{self.host}", **changed}
        pairs = [("token", self.web.gate.form_token if token is None else token)]
        pairs += [(name, value) for name, values in fields.items() for value in values]
        given = [(name, value) for name, value in headers.items() if value is not None]
        return request(self.web.gate, "POST", self.web.gate.root + path, headers=given, body=urlencode(pairs).encode())
