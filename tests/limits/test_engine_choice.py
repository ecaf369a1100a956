"""Which groups of a unit count: by chance, each as likely as the other, for every unit anew.

Every p-value must stay above `FALSE_ALARM`; beside each test stands its power check: numbers that favour a group a
little, or units that follow one order of groups, are rejected.
"""

import itertools

import numpy as np
import pyarrow as pa
import pytest

from engines import ROW, UNIT, sums
from goodness import FALSE_ALARM, equal_cells
from osgt.limits.contribution import fresh_salt
from osgt.query.measures import ClippedSum, Units
from osgt.query.values import ValueGrid

PEOPLE, TOWNS = 4000, 8


@pytest.fixture(scope="module")
def everywhere():
    """Everyone has one row in every town; the columns `row_0`, … mark which row it is."""
    person, town = np.divmod(np.arange(PEOPLE * TOWNS), TOWNS)
    marks = {f"row_{i}": (town == i).astype(np.int64) for i in range(TOWNS)}
    towns = pa.array(town).cast(pa.string())
    return pa.table({UNIT: person, "town": towns, "country": pa.repeat("x", len(town)), ROW: town, **marks})


def favouring(counts):
    """The counts with every second cell favoured by 15 %."""
    return counts + counts.mean() * 0.15 * np.resize([1, -1], len(counts))


def test_no_group_is_favoured_and_salts_differ(engine, everywhere):
    dataset = engine.put(everywhere)
    query = dataset.group_by("town", max_groups=1, max_rows_per_group=1)
    answers = [sums(query, [Units()], salt=salt) for salt in (fresh_salt(), fresh_salt())]
    for found in answers:
        counts = np.array([found[(str(town),)][0][0] for town in range(TOWNS)])
        assert counts.sum() == PEOPLE
        assert equal_cells(counts) > FALSE_ALARM
        assert equal_cells(favouring(np.full(TOWNS, PEOPLE / TOWNS))) < FALSE_ALARM
    assert answers[0] != answers[1]  # equal by chance in fewer than one of 10¹⁰ runs


COLUMNS, BITS = 24, 30  # so many people can be told apart by powers of two


def test_every_unit_chooses_on_its_own(engine):
    """Of four groups two: all six pairs are as likely. Units that followed one order would take few of them."""
    people = COLUMNS * BITS
    rows = {UNIT: np.repeat(np.arange(people), 4), "town": np.tile(np.arange(4), people)}
    rows[ROW] = np.arange(4 * people)
    rows |= {f"bits_{c}": np.where(rows[UNIT] // BITS == c, 1 << rows[UNIT] % BITS, 0) for c in range(COLUMNS)}
    query = engine.put(pa.table(rows)).group_by("town", max_groups=2, max_rows_per_group=1)
    measures = [ClippedSum(f"bits_{c}", ValueGrid("integer", 1, 0, 2**BITS)) for c in range(COLUMNS)]
    found = sums(query, measures, salt=fresh_salt())
    pairs = [
        tuple(town for town in range(4) if found[(town,)][person // BITS][0] >> person % BITS & 1)
        for person in range(people)
    ]
    counts = np.array([pairs.count(pair) for pair in itertools.combinations(range(4), 2)])
    assert counts.sum() == people
    assert equal_cells(counts) > FALSE_ALARM
    # One circle of groups for all units, each with a start of its own: four pairs are left.
    assert equal_cells(np.array([1, 0, 1, 1, 0, 1]) * people / 4) < FALSE_ALARM
    # Pairs of neighbouring units are as likely to be the same as any two.
    same = sum(a == b for a, b in itertools.pairwise(pairs))
    assert abs(same - (people - 1) / 6) < 6.2 * np.sqrt((people - 1) * 5 / 36)  # two-sided 6e-10
