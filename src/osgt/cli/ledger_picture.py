"""The picture of `osgt ledger show`: the share of the budget that is used over time, for each data set."""

from collections.abc import Sequence
from pathlib import Path

from osgt.ledger import Overview


def draw_spending(path: Path, suffix: str, overviews: Sequence[Overview]) -> None:
    """Write the picture in the format of a suffix: .png, .svg or .pdf."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra
    except ImportError:
        raise ImportError("a picture needs matplotlib: pip install 'osgt[plots]'") from None
    rows = max(len(overviews), 1)
    figure = Figure(figsize=(9, 0.6 + 2.4 * rows), layout="constrained")
    panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for axes, overview in zip(panels, overviews, strict=False):
        overview.plot(axes)
    figure.savefig(path, format=suffix[1:].lower(), dpi=160)
