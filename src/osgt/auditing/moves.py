"""How far numbers moved between two tables, against how far one unit may move them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from osgt.calibration import Part

#: The numbers of each group by its key.
ByGroup = Mapping[Any, NDArray[np.int64]]


def moved(before: ByGroup, after: ByGroup) -> dict[Any, list[int]]:
    """By how much each number of each group moved; a group that is not there has zeros. Others are left out."""
    found = {}
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        there = old if old is not None else new
        assert there is not None
        # As Python's integers: the difference of two 64-bit numbers need not be one.
        olds, news = ([0] * len(there) if each is None else each.tolist() for each in (old, new))
        if olds != news:
            found[key] = [b - a for a, b in zip(olds, news, strict=True)]
    return found


def pieces(steps: Mapping[Any, Sequence[int]], *, exchanged: bool) -> list[int]:
    """What counts as one coordinate that moved, largest first.

    The numbers of one group (bins) move together by what one of them may move, since that is dominated by one of them
    moving as far; where a unit is exchanged, what it takes away and what it brings are two such moves.
    """
    found = []
    for step in steps.values():
        up, down = sum(max(s, 0) for s in step), sum(max(-s, 0) for s in step)
        found += [up, down] if exchanged and len(step) > 1 else [up + down]
    return sorted((piece for piece in found if piece), reverse=True)


def beyond(found: Sequence[int], part: Part | None, *, exchanged: bool) -> str | None:
    """What moved further, or in more places, than the noise is made for; None if nothing did.

    Each piece needs a coordinate of its own that may move as far. Where a unit is exchanged for another, several pieces
    may share a coordinate that may move as far as all of them: one number that moves by k dominates several that move
    by k in all, and shifts are doubled for that (`Groups.moves`). Without a part nothing may move at all.

    Parameters
    ----------
    found
        The pieces, largest first.
    """
    moves = () if part is None else part.moves
    room = sorted((shift for shift, n in moves for _ in range(n)), reverse=True)
    largest, places = max(room, default=0), len(room)
    for piece in found:
        at = next((i for i, left in enumerate(room) if piece <= left), None)
        if at is None:
            return (
                f"moved in {len(found):,} places by up to {found[0]:,}; the noise is made for {places:,} places and "
                f"{largest:,.0f}"
            )
        room[at] -= piece if exchanged else math.inf
    return None
