"""The only source of random bytes: AES-256 in counter mode, keyed by the operating system.

Each thread has a stream of its own, so there is nothing to lock. A stream is keyed afresh after a bounded output, and
in a forked child before its first byte.
"""

import mmap
import os
import threading
from typing import Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

#: A key is used for this many bytes at most: far below where counter mode shows (about 2⁶⁸ bytes).
_BYTES_PER_KEY = 1 << 30
_ZEROS = memoryview(bytes(1 << 18))
_AES_BLOCK = 16


class ByteSource(Protocol):
    """A source of randomness for samplers. Tests put chosen bytes in its place."""

    def read(self, count: int) -> Bytes:
        """`count` independent uniform bytes."""


class SystemEntropy:
    """`read(n)` returns n bytes that nobody can predict, and that no other process or thread is given."""

    def __init__(self) -> None:
        self._streams = threading.local()

    def read(self, count: int) -> Bytes:
        # A cipher writes up to a block less one byte behind the end.
        buffer = np.empty(count + _AES_BLOCK - 1, dtype=np.uint8)
        while True:
            before = generation()
            for start in range(0, count, len(_ZEROS)):
                size = min(len(_ZEROS), count - start)
                self._cipher(before, size).update_into(_ZEROS[:size], buffer.data[start:])
            if before == generation():
                return buffer[:count]

    def _cipher(self, current: int, count: int) -> CipherContext:
        """A keyed cipher of this process that may still put out `count` bytes."""
        streams = self._streams
        if getattr(streams, "generation", None) != current or streams.left < count:
            cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(_AES_BLOCK)))
            streams.cipher, streams.left, streams.generation = cipher.encryptor(), _BYTES_PER_KEY, current
        streams.left -= count
        context: CipherContext = streams.cipher
        return context


def token(size: int) -> str:
    """Draw so many random bytes, in hexadecimal digits: for names and secrets that nobody can guess."""
    return system_entropy.read(size).tobytes().hex()


class _Forks:
    """Counts the forks between the first process and this one."""

    def __init__(self) -> None:
        self.count = 0
        self._process = os.getpid()
        self._page: mmap.mmap | None = None
        try:
            # A page that Linux hands to a child empty, whoever forked: C code that knows nothing of Python as well.
            page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            page.madvise(_WIPE_ON_FORK)
            page[0] = 1
            self._page = page
        except (AttributeError, OSError, ValueError):
            pass  # another system: its process number tells the same, if more slowly

    def look(self) -> int:
        """Notice a fork that has happened, and return the count."""
        if self._page is not None:
            if self._page[0] == 0:
                self.count += 1
                self._page[0] = 1
        elif self._process != os.getpid():
            self.count += 1
            self._process = os.getpid()
        return self.count

    def after_in_child(self) -> None:
        self.count += 1


#: MADV_WIPEONFORK of Linux, for which Python has no name.
_WIPE_ON_FORK = 18
_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forks.after_in_child)


def generation() -> int:
    """A number that changes in a forked child: what was drawn before it belongs to the parent."""
    return _forks.look()


system_entropy = SystemEntropy()
