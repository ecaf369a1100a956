"""The data sets, queries with their plans, and ledgers that stay open between requests: a slider need not wait.

Nothing is published through these: a release opens its data and its ledger anew.
"""

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from osgt.api.dataset import Dataset

#: How many of each are kept.
_MOST = 12


def stamp(source: str) -> list[int]:
    """The stamp of a file, which changes with it, so that no old one stays open in its place; empty for databases."""
    try:
        status = os.stat(source)
    except (OSError, ValueError):
        return []
    return [status.st_ino, status.st_mtime_ns, status.st_size]


class Opened:
    """The last few data sets, queries and ledgers that were used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._datasets: OrderedDict[str, Dataset] = OrderedDict()
        self._queries: OrderedDict[str, Any] = OrderedDict()
        self._ledgers: OrderedDict[str, Any] = OrderedDict()

    def connect(self, location: str) -> None:
        """Somebody has seen where this is, and asked to connect: from now on that is done whenever it is named."""
        self._asked.add(location)

    def may_connect(self, location: str) -> bool:
        """Whether somebody has asked to connect to a server, with all that belongs to its URL."""
        return location in self._asked

    def dataset(self, options: Mapping[str, Any], unit: Any, neighbours: str | None) -> Dataset:
        """The data set; where it is not known yet who is protected, one of rows, for its columns."""
        given = dict(options)
        key = json.dumps([given, unit, neighbours, stamp(given["source"])], sort_keys=True)
        more: dict[str, Any] = {} if neighbours is None else {"neighbours": neighbours}
        return self._get(  # type: ignore[no-any-return]
            self._datasets, key, lambda: Dataset(given.pop("source"), "row" if unit is None else unit, **given, **more)
        )

    def query(self, key: str) -> Any:
        """The query that was kept under a key; None if there is none."""
        with self._lock:
            if key in self._queries:
                self._queries.move_to_end(key)
            return self._queries.get(key)

    def keep(self, key: str, query: Any) -> None:
        """Keep a query and the plans that it remembers."""
        with self._lock:
            self._queries[key] = query
            while len(self._queries) > _MOST:
                self._queries.popitem(last=False)

    def ledger(self, location: str) -> Any:
        """The ledger at a location."""
        from osgt.ledger import Ledger  # noqa: PLC0415 - most pages have none

        return self._get(self._ledgers, location, lambda: Ledger(location))

    def close(self) -> None:
        """Close all that is open."""
        with self._lock:
            everything = [*self._datasets.values(), *self._ledgers.values()]
            for kept in (self._datasets, self._queries, self._ledgers):
                kept.clear()
        for thing in everything:
            with suppress(Exception):
                thing.close()

    def _get(self, kept: "OrderedDict[str, Any]", key: str, made: Any) -> Any:
        with self._lock:
            if key in kept:
                kept.move_to_end(key)
                return kept[key]
        new = made()  # which may take a while, and must not hold up other pages
        with self._lock:
            kept[key] = new
            # What is dropped may still be in use by another request: it is closed when nobody has it any more.
            while len(kept) > _MOST:
                kept.popitem(last=False)
        return new
