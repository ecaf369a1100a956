"""Comparisons of uniform random numbers with real numbers, decided without error.

A real number is given by a function that computes a ball around it at Arb's working precision. A uniform number is
known to as many bits as were needed so far. Both are refined until they are apart.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import flint
from flint import arb

from osgt.sampling.entropy import ByteSource

_REFINEMENT_BITS = 64

# Arb's precision is one setting for the whole process, so the threads take turns.
_precision_lock = threading.RLock()


def _renew_lock() -> None:
    """Renew the lock in a forked child: nobody is left to release one that another thread of the parent held."""
    global _precision_lock  # noqa: PLW0603
    _precision_lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def working_precision(bits: int) -> Iterator[None]:
    """Compute balls with this many bits inside the `with` block."""
    with _precision_lock, flint.ctx.workprec(bits):
        yield


class Uniform:
    """A real number uniform on [0, 1), of which `length` bits are known: it lies in [prefix, prefix + 1)/2^length."""

    def __init__(self, source: ByteSource, prefix: int = 0, length: int = 0) -> None:
        self._source = source
        self._prefix = prefix
        self._length = length

    def below(self, real: Callable[[], arb]) -> bool:
        """Whether the number is below the real number that `real()` computes; exact for every real number."""
        while True:
            with working_precision(self._length + 2 * _REFINEMENT_BITS):
                scaled = real() * arb(2) ** self._length
                # A comparison of balls is true only if it holds for all their points.
                if scaled >= arb(self._prefix + 1):
                    return True
                if scaled <= arb(self._prefix):
                    return False
            more = int.from_bytes(self._source.read(_REFINEMENT_BITS // 8).tobytes(), "big")
            self._prefix = (self._prefix << _REFINEMENT_BITS) | more
            self._length += _REFINEMENT_BITS


def tail_sum(exponent: Callable[[int], arb], start: int) -> arb:
    """A ball around Σ_{j ≥ start} exp(-exponent(j)), for a convex exponent that increases from `start` on.

    Where the exponent has grown by more than the precision the sum stops. The terms that remain fall at least as fast
    as a geometric series, whose sum bounds theirs.
    """
    total = arb(0)
    enough = exponent(start) + 0.7 * flint.ctx.prec  # log 2 < 0.7
    j = start
    while not (value := exponent(j)) > enough:
        total += (-value).exp()
        j += 1
    rest = (-value).exp() / -(value - exponent(j + 1)).expm1()
    return total + arb(0).union(rest)


def tail_index(exponent: Callable[[int], arb], start: int, source: ByteSource) -> int:
    """Return j ≥ start with probability proportional to exp(-exponent(j)), for a convex increasing exponent.

    By rejection from the geometric distribution through the first two terms: it bounds the others, since the exponent
    is convex.
    """

    while True:
        excess = 0
        while Uniform(source).below(partial(_first_ratio, exponent, start)):
            excess += 1
        if excess <= 1 or Uniform(source).below(partial(_kept, exponent, start, excess)):
            return start + excess


def _first_ratio(exponent: Callable[[int], arb], start: int) -> arb:
    return (exponent(start) - exponent(start + 1)).exp()


def _kept(exponent: Callable[[int], arb], start: int, excess: int) -> arb:
    """exp(-exponent(start + excess)) over the geometric term above it; 1 where `excess` is 0 or 1."""
    line = exponent(start) + excess * (exponent(start + 1) - exponent(start))
    return (line - exponent(start + excess)).exp()
