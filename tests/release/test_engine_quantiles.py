"""Quantiles and proportions on every engine."""

import numpy as np
import pyarrow as pa
import pytest


@pytest.fixture(scope="module")
def visits():
    rng = np.random.default_rng(4)
    columns = {
        "person": [f"p{i}" for i in range(300)],
        "town": ["a", "b", "b"] * 100,
        "stay": rng.integers(0, 90, 300),
        "bill": np.round(rng.gamma(2.0, 40.0, 300), 2),
    }
    return pa.table(columns)


def test_a_release(engine, visits):
    query = engine.put(visits).group_by("town", max_groups=1, max_rows_per_group=1, public_keys=["a", "b", "c"])
    bins = 16 if engine.slow else 256
    query = query.quantile("bill", [0.1, 0.5], (0, 500), bins=bins).median("stay", (0, 100), bins=bins)
    query = query.proportion("stay > 30 AND bill < 100")
    table = query.release(epsilon=1000, delta=1e-6, confidence=1 - 1e-9).to_pandas()
    frame = visits.to_pandas()
    for town in ("a", "b"):
        values, row = frame[frame["town"] == town], table[table["town"] == town].iloc[0]
        for share, name, column in ((0.1, "bill_q10", "bill"), (0.5, "bill_q50", "bill"), (0.5, "stay_median", "stay")):
            least, largest = (np.quantile(values[column], share, method=m) for m in ("inverted_cdf", "higher"))
            assert row[f"{name}_low"] <= least + 1e-4
            assert largest - 1e-4 <= row[f"{name}_high"]
            assert row[f"{name}_high"] - row[f"{name}_low"] <= largest - least + 2 * 500 / bins
        expected = ((values["stay"] > 30) & (values["bill"] < 100)).mean()
        assert row["proportion"] == pytest.approx(expected, abs=1e-2)
