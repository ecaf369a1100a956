"""The fast sampler: exactly the integer distribution of a potential, in NumPy.

Small scales are drawn from a table of the integers themselves. For large scales the half line is cut into blocks of 2ᵇ
integers. A block is drawn with the weight that its first integer gives to all of it, then a sign and b uniform bits
choose an integer in it, and that is kept with the ratio of its own weight to the first one's. A squeeze keeps nearly
all of them without computing the ratio; for the others floating-point numbers decide if they are clear of their
rounding error, and Arb if they are not.

Draws are made ahead of need, in blocks of fixed size: a scalar draw comes out of a list that was filled earlier, so
neither its duration nor the path of the code depends on the value handed out.
"""

import operator
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np
from flint import arb
from numpy.typing import NDArray

from osgt.sampling.entropy import ByteSource, generation, system_entropy
from osgt.sampling.lookup import UNDECIDED, CellTable, Potential, Uniform, Weights, working_precision
from osgt.support.numeric import LARGEST_NOISE_SCALE, Integers, can_be_drawn

#: Draws are made this many at a time: enough to make NumPy's calls cheap, few enough for the processor's cache.
_BATCH = 1 << 17

#: Distributions that fall by exp(-½) within this many integers are tabulated; others use blocks of a part of it.
_LARGEST_TABLE_SCALE = 128
_BLOCKS_PER_SCALE = 64

#: The first bits of a uniform number, which mostly decide alone whether a draw is kept; the others are drawn if not.
_SQUEEZE_BITS = 16

#: Larger than the rounding error of a potential, relative to it, and of an exponential (see `Potential`).
_POTENTIAL_ERROR = 2.0**-46


class TableSampler:
    """Integers of a small scale, straight from the table."""

    def __init__(self, potential: Potential, source: ByteSource) -> None:
        self._cells = CellTable(Weights(potential, step=1, signed=True), source)

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self._cells.nbytes

    def fill(self, out: Integers) -> int:
        """Put independent draws into `out`; return how many."""
        self._cells.fill(out)
        return len(out)


class BlockSampler:
    """Integers of a large scale: a block, a sign and an offset, kept or not."""

    def __init__(self, potential: Potential, block_bits: int, source: ByteSource) -> None:
        self._potential = potential
        self._block_bits = block_bits
        self._source = source
        self._cells = CellTable(Weights(potential, step=1 << block_bits, signed=False), source)
        self._squeeze = self._certified_squeeze()
        # A random word gives the offset in its low bits and the sign in its top bit.
        self._word: np.dtype[np.signedinteger] = np.dtype(np.int32 if block_bits < 31 else np.int64)

    @property
    def nbytes(self) -> int:
        """Memory of the tables."""
        return self._cells.nbytes + self._squeeze.nbytes

    def fill(self, out: Integers) -> int:
        """Put independent draws into the first places of `out`, one for each proposal kept; return how many."""
        cells = self._cells.fill(out)
        words = self._source.read(self._word.itemsize * len(out)).view(self._word)
        levels = self._source.read(2 * len(out)).view(np.uint16)
        # Sign -1 maps k to -1 - k: the integers are the half line k ≥ 0 and its mirror image, and zero counts once.
        out <<= self._block_bits
        out += words & ((1 << self._block_bits) - 1)
        out ^= words >> (8 * words.itemsize - 1)
        doubtful = np.flatnonzero(levels >= self._squeeze.take(cells))
        kept = self._is_kept(out[doubtful], levels[doubtful])
        return _close_gaps(out, doubtful[~kept])

    def _is_kept(self, draws: Integers, levels: NDArray[np.uint16]) -> NDArray[np.bool_]:
        """Whether a uniform number that starts with the 16 bits of `levels` is below the draw's ratio."""
        rest = self._source.read(8 * len(draws)).view(np.uint64) >> np.uint64(_SQUEEZE_BITS)
        words = (levels.astype(np.uint64) << np.uint64(64 - _SQUEEZE_BITS)) | rest
        number = words.astype(np.float64) * 2.0**-64
        blocks = np.where(draws < 0, ~draws, draws) >> self._block_bits
        potential = self._potential(np.abs(draws).astype(np.float64))
        ratio = np.exp(self._potential((blocks << self._block_bits).astype(np.float64)) - potential)
        kept: NDArray[np.bool_] = number < ratio
        unclear = np.abs(number - ratio) <= _POTENTIAL_ERROR * (1.0 + 2.0 * potential)
        for i in np.flatnonzero(unclear):
            ratio_ball = partial(self._ratio, int(blocks[i]), int(draws[i]))
            kept[i] = Uniform(self._source, prefix=int(words[i]), length=64).below(ratio_ball)
        return kept

    def _ratio(self, block: int, draw: int) -> arb:
        return (self._potential.ball(block << self._block_bits) - self._potential.ball(abs(draw))).exp()

    def _certified_squeeze(self) -> NDArray[np.uint16]:
        """For each cell a lower bound of the ratio of any integer in its block, in units of 2⁻¹⁶; 0 if undecided."""
        with working_precision(64):
            starts = [self._potential.ball(block << self._block_bits) for block in range(self._cells.listed + 1)]
            ratios = [(one - other).exp() for one, other in pairwise(starts)]  # sign -1 reaches the next block's start
            bounds = [int((ratio * (1 << _SQUEEZE_BITS)).lower().floor().unique_fmpz() or 0) for ratio in ratios]
        answers = self._cells.answers
        return np.where(answers == UNDECIDED, 0, np.array(bounds).take(answers, mode="clip")).astype(np.uint16)


def _close_gaps(draws: Integers, rejected: Integers) -> int:
    """Move draws from the end into the places of the rejected ones; return how many remain.

    Which draws move depends on the places of the rejected ones alone, so those that stay are as independent as before.
    """
    count = len(draws) - len(rejected)
    spare = np.ones(len(rejected), dtype=np.bool_)
    spare[rejected[rejected >= count] - count] = False
    draws[rejected[rejected < count]] = draws[count:][spare]
    return count


FastSampler = TableSampler | BlockSampler


def fast_sampler(potential: Potential, source: ByteSource) -> FastSampler:
    """The fitting sampler for the scale of the distribution."""
    if not can_be_drawn(potential):
        raise ValueError(
            "the noise is too large to be drawn as 64-bit integers: its scale (sigma or the Laplace scale) may be at "
            f"most {LARGEST_NOISE_SCALE:.2g}. Count in larger units"
        )
    scale = 1
    while float(potential(np.asarray(scale, dtype=np.float64))) < 0.5:
        scale *= 2
    if scale <= _LARGEST_TABLE_SCALE:
        return TableSampler(potential, source)
    block_bits = (scale // _BLOCKS_PER_SCALE).bit_length() - 1
    return BlockSampler(potential, block_bits, source)


def draw(sampler: FastSampler, count: int) -> Integers:
    """Exactly `count` independent draws, made in large batches."""
    draws = np.empty(count + min(count, _BATCH) // 16 + 64, dtype=np.int64)
    filled = 0
    while filled < count:
        missing = count - filled
        batch = min(_BATCH, missing + missing // 16 + 64)  # a sixteenth more: a few proposals will not be kept
        filled += sampler.fill(draws[filled : filled + batch])
    return draws[:count]


#: Draws that are made at once where few are asked for.
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
