"""The query file in examples/ on every engine: neighbouring tables of its release, and of the choice of its limits."""

import dataclasses
import itertools
import tomllib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from osgt.api.query_file import add_conditions, add_groups
from osgt.auditing.independence import salts
from osgt.auditing.neighbours import Maker
from osgt.auditing.replay import comparisons
from osgt.auditing.stage import DrawPlay, ReleasePlay, Stage, salted_sql
from osgt.limits.contribution import fresh_salt
from osgt.query.aggregates.base import OpenLimit, with_any_limits
from osgt.query.file.reading import query_file_model
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
    """What the file asks for, with the limits that it leaves open, and a mean, whose bounds are open as well."""
    file = query_file_model().model_validate(tomllib.loads(EXAMPLE.read_text(encoding="utf-8")))
    data = engine.put(flights, file.data.privacy_unit)
    query = add_groups(add_conditions(data, file.data.where), file.groups, file.aggregates)
    return query.mean("arr_delay", missing="centre")


@dataclasses.dataclass
class Recorded:
    """A play whose outcomes can be judged again: what comes out does not depend on what is allowed."""

    play: ReleasePlay | DrawPlay
    outcomes: list = dataclasses.field(default_factory=list)
    again: bool = False

    @property
    def allowed(self):
        """As planned; where it is judged again, half of that."""
        return {
            name: dataclasses.replace(
                allowed, part=dataclasses.replace(allowed.part, shift=allowed.part.shift / (1 + self.again), also=())
            )
            for name, allowed in self.play.allowed.items()
        }

    def played(self, query, salt):
        if self.again:
            return self.outcomes.pop(0)
        self.outcomes.append(self.play.played(query, salt))
        return self.outcomes[-1]


def judge_first_pair(asked, play):
    """Judge the first pair of tables by a play, and by half of what it allows: `test_engine_replay` has all pairs."""
    stage, salt, recorded = Stage(asked), fresh_salt(), Recorded(play)
    pairs = list(itertools.islice(Maker(stage).pairs(), 1))
    [right] = comparisons(stage, recorded, pairs, salt)
    [less] = comparisons(stage, Recorded(play, recorded.outcomes, again=True), pairs, salt)
    assert not right.errors
    assert not right.findings
    assert all(measure["largest"] > 0 for measure in right.moved)
    assert not less.errors
    assert less.findings


def close_limits(asked):
    """The query with limits for those that the file leaves open."""
    bounds = Fraction(-60), Fraction(180)
    return asked.with_limits({OpenLimit("max_rows"): Fraction(36), OpenLimit("bounds", "arr_delay"): bounds})


def test_the_release(asked):
    query = close_limits(asked)
    judge_first_pair(query, ReleasePlay(query.plan(1.6, 1e-8, measure_left_out=False)))


def test_the_choice_of_limits(asked):
    draws = asked.choice(2).draws
    assert {draw.limit.words for draw in draws} == {"max_rows", "bounds of arr_delay"}
    for draw in draws:
        judge_first_pair(with_any_limits(asked), DrawPlay(draw, asked.dataset.neighbours))


def test_the_salts_of_releases(asked, monkeypatch):
    """They are read from the text of the queries, which each engine writes in its own way."""
    query = close_limits(asked)
    text = salted_sql(measuring.prepare, query, query.plan(1.6, 1e-8, measure_left_out=False))
    check = salts([text], fresh_salt)
    assert check.passed, str(check)
    assert check.details["prepared"] > 0
    monkeypatch.setattr(measuring, "fresh_salt", lambda: 1234567)
    assert "salts of prepared releases" in str(salts([text], fresh_salt))
