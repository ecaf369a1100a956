"""A small table for audits, and replays of a few pairs of neighbours: each takes a third of a second."""

import pyarrow as pa

from osgt import Dataset
from osgt.auditing.neighbours import Maker
from osgt.auditing.replay import comparisons, real_rows
from osgt.auditing.stage import ReleasePlay, Stage

RIDES = pa.table(
    {
        "user": [1, 1, 2, 3, 3, 3, 4, None],
        "city": ["Bern", "Rome", "Rome", "Oslo", "Oslo", "Oslo", None, "Rome"],
        "month": [1, 2, 2, 1, 1, 2, 3, 3],
        "fare": [3.5, 8.0, None, 20.0, 21.0, 22.0, float("nan"), 1.0],
        "tip": pa.array([1, 2, 3, 4, 5, 6, 7, 8], pa.int8()),
    }
)

#: How the names of pairs begin.
UPPER, LOWER, STRANGE, AGAIN, OWN, NOBODY, SIMILAR, EMPTY, REAL = (
    "more groups and rows than the limits, values at the upper",
    "more groups and rows than the limits, values at the lower",
    "strange",
    "one row again",
    "groups of its own",
    "rows of nobody",
    "another unit",
    "a unit in a table with nobody else",
    "the unit",
)


def rides(**options):
    return Dataset(RIDES, "user", **options)


def compared(asking, play=None, *, pairs=(), real=False):
    """Comparisons of the pairs whose names begin so, all if none are named; of the release if nothing is to be played.

    The choice of a unit's groups, which the salt decides, is the same every time.
    """
    stage = Stage(asking)
    play = play or ReleasePlay(asking.plan(1, 1e-6, measure_left_out=False))
    made = Maker(stage, real_rows(stage)[0] if real else []).pairs()
    return list(comparisons(stage, play, [pair for pair in made if not pairs or pair.name.startswith(pairs)], salt=7))


def found(comparisons_made):
    """What was found, in words."""
    return " | ".join(str(finding) for each in comparisons_made for finding in each.findings)


def furthest(comparisons_made):
    """For each measure how far it was moved at most, as a part of what may be."""
    parts = {}
    for each in comparisons_made:
        for moved in each.moved:
            part = moved["largest"] / moved["allowed"]
            parts[moved["measure"]] = max(parts.get(moved["measure"], 0), part)
    return parts
