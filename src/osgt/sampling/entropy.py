"""The only source of random bytes: AES-256 in counter mode, keyed by the operating system.

Each thread has a stream of its own, so there is nothing to lock. A stream is keyed afresh after a bounded output, and
in a forked child before its first byte.
"""

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
    """Where samplers take their randomness from. Tests put chosen bytes in its place."""

    def read(self, count: int) -> Bytes:
        """`count` independent uniform bytes."""


class SystemEntropy:
    """`read(n)` returns n bytes that nobody can predict, and that no other process or thread is given."""

    def __init__(self) -> None:
        self._streams = threading.local()

    def read(self, count: int) -> Bytes:
        # A cipher writes up to a block less one byte behind the end.
        buffer = np.empty(count + _AES_BLOCK - 1, dtype=np.uint8)
        view = buffer.data
        for start in range(0, count, len(_ZEROS)):
            size = min(len(_ZEROS), count - start)
            self._cipher(size).update_into(_ZEROS[:size], view[start:])
        return buffer[:count]

    def _cipher(self, count: int) -> CipherContext:
        """A keyed cipher that may still put out `count` bytes."""
        streams = self._streams
        if getattr(streams, "generation", None) != _generation or streams.left < count:
            cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(_AES_BLOCK)))
            streams.cipher, streams.left, streams.generation = cipher.encryptor(), _BYTES_PER_KEY, _generation
        streams.left -= count
        context: CipherContext = streams.cipher
        return context


_generation = 0


def generation() -> int:
    """A number that changes in a forked child: what was drawn before it belongs to the parent."""
    return _generation


def _after_fork_in_child() -> None:
    global _generation  # noqa: PLW0603 - the one piece of state that a fork must change
    _generation += 1


os.register_at_fork(after_in_child=_after_fork_in_child)

system_entropy = SystemEntropy()
