"""Replay on every engine: neighbouring tables differ by what the noise is made for, and by nothing else."""

import dataclasses

import pytest

import made_tables
from osgt.auditing.replay import replay
from osgt.auditing.stage import ReleasePlay, Stage


@pytest.fixture(scope="module")
def made():
    rng = made_tables.same_every_time(20260229)
    return made_tables.table_of(made_tables.made_rows(rng, people=12))


@pytest.mark.usefixtures("without_checker")
def test_neighbours_differ_by_the_noise_alone(engine, made):
    dataset = engine.put(made)
    query = dataset.group_by("town", "number", max_groups=2, max_rows_per_group=2)
    query = query.count_units().sum("real", bounds=(-1.5, 10)).sum("price", bounds=(0, 10))
    plan = query.plan(1, 1e-6, measure_left_out=not engine.slow)
    seconds = 0 if engine.slow else 600  # on a slow engine one pair is enough: all of them run on the others
    check = replay(Stage(query), ReleasePlay(plan), real=True, seconds=seconds)
    assert check.passed, str(check)
    assert check.details["real_rows"] > 0
    # The same check with a noise that is made for one group less.
    less = {measure: dataclasses.replace(part, coordinates=1) for measure, part in plan.parts.items()}
    wrong = dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, parts=less))
    assert not replay(Stage(query), ReleasePlay(wrong), real=False, seconds=0).passed
