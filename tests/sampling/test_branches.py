"""Every branch of the fast sampler, driven with chosen bytes and checked against mpmath at 60 digits."""

import mpmath as mp
import numpy as np
import pytest
from flint import arb
from scripted import ScriptedBytes, words

from osgt import DiscreteOSGT
from osgt.sampling.fast import BlockSampler, Sampler, TableSampler
from osgt.sampling.lookup import UNDECIDED, CellTable, Weights, _leading_bits, tail_sum, working_precision

mp.mp.dps = 60
LAW = DiscreteOSGT(3, 40**0.5)
ONES, ZEROS = b"\xff" * 8, b"\x00" * 8


def exponent(law, y):
    return mp.mpf(law.slope) * y + mp.mpf(law.curvature) * y * y / 2


def signed_order(count):
    """0, +1, -1, +2, -2, …"""
    return [(i + 1) // 2 * (1 if i % 2 else -1) for i in range(count)]


@pytest.fixture(scope="module")
def cuts():
    """The exact cumulative probabilities in the sampler's order of the integers."""
    weights = [mp.exp(-exponent(LAW, abs(y))) for y in signed_order(1200)]
    total = mp.fsum(weights)
    return [mp.fsum(weights[: i + 1]) / total for i in range(120)]


def bits(number, start, stop):
    """Bits start … stop-1 after the binary point, as an integer."""
    return int(mp.floor(number * mp.mpf(2) ** stop)) & ((1 << (stop - start)) - 1)


def table_sampler(*chunks):
    sampler = TableSampler(LAW.potential, ScriptedBytes())
    sampler._cells._source = ScriptedBytes(*chunks)
    return sampler


def one_draw(sampler):
    out = np.zeros(1, dtype=np.int64)
    assert sampler.fill(out) == 1
    return int(out[0])


def cell_and_rest(word):
    """The two reads that give the 64-bit word to the sampler: its cell, and 64 bits of which the upper 48 count."""
    return words([word >> 48], np.uint16), words([(word & ((1 << 48) - 1)) << 16], np.uint64)


def test_every_cell_is_answered_right(cuts):
    """All 2¹⁶ look-ups: an answer is given only where both ends of the cell fall to it, and it is the right one."""
    answers = TableSampler(LAW.potential, ScriptedBytes())._cells.answers
    order = signed_order(len(cuts))
    undecided = np.flatnonzero(answers == UNDECIDED)
    assert 0 < len(undecided) < 200
    holds_a_cut = {bits(cut, 0, 16) for cut in cuts}
    for cell in range(1 << 16):
        low, high = mp.mpf(cell) / 65536, mp.mpf(cell + 1) / 65536
        if answers[cell] == UNDECIDED:
            assert cell in holds_a_cut or low > cuts[-1]
        else:
            entry = order.index(int(answers[cell]))
            assert high <= cuts[entry]
            assert entry == 0 or cuts[entry - 1] <= low


def test_one_look_up_takes_two_bytes():
    sampler = table_sampler(words([0, 1, 2], np.uint16))
    out = np.ones(3, dtype=np.int64)
    sampler.fill(out)
    assert out.tolist() == [0, 0, 0]
    assert not sampler._cells._source.chunks


@pytest.mark.parametrize("entry", [0, 1, 5, 12, 30])
def test_a_cell_with_a_cut_looks_at_64_bits(cuts, entry):
    order = signed_order(len(cuts))
    word = bits(cuts[entry], 0, 64)
    assert one_draw(table_sampler(*cell_and_rest(word - 1))) == order[entry]
    assert one_draw(table_sampler(*cell_and_rest(word + 1))) == order[entry + 1]


@pytest.mark.parametrize("entry", [0, 1, 5, 12, 30])
def test_a_tie_of_64_bits_is_refined(cuts, entry):
    order = signed_order(len(cuts))
    word, more = bits(cuts[entry], 0, 64), bits(cuts[entry], 64, 128)
    tie = cell_and_rest(word)
    assert one_draw(table_sampler(*tie, ZEROS)) == order[entry]
    assert one_draw(table_sampler(*tie, ONES)) == order[entry + 1]
    # A second tie, of 128 bits.
    again = more.to_bytes(8, "big")
    assert one_draw(table_sampler(*tie, again, ZEROS)) == order[entry]
    assert one_draw(table_sampler(*tie, again, ONES)) == order[entry + 1]
    # Bits on either side of the cut.
    assert one_draw(table_sampler(*tie, (more - 1).to_bytes(8, "big"))) == order[entry]
    assert one_draw(table_sampler(*tie, (more + 1).to_bytes(8, "big"))) == order[entry + 1]


@pytest.mark.parametrize(("sign", "side"), [(b"\x00", 1), (b"\x01", -1), (b"\xfe", 1)])
def test_the_tail_is_drawn_by_rejection(sign, side):
    listed = TableSampler(LAW.potential, ScriptedBytes())._cells.listed
    last = cell_and_rest((1 << 64) - 1)
    # A Bernoulli trial of the geometric proposal succeeds on zeros and fails on ones; so does the rejection step.
    assert one_draw(table_sampler(*last, ONES, sign)) == side * listed
    assert one_draw(table_sampler(*last, ZEROS, ONES, sign)) == side * (listed + 1)
    assert one_draw(table_sampler(*last, ZEROS, ZEROS, ZEROS, ONES, ZEROS, sign)) == side * (listed + 3)
    rejected = (ZEROS, ZEROS, ONES, ONES)
    assert one_draw(table_sampler(*last, *rejected, ONES, sign)) == side * listed


class TestBlocks:
    LAW = DiscreteOSGT(300, 1000)

    def sampler(self, *chunks):
        sampler = BlockSampler(self.LAW.potential, 4, ScriptedBytes())
        sampler._source = sampler._cells._source = ScriptedBytes(*chunks)
        return sampler

    def chunks(self, block, offset, sign, level):
        """Cell, word and squeeze level that propose the given place."""
        answers = self.sampler()._cells.answers
        cell = int(np.flatnonzero(answers == block)[0])
        word = np.int32(offset) | (np.int32(-(2**31)) if sign else np.int32(0))
        return words([cell], np.uint16), words([word], np.int32), words([level], np.uint16)

    def ratio(self, block, draw):
        return mp.exp(exponent(self.LAW, block * 16) - exponent(self.LAW, abs(draw)))

    @pytest.mark.parametrize(("block", "offset"), [(0, 0), (0, 15), (7, 3), (40, 9)])
    def test_the_squeeze_keeps_without_a_ratio(self, block, offset):
        k = 16 * block + offset
        # An empty read of zero doubtful proposals comes last.
        assert one_draw(self.sampler(*self.chunks(block, offset, 0, 0), b"")) == k
        assert one_draw(self.sampler(*self.chunks(block, offset, 1, 0), b"")) == -1 - k

    def test_the_squeeze_is_a_lower_bound_and_close(self):
        sampler = self.sampler()
        for cell in np.flatnonzero(sampler._cells.answers != UNDECIDED)[::37]:
            block = int(sampler._cells.answers[cell])
            bound = self.ratio(block, 16 * (block + 1)) * 65536
            assert bound - 1 < int(sampler._squeeze[cell]) <= bound
        assert np.all(sampler._squeeze[sampler._cells.answers == UNDECIDED] == 0)

    @pytest.mark.parametrize(("block", "offset", "sign"), [(7, 3, 0), (7, 15, 1), (40, 9, 1)])
    def test_doubtful_proposals(self, block, offset, sign):
        k = 16 * block + offset
        draw = -1 - k if sign else k
        word = bits(self.ratio(block, draw), 0, 64)

        def fill(word, *refinement):
            level, rest = word >> 48, (word & ((1 << 48) - 1)) << 16
            chunks = self.chunks(block, offset, sign, level)
            out = np.zeros(1, dtype=np.int64)
            count = self.sampler(*chunks, words([rest], np.uint64), *refinement).fill(out)
            return out[:count].tolist()

        far = 1 << 40
        assert fill(word - far) == [draw]  # floating-point numbers decide
        assert fill(word + far) == []
        assert fill(word - 1) == [draw]  # Arb decides at once
        assert fill(word + 1) == []
        assert fill(word, ZEROS) == [draw]  # a tie of 64 bits
        assert fill(word, ONES) == []

    def test_a_first_integer_is_always_kept(self):
        chunks = self.chunks(3, 0, 0, 0xFFFF)
        assert one_draw(self.sampler(*chunks, words([2**64 - 1], np.uint64))) == 48

    def test_a_block_of_the_tail(self):
        sampler = self.sampler()
        listed = sampler._cells.listed
        last = cell_and_rest((1 << 64) - 1)
        word, level = words([5], np.int32), words([0], np.uint16)
        sampler = self.sampler(*last, ZEROS, ZEROS, ONES, ZEROS, word, level, words([0], np.uint64))
        assert one_draw(sampler) == 16 * (listed + 2) + 5

    def test_gaps_are_closed_with_draws_from_the_end(self):
        sampler = BlockSampler(self.LAW.potential, 4, ScriptedBytes())
        places = [(1, 1, 0), (2, 15, 0), (3, 1, 0), (4, 15, 0), (5, 1, 0), (6, 15, 0)]
        levels = [0, 0xFFFF, 0, 0xFFFF, 0, 0xFFFF]
        parts = [self.chunks(*place, level) for place, level in zip(places, levels, strict=True)]
        rest = words([2**64 - 1] * 3, np.uint64)
        sampler._source = sampler._cells._source = ScriptedBytes(
            *(b"".join(part) for part in zip(*parts, strict=True)), rest
        )
        out = np.zeros(6, dtype=np.int64)
        assert sampler.fill(out) == 3
        assert sorted(out[:3].tolist()) == [17, 49, 81]


def test_a_draw_that_does_not_fit_raises():
    law = DiscreteOSGT.laplace(2.0**52)
    sampler = BlockSampler(law.potential, 47, ScriptedBytes())
    # Every geometric trial succeeds, so the proposal runs past 2⁶³ and is then kept.
    table = CellTable.__new__(CellTable)
    table.__dict__.update(sampler._cells.__dict__)
    table.listed = (1 << 16) - 2
    table._weights = Weights(law.potential, 1 << 47, signed=False)
    table._source = ScriptedBytes(ZEROS, ZEROS, ONES, ZEROS)
    with pytest.raises(OverflowError, match="does not fit into a 64-bit integer"):
        table._tail_index()


def test_the_pool_hands_out_what_was_drawn():
    sampler = Sampler(DiscreteOSGT.gaussian(1e9).potential)
    first = sampler.sample()
    pool = list(sampler._pool)
    assert first not in pool
    assert [sampler.sample() for _ in range(100)] == pool[::-1][:100]
    assert sampler.sample(50).tolist() == pool[::-1][100:150]


def test_a_failing_source_fails_the_draw():
    """No entropy, no noise: the error reaches the caller, and nothing is handed out instead."""

    class Broken:
        def read(self, count):
            raise OSError("no entropy")

    sampler = Sampler(LAW.potential, Broken())
    with pytest.raises(OSError, match="no entropy"):
        sampler.sample()
    with pytest.raises(OSError, match="no entropy"):
        sampler.sample(5000)


def test_the_tolerance_of_the_float_comparison():
    """Numbers a few hundred units of 2⁻⁶⁴ from a ratio are closer than its rounding error: Arb must decide."""
    law = TestBlocks.LAW
    sampler = BlockSampler(law.potential, 4, ScriptedBytes())
    draws, words_, expected = [], [], []
    for k in range(3, 4000, 23):
        ratio = mp.exp(exponent(law, k - k % 16) - exponent(law, k))
        for distance in (-3000, -1500, -600, 600, 1500, 3000):
            word = bits(ratio, 0, 64) + distance
            if k % 16 and word < 1 << 64:
                draws.append(k)
                words_.append(word)
                expected.append(distance < 0)
    word_array = np.array(words_, dtype=np.uint64)
    sampler._source = ScriptedBytes((word_array << np.uint64(16)).tobytes())
    kept = sampler._is_kept(np.array(draws), (word_array >> np.uint64(48)).astype(np.uint16))
    assert kept.tolist() == expected
    # Power: without the tolerance many of them would have been decided by rounding errors.
    number = word_array.astype(np.float64) * 2.0**-64
    magnitudes = np.array(draws, dtype=np.float64)
    naive = number < np.exp(law.potential(magnitudes - magnitudes % 16) - law.potential(magnitudes))
    assert np.sum(naive != expected) > 100


def test_a_tie_steps_through_cuts_that_agree(monkeypatch):
    """Listed further out than usual, the last cuts share their first 64 bits; a tie must pass them in their order."""
    monkeypatch.setattr("osgt.sampling.lookup._LISTED_EXPONENT", 60.0)
    cells = TableSampler(LAW.potential, ScriptedBytes())._cells
    same = np.flatnonzero(cells._cuts[1:] == cells._cuts[:-1])
    first, word = int(same[0]), int(cells._cuts[same[0]])
    last = int(np.flatnonzero(cells._cuts == word)[-1])
    assert last >= first + 1
    cells._source = ScriptedBytes(ZEROS)
    assert cells._refine(first, word) == first
    cells._source = ScriptedBytes(ONES)
    assert cells._refine(first, word) == last + 1
    with working_precision(256):
        middle = cells._cut(first)() * arb(2) ** 128
        between = (int(middle.floor().unique_fmpz()) + 1) & ((1 << 64) - 1)
    cells._source = ScriptedBytes(between.to_bytes(8, "big"))
    assert cells._refine(first, word) == first + 1


def test_cells_whose_edge_is_a_cut():
    """A cut in the first or the last 64-bit word of a cell leaves the cell undecided, its neighbours not."""
    cells = CellTable.__new__(CellTable)
    cells._indices = np.array([7, 8, 9])
    cells._cuts = np.array([5 << 48, (9 << 48) - 1, 1 << 63], dtype=np.uint64)
    answers = cells._cell_answers()
    assert answers[4] == 7
    assert answers[5] == UNDECIDED  # its first word is the cut
    assert answers[6] == answers[7] == 8
    assert answers[8] == UNDECIDED  # its last word is the cut
    assert answers[9] == 9
    assert answers[-1] == UNDECIDED  # the tail


@pytest.mark.parametrize(
    ("word", "expected"), [(2**64 - 1, 2**64 - 1), (2**64 - 2, 2**64 - 2), (2**64 - 3, 2**64 - 3), (5, 5)]
)
def test_leading_bits(word, expected):
    with working_precision(128):
        assert _leading_bits((arb(word) + arb("0.5")) / arb(2) ** 64) == expected
        assert _leading_bits(arb(word) / arb(2) ** 64 + arb(0, 2.0**-70)) in (None, expected)
        assert _leading_bits(arb(5.0, 1e-9) / arb(2) ** 64) is None


@pytest.mark.parametrize("precision", [32, 64, 200])
def test_the_sum_of_a_tail_is_enclosed(precision):
    """For the Laplace it is a geometric series: e^(-sa)/(1 - e^(-a))."""
    with working_precision(precision):
        ball = tail_sum(lambda j: arb(j) * arb(0.25), 7)
    with working_precision(400):
        exact = (arb(-1.75)).exp() / (1 - arb(-0.25).exp())
        assert ball.contains(exact)
        assert not ball.contains(exact * (1 + arb(2) ** (12 - precision)))
