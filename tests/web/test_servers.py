"""A query file names a server: nothing is sent there before somebody asks for it, and never a password as it is."""

import socket
import struct
import threading

import pytest
from asgi import Browser
from typer.testing import CliRunner

from osgt import Dataset, Ledger
from osgt.cli import app
from osgt.ledger import LedgerError
from osgt.support.locations import auth_options, names_server, shown_server
from osgt.web.app import Web

PORT = 8000
SECRET = "s3cret-of-the-environment"

QUERY = """
[data]
source = "{source}"
table = "rides"
privacy_unit = "person"
{more}

[groups]
by = "city"
max_groups = 1
max_rows_per_group = 1
public_keys = ["Bern"]

[[aggregates]]
kind = "count"

[budget]
epsilon = 1
delta = 0
"""


class FakeServer:
    """Takes connections, asks for the password in clear text, and keeps what each of them has sent."""

    def __init__(self):
        self.received = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(60)
                self.received.append(b"")
                try:
                    while data := connection.recv(4096):
                        self.received[-1] += data
                        code = struct.unpack("!i", data[4:8])[0] if len(data) >= 8 else 0
                        if code in (80877103, 80877104):  # TLS, GSSAPI: not here
                            connection.sendall(b"N")
                        elif code == 196608:
                            connection.sendall(b"R" + struct.pack("!ii", 8, 3))
                        else:
                            break
                except OSError:
                    pass

    def close(self):
        self._listener.close()


@pytest.fixture
def fake(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGPASSWORD", SECRET)
    monkeypatch.setenv("PGUSER", "ann")
    monkeypatch.delenv("PGREQUIREAUTH", raising=False)
    server = FakeServer()
    yield server
    server.close()


def elsewhere(server):
    """A URL of a server on another computer, for which the fake one stands."""
    return f"postgresql://db.example.org:{server.port}/town?hostaddr=127.0.0.1"


def here(server):
    return f"postgresql://127.0.0.1:{server.port}/town"


def test_the_fake_server_is_given_a_password_by_who_sends_one(fake):
    with pytest.raises(ValueError, match="cannot be read"):
        Dataset(here(fake), "person", table="rides")
    assert SECRET.encode() in b"".join(fake.received)


class TestNothingIsSent:
    @pytest.mark.parametrize("place", [here, elsewhere])
    @pytest.mark.parametrize("key", ["source", "ledger"])
    def test_by_loading_a_query_file_in_the_planner(self, fake, place, key):
        source, more = (place(fake), "") if key == "source" else ("rides.parquet", f'ledger = "{place(fake)}"\n'
                                                                  'dataset = "rides"')  # fmt: skip
        web = Web(PORT, {})
        browser = Browser(web, PORT)
        page = browser.post("/", {"do": ["load"], "query": [QUERY.format(source=source, more=more)]}).text
        assert "The query file is loaded." in page
        assert shown_server(place(fake)) in page
        assert "Connect</button>" in page
        browser.post("/ledger", {"data.ledger": [place(fake)]})
        browser.post("/publish", {"data.source": [source], "once": ["x"]})
        assert fake.received == []
        fields = {"data.source": [place(fake)], "data.table": ["rides"]}
        browser.post("/", {**fields, "do": ["connect"]})
        assert len(fake.received) > 0
        assert (SECRET.encode() in b"".join(fake.received)) == (place is here)
        count = len(fake.received)
        browser.post("/", {**fields, "data.source": [place(fake).replace("town", "village")]})
        assert len(fake.received) == count
        web.opened.close()

    @pytest.mark.parametrize("command", [["release", "--dry-run"], ["plan"]])
    @pytest.mark.parametrize("key", ["source", "ledger"])
    def test_by_a_command_that_reads_nothing(self, fake, tmp_path, command, key):
        source, more = (elsewhere(fake), "") if key == "source" else ("rides.parquet", f'ledger = "{elsewhere(fake)}"\n'
                                                                      'dataset = "rides"')  # fmt: skip
        (tmp_path / "q.toml").write_text(QUERY.format(source=source, more=more))
        told = CliRunner().invoke(app, [*command, "--query", "q.toml"])
        words = " ".join(told.stderr.split())
        assert told.exit_code == 2
        assert f"names a server as its {key}" in words
        assert (
            f"postgresql://db.example.org:{fake.port}/town (hostaddr=127.0.0.1). If that is right, give --connect"
            in words
        )
        assert fake.received == []


class TestNoPasswordInClearText:
    @pytest.mark.parametrize("arguments", [["plan", "--connect"], ["release", "--dry-run", "--connect"], ["release"]])
    def test_when_somebody_asks_to_connect(self, fake, tmp_path, arguments):
        (tmp_path / "q.toml").write_text(QUERY.format(source=elsewhere(fake), more=""))
        told = CliRunner().invoke(app, [*arguments, "--query", "q.toml"])
        assert told.exit_code == 2
        assert "did not ask for the password by SCRAM, so it was not sent" in " ".join(told.stderr.split())
        assert len(fake.received) > 0
        assert SECRET.encode() not in b"".join(fake.received)

    def test_to_a_ledger(self, fake):
        with Ledger(elsewhere(fake)) as ledger, pytest.raises(LedgerError, match="by SCRAM, so it was not sent"):
            ledger.datasets()
        assert len(fake.received) > 0
        assert SECRET.encode() not in b"".join(fake.received)

    def test_unless_the_environment_says_so(self, fake, monkeypatch):
        monkeypatch.setenv("PGREQUIREAUTH", "password")
        for act in (lambda: Dataset(elsewhere(fake), "person", table="rides"), Ledger(elsewhere(fake)).datasets):
            fake.received.clear()
            with pytest.raises((ValueError, LedgerError)):
                act()
            assert SECRET.encode() in b"".join(fake.received)

    def test_nor_because_the_url_says_so(self, fake):
        url = f"{elsewhere(fake)}&require_auth=password"
        for act in (lambda: Dataset(url, "person", table="rides"), Ledger(url).datasets):
            with pytest.raises(ValueError, match="set PGREQUIREAUTH"):
                act()
        assert fake.received == []


SCRAM = {"require_auth": "scram-sha-256"}


@pytest.mark.parametrize(
    ("host", "settings", "expected"),
    [
        (None, {}, {}),
        ("localhost", {}, {}),
        ("127.0.0.1", {}, {}),
        ("127.8.9.10", {}, {}),
        ("::1", {}, {}),
        ("%2Fvar%2Frun", {}, {}),
        (None, {"host": "/var/run"}, {}),
        (None, {"host": ("127.0.0.1:5432", "[::1]:5433")}, {}),
        ("db.example.org", {}, SCRAM),
        ("10.0.0.1", {}, SCRAM),
        ("localhost.example.org", {}, SCRAM),
        ("127.0.0.1.example.org", {}, SCRAM),
        ("localhost", {"host": "db.example.org"}, SCRAM),
        ("localhost", {"hostaddr": "192.0.2.7"}, SCRAM),
        ("localhost", {"service": "town"}, SCRAM),
        ("localhost,db.example.org", {}, SCRAM),
        (None, {"host": ("localhost", "db.example.org")}, SCRAM),
        ("db.example.org", {"require_auth": "gss"}, {}),
        ("db.example.org", {"require_auth": "md5", "password": "own"}, {}),
    ],
)
def test_which_servers_must_ask_by_scram(monkeypatch, host, settings, expected):
    for name in ("PGREQUIREAUTH", "PGHOST", "PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    assert auth_options(host, settings) == expected


@pytest.mark.parametrize(("name", "value"), [("PGHOST", "db.example.org"), ("PGHOSTADDR", "192.0.2.7"),
                                             ("PGSERVICE", "town")])  # fmt: skip
def test_a_host_of_the_environment(monkeypatch, name, value):
    monkeypatch.delenv("PGREQUIREAUTH", raising=False)
    monkeypatch.setenv(name, value)
    assert auth_options(None, {}) == SCRAM


@pytest.mark.parametrize("wanted", ["password", "md5", "scram-sha-256,password", "!none", ""])
def test_a_url_does_not_ask_for_less(monkeypatch, wanted):
    monkeypatch.delenv("PGREQUIREAUTH", raising=False)
    with pytest.raises(ValueError, match="require_auth in the URL"):
        auth_options("db.example.org", {"require_auth": wanted})


def test_locations_on_servers():
    for location in ("postgresql://h/d", "postgresql+psycopg://h/d", "https://h/x.csv", "spark://h:7077", "s3://b/x"):
        assert names_server(location)
    for location in ("people.parquet", "/data/*.csv", "C:\\x.csv", "sqlite:///x.db", "local[4]"):
        assert not names_server(location)
