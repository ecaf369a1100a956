"""Add exact noise to a small table of counts and show how far off it leaves them.

One person is counted in at most two of the districts. Noise ∝ exp(-|y|·ε/2) then has (ε, 0)-differential privacy.
"""

from rich.console import Console
from rich.table import Table

from osgt import DiscreteOSGT

EPSILON, DISTRICTS_PER_PERSON = 1.0, 2
COUNTS = {"North": 1204, "East": 87, "South": 0, "West": 3511}

law = DiscreteOSGT.laplace(DISTRICTS_PER_PERSON / EPSILON)
half_width = int(law.isf(0.025))
noisy = [true + noise for true, noise in zip(COUNTS.values(), law.sample(len(COUNTS)).tolist(), strict=True)]

table = Table(title=f"ε = {EPSILON:g}, one person in at most {DISTRICTS_PER_PERSON} districts", title_justify="left")
for column in ("district", "released", "95 % noise interval"):
    table.add_column(column, justify="left" if column == "district" else "right")
for name, value in zip(COUNTS, noisy, strict=True):
    table.add_row(name, str(value), f"{value - half_width} … {value + half_width}")
console = Console()
console.print(f"Plan: {law!r}, standard deviation {law.std():.2f}, 95 % of the noise within ±{half_width}.")
console.print(table)
