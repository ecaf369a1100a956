"""The plan of a noise alone: the error of each family at a budget, as a table or JSON."""

import math
from typing import Any

from rich.table import Table

from osgt.calibration import Comparison
from osgt.cli.shared import terminal
from osgt.noise import Law

#: Chances that some cell is off by more, for which `plan` names the error.
_CHANCES = (0.5, 0.1, 0.01)


def numbers(count: int) -> str:
    """So many numbers, in words."""
    return "1 number" if count == 1 else f"{count:,} numbers"


def largest_of(law: Law, cells: int, chance: float) -> float:
    """The least x such that any of the cells is off by more than x with at most this probability."""
    return float(law.isf(-0.5 * math.expm1(math.log1p(-chance) / cells)))


def as_dict(comparison: Comparison, budget: dict[str, Any], cells: int) -> dict[str, Any]:
    best = comparison["osgt"].noise
    return {
        **budget,
        "cells": cells,
        "noises": [row.to_dict() for row in comparison],
        "better_end": comparison.better_end,
        "reason": comparison.reason,
        "any_cell_off_by_more": {str(chance): largest_of(best, cells, chance) for chance in _CHANCES},
    }


def print_noises(comparison: Comparison, budget: dict[str, Any], cells: int) -> None:
    console = terminal()
    best = comparison["osgt"]
    table = Table(
        title=f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}: one person changes at most "
        f"{numbers(budget['coordinates'])}, each by at most {budget['shift']:,}",
        title_justify="left",
    )
    for column in ("noise", "std", "mean error", "95 %", "99.9999 %", f"largest of {cells:,}", "OSGT saves"):
        table.add_column(column, justify="left" if column == "noise" else "right")
    for row in comparison:
        table.add_row(
            row.name,
            f"{row.std:.4g}",
            f"{row.mean_abs:.4g}",
            f"±{row.interval_95:g}",
            f"±{row.interval_999999:g}",
            f"{row.expected_max:.4g}",
            "" if row is best else f"{100 * row.gain:.1f} %",
            style="bold" if row is best else None,
        )
    console.print(table)
    console.print(comparison.reason, highlight=False, soft_wrap=True)
    console.print(
        f"Use {best.noise!r}: 95 % of the cells are off by at most {best.interval_95:g}.",
        highlight=False,
        soft_wrap=True,
    )
    limits = ", ".join(f"{largest_of(best.noise, cells, chance):g} ({chance:.0%})" for chance in _CHANCES)
    console.print(f"Chance that any of {cells:,} cells is off by more than: {limits}.", highlight=False, soft_wrap=True)
