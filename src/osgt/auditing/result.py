"""A check of an audit: its budget, in draws or time, and its result, in words and in plain values.

The page of an audit has the verdict, every check, and pictures. It runs no script and loads nothing.
"""

import datetime
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from osgt.render.page import Lines, Panel, Tick, render
from osgt.support.files import Target, written
from osgt.support.text import listed

#: Called with what is being done and which part of it is done.
Progress = Callable[[str, float], object]

#: Speed is measured with so many draws at most, or for so many seconds.
_TRIED, _SECONDS = 1 << 16, 0.02

#: Fewer draws than this are never planned.
_FEWEST = 1000

#: Draws of a noise distribution if nothing is said; and the most of anything if time alone is limited.
SAMPLED, MOST = 4_000_000, 1_000_000_000

#: Seconds that a check has at least.
_LEAST = 0.01

#: Findings of one check that are told in words; all of them are in its plain values.
_TOLD = 5


@dataclass(frozen=True)
class Budget:
    """The budget of a check, from now on, and how often it may be wrong about software without a fault."""

    draws: int
    seconds: float = math.inf
    false_alarm: float = 1e-6
    progress: Progress = lambda what, done: None
    started: float = field(default_factory=time.monotonic)

    def affordable(self, draw: Callable[[int], object]) -> int:
        """The draws of the budget; or about as many as fit into its time, judged by a few that are thrown away."""
        size, took = 1, 0.0
        if math.isfinite(self.seconds):
            draw(size)  # the first one may take longer
        while math.isfinite(self.seconds) and size < _TRIED and took < min(_SECONDS, self.seconds):
            size *= 4
            began = time.monotonic()
            draw(size)
            took = time.monotonic() - began
        return self.draws if took == 0 else min(self.draws, max(_FEWEST, int(size * self.seconds / took)))

    def used(self, done: int = 0) -> float:
        """The part of the draws or of the time that is used, whichever is larger."""
        return max(done / self.draws, (time.monotonic() - self.started) / self.seconds)

    def tell(self, name: str, done: int) -> None:
        """Tell whoever waits for a check which part of it is done."""
        self.progress(name, min(1.0, self.used(done)))


@dataclass(frozen=True)
class Options:
    """The options of an audit: how much all its checks together may do."""

    draws: int | None
    seconds: float
    false_alarm: float
    progress: Progress
    real_rows: bool = True
    started: float = field(default_factory=time.monotonic)

    def left(self, part: float) -> float:
        """A part of the seconds that are left."""
        return max(_LEAST, part * (self.seconds - (time.monotonic() - self.started)))

    def budget(self, usual: int, part: float, false_alarm: float) -> Budget:
        """Give a check its budget: the draws that were asked for, else as many as fit into the time, else the usual."""
        draws = self.draws or (usual if math.isinf(self.seconds) else MOST)
        return Budget(draws, self.left(part), false_alarm, self.progress)


@dataclass(frozen=True)
class Finding:
    """Something that breaks the promise: where it was seen, and what was seen there."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Check:
    """One check of an audit.

    Parameters
    ----------
    name
        What was looked at, in a word or two.
    words
        What came out, for people.
    findings
        What breaks the promise; empty if nothing was found.
    false_alarm
        The probability, at most, that software without a fault does not pass; 0 where nothing is left to chance.
    details
        Every number behind it, in plain values.
    """

    name: str
    words: str
    findings: tuple[Finding, ...] = ()
    false_alarm: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "name": self.name,
            "passed": self.passed,
            "words": self.words,
            "findings": [vars(finding) for finding in self.findings],
            "false_alarm": self.false_alarm,
            **self.details,
        }

    def __str__(self) -> str:
        lines = [f"{'passed' if self.passed else 'FAILED'}  {self.name}: {self.words}"]
        lines += [f"        {finding}" for finding in self.findings[:_TOLD]]
        if len(self.findings) > _TOLD:
            lines.append(f"        and {len(self.findings) - _TOLD:,} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class Audit:
    """The result of an audit. `passed` says whether any check found something; `str` of it tells all in words."""

    subject: str
    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no check found anything."""
        return all(check.passed for check in self.checks)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all checks."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def false_alarm(self) -> float:
        """The probability, at most, that this audit fails though nothing is wrong."""
        return sum(check.false_alarm for check in self.checks)

    @property
    def verdict(self) -> str:
        """The verdict in a sentence."""
        if not self.passed:
            failed = [check.name for check in self.checks if not check.passed]
            return f"The promise is broken: {listed(failed)} failed."
        chance = "" if self.false_alarm == 0 else f" A false alarm has a probability of at most {self.false_alarm:.2g}."
        return f"No evidence against the promise.{chance} This is evidence, not a proof."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "subject": self.subject,
            "passed": self.passed,
            "verdict": self.verdict,
            "false_alarm": self.false_alarm,
            "seconds": round(self.seconds, 3),
            "checks": [check.to_dict() for check in self.checks],
        }

    def report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write one page of HTML: the verdict, every check, and pictures of what was measured. Needs Jinja2."""

        with written(Target(path, (".html",), overwrite)) as place:
            place.write_text(page(self), encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join([f"Audit of {self.subject}", *(str(check) for check in self.checks), self.verdict])


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
