"""The page of an audit: the verdict, every check, and pictures. It runs no script and loads nothing."""

import datetime
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from osgt.auditing.check import Audit, Check
from osgt.render.pictures import Lines, Panel, Tick
from osgt.render.rendering import render

#: Residuals beyond this are at the edge of their picture.
_FAR = 5.0


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


def pictures_of(check: Check) -> list[Lines]:
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
        for move in pair["moved"]:
            share = move["largest"] / move["allowed"]
            words = f"{move['largest']:,} of {move['allowed']:,.0f}"
            furthest[move["measure"]] = max(furthest.get(move["measure"], (-1.0, "")), (share, words))
    return [(name, words, min(100.0, 100 * share)) for name, (share, words) in furthest.items()]


def _picture(
    caption: str,
    alternative: str,
    line: str,
    dots: Sequence[tuple[float, float]],
    ends: tuple[str, str],
    ticks: tuple[str, str, str],
) -> Lines:
    """A picture, 100 by 100, with ticks at its top, in the middle and at the bottom."""
    knots = "".join(f"M{x:.2f} {y:.2f}h.01" for x, y in dots)
    marks = tuple(Tick(at, text, text == "0") for at, text in zip((100.0, 50.0, 0.0), ticks, strict=True))
    return Lines(caption, (Panel("", alternative, line, "", knots),), marks, *ends)


def _bars(bars: Sequence[tuple[float, float, float]]) -> str:
    """Upright bars, each at its place from one height to another."""
    return "".join(f"M{x:.2f} {top:.2f}V{bottom:.2f}" for x, top, bottom in bars)


def _curve(points: Sequence[Mapping[str, float]]) -> Lines:
    """Errors of the second kind against those of the first."""
    claimed = (f"{100 * point['type_1']:.2f} {100 * (1 - point['claimed_type_2']):.2f}" for point in points)
    return _picture(
        "Trade-off curve: the two kinds of error of whoever guesses if somebody is in the data. Line: no less than "
        "this is claimed. Dots: measured.",
        f"{len(points)} measured points of the trade-off curve beside the claimed one",
        f"M{'L'.join(claimed)}",
        [(100 * point["type_1"], 100 * (1 - point["type_2"])) for point in points],
        ("type I error 0", "1"),
        ("type II error 1", "0.5", "0"),
    )


def _room(points: Sequence[Mapping[str, float]]) -> Lines:
    """Measured less claimed errors of the second kind, with their band."""
    most = max(abs(point[end]) for point in points for end in ("room_low", "room_high")) or 1.0
    x = [100 * point["type_1"] for point in points]
    high, low, middle = ([50 - 50 * point[end] / most for point in points] for end in ("room_high", "room_low", "room"))
    return _picture(
        "Measured type II error less the claimed one. Bars: limits that hold for all events together, whenever one "
        "stops. A bar wholly below the line breaks the claim.",
        f"what is left between {len(points)} measured points and the claim, with limits",
        _bars(list(zip(x, high, low, strict=True))),
        list(zip(x, middle, strict=True)),
        ("type I error 0", "1"),
        (f"+{most:.2g}", "0", f"-{most:.2g}"),
    )


def _residuals(cells: Sequence[Mapping[str, Any]]) -> Lines:
    """(observed - expected)/√expected of each cell, in the order of the values."""
    step = 100 / len(cells)
    heights = [50 - 50 * max(-_FAR, min(_FAR, cell["residual"])) / _FAR for cell in cells]
    return _picture(
        "Draws in each cell, less what is expected, in standard deviations; from the lower tail to the upper.",
        f"residuals of {len(cells)} cells",
        _bars([((i + 0.5) * step, min(at, 50.0), max(at, 50.0)) for i, at in enumerate(heights)]),
        [],
        ("lower tail", "upper tail"),
        (f"+{_FAR:g}", "0", f"-{_FAR:g}"),
    )
