"""The two notions of neighbouring tables: what is compared when one privacy unit more or less makes no difference."""

from typing import Literal

Neighbours = Literal["add_remove", "change_one"]

#: What the two notions of neighbouring tables mean for one unit, for statements; for one row where that is a unit.
NEIGHBOURS = {
    "add_remove": "one {noun} is added or removed with all rows",
    "change_one": "all rows of one {noun} are exchanged for any others",
}
NEIGHBOURING_ROWS = {
    "add_remove": "one {noun} is added or removed",
    "change_one": "one {noun} is exchanged for any other",
}
