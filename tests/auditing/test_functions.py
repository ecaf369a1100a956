"""Any function as a release: honest ones pass, planted faults are found, references that are wrong are refused.

Every audit has a false-alarm rate of 1e-9; each planted fault is the power check of what finds it.
"""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from osgt import Dataset, audit
from osgt.auditing.functions import features
from osgt.cli import app

FALSE_ALARM = 1e-9
RNG = np.random.default_rng()
PLACES = ["Bern", "Rome", "Oslo"]


def rides():
    """One row is one unit here: the functions need not limit anything but values."""
    table = pd.DataFrame({"city": ["Bern", "Rome", "Rome", "Oslo"], "fare": [1.5, 8.0, 30.0, 4.0]})
    return Dataset(table, "row").group_by("city", public_keys=PLACES).sum("fare", bounds=(0, 10))


def visits(max_groups=3):
    table = pd.DataFrame({"user": ["a", "a", "b"], "city": ["Bern", "Rome", "Rome"]})
    groups = Dataset(table, "user").group_by("city", max_groups=max_groups, max_rows_per_group=1, public_keys=PLACES)
    return groups.count()


def laplace(scale, size):
    """Discrete Laplace noise: that of NumPy shows the data in its low bits."""
    p = 1 - np.exp(-1 / scale)
    return RNG.geometric(p, size) - RNG.geometric(p, size)


def sums(scale=10.0, high=10.0):
    def release(table):
        totals = dict.fromkeys(PLACES, 0.0)
        for city, fare in zip(table["city"].tolist(), table["fare"].tolist(), strict=True):
            if city in totals and pd.notna(fare):
                totals[city] += min(max(fare, 0.0), high)
        noisy = np.rint(list(totals.values())) + laplace(scale, len(totals))
        return dict(zip(PLACES, noisy.tolist(), strict=True))

    return release


def counts(scale):
    """Units by city: a unit is in all of them, so that noise of scale 3 has ε = 1."""

    def release(table):
        pairs = set(zip(table["user"].tolist(), table["city"].tolist(), strict=True))
        exact = [sum(city == place for _, city in pairs) for place in PLACES]
        return np.array(exact) + laplace(scale, len(PLACES))

    return release


def run(function, data, epsilon=1.0, draws=6000, **options):
    return audit(function, epsilon, 0, data=data, draws=draws, false_alarm=FALSE_ALARM, **options)


def told(result):
    return " | ".join(str(finding) for finding in result.findings)


class TestPlanted:
    def test_honest_sums(self):
        # Rounding may move an exact sum by one more than a value.
        result = run(sums(scale=11.0), rides())
        assert result.passed, str(result)
        assert result.false_alarm == pytest.approx(FALSE_ALARM)
        pairs = result.checks[0].details["inputs"]
        assert len(pairs) > 5
        assert result.checks[1].details["proved_share_of_epsilon"] > 0.3
        assert 0 < result.checks[1].details["smaller_noise_seen"] < 0.5

    def test_honest_counts(self):
        assert run(counts(3.0), visits()).passed

    def test_noise_half_too_small(self):
        assert not run(sums(scale=5.0), rides()).passed

    def test_clipping_forgotten(self):
        assert not run(sums(high=np.inf), rides()).passed

    def test_sensitivity_off_by_the_number_of_groups(self):
        assert not run(counts(1.0), visits()).passed

    def test_a_group_that_is_shown_if_the_person_is_there(self):
        def release(table):
            present = [place for place in PLACES if place in set(table["city"])]
            return pd.DataFrame({"city": present, "count": laplace(1e6, len(present))})

        result = run(release, rides(), draws=2000)  # each of them tells
        assert not result.passed
        assert "group" in told(result) or "columns" in told(result)

    def test_nan_that_leaks(self):
        def release(table):
            return float(np.rint(np.clip(table["fare"].to_numpy(), 0, 10).sum())) + laplace(11.0, 1)[0]

        assert not run(release, rides(), draws=2000).passed  # each of them tells
        assert run(release, rides(), draws=2000, missing_values=False).passed

    def test_an_error_that_only_one_neighbour_raises(self):
        def release(table):
            if not np.isfinite(table["fare"].to_numpy()).all():
                raise ArithmeticError("of Rome")
            return 1.0

        result = run(release, rides())
        assert not result.passed
        assert "ArithmeticError" in told(result)
        assert "of Rome" not in str(result)

    def test_types_and_order_that_tell(self):
        def order(table):
            return table.groupby("city", sort=False)["fare"].count() * 0

        def types(table):
            return pd.DataFrame({"n": np.zeros(1, np.int64 if len(table) % 2 else np.float64)})

        for release in (order, types):
            tables = [pd.DataFrame({"city": cities, "fare": 1.0}) for cities in (["a", "b"], ["b", "a", "b"])]
            result = run(release, data=tables[0], neighbour=tables[1], draws=2000)  # each of them tells
            assert not result.passed
            assert "is there" in told(result) or "not there" in told(result)

    def test_arrays(self):
        def total(scale):
            return lambda rows: np.rint(np.clip(np.nan_to_num(rows), 0, 4).sum()) + laplace(scale, 1)[0]

        ages = np.array([0.0, 1.0, 2.0, 4.0])
        assert run(total(5.0), ages).passed
        assert not run(total(2.0), ages).passed
        assert not run(len, ages).passed
        with pytest.raises(ValueError, match="all outputs are the same"):
            run(len, ages, neighbours="change_one")


def test_features():
    frame = pd.DataFrame({"city": ["Rome", None], "month": [1, 2], "n": [3.0, None]})
    seen = features(frame, by=["month"])
    assert seen["n of Rome, 1"] == 3.0
    assert any(name.startswith("group") and name.endswith(", 2") for name in seen)
    assert np.isnan([value for name, value in seen.items() if name.startswith("n of") and name.endswith(", 2")]).all()
    assert features(frame.set_index("city")[["n"]])["n of Rome"] == 3.0
    assert features({"a": 1, "b": 2})["the number of b"] == 2.0
    assert features(2) == {"the number": 2.0}
    assert features("yes") == {"the number = 'yes'": 1.0}
    assert features([1, 10**400])["number 2"] == np.inf


def test_inputs_are_not_changed():
    """A function may write to what it gets."""

    def release(rows):
        rows[:] = 0
        return rows.sum() + laplace(2.0, 1)[0]

    data = np.array([5.0, 6.0])
    assert run(release, data, neighbour=data - 1, draws=1000).passed
    assert data.tolist() == [5.0, 6.0]


def test_refused():
    with pytest.raises(TypeError, match="only argument"):
        run(lambda table, epsilon: 1, rides())
    with pytest.raises(TypeError, match="data must be a query"):
        run(sums(), pd.DataFrame({"fare": [1.0]}))
    with pytest.raises(ValueError, match="error of class KeyError on every input"):
        run(lambda table: table["nothing"], rides())
    with pytest.raises(ValueError, match="error of class KeyError on both inputs"):
        run(lambda table: table["nothing"], {"a": 1}, neighbour={"a": 2})
    with pytest.raises(ValueError, match="one or two dimensions"):
        run(lambda rows: 1, np.zeros((2, 2, 2)))


class TestCommand:
    @pytest.fixture
    def command(self, monkeypatch, tmp_path):
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        pd.DataFrame({"user": ["a", "b"], "fare": [1.0, 2.0]}).to_parquet("rides.parquet")
        np.save("ages.npy", np.array([1.0, 2.0]))
        (tmp_path / "my_release.py").write_text(
            "def exact(data): return float(len(data))\ndef two(a, b): return 1\nnumber = 1\n"
        )
        always = ["--epsilon", "1", "--delta", "1e-6", "--draws", "1000"]
        return lambda *more: CliRunner().invoke(app, ["audit", *more, *always])

    def test_finds(self, command):
        result = command("rides.parquet", "--unit", "user", "--max-rows", "2", "--count",
                         "--function", "my_release:exact", "--json")  # fmt: skip
        assert result.exit_code == 1, result.output
        assert not json.loads(result.stdout)["passed"]

    def test_a_page(self, command, tmp_path):
        result = command("--function", "my_release:exact", "--pair", "rides.parquet", "ages.npy", "--report", "a.html")
        assert result.exit_code == 2, result.output  # the same number for both
        assert "all outputs are the same" in result.stderr
        result = command("ages.npy", "--function", "my_release:exact", "--report", "a.html")
        assert result.exit_code == 1, result.output
        assert "neighbouring inputs: FAILED" in (tmp_path / "a.html").read_text()

    @pytest.mark.parametrize(
        ("reference", "message"),
        [
            ("my_release", "must be MODULE:NAME"),
            ("nowhere:exact", "there is no module 'nowhere'"),
            ("my_release:other", "has no 'other'"),
            ("my_release:number", "must be a function"),
            ("my_release:two", "only argument"),
        ],
    )
    def test_wrong_references(self, command, reference, message):
        result = command("ages.npy", "--function", reference)
        assert result.exit_code == 2
        assert message in result.stderr.replace("\n", " ")
