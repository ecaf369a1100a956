"""A bar while an engine works."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from osgt.tables.query import Query

#: Seconds between looks at how far the engine is.
_LOOK = 0.2


@contextmanager
def progress(query: "Query", title: str) -> Iterator[None]:
    """A bar while the engine works: DuckDB says how far it is, the others move only the clock."""
    backend = query.dataset.table.get_backend()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    done = threading.Event()

    def watch(task: Any) -> None:
        while not done.wait(_LOOK):
            percent = backend.con.query_progress()
            if percent >= 0:
                bar.update(task, total=100, completed=percent)

    with bar:
        task = bar.add_task(title, total=None)
        watcher = threading.Thread(target=watch, args=(task,), daemon=True)
        if backend.name == "duckdb":
            watcher.start()
        try:
            yield
        finally:
            done.set()
            if backend.name == "duckdb":
                watcher.join()
