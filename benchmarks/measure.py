"""What the benchmark scripts share: timing by the minimum of repeats, and a table of claims."""

import time
from collections.abc import Callable, Sequence

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


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on the terminal, numbers to the right."""
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console(width=150).print(table)
