"""The query file in examples/ on every engine: neighbouring tables of its release, and of the suggestion of bounds."""

import dataclasses
import itertools
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from osgt.api.suggestion.histograms import planned_histograms
from osgt.limits.bounding import fresh_salt

from osgt.api.query_file import add_conditions, add_groups
from osgt.auditing.independence import salts
from osgt.auditing.neighbours import Maker
from osgt.auditing.replay import comparisons
from osgt.auditing.stage import ReleasePlay, Stage, SuggestionPlay, salted_sql
from osgt.query.file.model import query_file_model
from osgt.release import measuring

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
    return add_groups(add_conditions(data, file.data.where), file.groups, file.aggregates)


@dataclasses.dataclass
class Recorded:
    """A play whose outcomes can be judged again: what comes out does not depend on what is allowed."""

    play: ReleasePlay | SuggestionPlay
    outcomes: list = dataclasses.field(default_factory=list)
    again: bool = False

    @property
    def allowed(self):
        return self.play.allowed

    def played(self, query, salt, order):
        if self.again:
            return self.outcomes.pop(0)
        self.outcomes.append(self.play.played(query, salt, order))
        return self.outcomes[-1]


def first_pair(asked, play, wrong):
    """Judge the first pair of tables by a play, and by one that allows too little: `test_engine_replay` has all."""
    stage, salt, recorded = Stage(asked), fresh_salt(), Recorded(play)
    pairs = list(itertools.islice(Maker(stage).pairs(), 1))
    [right] = comparisons(stage, recorded, pairs, salt)
    [less] = comparisons(stage, Recorded(wrong, recorded.outcomes, again=True), pairs, salt)
    return right, less


def test_the_release(asked):
    query = asked.completed(12, 3, {"arr_delay": (-60.0, 180.0)})
    plan = query.plan(1.6, 1e-8, measure_left_out=False)
    # The same check with noise that is made for one month.
    parts = {measure: dataclasses.replace(part, coordinates=1) for measure, part in plan.parts.items()}
    wrong = dataclasses.replace(plan, noise=dataclasses.replace(plan.noise, parts=parts))
    right, less = first_pair(query, ReleasePlay(plan), ReleasePlay(wrong))
    assert not right.errors
    assert not right.findings
    assert all(measure["largest"] > 0 for measure in right.moved)
    assert less.findings


def test_the_suggestion(asked):
    layout, plan = planned_histograms(asked, 0.4, 0.0)
    half = {name: dataclasses.replace(part, shift=part.shift / 2) for name, part in plan.parts.items()}
    wrong = SuggestionPlay(layout, dataclasses.replace(plan, parts=half))
    right, less = first_pair(asked, SuggestionPlay(layout, plan), wrong)
    assert not right.errors
    assert not right.findings
    assert less.findings
    assert not less.errors


def test_the_salts_of_releases(asked, monkeypatch):
    """They are read from the text of the queries, which each engine writes in its own way."""
    query = asked.completed(12, 3, {"arr_delay": (-60.0, 180.0)})
    text = salted_sql(measuring.prepared, query, query.plan(1.6, 1e-8, measure_left_out=False))
    check = salts([text], fresh_salt)
    assert check.passed, str(check)
    assert check.details["prepared"] > 0
    monkeypatch.setattr(measuring, "fresh_salt", lambda: 1234567)
    assert "salts of prepared releases" in str(salts([text], fresh_salt))
