"""What an audit found: its checks, and of each what was wrong, in words and in plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from osgt.files import Target, written

#: Findings of one check that are told in words; all of them are in its plain values.
_TOLD = 5


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
            "findings": [{"where": each.where, "what": each.what} for each in self.findings],
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
        """All that was found."""
        return tuple(finding for check in self.checks for finding in check.findings)

    @property
    def false_alarm(self) -> float:
        """The probability, at most, that this audit fails though nothing is wrong."""
        return sum(check.false_alarm for check in self.checks)

    @property
    def verdict(self) -> str:
        """In a sentence."""
        if not self.passed:
            failed = [check.name for check in self.checks if not check.passed]
            return f"The promise is broken: {in_a_row(failed)} failed."
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


def in_a_row(words: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
