"""`osgt plan` without a table: the error of each noise on numbers at a budget, and its picture."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from osgt.calibration import Comparison, calibrate_epsilon, compare
from osgt.cli.noise import numbers
from osgt.cli.shared import warn
from osgt.facts import wording
from osgt.noise.error import objective_of
from osgt.privacy.filters.budget import USUAL_DELTA, budget_warnings, pure_cautions
from osgt.render.pictures import new_figure

_COLOURS = {"gaussian": "#0072B2", "laplace": "#D55E00", "osgt": "#111111"}
_LABELS = {"gaussian": "Gaussian", "laplace": "Laplace", "osgt": "OSGT"}


def compare_noises(
    options: Mapping[str, Any], error: float | None, each: dict[str, Any], cells: int
) -> tuple[Comparison, dict[str, Any]]:
    """Compare the noises at a budget, or at the one that an error takes; `each` says what one person can change."""
    epsilon, delta, confidence = (options[name] for name in ("epsilon", "delta", "confidence"))
    noise = None
    if epsilon is None:
        at = 0.95 if confidence is None else confidence
        result = calibrate_epsilon(delta, target_interval=error, confidence=at, **each)
        # A budget that people can write down, and the noise that was found for the error.
        epsilon, noise = math.ceil(result.epsilon * 1e6) / 1e6, result.noise
    least = objective_of(options["objective"] or "variance")
    comparison = compare(epsilon, delta, **each, objective=least, cells=cells, noise=noise)
    warn(budget_warnings(epsilon, delta))
    if delta == 0:
        usual = compare(epsilon, USUAL_DELTA, **each, objective=least, cells=cells)
        warn(pure_cautions(comparison["osgt"].interval_95 / max(usual["osgt"].interval_95, 1.0)))
    return comparison, {"epsilon": epsilon, "delta": delta, **each}


def draw_noises(path: Path, suffix: str, comparison: Comparison, budget: dict[str, Any]) -> None:
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
        f"{wording.budget(budget['epsilon'], budget['delta'])}, one person changes at most "
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
