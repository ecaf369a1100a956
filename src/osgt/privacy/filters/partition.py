"""A public partition of people, declared when a budget is opened: the parts that releases can be about."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from osgt.support.errors import ArgumentError

#: More sums than this make charges slow and entries long.
MOST_SUMS = 2000


@dataclass(frozen=True)
class Partition:
    """The parts in their order, each with the condition on rows that makes it.

    A unit counts in the first `most` parts in which it has rows, for each release alike.
    """

    parts: tuple[tuple[str, str], ...]
    most: int
    neighbours: str

    @classmethod
    def of(cls, parts: Mapping[str, str], most: int, neighbours: str) -> "Partition":
        """The partition with these parts, or an error that says what is wrong with them."""
        if not isinstance(parts, Mapping) or not all(
            isinstance(text, str) and text.strip() for pair in parts.items() for text in pair
        ):
            raise ArgumentError(
                'parts must be a dict from names to conditions on rows, as in {"north": "region = \'north\'"}, got '
                f"{parts!r}",
                argument="parts",
            )
        if len(parts) < 2:
            raise ArgumentError(f"parts: give two or more, got {len(parts)}", argument="parts")
        if type(most) is not int or most < 1:
            raise ArgumentError(f"max_parts must be a whole number of at least 1, got {most!r}", argument="max_parts")
        made = cls(tuple(parts.items()), most, neighbours)
        if made.sums > MOST_SUMS:
            raise ArgumentError(
                f"parts: {len(parts)} parts of which {made.together} add up make {made.sums:,} sums to watch over, and "
                f"at most {MOST_SUMS:,} can be; use fewer parts, a smaller max_parts, or neighbours='add_remove'",
                argument="parts",
            )
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"parts": [list(part) for part in self.parts], "most": self.most, "neighbours": self.neighbours}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Partition":
        """Read what `to_dict` wrote."""
        parts = {str(name): str(condition) for name, condition in plain["parts"]}
        if len(parts) < len(plain["parts"]):
            raise ValueError("two parts of the budget have one name")
        return cls.of(parts, plain["most"], str(plain["neighbours"]))

    @property
    def together(self) -> int:
        """The number of parts by which neighbours can differ: those of one unit, or of the two that are exchanged."""
        return min(self.most * (2 if self.neighbours == "change_one" else 1), len(self.parts))

    @property
    def sums(self) -> int:
        """The number of sets of up to so many parts."""
        return sum(math.comb(len(self.parts), size) for size in range(self.together + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(name for name, _ in self.parts)

    def place(self, part: str) -> int:
        """The place of a part."""
        if part not in self.names:
            raise ValueError(f"there is no part {part!r}: the budget was opened with {', '.join(self.names)}")
        return self.names.index(part)
