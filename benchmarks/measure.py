"""What the benchmark scripts share: the least time of several, runs in a process apart, and a table of claims."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def best_time(work: Callable[[], object], repeats: int = 7) -> float:
    """The least duration in seconds: what the machine takes when nothing else disturbs it."""
    durations = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        durations.append(time.perf_counter() - start)
    return min(durations)


def best_times(works: Sequence[Callable[[], object]], repeats: int = 7) -> list[float]:
    """The least duration of each, measured in turns so that a noisy moment hits all alike."""
    rounds = [[best_time(work, 1) for work in works] for _ in range(repeats)]
    return [min(times) for times in zip(*rounds, strict=True)]


def run_apart(command: Sequence[str | Path], *, cwd: Path, timeout: float = 3600) -> dict[str, Any]:
    """What a command prints as its last line, which is JSON, with its peak memory as `gib`.

    The memory is that of the process (`ru_maxrss`) or, where Linux tells it, of all that it starts together, looked at
    ten times a second: Spark works in processes of its own. Raises RuntimeError with the last words of a command that
    fails.
    """
    cwd.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(command, cwd=cwd, stdout=out, stderr=err, start_new_session=True)
        together, end = 0, time.monotonic() + timeout
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                if time.monotonic() > end:
                    raise RuntimeError(f"not ready after {timeout:.0f} s")
                together = max(together, _resident(process.pid))
                time.sleep(0.1)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            raise
        _, status, usage = ended
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode:
            words = [line.strip() for line in err if line.strip()]
            raise RuntimeError(words[-1] if words else f"ended with {process.returncode}")
        alone = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
        return json.loads(out.read().splitlines()[-1]) | {"gib": max(alone, together) / 2**30}


def _resident(session: int) -> int:
    """Bytes in memory of all the processes of a session, pages that they share counted for each; 0 without /proc."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
    return total


def processor_seconds(*roots: int) -> float:
    """Seconds of processors that these processes have used so far, with all that they have started.

    Of children that have ended it knows what their parents have waited for. Without /proc, of this process alone.
    """
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has just ended
            fields = stat.read_text().rpartition(")")[2].split()
            process = int(stat.parent.name)
            parents[process], used[process] = int(fields[1]), sum(map(int, fields[11:15]))
    if not used:
        return sum(os.times()[:4])

    def ours(process: int) -> bool:
        while process in parents and process not in roots:
            process = parents[process]
        return process in roots

    return sum(ticks for process, ticks in used.items() if ours(process)) / os.sysconf("SC_CLK_TCK")


def say_if_busy() -> None:
    """Warn where other work disturbs the times: to be called before the first of them is taken."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    if load > processors / 2:
        print(
            f"Other work is running (load {load:.1f} on {processors} processors): times and their ratios are disturbed."
        )


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on the terminal, numbers to the right."""
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)
