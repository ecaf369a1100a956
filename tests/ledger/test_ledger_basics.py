"""Opening, charging, settling and cancelling, on both databases."""

import copy
import json
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import osgt as package
from charges import gaussian, laplace, osgt
from osgt import Ledger
from osgt.ledger import BudgetExceeded, LedgerError
from osgt.privacy import Charge


class TestOpening:
    def test_again_with_the_same_figures_is_fine(self, ledger):
        ledger.open("flights", epsilon=3.0, delta=1e-6)
        assert ledger.datasets() == ["flights"]
        assert len(ledger.export()["datasets"][0]["entries"]) == 1

    def test_with_other_figures_it_says_how_to_change(self, ledger):
        with pytest.raises(ValueError, match=r"open already with ε = 3, δ = 1e-06 .*change_budget"):
            ledger.open("flights", epsilon=4, delta=1e-6)
        with pytest.raises(ValueError, match="composition"):
            ledger.open("flights", epsilon=3, delta=1e-6, composition="planned")
        with pytest.raises(ValueError, match=r"selection share 0\.2; .* selection share 0\. To change"):
            ledger.open("flights", epsilon=3, delta=1e-6, selection_share=0)

    def test_a_change_is_recorded_with_its_reason(self, ledger):
        for _ in range(3):
            ledger.reserve("flights", laplace(0.9), query="q")
        with pytest.raises(BudgetExceeded):
            ledger.reserve("flights", laplace(0.9), query="q")
        told = ledger.change_budget("flights", epsilon=4, delta=1e-6, reason="the board agreed", actor="ann")
        assert "no longer covers what was released before and after it together" in told
        assert ledger.spent("flights").budget_epsilon == 4
        ledger.reserve("flights", laplace(0.9), query="q")
        entry = ledger.export()["datasets"][0]["entries"][4]
        assert (entry["kind"], entry["reason"], entry["actor"]) == ("budget", "the board agreed", "ann")
        assert entry["budget"]["epsilon"] == 4
        ledger.open("flights", epsilon=4, delta=1e-6)
        assert ledger.verify().ok

    def test_a_budget_can_be_lowered_below_what_is_spent(self, ledger):
        ledger.reserve("flights", laplace(2), query="q")
        ledger.change_budget("flights", epsilon=1, delta=1e-6, reason="too much")
        assert ledger.spent("flights").epsilon > 1
        with pytest.raises(BudgetExceeded):
            ledger.reserve("flights", laplace(1e-6), query="q")

    def test_a_change_between_pure_and_approximate(self, location):
        with Ledger(location) as ledger:
            ledger.open("pure", epsilon=1, delta=0)
            ledger.reserve("pure", laplace(0.5), query="q")
            with pytest.raises(BudgetExceeded):
                ledger.reserve("pure", gaussian(1000), query="q")
            ledger.change_budget("pure", epsilon=1, delta=1e-6, reason="approximate is enough")
            ledger.reserve("pure", gaussian(1000), query="q")
            both = Charge.compose([laplace(0.5), gaussian(1000)])
            assert both.epsilon(1e-6) < ledger.spent("pure").epsilon < 0.51
            ledger.change_budget("pure", epsilon=1, delta=0, reason="and back")
            assert ledger.spent("pure").epsilon == float("inf")
            assert ledger.verify().ok

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"epsilon": 0, "delta": 1e-6}, "epsilon must be"),
            ({"epsilon": float("nan"), "delta": 1e-6}, "epsilon must be"),
            ({"epsilon": 1, "delta": 1}, "delta must be"),
            ({"epsilon": 1, "delta": -1e-9}, "delta must be"),
            ({"epsilon": 1, "delta": 1e-6, "composition": "renyi"}, "composition must be one of adaptive, planned"),
            ({"epsilon": 1, "delta": 1e-6, "selection_share": 1.5}, "selection_share must be between 0 and 1"),
            ({"epsilon": 1, "delta": 1e-6, "composition": "planned", "selection_share": 0.1}, "selection_share is for"),
            ({"epsilon": 1, "delta": 1e-6, "neighbours": "add_remove"}, "unit must be given with neighbours"),
            ({"epsilon": 1, "delta": 1e-6, "unit": "p", "neighbours": "other"}, "neighbours must be one of"),
            ({"epsilon": 1, "delta": 1e-6, "unit": "p", "tables": ["a", "a"]}, "each table once"),
        ],
    )
    def test_wrong_figures(self, tmp_path, arguments, message):
        with pytest.raises(ValueError, match=message):
            Ledger(tmp_path / "budget.db").open("flights", **arguments)
        assert not (tmp_path / "budget.db").exists()

    def test_a_change_needs_a_reason(self, ledger):
        with pytest.raises(ValueError, match="reason must say why"):
            ledger.change_budget("flights", epsilon=4, delta=1e-6, reason=" ")


class TestNames:
    HOSTILE = [
        "'; DROP TABLE osgt_entries; --",
        'a"b',
        "a`b\\c%s%(x)s:name?",
        "Zürich 数据 🛫",
        "null",
        "x" * 200,
        "{}[]$$",
    ]

    def test_hostile_names_are_names(self, ledger):
        for name in self.HOSTILE:
            ledger.open(name, epsilon=1, delta=1e-6)
            ledger.reserve(name, laplace(0.5), query=f"about {name}\x00 \ud800").settle("hash")
        assert ledger.datasets() == ["flights", *self.HOSTILE]
        for name in self.HOSTILE:
            assert ledger.spent(name).releases == 1
            assert ledger.history(name)[0].query == f"about {name}� �"
        assert ledger.verify().ok

    def test_two_spellings_of_one_name_are_one_data_set(self, ledger):
        ledger.open("Zu\u0308rich", epsilon=1, delta=1e-6)
        assert ledger.spent("Z\u00fcrich").budget_epsilon == 1

    @pytest.mark.parametrize("name", ["", " flights", "a\nb", "a\x00b", "x" * 201, "\ud800", "a\u200bb"])
    def test_names_that_would_deceive(self, sqlite_ledger, name):
        with pytest.raises(ValueError, match="dataset must"):
            sqlite_ledger.open(name, epsilon=1, delta=1e-6)

    @pytest.mark.parametrize("name", ["Flights", "ＦＬＩＧＨＴＳ", "flіghts", "FLIGHТS", "ﬂights"])
    def test_names_that_look_like_another(self, sqlite_ledger, name):
        """Case, full width, a Cyrillic letter, a capital one, a ligature."""
        with pytest.raises(ValueError, match="looks like 'flights', which is open already"):
            sqlite_ledger.open(name, epsilon=1, delta=1e-6)
        sqlite_ledger.open("flights 2", epsilon=1, delta=1e-6)

    @pytest.mark.parametrize(
        ("values", "error"),
        [
            ({"actor": 3}, TypeError),
            ({"actor": "a\x1b[2J"}, ValueError),
            ({"actor": "a" * 201}, ValueError),
            ({"title": "t" * 2001}, ValueError),
            ({"query": "q" * 100_001}, ValueError),
            ({"unit": ""}, ValueError),
            ({"table": {"name": "x", "rows": 3}}, ValueError),
        ],
    )
    def test_texts_are_texts_and_bounded(self, sqlite_ledger, values, error):
        with pytest.raises(error, match=f"^{next(iter(values))} must"):
            sqlite_ledger.reserve("flights", laplace(0.1), **{"query": "q", **values})
        assert sqlite_ledger.spent("flights").releases == 0

    def test_a_name_is_a_text(self, sqlite_ledger):
        with pytest.raises(TypeError, match="dataset must be a text"):
            sqlite_ledger.spent(3)

    def test_an_unknown_data_set(self, ledger):
        with pytest.raises(ValueError, match=r"no data set 'trains' \(it has 'flights'\).*Ledger.open"):
            ledger.reserve("trains", laplace(0.1), query="q")


class TestReservations:
    def test_the_life_of_a_release(self, ledger):
        reservation = ledger.reserve("flights", osgt(3, 5), query="by month", actor="ann")
        assert [r.status for r in ledger.history("flights")] == ["reserved"]
        reservation.reading()
        reservation.settle("abc", output="/srv/by-month.csv")
        (release,) = ledger.history("flights")
        assert release.output == "/srv/by-month.csv"
        assert (release.status, release.statement_hash, release.actor) == ("settled", "abc", "ann")
        assert (release.query, release.charge) == ("by month", osgt(3, 5))
        assert release.software.startswith("osgt ")
        assert 0 < release.share_after < 1

    def test_a_cancelled_charge_is_given_back(self, ledger):
        for _ in range(3):
            reservation = ledger.reserve("flights", laplace(2.5), query="q")
            reservation.cancel()
        assert ledger.spent("flights").epsilon == 0
        assert {r.status for r in ledger.history("flights")} == {"cancelled"}
        assert ledger.verify().ok

    def test_a_charge_that_was_cancelled_late_is_given_back_too(self, ledger):
        """The composed loss has it inside by then, and must be built anew."""
        early = ledger.reserve("flights", osgt(1, 2), query="much")
        for _ in range(40):
            ledger.reserve("flights", gaussian(1000), query="little")
        before = ledger.spent("flights")
        early.cancel()
        after = ledger.spent("flights")
        assert after.share < 0.01 * before.share
        assert after.epsilon < before.epsilon
        ledger.reserve("flights", osgt(1, 2), query="much")
        with pytest.raises(BudgetExceeded):
            ledger.reserve("flights", osgt(1, 2), query="much")
        assert ledger.verify().ok

    def test_no_cancelling_after_reading(self, ledger):
        reservation = ledger.reserve("flights", laplace(1), query="q")
        reservation.reading()
        reservation.reading()
        with pytest.raises(ValueError, match="cannot cancel a reservation that is reading: the charge stands"):
            reservation.cancel()
        reservation.settle("abc")
        for act in (reservation.cancel, reservation.reading, lambda: reservation.settle("abc")):
            with pytest.raises(ValueError, match="settled"):
                act()
        assert ledger.spent("flights").releases == 1

    def test_nothing_after_cancelling(self, ledger):
        reservation = ledger.reserve("flights", laplace(1), query="q")
        reservation.cancel()
        for act in (reservation.cancel, reservation.reading, lambda: reservation.settle("abc")):
            with pytest.raises(ValueError, match="cancelled"):
                act()

    def test_no_reading_after_a_cancellation_that_may_have_succeeded(self, ledger, monkeypatch):
        reservation = ledger.reserve("flights", laplace(1), query="q")
        record = reservation._record

        def answer_is_lost(*arguments):
            record(*arguments)
            raise LedgerError("the connection broke")

        monkeypatch.setattr(reservation, "_record", answer_is_lost)
        with pytest.raises(LedgerError):
            reservation.cancel()
        with pytest.raises(ValueError, match="cancelling"):
            reservation.reading()
        monkeypatch.setattr(reservation, "_record", record)
        reservation.cancel()
        assert reservation.state == "cancelled"
        assert ledger.spent("flights").releases == 0

    def test_no_second_owner(self, ledger):
        reservation = ledger.reserve("flights", laplace(1), query="q")
        for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be copied"):
                duplicate(reservation)

    def test_only_the_process_that_made_it(self, ledger, monkeypatch):
        reservation = ledger.reserve("flights", laplace(1), query="q")
        monkeypatch.setattr(os, "getpid", lambda: -1)
        for act in (reservation.cancel, reservation.reading):
            with pytest.raises(ValueError, match="only the process that made"):
                act()

    def test_wrong_arguments(self, ledger):
        with pytest.raises(TypeError, match="charge must be a Charge"):
            ledger.reserve("flights", laplace(1).profile, query="q")
        with pytest.raises(TypeError, match="query must be"):
            ledger.reserve("flights", laplace(1), query=None)
        with pytest.raises(ValueError, match="statement_hash must be"):
            ledger.reserve("flights", laplace(1), query="q").settle("")


def charge_until_refused(ledger, charge):
    """How many times a charge fits."""
    for count in range(1000):
        try:
            ledger.reserve("flights", charge, query="q")
        except BudgetExceeded:
            return count
    raise AssertionError("the budget has no end")


class TestRefusals:
    def test_a_refusal_charges_nothing_and_says_what_would_fit(self, ledger):
        charge = osgt(3, 5)
        count = charge_until_refused(ledger, charge)
        with pytest.raises(BudgetExceeded) as refusal:
            ledger.reserve("flights", charge, query="q")
        assert ledger.spent("flights").releases == count
        assert len(ledger.export()["datasets"][0]["entries"]) == 1 + count
        error = refusal.value
        assert "nothing was charged" in str(error)
        assert f"in {count} release" in str(error)
        assert error.noise_factor > 1
        # What it says would fit does fit.
        law = charge.profile.parts[0].noise
        larger = type(law).from_rates(law.slope / error.noise_factor, law.curvature / error.noise_factor**2)
        ledger.reserve("flights", Charge(package.PrivacyProfile(larger)), query="q")

    def test_selection_alone_can_exceed(self, ledger):
        ledger.reserve("flights", gaussian(1000, selection_delta=1.2e-7), query="q")
        with pytest.raises(BudgetExceeded, match=r"choice of groups .* needs δ = 1\.2e-07") as refusal:
            ledger.reserve("flights", gaussian(1000, selection_delta=1.2e-7), query="q")
        assert refusal.value.noise_factor is None

    def test_a_huge_charge(self, ledger):
        for charge in (gaussian(1e-3), laplace(1e9), gaussian(0.5, coordinates=10**6)):
            with pytest.raises(BudgetExceeded):
                ledger.reserve("flights", charge, query="q")
        assert ledger.spent("flights").releases == 0


def test_a_ledger_survives_a_fork(ledger):
    """A child opens connections of its own, and the parent's go on working."""
    ledger.reserve("flights", laplace(0.1), query="parent")
    script = multiprocessing.get_context("spawn")
    child = script.Process(target=_charge_after_fork, args=(str(ledger._database.url.render_as_string(False)),))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    ledger.reserve("flights", laplace(0.1), query="parent")
    assert sorted(r.query for r in ledger.history("flights")) == ["child", "forked", "parent", "parent"]


def _charge_after_fork(location):
    import warnings  # noqa: PLC0415

    warnings.simplefilter("ignore")
    ledger = Ledger(location)
    ledger.reserve("flights", laplace(0.1), query="child")
    pid = os.fork()
    if pid == 0:
        ledger.reserve("flights", laplace(0.1), query="forked")
        ledger.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    ledger.spent("flights")
    ledger.close()


def test_many_that_make_the_ledger_at_once(location):
    """All open the same data set where there was no ledger; one makes it, the others find it."""
    command = [sys.executable, Path(__file__).parents[1] / "helpers" / "ledger_jobs.py", "open", location, "4"]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # so that it can fork
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout) == [0] * 4
    with Ledger(location) as ledger:
        assert ledger.datasets() == ["flights"]
        assert ledger.verify().entries == 1


@pytest.mark.parametrize("wrong", ["", "mysql://x/y", "sqlite://", "sqlite:///:memory:", "://x"])
def test_wrong_locations(wrong):
    with pytest.raises(ValueError, match=r"ledger|URL"):
        Ledger(wrong)


def test_urls_and_paths_are_the_same(tmp_path):
    with Ledger(f"sqlite:///{tmp_path}/a b?.db".replace("?", "%3F")) as ledger:
        ledger.open("flights", epsilon=1, delta=1e-6)
    with Ledger(tmp_path / "a b?.db") as ledger:
        assert ledger.datasets() == ["flights"]


def test_passwords_are_not_shown():
    assert "secret" not in repr(Ledger("postgresql://ann:secret@127.0.0.1/x"))


WITHOUT = """
import sys
from pathlib import Path
sys.modules["sqlalchemy"] = None
import osgt
assert "osgt.ledger" not in sys.modules
try:
    osgt.Ledger
except ImportError as error:
    assert 'pip install "osgt[tables]"' in str(error)
else:
    raise AssertionError
"""


def test_the_package_works_without_the_extra():
    subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT], check=True)
    with pytest.raises(AttributeError, match="no attribute 'Leger'"):
        _ = package.Leger
