"""The log tells charges and refusals, and nothing of the data."""

import logging

import pyarrow as pa
import pytest

from osgt import Dataset, Ledger
from osgt.ledger.errors import BudgetExceeded


def test_charges_and_refusals_are_told_without_data(tmp_path, caplog):
    ledger = Ledger(tmp_path / "budget.db")
    ledger.open("rides", epsilon=1, delta=1e-6)
    rows = pa.table({"person": ["Ann Secret", "Bob Secret"] * 20, "town": ["Hidden"] * 40})
    data = Dataset(rows, "person", ledger=ledger, dataset="rides")
    query = data.group_by("town", max_groups=1, max_rows_per_group=20, public_keys=["Hidden"]).count()
    with caplog.at_level(logging.INFO, logger="osgt"):
        query.release(0.9, 1e-7)
        with pytest.raises(BudgetExceeded):
            query.release(0.9, 1e-7)
    charged, refused = caplog.messages
    assert charged.startswith("charged: epsilon=0.9, delta=1e-07 of 'rides' as entry")
    assert refused == "not charged, or not known to be: epsilon=0.9, delta=1e-07 of 'rides' (BudgetExceeded)"
    assert not {"Secret", "Hidden"} & set(caplog.text.split())


def test_nothing_is_printed_where_nobody_listens(capfd):
    logging.getLogger("osgt").warning("not told")
    assert "not told" not in capfd.readouterr().err
