"""Pictures: their content as plain arrays, and drawn as PNG and SVG. The only module here that needs Matplotlib."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from osgt.render.page import new_figure
from osgt.support.files import Target, written
from osgt.support.numeric import Floats

if TYPE_CHECKING:
    from osgt.paper.conjecture import ConjectureMap


@dataclass(frozen=True)
class Curve:
    """One line or set of points. `noise` chooses the colour, `style` is line, dashed, dotted, points, bars or area."""

    label: str
    noise: str
    x: Floats
    y: Floats
    style: str = "line"
    #: Lower and upper ends of error bars, for points.
    low: Floats | None = None
    high: Floats | None = None


@dataclass(frozen=True)
class Mark:
    """A point of a curve with words beside it, placed `offset` points away."""

    x: float
    y: float
    text: str
    offset: tuple[float, float] = (8.0, 8.0)


@dataclass(frozen=True)
class Axis:
    """An axis: what stands beside it, its ends, and whether its scale is logarithmic."""

    label: str
    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    legend: str = "best"

    @property
    def added(self) -> bool:
        """Whether it is ours and not in the paper."""
        return self.title.startswith("Added:")

    def curve(self, label: str) -> Curve:
        """The curve with this label."""
        for curve in self.curves:
            if curve.label == label:
                return curve
        raise KeyError(f"no curve {label!r}; there are {', '.join(repr(c.label) for c in self.curves)}")


@dataclass(frozen=True)
class Picture:
    """A figure: its panels from left to right, what it shows, and where the comparisons in it turn."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    #: Where a comparison turns: words to the abscissa.
    turns: dict[str, float] = field(default_factory=dict)


_COLOURS = {
    "osgt": "#111111",
    "gaussian": "#0072B2",
    "laplace": "#D55E00",
    "bound": "#009E73",
    "discrete": "#CC79A7",
    "second": "#E69F00",
    "faint": "#999999",
}
_LINES = {"line": "-", "dashed": "--", "dotted": ":"}
SUFFIXES = (".png", ".svg")


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """Write the figure as PNG and SVG, the same bytes for the same picture, over those of an earlier run."""
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # once for both files
    paths = [folder / f"{name}{suffix}" for suffix in SUFFIXES]
    with mpl.rc_context({"svg.hashsalt": name}):
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else None
            with written(Target(path, overwrite=True)) as place:
                figure.savefig(place, format=path.suffix[1:], dpi=140, metadata=metadata)
    return paths


def draw(picture: Picture, folder: Path) -> list[Path]:
    """Draw the panels side by side; those that are ours have a tinted ground."""
    figure = new_figure(4.4 * len(picture.panels) + 0.4, 4.0)
    for axes, panel in zip(figure.subplots(1, len(picture.panels), squeeze=False)[0], picture.panels, strict=True):
        _draw_panel(axes, panel)
    figure.suptitle(picture.title, fontsize=11)
    return save(figure, folder, picture.name)


def _draw_panel(axes: Any, panel: Panel) -> None:
    for curve in panel.curves:
        _draw_curve(axes, curve)
    axes.set_title(panel.title, fontsize=9.5)
    for name, axis in (("x", panel.x), ("y", panel.y)):
        scale = "log" if axis.log else "linear"
        axes.set(**{f"{name}label": axis.label, f"{name}scale": scale, f"{name}lim": (axis.low, axis.high)})
    for mark in panel.marks:
        axes.plot(mark.x, mark.y, "o", markersize=4, color="#CC0000", zorder=5)
        arrow = {"arrowstyle": "-", "color": "#CC0000", "linewidth": 0.6} if max(map(abs, mark.offset)) > 12 else None
        axes.annotate(
            mark.text,
            (mark.x, mark.y),
            xytext=mark.offset,
            textcoords="offset points",
            fontsize=7.5,
            color="#990000",
            arrowprops=arrow,
        )
    _finish(axes, panel.added)
    axes.legend(fontsize=7.5, frameon=False, loc=panel.legend)


def _finish(axes: Any, added: bool) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=8)
    if added:
        axes.set_facecolor("#FBF7EE")


def _draw_curve(axes: Any, curve: Curve) -> None:
    colour, label = _COLOURS[curve.noise], curve.label or None
    if curve.style == "points":
        if curve.low is not None and curve.high is not None:
            # An estimate below 0 lies below its own lower limit, which is cut off there.
            bars = np.maximum([curve.y - curve.low, curve.high - curve.y], 0.0)
            axes.errorbar(
                curve.x, curve.y, bars, fmt="o", markersize=3.5, capsize=2, linewidth=1, color=colour, label=label
            )
        else:
            axes.plot(curve.x, curve.y, "o", markersize=3.5, color=colour, label=label)
    elif curve.style == "bars":
        axes.bar(curve.x, curve.y, width=0.8, color=colour, alpha=0.55, label=label)
    elif curve.style == "area":
        axes.fill_between(curve.x, curve.y, color="#888888", alpha=0.5)
        axes.plot(curve.x, curve.y, color=colour, label=label)
    else:
        width = 1.8 if curve.noise == "osgt" else 1.4
        axes.plot(curve.x, _positive(curve.y), _LINES[curve.style], color=colour, linewidth=width, label=label)


def _positive(values: Floats) -> Floats:
    """A δ of exactly 0 has no place on a logarithmic axis: the line ends there."""
    return np.where((values > 0) & np.isfinite(values), values, np.nan)


def draw_conjecture(mapped: "ConjectureMap", folder: Path) -> list[Path]:
    """The maps of the conjecture: blue where the OSGT has the smaller δ, red where the Gaussian has."""
    figure = new_figure(13.6, 4.5)
    by_epsilon, by_shape, border = figure.subplots(1, 3)
    image = _heat(by_epsilon, mapped.coordinates, mapped.epsilons, mapped.by_epsilon.T)
    _level(by_epsilon, mapped.coordinates, mapped.epsilons, mapped.laplace_by_epsilon.T)
    by_epsilon.set(title=f"m/σ = {mapped.shape:.3f} (the paper's example)", ylabel="ε", yscale="log")
    _heat(by_shape, mapped.coordinates, mapped.shapes, mapped.by_shape)
    _level(by_shape, mapped.coordinates, mapped.shapes, mapped.laplace_by_shape)
    by_shape.set(title=f"ε = {mapped.fixed_epsilon:g}", ylabel="m/σ", yscale="log")
    for axes in (by_epsilon, by_shape):
        axes.plot([], [], color="black", label="equal: OSGT = Gaussian")
        axes.plot([], [], color=_COLOURS["laplace"], linestyle="--", label="left of and above it the Laplace is better")
        axes.plot([], [], "s", color="#DDDDDD", label="grey: δ of the Gaussian below 1e-40")
        axes.set_facecolor("#DDDDDD")
    by_epsilon.legend(fontsize=7, loc="lower right", framealpha=0.9)
    bar = figure.colorbar(image, ax=[by_epsilon, by_shape], shrink=0.9, extend="both")
    bar.set_ticks([-2, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 2])
    bar.ax.set_yticklabels(["−2", "−1", "−0.1", "−0.01", "0", "0.01", "0.1", "1", "2"], fontsize=8)
    bar.minorticks_off()
    bar.set_label("log₁₀(δ of the Gaussian / δ of the OSGT)", fontsize=8)
    for (shape, thresholds), style in zip(mapped.thresholds.items(), ("-", "--", ":"), strict=False):
        border.plot(
            mapped.threshold_coordinates,
            thresholds,
            f"o{style}",
            color="#111111",
            markersize=3,
            label=f"m/σ = {shape:.3g}",
        )
    border.set(
        title="It holds below the line and fails above it", ylabel="δ of the Gaussian", yscale="log", ylim=(1e-40, 1)
    )
    border.legend(fontsize=8, frameon=False)
    _finish(border, added=False)
    for axes in (by_epsilon, by_shape, border):
        axes.set_xscale("log")
        axes.set_xlabel("coordinates k")
        axes.title.set_fontsize(9.5)
        axes.tick_params(labelsize=8)
    figure.suptitle(
        f"Is δ(ε) smaller with the OSGT than with the Gaussian of equal variance? "
        f"(variance {mapped.variance:g} per coordinate, Δ = 1)",
        fontsize=11,
    )
    return save(figure, folder, "conjecture")


def _heat(axes: Any, x: Floats, y: Floats, values: Floats) -> Any:
    """Colours of a difference of logarithms, and the line where it is zero."""
    from matplotlib.colors import SymLogNorm  # noqa: PLC0415 - an extra

    masked = np.ma.masked_invalid(values)
    # Where the OSGT loses, it loses by a few percent over wide regions: colours by the logarithm show them.
    norm = SymLogNorm(linthresh=0.01, vmin=-2, vmax=2, base=10)
    image = axes.pcolormesh(x, y, masked, cmap="RdBu", norm=norm, shading="nearest", rasterized=True)
    axes.contour(x, y, masked, levels=[0.0], colors="black", linewidths=1.5)
    return image


def _level(axes: Any, x: Floats, y: Floats, values: Floats) -> None:
    masked = np.ma.masked_invalid(values)
    axes.contour(x, y, masked, levels=[0.0], colors=_COLOURS["laplace"], linewidths=1.3, linestyles="--")
