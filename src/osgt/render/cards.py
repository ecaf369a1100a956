"""Cards: what a notebook shows of an object. A title, facts, tables, a curve, and what is promised or warned of.

The cards and pictures of a mechanism, a privacy profile and a comparison of noises are here: they need no database.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from osgt.calibration import Comparison, compare
from osgt.facts import wording
from osgt.mechanism import Mechanism
from osgt.privacy import PrivacyProfile
from osgt.render.page import INK, axes_for, fragment, new_figure
from osgt.support.text import aligned, columns_wide, counted, half_width, listed, one_line, percent, rounded_up

#: The box of a curve in its picture: left, right, top and bottom.
_BOX = (48.0, 312.0, 8.0, 124.0)


@dataclass(frozen=True)
class Cell:
    """A text, and a smaller one beside it."""

    text: str
    beside: str = ""


@dataclass(frozen=True)
class CardTable:
    """A table: so many columns of keys, then numbers; one row may be marked as chosen.

    `stacked` puts the smaller texts of cells on a line of their own.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    keys: int = 1
    caption: str = ""
    chosen: int | None = None
    stacked: bool = False

    def lines(self) -> list[str]:
        """The table in lines without its caption: keys to the left, numbers to the right."""
        rows = [list(self.heads)]
        for row in self.rows:
            if not self.stacked:
                rows.append([f"{cell.text} ({cell.beside})" if cell.beside else cell.text for cell in row])
                continue
            rows.append([cell.text for cell in row])
            if any(cell.beside for cell in row):
                rows.append([cell.beside for cell in row])
        return aligned([[one_line(text) for text in row] for row in rows], left=self.keys)

    @property
    def width(self) -> int:
        """The columns of a terminal that it takes."""
        return max(map(columns_wide, self.lines()))


@dataclass(frozen=True)
class Curve:
    """A line in a small picture, with texts at places across and up, and all of it in words."""

    path: str
    across: Sequence[tuple[float, str]]
    up: Sequence[tuple[float, str]]
    alternative: str


@dataclass(frozen=True)
class Card:
    """The parts of a card. Texts may hold anything: they are escaped."""

    title: str
    line: str = ""
    alarm: str = ""
    warnings: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[CardTable] = ()
    curve: Curve | None = None
    lines: Sequence[str] = ()
    promise: str = ""

    def html(self) -> str:
        """A piece of HTML for a notebook. It runs no script and loads nothing."""
        return fragment("notebook.html", card=self)

    def text(self) -> str:
        """The card in plain lines, without its curve."""
        facts = [f"{name}: {value}" for name, value in self.facts]
        warnings = [f"Warning: {warning}" for warning in self.warnings]
        head = [self.alarm, self.title, self.line, *facts]
        parts = [
            head,
            *([table.caption, *table.lines()] for table in self.tables),
            self.lines,
            warnings,
            [self.promise],
        ]
        return "\n\n".join("\n".join(lines) for part in parts if (lines := [line for line in part if line]))


def curve(
    points: Sequence[tuple[float, float]],
    across: Sequence[tuple[float, str]],
    up: Sequence[tuple[float, str]],
    alternative: str,
) -> Curve:
    """A curve through points; the texts on both axes are within the picture, and so is the curve."""
    left, right, top, bottom = _BOX
    xs, ys = [at for at, _ in (*across, *points)], [at for at, _ in up]

    def x(value: float) -> float:
        return round(left + (right - left) * (value - min(xs)) / ((max(xs) - min(xs)) or 1.0), 1)

    def y(value: float) -> float:
        inside = min(max(value, min(ys)), max(ys))
        return round(bottom - (bottom - top) * (inside - min(ys)) / ((max(ys) - min(ys)) or 1.0), 1)

    path = "M" + "L".join(f"{x(at)} {y(value)}" for at, value in points)
    return Curve(path, [(x(at), text) for at, text in across], [(y(at), text) for at, text in up], alternative)


#: δ of a curve reaches from 1 down to this; ε is told for some δ in between. A picture needs no more exactness.
_LEAST, _TOLD, _SLACK, _POINTS = 1e-12, (1e-4, 1e-6, 1e-8, 1e-10), 1e-2, 25

#: Confidences for which a card tells intervals.
_CONFIDENCES = (0.5, 0.9, 0.95, 0.99)


def profile_card(profile: PrivacyProfile) -> Card:
    """δ(ε) in a small picture, and ε for some δ."""
    told = [[Cell(f"{delta:g}"), Cell(rounded_up(float(profile.epsilon(delta, slack=_SLACK))))] for delta in _TOLD]
    return Card(
        title="Privacy profile",
        line=listed([_part(part.noise, part.shift, part.coordinates) for part in profile.parts]),
        curve=_delta_curve(profile),
        tables=[CardTable(["δ", "ε"], told, keys=1, caption="Smallest ε that is proved for a δ, rounded up")],
    )


def _part(noise: Any, shift: float, coordinates: int) -> str:
    return f"{noise!r}, shift {shift:g}, {counted(coordinates, 'coordinate')}"


def delta_points(profile: PrivacyProfile, points: int) -> tuple[Any, Any]:
    """ε from 0 to where δ is next to nothing, and δ there."""
    last = float(profile.epsilon(_LEAST, slack=_SLACK))
    epsilons = np.linspace(0.0, last, points)
    return epsilons, np.asarray(profile.delta(epsilons, slack=_SLACK))


def _delta_curve(profile: PrivacyProfile) -> Curve:
    epsilons, deltas = delta_points(profile, _POINTS)
    points = [(float(e), math.log10(max(float(d), _LEAST))) for e, d in zip(epsilons, deltas, strict=True)]
    last = float(epsilons[-1])
    across = [(0.0, "ε = 0"), (last / 2, f"{last / 2:.2g}"), (last, f"{last:.2g}")]
    up = [(0.0, "δ = 1"), (-6.0, "10⁻⁶"), (-12.0, "10⁻¹²")]
    words = f"δ falls from {float(deltas[0]):.2g} at ε = 0 to 10⁻¹² at ε = {last:.3g}"
    return curve(points, across, up, words)


def plot_profile(profile: PrivacyProfile, axes: Any) -> Any:
    """δ against ε."""
    axes = axes_for(axes)
    epsilons, deltas = delta_points(profile, 200)
    axes.semilogy(epsilons, np.maximum(deltas, _LEAST), color=INK, linewidth=1.8)
    axes.set(xlabel="ε", ylabel="δ", ylim=(_LEAST, 1), title="Privacy profile: smallest δ that is proved for an ε")
    return axes


def mechanism_card(mechanism: Mechanism) -> Card:
    """The noise, its intervals and what is promised."""
    noise, step = mechanism.noise, mechanism.step
    facts = [
        ("Values", mechanism.values),
        ("Largest change of a value", f"{mechanism.shift:g}"),
        ("Values that one person can change", f"{mechanism.coordinates:,}"),
        ("Noise", f"{noise!r}" + ("" if step == 1 else f", in steps of {step:g}")),
        ("Standard deviation", f"{noise.std() * step:.4g}"),
    ]
    widths = [[Cell(percent(often)), Cell(half_width(float(mechanism.interval(often))))] for often in _CONFIDENCES]
    epsilon, delta = mechanism.epsilon, mechanism.delta
    promise = ""
    if epsilon is not None and delta is not None:
        promise = f"Each release is {wording.definition(epsilon, delta)}."
    table = CardTable(["of the time", "the noise is within"], widths, keys=1)
    return Card(title="Mechanism", facts=facts, tables=[table], promise=promise)


#: How the noises of a comparison are drawn.
_COLOURS = {"gaussian": "#0072B2", "laplace": "#D55E00", "osgt": "#111111"}
_LABELS = {"gaussian": "Gaussian", "laplace": "Laplace", "osgt": "OSGT"}


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
        f"{counted(budget['coordinates'], 'number')}, each by at most {budget['shift']:,}",
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
