"""Groups and bounds: how much one unit may contribute, and so how far it moves each measure."""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from osgt.tables.centred import CentredOnAll
from osgt.tables.levels import Level
from osgt.tables.measures import Measure, Rows, Units
from osgt.tables.totals import Total, UnitsAt

Neighbours = Literal["add_remove", "change_one"]

#: What the two notions of neighbouring tables mean, for statements.
NEIGHBOURS = {
    "add_remove": "one privacy unit is added or removed with all its rows",
    "change_one": "all rows of one privacy unit are exchanged for any others",
}
_NEIGHBOURING_ROWS = {
    "add_remove": "one row is added or removed",
    "change_one": "one row is exchanged for any other",
}


@dataclass(frozen=True)
class Groups:
    """The grouping of a query: key columns, bounds, the public keys if there are any, and the levels of totals."""

    by: tuple[str, ...]
    max_groups: int
    max_rows: int | None
    public: pa.Table | None = None
    #: Whether every row is a unit of its own, so that both limits are 1 and nothing has to be left out for them.
    each_row: bool = False
    levels: tuple[Level, ...] = ()

    def neighbouring(self, neighbours: Neighbours) -> str:
        """How neighbouring tables differ, in words."""
        return (_NEIGHBOURING_ROWS if self.each_row else NEIGHBOURS)[neighbours]

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

    def moves(self, measure: Measure, neighbours: Neighbours, alone: int = 0) -> tuple[tuple[int, int], ...]:
        """How far one unit moves a measure, and in how many numbers: pairs (shift, coordinates).

        Exchanging a unit for another moves a measure by what the one takes away and the other brings: in twice as many
        groups, or in the same groups twice as far. Twice as far in one group loses at least as much privacy as once in
        two, so it stands for both; where all contributions have one sign, they cannot add up in one group.

        `alone` of the groups that a unit is in have nobody else in them and stay hidden: what is moved without these.
        """
        if isinstance(measure, Total):
            return self._moves_of_total(measure, neighbours)
        low, high = measure.reach(self.rows)
        shift, groups = max(-low, high), self.most - alone
        if measure.for_table:
            found = [(shift, 1)]
        elif isinstance(measure, CentredOnAll):
            # Whoever comes or goes moves the groups that they are not in as well.
            found = [(shift, groups), (abs(measure.by), (self.known or self.most) - self.most)]
        elif neighbours == "add_remove":
            found = [(shift, groups)]
        elif low < 0 < high:
            found = [(2 * shift, groups), (shift, alone)]
        elif self.known is not None and measure.numbers == 1:
            found = [(shift, min(groups + self.most, self.known))]
        else:
            found = [(shift, groups + self.most)]
        return tuple((far, n) for far, n in found if n)

    def _moves_of_total(self, total: Total, neighbours: Neighbours) -> tuple[tuple[int, int], ...]:
        """All that a unit adds to its groups may fall on one number of the level, which is the worst case.

        Of two units that are exchanged one takes away and the other brings: where all contributions have one sign, on
        two numbers if there are two; else both may move one number in the same direction.
        """
        exchanges = 1 if neighbours == "add_remove" else 2
        if isinstance(total.base, UnitsAt):
            return ((1, min(exchanges * self.most, total.level.size)),)
        low, high = total.base.reach(self.rows)
        if low < 0 < high:
            return ((exchanges * self.most_of(total), 1),)
        return ((self.most_of(total), min(exchanges, total.level.size * total.numbers)),)

    def most_of(self, measure: Measure) -> int:
        """The most that one unit adds to a measure in a group, in absolute value."""
        if isinstance(measure, Total):
            return 1 if isinstance(measure.base, UnitsAt) else self.most * self.most_of(measure.base)
        low, high = measure.reach(self.rows)
        return max(-low, high)

    @property
    def rows(self) -> int:
        """The most rows of one unit in a group; one where rows make no difference."""
        return self.max_rows or 1
