"""The query file in examples/ on every engine: neighbouring tables of its release, and of the suggestion of bounds."""

import dataclasses
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from osgt.auditing.plays import ReleasePlay, SuggestionPlay
from osgt.auditing.replay import replay
from osgt.auditing.stage import Stage
from osgt.tables.bounds.suggesting import planned_histograms
from osgt.tables.query_file import _asked, _filtered, query_file_model

EXAMPLE = Path(__file__).parents[2] / "examples" / "flights.toml"


@pytest.fixture(scope="module")
def flights():
    """Flights that are made up, with the types of the real ones."""
    rng, size = np.random.default_rng(2013), 60
    delays = [None if i % 9 == 0 else float(rng.integers(-40, 300)) for i in range(size)]
    return pa.table(
        {
            "tailnum": [None if i % 11 == 0 else f"N{i % 5}" for i in range(size)],
            "month": pa.array(rng.integers(1, 13, size), pa.int64()),
            "air_time": [None if delay is None else 100.0 for delay in delays],
            "arr_delay": pa.array(delays, pa.float64()),
        }
    )


@pytest.fixture(scope="module")
def asked(engine, flights):
    """What the file asks for, without the bounds that it leaves open."""
    file = query_file_model().model_validate(tomllib.loads(EXAMPLE.read_text(encoding="utf-8")))
    data = engine.put(flights, file.data.privacy_unit)
    return _asked(_filtered(data, file.data.where), file.groups, file.aggregates)


def first_pair(asked, play):
    """All pairs are tried in `test_engine_replay`."""
    return replay(Stage(asked), play, seconds=0, real=False)


def test_the_release(asked):
    query = asked.completed(12, 3, {"arr_delay": (-60.0, 180.0)})
    plan = query.plan(1.6, 1e-8, measure_left_out=False)
    check = first_pair(query, ReleasePlay(plan))
    assert check.passed, str(check)
    assert "no pair moved" not in check.words
    # The same check with noise that is made for one month.
    less = {measure: dataclasses.replace(part, coordinates=1) for measure, part in plan.parts.items()}
    wrong = dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, parts=less))
    assert not first_pair(query, ReleasePlay(wrong)).passed


def test_the_suggestion(asked):
    layout, plan = planned_histograms(asked, 0.4, 0.0)
    check = first_pair(asked, SuggestionPlay(layout, plan))
    assert check.passed, str(check)
    half = {name: dataclasses.replace(part, shift=part.shift / 2) for name, part in plan.parts.items()}
    wrong = SuggestionPlay(layout, dataclasses.replace(plan, parts=half))
    assert not first_pair(asked, wrong).passed
