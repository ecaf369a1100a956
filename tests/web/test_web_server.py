"""The server itself: it listens before it tells its link, and others on this computer cannot use it up."""

import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from planner_page import Planner, served, until

from osgt import Ledger
from osgt.web.gate import MOST

#: Serves, and goes to each address as soon as it is told.
TOLD = """
import re, signal, socket, threading
from osgt.web.server import serve

def say(text):
    port = int(re.search(r"127.0.0.1:(\\d+)/", text)[1])
    socket.create_connection(("127.0.0.1", port)).close()
    print("accepted")
    threading.Timer(0, signal.raise_signal, [signal.SIGINT]).start()

serve({}, port=0, opens=False, say=say)
"""

#: A browser that goes where the page leads that it is given, and writes down what comes back.
BROWSER = """
import http.client, pathlib, re, sys, urllib.parse
page = pathlib.Path(urllib.parse.unquote(urllib.parse.urlsplit(sys.argv[1]).path)).read_text()
link = urllib.parse.urlsplit(re.search("url=(http[^\\"]+)", page)[1])
connection = http.client.HTTPConnection(link.netloc, timeout=600)
try:
    connection.request("GET", f"{link.path}?{link.query}")
    said = connection.getresponse().status
except OSError as error:
    said = error
pathlib.Path("said.tmp").write_text(str(said))
pathlib.Path("said.tmp").rename("said")
"""


def test_a_link_that_is_told_is_answered(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", TOLD], capture_output=True, text=True, cwd=tmp_path, timeout=600, check=False
    )
    assert done.stdout == "accepted\n", done.stderr


def test_the_browser_that_is_opened_is_answered(tmp_path):
    """Also if it is one that returns only when it is closed."""
    (tmp_path / "browser.py").write_text(BROWSER)
    server = subprocess.Popen(
        [sys.executable, "-m", "osgt", "web"],
        cwd=tmp_path,
        env=os.environ | {"BROWSER": f"{sys.executable} browser.py %s"},
        stdout=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
    )
    try:
        until((tmp_path / "said").exists)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(600)
    assert (tmp_path / "said").read_text() == "200"


#: Holds so many connections with requests that never end, opens those again that were closed, and says how many are
#: open. At the first line that it reads it says that it holds them; from then on it opens no more.
ATTACKER = """
import itertools, select, socket, sys
port, count = int(sys.argv[1]), int(sys.argv[2])
halves = itertools.cycle([
    b"",
    b"GET / HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n",
    b"POST /publish HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\nContent-Length: 1000\\r\\n\\r\\ntoken=",
])
held, opened, goes_on = [], 0, True

def is_open(each):
    try:
        return not select.select([each], [], [], 0)[0] or each.recv(1 << 16) != b""
    except OSError:
        return False

while True:
    held = [each for each in held if is_open(each) or each.close()]
    while goes_on and len(held) < count:
        made = socket.socket()
        made.settimeout(60)
        try:
            made.connect(("127.0.0.1", port))
            made.sendall(next(halves))
        except OSError:
            pass
        held.append(made)
        opened += 1
        if opened > count:
            break  # one at a time from then on
    if select.select([sys.stdin], [], [], 0.01)[0]:
        if not sys.stdin.readline():
            break
        goes_on = False
    if opened >= count:
        print(len(held), flush=True)
"""


class Attacker:
    """Another user of this computer who holds connections; `held` is how many."""

    def __init__(self, port, count):
        self.held = None
        self._process = subprocess.Popen(
            [sys.executable, "-c", ATTACKER, str(port), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self._process.stdout:
            self.held = int(line)

    def rest(self):
        """Open no more."""
        self._process.stdin.write("rest\n")
        self._process.stdin.flush()

    def close(self):
        self._process.stdin.close()
        self._process.wait(600)
        self._reader.join(600)
        self._process.stdout.close()


QUERY = """
[data]
source = "rides.parquet"
privacy_unit = "person"
ledger = "budget.db"
dataset = "rides"
[groups]
by = ["city"]
max_groups = 1
max_rows_per_group = 1
public_keys = ["Bern", "Rome"]
[[aggregates]]
kind = "count"
[budget]
epsilon = 1
delta = 1e-7
"""


def test_half_sent_requests_of_others_cost_no_release(chromium, tmp_path):
    """They hold few connections, and those not for long; what is published meanwhile is charged once, and is there."""
    pq.write_table(pa.table({"person": range(200), "city": ["Bern", "Rome"] * 100}), tmp_path / "rides.parquet")
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("rides", epsilon=3, delta=1e-5)
    with served(tmp_path) as server, contextlib.ExitStack() as attack:
        link = server.link()
        if hasattr(resource, "prlimit"):  # as where nobody may have more
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        attackers = [Attacker(urlsplit(link).port, 550) for _ in range(2)]
        for attacker in attackers:
            attack.callback(attacker.close)
        until(lambda: all(attacker.held is not None for attacker in attackers))
        planner = Planner(chromium, link)
        for name in ("first", "second"):
            planner.page.goto(f"{planner.root}/")
            planner.load(QUERY)
            planner.publish(f"{name}.parquet", f"{name}.html")
            assert "Published" in planner.words()
            assert pq.read_table(tmp_path / f"{name}.parquet").num_rows == 2
        for attacker in attackers:
            attacker.rest()
        until(lambda: sum(attacker.held for attacker in attackers) <= MOST)
        until(lambda: sum(attacker.held for attacker in attackers) == 0)
        planner.close()
    with Ledger(tmp_path / "budget.db") as ledger:
        assert [(entry.epsilon, entry.status) for entry in ledger.overview("rides").releases] == [(1, "settled")] * 2
        assert ledger.verify().ok


def test_a_release_without_descriptors_is_refused_before_it_is_charged(chromium, tmp_path):
    pq.write_table(pa.table({"person": range(200), "city": ["Bern", "Rome"] * 100}), tmp_path / "rides.parquet")
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("rides", epsilon=3, delta=1e-5)
    with served(tmp_path) as server:
        planner = Planner(chromium, server.link())
        planner.load(QUERY)
        if not hasattr(resource, "prlimit"):
            pytest.skip("no limit can be set to another process here")
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (200, 200))
        planner.publish("few.parquet", "few.html")
        assert "nothing was charged: fewer than" in planner.words("#notice")
        planner.close()
    with Ledger(tmp_path / "budget.db") as ledger:
        assert not ledger.overview("rides").releases


def cpu_seconds(process):
    """The time that a process has worked."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="how long a process has worked is read from /proc")
def test_a_plan_ends_when_the_browser_goes(chromium, tmp_path):
    """One of 400 columns would take hours."""
    names = [f"c{i}" for i in range(400)]
    pq.write_table(pa.table({"person": [1], **{name: [1.0] for name in names}}), tmp_path / "wide.parquet")
    sums = "".join(f'[[aggregates]]\nkind = "sum"\ncolumn = "{name}"\nbounds = [0, 1]\n' for name in names)
    query = QUERY.replace('ledger = "budget.db"\ndataset = "rides"\n', "").replace("rides.parquet", "wide.parquet")
    query = re.sub(r"\[groups\].*?(?=\[\[)", "[groups]\nmax_rows_per_group = 1\n", query, flags=re.DOTALL) + sums
    with served(tmp_path) as server:
        planner = Planner(chromium, server.link())
        planner.unfold()
        planner.page.fill("[name=query]", query)
        before = cpu_seconds(server.process)
        planner.page.evaluate("document.querySelector('button[value=load]').click()")
        until(lambda: cpu_seconds(server.process) > before + 3)
        planner.close()

        def is_at_rest():
            worked = cpu_seconds(server.process)
            time.sleep(2)
            return cpu_seconds(server.process) - worked < 0.1

        until(is_at_rest)
