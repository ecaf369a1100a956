"""A byte source that hands out chosen bytes and complains when the sampler asks for others."""

import numpy as np


class ScriptedBytes:
    """Hands out the chunks given, one for each read; every chunk must have just the size asked for."""

    def __init__(self, *chunks):
        self.chunks = [bytes(chunk) for chunk in chunks]

    def read(self, count):
        assert self.chunks, f"no bytes left for a read of {count}"
        chunk = self.chunks.pop(0)
        assert len(chunk) == count, f"a read of {count} bytes met a chunk of {len(chunk)}"
        return np.frombuffer(chunk, dtype=np.uint8).copy()


class RepeatedByte:
    """An endless run of one byte."""

    def __init__(self, byte):
        self.byte = byte

    def read(self, count):
        return np.full(count, self.byte, dtype=np.uint8)


def words(values, dtype):
    """The bytes of an array in the machine's own order, as the samplers read them."""
    return np.asarray(values, dtype=dtype).tobytes()
