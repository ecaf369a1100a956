"""What is left for a query: `Ledger.remaining(query=…)`, `how_many` and `osgt ledger remaining --query`."""

import json
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from charges import gaussian, laplace, osgt
from osgt import Dataset, Ledger, PrivacyProfile, calibrate
from osgt.calibration import calibrate_parts
from osgt.cli import app
from osgt.ledger import BudgetExceeded, OtherSubjectError, headroom
from osgt.ledger.headroom import scale_noise
from osgt.privacy import Charge
from osgt.privacy.filters import costs
from osgt.privacy.filters.budget import shares_for
from osgt.privacy.filters.union import FilterState

ROWS = pa.table(
    {"rider": [*range(40)] * 5, "driver": [*range(10)] * 20, "city": ["Bern", "Rome"] * 100, "fare": [1.5] * 200}
)

QUERY = """
[data]
source = "rides.parquet"
privacy_unit = "{unit}"

[groups]
by = ["city"]
max_groups = 2
max_rows_per_group = 1

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "mean"
column = "fare"
bounds = [0, 30]
"""


@pytest.fixture(params=["adaptive", "planned"])
def book(request, tmp_path):
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("rides", epsilon=1.5, delta=1e-6, unit="rider", composition=request.param)
        ledger.reserve("rides", laplace(0.2), query="q", unit="rider")
        yield ledger


def counted(ledger, unit="rider"):
    data = Dataset(ROWS, privacy_unit=unit, ledger=ledger, dataset="rides")
    return data.group_by("city", max_groups=2, max_rows_per_group=1).count().mean("fare", bounds=(0, 30))


def test_what_is_left_for_a_query_can_be_released(book):
    query = counted(book)
    left = book.remaining("rides", query=query, delta=1e-7)
    assert 0 < left < 1.5
    assert left == float(f"{left:.4g}")  # as it is told
    with pytest.raises(BudgetExceeded, match="Refused, nothing was charged"):
        query.release(epsilon=1.01 * left, delta=1e-7)
    query.release(epsilon=left, delta=1e-7)


def test_so_many_more_fit_and_no_more(book):
    charge = counted(book).plan(epsilon=0.4, delta=1e-7).charge
    count = book.how_many("rides", charge)
    assert 1 < count < 100
    assert book.how_many("rides", charge, most=2) == 2
    for _ in range(count):
        book.reserve("rides", charge, query="q", unit="rider")
    assert book.how_many("rides", charge) == 0
    with pytest.raises(BudgetExceeded):
        book.reserve("rides", charge, query="q", unit="rider")


def test_a_query_about_others_is_refused_here_too(book):
    with pytest.raises(OtherSubjectError, match="protects 'driver'"):
        book.remaining("rides", query=counted(book, unit="driver"), delta=1e-7)
    with pytest.raises(ValueError, match="leave out shift"):
        book.remaining("rides", query=counted(book), coordinates=3)


def test_the_quick_decision_is_the_decision():
    shares = shares_for(1.0, 1e-6)
    state, seen = FilterState.start(shares), set()
    for i in range(20):
        for charge in (
            laplace(0.05 * (i + 1)),
            gaussian(60 / (i + 1)),
            osgt(20, 40, i + 1),
            laplace(0.1, 3e-7 * (i % 2)),
        ):
            fit = state.fits(charge)
            seen.add(fit)
            assert fit == (state.try_charge(charge) is not None)
        state = state.try_charge(osgt(90, 100)) or state
    assert seen == {True, False}


@pytest.mark.parametrize("earlier", [0, 3])
@pytest.mark.parametrize("shape", [gaussian(1, 4), osgt(2, 1, 3), laplace(0.5), osgt(1, 2)])
def test_the_first_few_are_decided_quickly_on_the_safe_side(shape, earlier):
    """Noise of all sizes: near the limit, where the exact ε decides, and far from it."""
    total, limits, seen = Fraction(earlier, 10), (1.0, 5e-8, 1e-24), set()
    for factor in np.geomspace(0.2, 40.0, 60):
        charge = scale_noise(shape, factor)
        quick = costs.can_add(total, charge, limits, earlier)
        exact = costs.add_release(total, charge, limits, earlier)
        assert not quick or exact is not None
        if exact is not None and exact < Fraction(99, 100):
            assert quick
        seen.add(quick)
    assert seen == {True, False}


@pytest.mark.parametrize("coordinates", [1, 4, 32])
@pytest.mark.parametrize("spent", [[], [laplace(0.3)] * 4, [osgt(80, 60, 4)] * 25])
def test_what_remains_fits_and_hardly_more(tmp_path, monkeypatch, spent, coordinates):
    calibrated = []

    def counted(epsilon, *arguments):
        calibrated.append(epsilon)
        return calibrate_parts(epsilon, *arguments)

    monkeypatch.setattr(headroom, "calibrate_parts", counted)
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("rides", epsilon=2, delta=1e-6)
        for charge in spent:
            ledger.reserve("rides", charge, query="q")
        left = ledger.remaining("rides", coordinates=coordinates, delta=1e-7)
        assert 1 <= len(calibrated) <= 3
        for more in (1.03, 1.0):
            noise = calibrate(more * left, 1e-7, coordinates=coordinates)
            charge = Charge(PrivacyProfile(noise, coordinates=coordinates))
            if more > 1:
                with pytest.raises(BudgetExceeded):
                    ledger.reserve("rides", charge, query="q")
            else:
                ledger.reserve("rides", charge, query="q")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("NO_COLOR", "1")
    pyarrow.parquet.write_table(ROWS, tmp_path / "rides.parquet")

    def call(*options, unit="rider", budget="[budget]\nepsilon = 0.4\ndelta = 1e-7\n"):
        (tmp_path / "query.toml").write_text(QUERY.format(unit=unit) + budget)
        given = ["remaining", tmp_path / "budget.db", "rides", "--query", tmp_path / "query.toml", *options]
        return CliRunner().invoke(app, ["ledger", *(str(each) for each in given)])

    return call


@pytest.mark.parametrize("book", ["adaptive"], indirect=True)
def test_the_command(book, run):
    query = counted(book)
    left = book.remaining("rides", query=query, delta=1e-7)
    count = book.how_many("rides", query.plan(epsilon=0.4, delta=1e-7).charge)
    before = book.export()
    told = run()
    assert told.exit_code == 0
    assert f"one more release fits with ε up to {left:.4g} at δ = 1e-07" in told.stdout
    assert f", or {count} with ε = 0.4, δ = 1e-07 each, as in this query" in told.stdout
    answer = json.loads(run("--json", budget="").stdout)
    assert answer["delta"] == 1e-6  # that of the budget
    assert "own" not in answer
    assert book.export() == before


@pytest.mark.parametrize("book", ["adaptive"], indirect=True)
def test_the_command_refuses_what_cannot_be_answered(book, run):
    assert "leave out --coordinates" in run("--coordinates", 3).stderr
    wrong = run(unit="driver")
    assert wrong.exit_code == 2
    assert "protects 'rider'" in wrong.stderr
