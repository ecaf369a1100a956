"""Writers of one SQLite file wait in a queue: of those who charge without a pause nobody starves.

Whoever waits is served after those who asked before. So while n processes ask without a pause, each has one turn in n,
whatever its speed: to fall to a quarter of that, a process would have to be kept from asking again, by the scheduler,
during three of four rounds throughout the test. Schedulers that share a processor out do not do that: the false-alarm
rate is far below 1e-9. The power check is a lock without a queue, at which waiting processes try again after pauses of
their own, as SQLite does.
"""

import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

from osgt import Ledger

WORKERS, CHARGES, TURNS = 3, 40, 80

#: Charges so often, once it is told to.
CHARGER = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[2])
    from charges import laplace
    from osgt import Ledger
    with Ledger(sys.argv[1]) as ledger:
        ledger.reserve("flights", laplace(0.001), query="q")
        print("ready", flush=True)
        sys.stdin.readline()
        for _ in range(int(sys.argv[4])):
            ledger.reserve("flights", laplace(0.001), query="q", actor=sys.argv[3])
    """
)

#: Takes so many turns, with the queue or without, and notes each of them.
TAKER = textwrap.dedent(
    """
    import fcntl, os, sys, time
    from contextlib import contextmanager
    from osgt.ledger.store import database

    @contextmanager
    def without(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_CREAT)
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.01)
        yield
        os.close(descriptor)

    path, is_queue, name, count = sys.argv[1:]
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(count)):
        with database.turn(path, 60.0) if is_queue == "True" else without(path), open(path + "-turns", "a") as turns:
            turns.write(name + "\\n")
            time.sleep(0.002)
    """
)


def run(program, *arguments, count):
    """So many processes of a program, all begun at once when the last is ready."""
    command = [sys.executable, "-c", program, *map(str, arguments)]
    workers = [
        subprocess.Popen(
            [*command, f"worker {i}", str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for i in range(WORKERS)
    ]
    try:
        for worker in workers:
            assert worker.stdout.readline() == "ready\n"
        for worker in workers:
            worker.stdin.write("go\n")
            worker.stdin.flush()
        assert [worker.wait(600) for worker in workers] == [0] * WORKERS
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()


def least_share(turns, count):
    """The least share of a worker, in fair shares, until the first of them had all its turns."""
    seen = Counter()
    for name in turns:
        seen[name] += 1
        if seen[name] == count:
            break
    return min(seen[f"worker {i}"] for i in range(WORKERS)) * WORKERS / sum(seen.values())


def test_nobody_starves(tmp_path):
    path = tmp_path / "budget.db"
    with Ledger(path) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        run(CHARGER, path, Path(__file__).parents[1] / "helpers", count=CHARGES)
        order = [release.actor for release in ledger.history("flights") if release.actor.startswith("worker")]
    assert len(order) == WORKERS * CHARGES
    assert least_share(order, CHARGES) > 0.25


def least_share_of_turns(path, is_queue):
    """The least share of a worker when all of them take turns on one lock."""
    run(TAKER, path, is_queue, count=TURNS)
    order = Path(f"{path}-turns").read_text().split("\n")[:-1]
    assert len(order) == WORKERS * TURNS
    return least_share(order, TURNS)


def test_nobody_starves_in_the_queue(tmp_path):
    assert least_share_of_turns(tmp_path / "lock", True) > 0.25


def test_without_the_queue_somebody_does(tmp_path):
    """In one of a few tries: on a busy machine the scheduler may be fair for once."""
    assert any(least_share_of_turns(tmp_path / f"lock {i}", False) <= 0.25 for i in range(8))
