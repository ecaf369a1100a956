"""Figures of Matplotlib, which is an extra, and axes for the `plot` methods: new ones, or those handed over."""

from typing import Any

from osgt.extras import missing

#: Colours that people who see colours differently can tell apart.
INK, COLOURS = "#111111", {"gaussian": "#0072B2", "laplace": "#D55E00", "osgt": "#111111"}


def new_figure(width: float, height: float) -> Any:
    """An empty figure, or an error that says what to install."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise missing("a picture", "Matplotlib", "plots") from None
    return Figure(figsize=(width, height), layout="constrained")


def axes_for(axes: Any, width: float = 7.0, height: float = 4.2) -> Any:
    """The axes that were given; else those of a new figure, which a notebook shows at the end of the cell."""
    if axes is None:
        try:
            from matplotlib import pyplot  # noqa: PLC0415 - an extra
        except ImportError:
            raise missing("a picture", "Matplotlib", "plots") from None
        _, axes = pyplot.subplots(figsize=(width, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    return axes
