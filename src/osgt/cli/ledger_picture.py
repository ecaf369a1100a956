"""The picture of `osgt ledger show`: the share of the budget that is used over time, for each data set."""

from collections.abc import Sequence
from pathlib import Path

from osgt.ledger import Overview
from osgt.pages.plots import new_figure


def draw_spending(path: Path, suffix: str, overviews: Sequence[Overview]) -> None:
    """Write the picture in the format of a suffix: .png, .svg or .pdf."""
    rows = max(len(overviews), 1)
    figure = new_figure(9, 0.6 + 2.4 * rows)
    panels = figure.subplots(rows, 1, squeeze=False)[:, 0]
    for axes, overview in zip(panels, overviews, strict=False):
        overview.plot(axes)
    figure.savefig(path, format=suffix[1:].lower(), dpi=160)
