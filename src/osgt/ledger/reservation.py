"""Reservation: a charge that stands, and what its owner may still do about it."""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from osgt.privacy import Charge

Record = Callable[[str, dict[str, Any]], object]


class Reservation:
    """A charge in the ledger, made before the data are read.

    Call `reading` before the first look at the data, and `settle` once the output is durable. `cancel` takes the charge
    back, and only this object can, in the process that made it and before `reading`: nobody else can know that nothing
    was read. If the process dies, the charge stands.
    """

    def __init__(self, dataset: str, sequence: int, charge: Charge, token: str, record: Record) -> None:
        self.dataset = dataset
        self.sequence = sequence
        self.charge = charge
        self._token = token
        self._record = record
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._state = "reserved"

    @property
    def state(self) -> str:
        """The stage of the reservation: "reserved", "reading", "cancelling", "cancelled" or "settled"."""
        return self._state

    def reading(self) -> None:
        """Say that from here on data may be read: the charge cannot be cancelled any more."""
        with self._lock:
            self._in_own_process("read under this reservation")
            if self._state not in ("reserved", "reading"):
                raise self._wrong("read under", "make a new reservation")
            self._state = "reading"

    def settle(self, statement_hash: str, *, output: str | None = None, output_hashes: Sequence[str] = ()) -> None:
        """Record that the output is durable, with the hash of the statement that was published with it.

        `output` says where it went, `output_hashes` are the SHA-256 hashes of its files.
        """
        if not isinstance(statement_hash, str) or not statement_hash:
            raise ValueError(f"statement_hash must be the text of a hash, got {statement_hash!r}")
        values = {"statement_hash": statement_hash, "output": output, "output_hashes": output_hashes}
        with self._lock:
            if self._state not in ("reserved", "reading"):
                raise self._wrong("settle", "make a new reservation for a new release")
            self._record("settle", values)
            self._state = "settled"

    def cancel(self) -> None:
        """Take the charge back. Possible only while nothing was read."""
        with self._lock:
            self._in_own_process("cancel it")
            if self._state not in ("reserved", "cancelling"):
                raise self._wrong("cancel", "the charge stands")
            # If the transaction fails, it may have been committed all the same: from here on, reading is out.
            self._state = "cancelling"
            self._record("cancel", {"token": self._token})
            self._state = "cancelled"

    def _in_own_process(self, act: str) -> None:
        if os.getpid() != self._process:
            raise ValueError(
                f"only the process that made a reservation can {act}: it alone knows whether data were read. Make a "
                "reservation in this process"
            )

    def _wrong(self, act: str, advice: str) -> ValueError:
        return ValueError(f"cannot {act} a reservation that is {self._state}: {advice}")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a reservation cannot be copied or sent elsewhere: two owners could not know of each other")

    def __repr__(self) -> str:
        return f"Reservation(dataset={self.dataset!r}, sequence={self.sequence}, state={self._state!r})"
