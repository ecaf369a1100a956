"""A bar while an engine works."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from osgt.tables.publication import Publication
    from osgt.tables.query import Query

#: Seconds between looks at how far the engine is.
_LOOK = 0.2


@contextmanager
def progress(query: "Query | Publication", title: str) -> Iterator[None]:
    """A bar while the engine works, if it says how far it is; otherwise only the clock moves."""
    engine, backend = query.dataset.engine, query.dataset.table.get_backend()
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    done = threading.Event()

    def watch(task: Any) -> None:
        while not done.wait(_LOOK):
            percent = engine.progress(backend)
            if percent is not None:
                bar.update(task, total=100, completed=percent)

    with bar:
        task = bar.add_task(title, total=None)
        watcher = threading.Thread(target=watch, args=(task,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
