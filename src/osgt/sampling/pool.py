"""Draws made ahead of need, in blocks of fixed size.

A scalar draw comes out of a list that was filled earlier, so neither its duration nor the path of the code depends on
the value handed out.
"""

import operator
from functools import lru_cache

import numpy as np

from osgt.sampling.entropy import ByteSource, generation, system_entropy
from osgt.sampling.fast import draw, fast_sampler
from osgt.sampling.lookup import Potential
from osgt.support.arrays import Integers

_POOL = 1 << 12

#: Up to this many draws are taken from the pool, more are made at once.
_LARGEST_FROM_POOL = 1 << 10


class Sampler:
    """Independent draws from the integer distribution of a potential; safe with threads and across forks."""

    def __init__(self, potential: Potential, source: ByteSource = system_entropy) -> None:
        self._sampler = fast_sampler(potential, source)
        self._pool: list[int] = []
        self._generation = generation()

    @property
    def nbytes(self) -> int:
        """Memory of the tables and of a full pool."""
        return self._sampler.nbytes + 40 * _POOL

    def sample(self, size: int | tuple[int, ...] | None = None) -> int | Integers:
        """`size` draws as int64, or one int where `size` is None."""
        if size is None:
            return self._next()
        shape = tuple(_length(n) for n in size) if isinstance(size, tuple) else (_length(size),)
        count = int(np.prod(shape, dtype=object))
        if count <= _LARGEST_FROM_POOL:
            return np.array([self._next() for _ in range(count)], dtype=np.int64).reshape(shape)
        while True:
            before = generation()
            draws = draw(self._sampler, count)
            if before == generation():
                return draws.reshape(shape)

    def _next(self) -> int:
        while True:
            now = generation()
            if self._generation != now:
                # In a forked child: what is in the pool, the parent hands out too. The pool first, then its mark, so
                # that no thread of the child can take the old pool for the new one.
                self._pool = []
                self._generation = now
            try:
                # One step that no other thread and no signal handler can come between: nothing is handed out twice.
                value = self._pool.pop()
            except IndexError:
                fresh: list[int] = draw(self._sampler, _POOL).tolist()
                value = fresh.pop()
                if generation() == now:
                    self._pool.extend(fresh)
            if generation() == now:  # else a fork came in between, and the parent has this value too
                return value


def _length(n: object) -> int:
    try:
        length = operator.index(n)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"size must be an integer ≥ 0 or a tuple of them, got {n!r}") from None
    if length < 0:
        raise ValueError(f"size must be an integer ≥ 0 or a tuple of them, got {n!r}")
    return length


@lru_cache(maxsize=32)
def sampler_for(potential: Potential) -> Sampler:
    """The sampler of a distribution. Equal distributions share one: its tables take a moment to certify."""
    return Sampler(potential)
