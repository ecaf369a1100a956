"""The source of random bytes: keyed by the system, never the same for two processes or threads."""

import ast
import inspect
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import osgt
from osgt import DiscreteOSGT
from osgt.sampling import entropy
from osgt.sampling.entropy import SystemEntropy


def test_sizes():
    source = SystemEntropy()
    for count in (0, 1, 15, 16, 17, 1000, len(entropy._ZEROS), len(entropy._ZEROS) + 1, 3 * len(entropy._ZEROS) - 7):
        block = source.read(count)
        assert block.dtype == np.uint8
        assert block.shape == (count,)


def test_bytes_are_uniform():
    """False-alarm rate 1e-9; power: the same test rejects bytes whose lowest bit is set half a percent too often."""
    block = SystemEntropy().read(1 << 23)
    assert stats.chisquare(np.bincount(block, minlength=256)).pvalue > 1e-9
    biased = block | (SystemEntropy().read(len(block)) < 2)
    assert stats.chisquare(np.bincount(biased, minlength=256)).pvalue < 1e-9


def test_reads_never_repeat():
    source = SystemEntropy()
    blocks = [source.read(16).tobytes() for _ in range(5000)]
    assert len(set(blocks)) == len(blocks)
    assert source.read(64).tobytes() != SystemEntropy().read(64).tobytes()


def test_keys_come_from_the_system_and_are_renewed(monkeypatch):
    asked = []
    urandom = os.urandom
    monkeypatch.setattr(entropy.os, "urandom", lambda n: asked.append(n) or urandom(n))
    monkeypatch.setattr(entropy, "_BYTES_PER_KEY", 1000)
    source = SystemEntropy()
    for _ in range(10):
        source.read(300)
    assert asked == [32, 16] * 4  # three reads to a key


def test_threads_have_streams_of_their_own():
    source, blocks = SystemEntropy(), []

    def read():
        blocks.extend([source.read(16).tobytes() for _ in range(2000)])

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(blocks)) == len(blocks) == 16_000


def test_no_draw_is_handed_out_twice_to_threads():
    """Two repetitions among 80,000 draws have probability below 1e-12; a pool handed out twice has many."""
    law, draws = DiscreteOSGT.gaussian(3e15), []

    def take():
        draws.extend([law.sample() for _ in range(5000)])
        draws.extend(law.sample(5000).tolist())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(draws) == 80_000
    assert len(draws) - len(set(draws)) <= 1


FORK = """
import os, sys
from osgt import DiscreteOSGT
from osgt.sampling.entropy import system_entropy
law = DiscreteOSGT.gaussian(1e15)
law.sample()                       # fill the pool and key the stream before the forks
readers = []
for _ in range(3):
    reader, writer = os.pipe()
    if os.fork() == 0:
        values = [law.sample() for _ in range(5)] + law.sample(2000)[:5].tolist() + system_entropy.read(16).tolist()
        os.write(writer, repr(values).encode())
        os._exit(0)
    os.wait()
    readers.append(os.read(reader, 65536).decode())
values = [law.sample() for _ in range(5)] + law.sample(2000)[:5].tolist() + system_entropy.read(16).tolist()
print(*readers, repr(values), sep="\\n")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_children_draw_on_their_own():
    """Parent and children continue from the same memory; none of their draws or bytes may agree."""
    output = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True, timeout=600)
    rows = [ast.literal_eval(line) for line in output.stdout.splitlines()]
    assert len(rows) == 4
    draws = [value for row in rows for value in row[:10]]
    assert len(set(draws)) == len(draws) == 40
    assert len({tuple(row[10:]) for row in rows}) == 4


def test_there_is_no_seed():
    assert set(inspect.signature(DiscreteOSGT.sample).parameters) == {"self", "size"}


def test_no_other_source_of_randomness():
    """`os.urandom` in entropy.py alone; NumPy's generators in `OSGT.rvs`, which is for simulation, and where published
    numbers are split into parts, the same ones each time.

    The planner's tokens are no noise: they come from `secrets`.
    """
    root = Path(osgt.__file__).parent
    allowed = {
        "os.urandom": {"sampling/entropy.py"},
        "np.random": {"estimation/empirical_bayes.py", "noise/osgt.py"},
        "secrets": {"web/app.py", "web/gate.py"},
    }
    forbidden = ["os.urandom", "os.getrandom", "np.random", "numpy.random", "secrets", "random"]
    found = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                if name in forbidden:
                    found.setdefault(name, set()).add(path.relative_to(root).as_posix())
    assert found == allowed


C_FORK = """
import ctypes, os, sys
from osgt import DiscreteOSGT
law = DiscreteOSGT.gaussian(1e15)
law.sample()
reader, writer = os.pipe()
if ctypes.PyDLL(None).fork() == 0:     # a fork that Python's own hooks know nothing of
    os.write(writer, repr([law.sample() for _ in range(5)] + law.sample(2000)[:5].tolist()).encode())
    os._exit(0)
print(os.read(reader, 65536).decode())
print([law.sample() for _ in range(5)] + law.sample(2000)[:5].tolist())
"""

FORK_IN_A_HANDLER = """
import os, signal, sys
from osgt import DiscreteOSGT
from osgt.sampling import fast
law = DiscreteOSGT.gaussian(1e15)
reader, writer = os.pipe()
is_child = False
def handler(*_):
    global is_child
    if os.fork() == 0:
        is_child = True
        law.sample()
signal.signal(signal.SIGUSR1, handler)
draw = fast.draw
def interrupted(*arguments):
    values = draw(*arguments)
    if not is_child and not interrupted.done:
        interrupted.done = True
        os.kill(os.getpid(), signal.SIGUSR1)
    return values
interrupted.done = False
fast.draw = interrupted
values = [law.sample() for _ in range(6)]
if is_child:
    os.write(writer, repr(values).encode())
    os._exit(0)
print(os.read(reader, 65536).decode())
print(values)
"""

FORK_UNDER_LOCK = """
import os, threading
from osgt import DiscreteOSGT
from osgt.sampling.lookup import working_precision
inside, leave = threading.Event(), threading.Event()
def hold():
    with working_precision(777):
        inside.set()
        leave.wait()
thread = threading.Thread(target=hold)
thread.start()
inside.wait()
pid = os.fork()
if pid == 0:
    DiscreteOSGT.gaussian(12.34).sample()   # needs the precision lock for its tables
    os._exit(0)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])])
leave.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="loads the C library by name")
@pytest.mark.parametrize("script", [C_FORK, FORK_IN_A_HANDLER], ids=["fork by C code", "fork by a signal handler"])
def test_other_forks(script):
    command = [sys.executable, "-W", "ignore", "-c", script]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    child, parent = [ast.literal_eval(line) for line in output.stdout.splitlines()]
    assert len(child) == len(parent) > 0
    assert not set(child) & set(parent)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_lock_held_at_the_fork_does_not_block_the_child():
    command = [sys.executable, "-W", "ignore", "-c", FORK_UNDER_LOCK]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    assert output.stdout.strip() == "[0]"
