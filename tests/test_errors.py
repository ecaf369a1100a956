"""Errors say which argument they are about, to whoever knows it by another name."""

import pickle

import pytest

from osgt import Dataset, Mechanism
from osgt.ledger.errors import BudgetExceeded, LedgerError
from osgt.support.errors import ArgumentError, ArgumentTypeError, OsgtError, about, argument_of, message_naming

ROWS = {"person": [1, 2], "town": ["Bern", "Rome"]}


@pytest.mark.parametrize(
    ("ask", "kind", "argument"),
    [
        (lambda data: Mechanism(-1, 1e-6), ValueError, "epsilon"),
        (lambda data: Mechanism("1", 1e-6), TypeError, "epsilon"),
        (lambda data: data.group_by("town", max_groups=0), ValueError, "max_groups"),
        (lambda data: data.group_by("town", totals="sums"), TypeError, "totals"),
        (lambda data: data.where("fre > 1"), ValueError, "where"),
        (lambda data: data.derive({"x": "fre + 1"}), ValueError, "derive"),
        (lambda data: Dataset("no.csv", "person"), FileNotFoundError, "source"),
        (lambda data: data.group_by("town", max_groups=1).sum("town", (0, 1)), TypeError, "column"),
        (lambda data: data.group_by("town", max_groups=1).histogram("person", [2, 1]), ValueError, "edges"),
        (lambda data: data.group_by("town", max_groups=1).mean("person", (0, 1), missing="x"), ValueError, "missing"),
    ],
)
def test_they_carry_the_argument(ask, kind, argument):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(kind) as caught:
        ask(Dataset(pa.table(ROWS), "person"))
    assert argument_of(caught.value) == argument
    assert str(caught.value).startswith(argument)
    assert message_naming(caught.value, "--other").startswith("--other")


def test_those_of_the_package_have_one_base():
    for kind, builtin in ((ArgumentError, ValueError), (ArgumentTypeError, TypeError), (LedgerError, OSError)):
        assert issubclass(kind, OsgtError)
        assert issubclass(kind, builtin)
    assert issubclass(BudgetExceeded, OsgtError)
    assert OsgtError("no").argument is None


def test_another_name_takes_the_place_of_the_first_word_alone():
    error = ArgumentError("delta must be below 1, got delta", argument="delta")
    assert message_naming(error, "budget.delta") == "budget.delta must be below 1, got delta"
    assert message_naming(ValueError("delta must be below 1"), "--delta") == "delta must be below 1"
    assert argument_of(ValueError("delta")) is None


def test_they_can_be_sent_to_another_process():
    for error in (ArgumentError("a: b", argument="a"), about("a", OSError("a: b"))):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), argument_of(again)) == (type(error), "a: b", "a")
