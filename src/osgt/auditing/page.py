"""The page of an audit: the verdict, every check, and pictures. It runs no script and loads nothing."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from osgt.auditing.check import Audit, Check
from osgt.render.rendering import render

#: Residuals beyond this are at the edge of their picture.
_FAR = 5.0


@dataclass(frozen=True)
class Picture:
    """A picture, 100 by 100: the line of what is claimed, bars (x, low, high) and dots of what was measured."""

    caption: str
    alternative: str
    claimed: str
    bars: Sequence[tuple[float, float, float]]
    dots: Sequence[tuple[float, float]]
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
        checks=[(check, pictures_of(check), moves_of(check)) for check in result.checks],
    )


def pictures_of(check: Check) -> list[Picture]:
    """The pictures that suit a check."""
    if check.details.get("curve"):
        return [_curve(check.details["curve"]), _room(check.details["curve"])]
    if check.details.get("residuals"):
        return [_residuals(check.details["residuals"])]
    return []


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
    """Errors of the second kind against those of the first."""
    return Picture(
        "Trade-off curve: the two kinds of error of whoever guesses if somebody is in the data. Line: no less than "
        "this is claimed. Dots: measured.",
        f"{len(points)} measured points of the trade-off curve beside the claimed one",
        _line([(100 * each["type_1"], 100 * (1 - each["claimed_type_2"])) for each in points]),
        [],
        [(100 * each["type_1"], 100 * (1 - each["type_2"])) for each in points],
        "type I error 0",
        "1",
        ("type II error 1", "0.5", "0"),
    )


def _room(points: Sequence[Mapping[str, float]]) -> Picture:
    """Measured less claimed errors of the second kind, with their band."""
    most = max(abs(each[end]) for each in points for end in ("room_low", "room_high")) or 1.0

    def height(difference: float) -> float:
        return 50 - 50 * difference / most

    return Picture(
        "Measured type II error less the claimed one. Bars: limits that hold for all events together, whenever one "
        "stops. A bar wholly below the line breaks the claim.",
        f"what is left between {len(points)} measured points and the claim, with limits",
        _line([(0, 50), (100, 50)]),
        [(100 * e["type_1"], height(e["room_high"]), height(e["room_low"])) for e in points],
        [(100 * e["type_1"], height(e["room"])) for e in points],
        "type I error 0",
        "1",
        (f"+{most:.2g}", "0", f"-{most:.2g}"),
    )


def _residuals(cells: Sequence[Mapping[str, Any]]) -> Picture:
    """(observed - expected)/√expected of each cell, in the order of the values."""
    step = 100 / len(cells)
    bars = []
    for i, cell in enumerate(cells):
        at = 50 - 50 * max(-_FAR, min(_FAR, cell["residual"])) / _FAR
        bars.append(((i + 0.5) * step, min(at, 50.0), max(at, 50.0)))
    return Picture(
        "Draws in each cell, less what is expected, in standard deviations; from the lower tail to the upper.",
        f"residuals of {len(cells)} cells",
        _line([(0, 50), (100, 50)]),
        bars,
        [],
        "lower tail",
        "upper tail",
        (f"+{_FAR:g}", "0", f"-{_FAR:g}"),
    )
