"""Parts of the people in the ledger, attacked: parts that overlap, parts invented later, forged and lost charges."""

import multiprocessing

import pytest
from test_ledger_chain import written_anew
from typer.testing import CliRunner

from charges import gaussian, laplace
from osgt import Ledger
from osgt.cli import app
from osgt.ledger import BudgetExceeded, DamagedLedgerError, OtherSubjectError
from osgt.ledger.store import checkpoint
from osgt.support.errors import ArgumentError

PARTS = {"north": "region = 'north'", "south": "region = 'south'", "west": "region = 'west'"}
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "unit": "person"}


@pytest.fixture
def regions(location):
    """A budget with three parts, and room for releases with ε = 0.4 twice."""
    with Ledger(location) as ledger:
        ledger.open("health", **BUDGET, parts=PARTS, tables=["visits", "bills"])
        yield ledger


def reserve(ledger, part, charge=None, *, parts=PARTS, **more):
    about = {"unit": "person", "table": "visits", "query": "q", **more}
    if part is not None:
        about |= {"part": part, "parts": parts}
    return ledger.reserve("health", laplace(0.4) if charge is None else charge, **about)


def test_parts_are_charged_as_the_largest_of_them(regions):
    for part in PARTS:
        reserve(regions, part)
        reserve(regions, part)
        with pytest.raises(BudgetExceeded, match=r"spent: ε = 0.8 .*at most about ε = 0\.[12]"):
            reserve(regions, part)
    assert regions.spent("health").epsilon == pytest.approx(0.8)
    assert [one.charge.part for one in regions.history("health")] == [part for part in PARTS for _ in range(2)]
    with pytest.raises(BudgetExceeded):
        reserve(regions, None)
    reserve(regions, None, laplace(0.2))
    for part in PARTS:
        with pytest.raises(BudgetExceeded):
            reserve(regions, part, laplace(0.1))
    assert regions.verify().ok


def test_of_two_people_that_are_exchanged_both_parts_count(location):
    with Ledger(location) as ledger:
        ledger.open("health", **BUDGET, neighbours="change_one", parts=PARTS)
        reserve(ledger, "north")
        reserve(ledger, "south")
        for part in ("north", "south"):
            with pytest.raises(BudgetExceeded):
                reserve(ledger, part)
        reserve(ledger, "west")
        assert ledger.spent("health").epsilon == pytest.approx(0.8)
        assert ledger.verify().ok


def test_who_may_be_in_two_parts_is_charged_for_both(location):
    with Ledger(location) as ledger:
        ledger.open("health", **BUDGET, parts=PARTS, max_parts=2)
        for part in PARTS:
            reserve(ledger, part, max_parts=2)
            with pytest.raises(OtherSubjectError, match="each unit in at most 2"):
                reserve(ledger, part, max_parts=1)
        with pytest.raises(BudgetExceeded):
            reserve(ledger, "north", max_parts=2)


class TestOverlaps:
    """Parts that are not those of the budget could share people."""

    @pytest.mark.parametrize("part", ["east", "", "North", "north "])
    def test_parts_that_are_invented_later(self, regions, part):
        with pytest.raises(
            (OtherSubjectError, ArgumentError), match=r"was opened with the parts 'north'|must be a name"
        ):
            reserve(regions, part, parts={**PARTS, part: "age > 3"})
        assert regions.spent("health").releases == 0

    @pytest.mark.parametrize(
        "parts",
        [
            {**PARTS, "north": "region <> 'south'"},
            {"south": PARTS["south"], "north": PARTS["north"], "west": PARTS["west"]},
            {"north": PARTS["north"], "south": PARTS["south"]},
            None,
        ],
        ids=["other condition", "other order", "fewer", "not told"],
    )
    def test_the_same_name_for_another_part(self, regions, parts):
        with pytest.raises(OtherSubjectError, match="tells its parts apart by north: region = 'north'"):
            reserve(regions, "north", parts=parts)
        with pytest.raises(OtherSubjectError, match="People could be in parts of both"):
            regions.check("health", laplace(0.1), unit="person", table="visits", part="north", parts=parts)
        assert regions.spent("health").releases == 0

    def test_another_table_about_the_same_people(self, regions):
        with pytest.raises(OtherSubjectError, match=r"in the table 'visits'.*people could be in other parts"):
            reserve(regions, "north", table="bills")
        reserve(regions, None, table="bills")

    def test_the_table_is_that_of_the_first_release(self, location):
        with Ledger(location) as ledger:
            ledger.open("health", **BUDGET, parts=PARTS)
            reserve(ledger, "north", table="bills")
            ledger.change_tables("health", add=["visits"])
            with pytest.raises(OtherSubjectError, match="told apart in the table 'bills'"):
                reserve(ledger, "north", table="visits")

    def test_a_budget_without_parts(self, location):
        with Ledger(location) as ledger:
            ledger.open("health", **BUDGET)
            with pytest.raises(OtherSubjectError, match="was opened with no parts"):
                reserve(ledger, "north")

    def test_they_stay_when_the_budget_is_opened_again_or_changed(self, regions):
        regions.open("health", **BUDGET, parts=PARTS)
        for parts in (None, {**PARTS, "east": "region = 'east'"}, {**PARTS, "west": "region > 'west'"}):
            with pytest.raises(ValueError, match="open already"):
                regions.open("health", **BUDGET, parts=parts)
        reserve(regions, "north")
        reserve(regions, "south")
        regions.change_budget("health", epsilon=2, delta=1e-6, reason="a test")
        assert regions.spent("health").epsilon == pytest.approx(0.4)
        assert regions.how_many("health", reserve(regions, "west").charge) == 4
        assert regions.verify().ok

    def test_whom_they_are_parts_of_must_be_said(self, location):
        with Ledger(location) as ledger, pytest.raises(ArgumentError, match="unit must be given with parts"):
            ledger.open("health", epsilon=1, delta=1e-6, parts=PARTS)

    def test_plans_have_none(self, location):
        with Ledger(location) as ledger, pytest.raises(ArgumentError, match="adaptive"):
            ledger.open("health", **BUDGET, parts=PARTS, composition="planned")


def test_parts_on_the_command_line(tmp_path):
    words = ["ledger", "open", str(tmp_path / "budget.db"), "health", "--epsilon", "1", "--delta", "1e-6"]
    parts = [word for name, text in PARTS.items() for word in ("--part", f"{name}:{text}")]
    wrong = CliRunner().invoke(app, [*words, "--unit", "person", "--part", "north"])
    assert wrong.exit_code == 2
    assert "NAME:CONDITION" in wrong.output
    done = CliRunner().invoke(app, [*words, "--unit", "person", *parts])
    assert done.exit_code == 0, done.output
    with Ledger(tmp_path / "budget.db") as ledger:
        reserve(ledger, "north")


class TestForgers:
    """Who makes all hashes fit."""

    def check(self, ledger, change, fault):
        written_anew(ledger, change)
        assert fault in ledger.verify().problems[0]
        ledger.close()
        with pytest.raises(DamagedLedgerError):
            reserve(ledger, "west", laplace(0.01))

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            (lambda values: values["charge"].update(part="south"), "entry 3 was forged"),
            (lambda values: values["charge"].update(part="east"), "opened with the parts"),
            (lambda values: values["charge"].pop("part"), "entry 3 was forged"),
            (lambda values: values["subject"].update(parts=[["north", "age > 3"]]), "tells its parts apart"),
            (lambda values: values["subject"].update(max_parts=2), "tells its parts apart"),
            (lambda values: values["state"]["of"].reverse(), "entry 3 was forged"),
            (lambda values: values["state"]["states"].reverse(), "entry 3 was forged"),
            (lambda values: values["state"].update(charged=[1]), "entry 3 was forged"),
            (lambda values: values["state"].update(charged=[0, 1, 2]), "entry 3 cannot be read"),
        ],
    )
    def test_a_charge_that_is_moved(self, regions, change, fault):
        reserve(regions, "north")
        reserve(regions, "north")
        self.check(regions, lambda values: change(values) if values["sequence"] == 3 else None, fault)

    @pytest.mark.parametrize(
        ("change", "fault"),
        [
            (lambda budget: budget["partition"]["parts"].append(["east", "region = 'east'"]), ""),
            (lambda budget: budget["partition"]["parts"].append(["north", "region = 'east'"]), "cannot be read"),
            (lambda budget: budget["partition"].update(neighbours="change_one"), "another neighbour relation"),
            (lambda budget: budget.pop("partition"), ""),
        ],
    )
    def test_another_partition(self, regions, change, fault):
        reserve(regions, "north")
        self.check(regions, lambda values: change(values["budget"]) if values["kind"] == "open" else None, fault)

    def test_a_partition_that_is_changed_with_the_budget(self, regions):
        regions.change_budget("health", epsilon=2, delta=1e-6, reason="a test")

        def change(values):
            if values["kind"] == "budget":
                values["budget"]["partition"]["parts"].pop()

        self.check(regions, change, "changes how releases are added up")


def test_cancelled_and_void_charges_are_those_of_their_part(regions):
    reserve(regions, "north")
    second = reserve(regions, "south")
    third = reserve(regions, "north")
    second.cancel()
    third.cancel()
    assert regions.spent("health").epsilon == pytest.approx(0.4)
    again = reserve(regions, "south")
    regions.void("health", [again.sequence], reason="a test")
    assert regions.verify().ok
    reserve(regions, "south")
    reserve(regions, "south")
    with pytest.raises(BudgetExceeded):
        reserve(regions, "south")
    assert regions.verify().ok


def test_a_long_chain_goes_on_from_its_checkpoint(regions, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY", 5)
    for _ in range(2):
        for part in PARTS:
            reserve(regions, part, laplace(0.1))
    regions.close()
    with Ledger(regions._database.url.render_as_string(False)) as other:
        reserve(other, "north", laplace(0.1))
        assert not other._accounts._known["health"].is_whole
        assert other.spent("health").epsilon == pytest.approx(0.3)


def charge_until_refused(location, part, results):
    count = 0
    with Ledger(location) as ledger:
        try:
            while True:
                reserve(ledger, part, gaussian(15))
                count += 1
        except BudgetExceeded:
            results.put((part, count))


def test_processes_that_charge_parts_at_once(regions):
    """Each part has room for as many as if it were alone, however many ask for it."""
    alone = regions.how_many("health", gaussian(15))
    assert 8 < alone < 200
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    location = regions._database.url.render_as_string(False)
    workers = [
        context.Process(target=charge_until_refused, args=(location, part, results))
        for part in ("north", "north", "south", "south")
    ]
    for worker in workers:
        worker.start()
    counts = [results.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    for part in ("north", "south"):
        assert sum(count for name, count in counts if name == part) == alone
    assert regions.how_many("health", gaussian(15)) == 0
    assert regions.verify().ok
