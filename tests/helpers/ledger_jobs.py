"""Processes that charge a ledger, and die: run as a program, one process with one thread, so that it can fork.

    python ledger_jobs.py charge LOCATION WORKERS CHARGES   many processes charge at once
    python ledger_jobs.py crash LOCATION FOLDER ROUNDS      releases, each killed somewhere on its way
    python ledger_jobs.py open LOCATION WORKERS             many processes open a data set where there is no ledger yet

Each prints one line of JSON.
"""

import json
import os
import random
import signal
import sys
import time
import warnings
from pathlib import Path

import sqlalchemy as sa

from charges import gaussian, laplace, osgt
from osgt import Ledger
from osgt.ledger import BudgetExceeded

warnings.simplefilter("error")

#: One kill in so many comes from outside, at a random time, rather than between two steps.
_FROM_OUTSIDE = 4


def charge(location, workers, charges):
    """Many processes charge until each has tried its share; what they were granted is counted on both sides."""
    work = [laplace(0.02), gaussian(300), osgt(90, 100, 2)]
    children = {}
    for number in range(workers):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            granted, refused = [], 0
            ledger = Ledger(location)
            for i in range(charges // workers):
                try:
                    reservation = ledger.reserve("flights", work[(i // 50) % 3], query=f"{number} {i}")
                except BudgetExceeded:
                    refused += 1
                    if refused >= 3:
                        break
                else:
                    granted.append(reservation.sequence)
                    if i % 20 == 0:
                        reservation.settle("hash")
            ledger.close()
            with os.fdopen(write, "w") as pipe:
                json.dump({"granted": granted, "refused": refused}, pipe)
            os._exit(0)
        os.close(write)
        children[pid] = read
    results = []
    for pid, read in children.items():
        with os.fdopen(read) as pipe:
            results.append(json.load(pipe))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return results


def open_at_once(location, workers):
    """Many processes open the same data set; how each of them ended."""
    children = []
    for _ in range(workers):
        pid = os.fork()
        if pid == 0:
            Ledger(location).open("flights", epsilon=3, delta=1e-6)
            os._exit(0)
        children.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def release(location, folder, name, step):
    """A release as it should be made: charge, read, write, make durable, settle. `step` is called between all steps."""
    ledger = Ledger(location)
    step()
    reservation = ledger.reserve("flights", gaussian(3000, 2), query=name)
    step()
    if name.startswith("cancelled"):
        reservation.cancel()
        step()
        return
    reservation.reading()
    step()
    numbers = f"{name}: {reservation.sequence}"
    temporary = folder / f".{name}"
    with temporary.open("w") as file:
        file.write(numbers)
        step()
        file.flush()
        os.fsync(file.fileno())
    step()
    temporary.rename(folder / name)
    step()
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)
    step()
    reservation.settle("hash")
    step()
    ledger.close()
    step()


def counted_steps(location, folder, kill_at):
    """Steps are also all statements and commits of the database. At the given one the process kills itself."""
    count = 0

    def step(*_arguments, **_more):
        nonlocal count
        count += 1
        if count == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    for moment in ("before_cursor_execute", "after_cursor_execute", "commit", "begin", "engine_connect"):
        sa.event.listen(sa.Engine, moment, step)
    return step, lambda: count


def crash(location, folder, rounds):
    """Releases that are killed, at every step in turn and at random moments."""
    folder = Path(folder)
    generator = random.Random(time.time_ns())
    total, duration = _dry_run(location, folder)
    killed = 0
    for number in range(rounds):
        name = f"{'cancelled' if number % 5 == 4 else 'release'}-{number}"
        outside = number % _FROM_OUTSIDE == 0
        kill_at = 0 if outside else 1 + (number * 7 + generator.randrange(3)) % total
        pid = os.fork()
        if pid == 0:
            release(location, folder, name, counted_steps(location, folder, kill_at)[0])
            os._exit(0)
        if outside:
            time.sleep(generator.random() * 1.2 * duration)
            os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status in (0, -signal.SIGKILL), status
        killed += status != 0
    return {"rounds": rounds, "killed": killed, "steps": total}


def _dry_run(location, folder):
    """How many steps a release has, and how long it takes, from a first and a second one that are not killed."""
    read, write = os.pipe()
    if os.fork() == 0:
        step, counted = counted_steps(location, folder, 0)
        release(location, folder, "release-first", step)
        start, before = time.perf_counter(), counted()
        release(location, folder, "release-second", step)
        os.write(write, json.dumps([counted() - before, time.perf_counter() - start]).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        total, duration = json.load(pipe)
    os.wait()
    return total, duration


if __name__ == "__main__":
    act, location, *rest = sys.argv[1:]
    if act == "charge":
        answer = charge(location, *(int(number) for number in rest))
    elif act == "open":
        answer = open_at_once(location, int(rest[0]))
    else:
        answer = crash(location, rest[0], int(rest[1]))
    print(json.dumps(answer))
