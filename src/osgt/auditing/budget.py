"""How much a check may do: draws or time, whichever is used up first."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Budget:
    """How much a check may do, and how often it may be wrong about software without a fault."""

    draws: int
    seconds: float = math.inf
    false_alarm: float = 1e-6
    progress: Progress = lambda what, done: None

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

    def clock(self, name: str) -> "Clock":
        """A clock that starts now."""
        return Clock(self, name)


@dataclass(frozen=True)
class Clock:
    """Which part of a budget is used up, told to whoever waits."""

    budget: Budget
    name: str
    started: float = field(default_factory=time.monotonic)

    def share(self, done: int = 0) -> float:
        """The part of the draws or of the time, whichever is larger."""
        return max(done / self.budget.draws, (time.monotonic() - self.started) / self.budget.seconds)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.share() >= 1

    def told(self, done: int) -> None:
        """Tell it."""
        self.budget.progress(self.name, min(1.0, self.share(done)))


@dataclass(frozen=True)
class Options:
    """How much an audit may do, all its checks together."""

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
        """What a check may use: the draws that were asked for, else as many as fit into the time, else the usual."""
        draws = self.draws or (usual if math.isinf(self.seconds) else MOST)
        return Budget(draws, self.left(part), false_alarm, self.progress)
