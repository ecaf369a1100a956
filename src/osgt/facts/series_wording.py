"""The wording of releases about a part of the people, of the instalments of a series, and of their totals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from osgt.data.unit import Noun
from osgt.support.text import counted, listed, with_article

if TYPE_CHECKING:
    from osgt.data.parts import Part
    from osgt.data.rows import PrivateRows


def of_part(data: "PrivateRows") -> list[str]:
    """Say whom a release about a part is about, what that leaves out and what its charge rests on."""
    part, unit = data.part, data.unit.noun
    assert part is not None
    if part.remembered is not None:
        names = [name for name, _ in part.parts]
        return [
            f"This is the instalment {part.name} of {counted(len(names), 'instalment')}, {names[0]} to {names[-1]}.",
            *of_series(part, unit, data.neighbours),
        ]
    first = "first part" if part.most == 1 else f"first {counted(part.most, 'part')}"
    one = with_article(unit.one)
    return [
        f"The release is about the part {part.name!r} of the {unit.many}: {dict(part.parts)[part.name]}.",
        f"There are {counted(len(part.parts), 'part')}, and {one} with rows in several counts in the {first} of them "
        "alone, in the order in which they were declared.",
        f"Releases about several parts reveal as much together as the budget says if no {unit.one} moves to another "
        "part between them.",
    ]


def of_series(part: "Part", unit: Noun, neighbours: str) -> list[str]:
    """Say who counts in which instalments of a series, and what is promised about all of them."""
    periods = "period" if part.most == 1 else f"{part.most:,} periods"
    one = with_article(unit.one)
    lasting = (
        "Who was counted is remembered, so that this holds whatever rows are added or changed later."
        if part.remembered
        else "This holds as long as earlier rows do not change."
    )
    together = min(part.most * (2 if neighbours == "change_one" else 1), len(part.parts))
    of_all = "the same" if together == 1 else f"that of {together:,} instalments"
    return [
        f"{one[0].upper()}{one[1:]} counts in the first {periods} in which it has rows, and nowhere else.",
        lasting,
        f"The promise about all instalments together, for any {unit.one}'s data, is {of_all}.",
    ]


def total(name: str, instalments: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """Say what the total of a longer period is made of, and which columns of the instalments it does not have."""
    sentences = [
        f"This is the total for {name}: the sums of what the {counted(len(instalments), 'instalment')} "
        f"{instalments[0]} to {instalments[-1]} published. It is made of these numbers alone, and costs no budget.",
        "The noise of each instalment is independent of that of the others: intervals are from all of it together.",
    ]
    if left_out:
        sentences.append(f"Of {listed(left_out)} there are no totals: such numbers of several periods do not add up.")
    return sentences


def units_of_total(unit: Noun, length: str, most: int) -> str:
    """Say what a number of units in a longer period is, if one counts in at most so many shorter ones."""
    if most == 1:
        return (
            f"Each {unit.one} counts in one {length} alone: nobody counts twice in this number, and {unit.many} that "
            "counted earlier are not in it."
        )
    return (
        f"This is a number of {unit.one}-{length}s: {with_article(unit.one)} that counts in several {length}s is "
        "counted in each."
    )
