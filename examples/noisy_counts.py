"""Plan the noise for a small table of counts, add it, and show how far off it leaves them."""

from rich.console import Console
from rich.table import Table

from osgt import Mechanism, compare

EPSILON, DELTA, DISTRICTS_PER_PERSON = 1.0, 1e-6, 8
COUNTS = {"North": 1204, "East": 87, "South": 0, "West": 3511, "Harbour": 640}

console = Console()
comparison = compare(EPSILON, DELTA, coordinates=DISTRICTS_PER_PERSON, cells=len(COUNTS))
plan = Table(
    title=f"Plan: ε = {EPSILON:g}, δ = {DELTA:g}, one person in at most {DISTRICTS_PER_PERSON} districts",
    title_justify="left",
)
for column in ("noise", "std", "95 %", "OSGT saves"):
    plan.add_column(column, justify="left" if column == "noise" else "right")
for row in comparison:
    saved = "" if row.name == "osgt" else f"{100 * row.gain:.1f} % of the variance"
    plan.add_row(row.name, f"{row.std:.2f}", f"±{row.interval_95:g}", saved)
console.print(plan)

mechanism = Mechanism(EPSILON, DELTA, coordinates=DISTRICTS_PER_PERSON)
half_width = mechanism.interval(0.95)
released = Table(title="Release", title_justify="left")
for column in ("district", "people", "95 % noise interval"):
    released.add_column(column, justify="left" if column == "district" else "right")
for name, value in zip(COUNTS, mechanism.release(list(COUNTS.values())).tolist(), strict=True):
    released.add_row(name, str(value), f"{value - half_width} … {value + half_width}")
console.print(released)
console.print(mechanism.describe(), highlight=False)
