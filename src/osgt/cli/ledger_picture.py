"""The picture of `osgt ledger show`: the share of the budget that is used over time, for each data set."""

from collections.abc import Sequence
from pathlib import Path

from osgt.ledger import Overview
from osgt.ledger.wording import times


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
        spending = overview.spending
        shares = [100 * release.share_after for release in overview.releases]
        moments = times(overview.releases)
        axes.step(moments, shares, where="post", color="#111111", linewidth=1.8)
        axes.plot(moments, shares, ".", color="#111111", markersize=4)
        axes.axhline(100, color="#D55E00", linestyle="--", linewidth=1.2)
        # A dollar sign in a name is no formula.
        axes.set_title(f"{spending.dataset} (releases: {spending.releases:,})", parse_math=False)
        axes.set(
            ylabel=f"% of ε = {spending.budget_epsilon:g}, δ = {spending.budget_delta:g}",
            ylim=(0, 110),
        )
        axes.tick_params(axis="x", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.savefig(path, format=suffix[1:].lower(), dpi=160)
