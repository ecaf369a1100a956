"""Groups and bounds: how much one unit may contribute, and so how far it moves each measure."""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from osgt.calibration.joint import Part
from osgt.tables.measures import Measure, Rows, Units

Neighbours = Literal["add_remove", "change_one"]

#: What the two notions of neighbouring tables mean, for statements.
NEIGHBOURS = {
    "add_remove": "one privacy unit is added or removed with all its rows",
    "change_one": "all rows of one privacy unit are exchanged for any others",
}


@dataclass(frozen=True)
class Groups:
    """The grouping of a query: key columns, bounds, and the public keys if there are any."""

    by: tuple[str, ...]
    max_groups: int
    max_rows: int | None
    public: pa.Table | None = None

    @property
    def shows_all(self) -> bool:
        """Whether every group is shown, so that none is chosen by its size."""
        return not self.by or self.public is not None

    @property
    def known(self) -> int | None:
        """How many groups there are, as far as that is public."""
        if not self.by:
            return 1
        return None if self.public is None else self.public.num_rows

    @property
    def most(self) -> int:
        """The most groups that one unit is in."""
        return self.max_groups if self.known is None else min(self.max_groups, self.known)

    def same(self, measure: Measure) -> Measure:
        """The measure itself; with one row of a unit in a group, rows are units."""
        return Units() if self.max_rows == 1 and isinstance(measure, Rows) else measure

    def part(self, measure: Measure, neighbours: Neighbours, weight: float) -> Part:
        """How far one unit moves a measure, in how many groups.

        Exchanging a unit for another moves a measure by what the one takes away and the other brings: in twice as many
        groups, or in the same groups twice as far. Twice as far in one group gives away at least as much as once in
        two, so it stands for both; where all contributions have one sign, they cannot add up in one group.
        """
        shift = self.most_of(measure)
        if neighbours == "add_remove":
            return Part(shift, self.most, weight)
        if measure.low < 0 < measure.high:
            return Part(2 * shift, self.most, weight)
        twice = 2 * self.most
        if self.known is not None and measure.numbers == 1:
            twice = min(twice, self.known)
        return Part(shift, twice, weight)

    def most_of(self, measure: Measure) -> int:
        """The most that one unit adds to a measure in a group, in absolute value."""
        return (1 if measure.per_unit else self.rows) * max(-measure.low, measure.high)

    @property
    def rows(self) -> int:
        """The most rows of one unit in a group; one where rows make no difference."""
        return self.max_rows or 1
