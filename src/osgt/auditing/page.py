"""The page of an audit: the verdict, every check, and pictures. It runs no script and loads nothing."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from osgt.auditing.result import Audit, Check
from osgt.pages.rendering import render

#: Residuals beyond this are at the edge of their picture.
_FAR = 5.0


@dataclass(frozen=True)
class Picture:
    """Lines and marks in a box of 100 by 100: the claimed line, the measured one, and marks (x, low, high)."""

    caption: str
    alternative: str
    claimed: str
    measured: str
    marks: Sequence[tuple[float, float, float]]
    first: str
    last: str
    ticks: Sequence[str]


def page(result: Audit) -> str:
    """The page as text."""
    return render(
        "audit.html",
        title=f"Audit of {result.subject}",
        result=result,
        made=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        software=f"osgt {version('osgt')}",
        checks=[(check, picture_of(check), moves_of(check)) for check in result.checks],
    )


def picture_of(check: Check) -> Picture | None:
    """The picture that suits a check; None if it has none."""
    if check.details.get("curve"):
        return _curve(check.details["curve"])
    if check.details.get("residuals"):
        return _residuals(check.details["residuals"])
    return None


def moves_of(check: Check) -> list[tuple[str, str, float]]:
    """For a replay: each measure, how far it moved at most in words, and as a percentage of what it may."""
    furthest: dict[str, tuple[float, str]] = {}
    for pair in check.details.get("pairs", ()):
        for each in pair["moved"]:
            share = each["largest"] / each["allowed"]
            words = f"{each['largest']:,} of {each['allowed']:,.0f}"
            furthest[each["measure"]] = max(furthest.get(each["measure"], (-1.0, "")), (share, words))
    return [(name, words, min(100.0, 100 * share)) for name, (share, words) in furthest.items()]


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "M" + " L".join(f"{x:.2f} {y:.2f}" for x, y in points) if points else ""


def _curve(points: Sequence[Mapping[str, float]]) -> Picture:
    """Errors of the second kind against those of the first; the measured band must not lie below the claimed line."""
    return Picture(
        "Trade-off curve: how well presence can be told. Line: what is claimed; bars: what was measured, with limits "
        "that hold together. A bar that lies wholly below the line would break the claim.",
        f"{len(points)} measured points of the trade-off curve beside the claimed one",
        _line([(100 * each["type_1"], 100 * (1 - each["claimed_type_2"])) for each in points]),
        _line([(100 * each["type_1"], 100 * (1 - each["type_2"])) for each in points]),
        [(100 * e["type_1"], 100 * (1 - e["type_2_high"]), 100 * (1 - e["type_2_low"])) for e in points],
        "type I error 0",
        "1",
        ("type II error 1", "0.5", "0"),
    )


def _residuals(cells: Sequence[Mapping[str, Any]]) -> Picture:
    """(observed - expected)/√expected of each cell, in the order of the values."""
    step = 100 / len(cells)
    marks = []
    for i, cell in enumerate(cells):
        at = 50 - 50 * max(-_FAR, min(_FAR, cell["residual"])) / _FAR
        marks.append(((i + 0.5) * step, min(at, 50.0), max(at, 50.0)))
    return Picture(
        "Draws in each cell, less what is expected, in standard deviations; from the lower tail to the upper.",
        f"residuals of {len(cells)} cells",
        _line([(0, 50), (100, 50)]),
        "",
        marks,
        "lower tail",
        "upper tail",
        (f"+{_FAR:g}", "0", f"-{_FAR:g}"),
    )
