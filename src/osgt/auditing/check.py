"""A check of an audit: its budget, in draws or time, and its result, in words and in plain values."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osgt.support.files import Target, written
from osgt.support.numbers import listed

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
        from osgt.auditing.page import page  # noqa: PLC0415 - the extra "tables"

        with written(Target(path, (".html",), overwrite)) as place:
            place.write_text(page(self), encoding="utf-8")

    def __str__(self) -> str:
        return "\n".join([f"Audit of {self.subject}", *(str(check) for check in self.checks), self.verdict])
