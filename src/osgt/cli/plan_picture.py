"""The picture of `osgt plan`: density, tail, and error against the number of groups, for the three noises."""

from pathlib import Path
from typing import Any

import numpy as np

from osgt.calibration import Comparison, compare
from osgt.cli.plan_noise import numbers
from osgt.pages.plots import new_figure

_COLOURS = {"gaussian": "#0072B2", "laplace": "#D55E00", "osgt": "#111111"}
_LABELS = {"gaussian": "Gaussian", "laplace": "Laplace", "osgt": "OSGT"}


def draw_plan(path: Path, suffix: str, comparison: Comparison, budget: dict[str, Any]) -> None:
    """Write the picture in the format of a suffix: .png, .svg or .pdf."""
    names = [name for name in _LABELS if any(row.name == name for row in comparison)]
    figure = new_figure(12, 3.9)
    density, tail, against = figure.subplots(1, 3)
    reach = max(comparison[name].interval_999999 for name in names)
    middle = int(max(comparison[name].std for name in names) * 3.5) + 1
    near = np.arange(-middle, middle + 1, max(1, middle // 400))
    far = np.unique(np.linspace(0, 1.3 * reach, 600).astype(np.int64))
    for name in names:
        law = comparison[name].noise
        style = {"color": _COLOURS[name], "label": _LABELS[name], "linewidth": 2.0 if name == "osgt" else 1.4}
        probability = getattr(law, "pmf", None) or law.pdf  # type: ignore[union-attr]
        density.plot(near, probability(near), **style)
        tail.semilogy(far, 2 * law.sf(far), **style)
    _draw_errors(against, names, budget)
    density.set(title="Noise", xlabel="error of a value", ylabel="probability")
    tail.set(title="How often a value is off by more", xlabel="error", ylabel="probability", ylim=(1e-9, 1.5))
    density.legend(frameon=False)
    for axes in (density, tail, against):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(
        f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}, one person changes at most "
        f"{numbers(budget['coordinates'])}, each by at most {budget['shift']:,}",
        fontsize=11,
    )
    figure.savefig(path, format=suffix[1:].lower(), dpi=160)


def _draw_errors(axes: Any, names: list[str], budget: dict[str, Any]) -> None:
    """Standard deviation against the number of groups, relative to the better end of the family."""
    groups = budget["coordinates"]
    counts = sorted({max(1, round(groups * factor)) for factor in (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)})
    rows = [
        compare(budget["epsilon"], budget["delta"], shift=budget["shift"], coordinates=count, cells=1)
        for count in counts
    ]
    best = np.array([min(comparison[name].std for name in names if name != "osgt") for comparison in rows])
    for name in names:
        values = np.array([comparison[name].std for comparison in rows]) / best
        style = {"color": _COLOURS[name], "linewidth": 2.0 if name == "osgt" else 1.4}
        axes.semilogx(counts, values, marker="o", markersize=3, **style)
    axes.axvline(groups, color="0.6", linestyle=":", linewidth=1)
    axes.set(
        title="Error against the number of groups",
        xlabel="groups that one person can be in",
        ylabel="std / better of Gaussian and Laplace",
        ylim=(0.9, min(1.6, axes.get_ylim()[1])),
        xticks=counts,
        xticklabels=[str(count) for count in counts],
    )
    axes.minorticks_off()
