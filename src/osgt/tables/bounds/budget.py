"""The noise of a suggestion: one calibration of all its histograms, with a budget of its own.

The suggestion is a release like any other. Its budget and that of the table that uses it add up: a table that is
calibrated together with the bounds that were chosen for it would not keep its promise.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from osgt.calibration import Part, calibrate_parts
from osgt.calibration.joint import budget
from osgt.noise import IntegerLaw, on_integers
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy.profile import NoisyPart
from osgt.tables.bounds.edges import SCALE
from osgt.tables.bounds.measuring import Layout
from osgt.tables.groups import Groups, Neighbours
from osgt.tables.selection import chance_apart, chosen_delta, threshold

#: Part of δ for choosing the groups whose sizes are looked at, where they are not public.
_SELECTION_SHARE = 0.1

#: The sizes of groups say only how unequal they are, which matters less than the rest; and so do histograms whose limit
#: was given.
_LIGHT = 1 / 8


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """The noise of each histogram by its name ("groups", "rows", "sizes", "values of …") and what is charged."""

    epsilon: float
    delta: float
    parts: Mapping[str, Part]
    laws: Mapping[str, IntegerLaw]
    selection_delta: float
    threshold: int | None

    @cached_property
    def charge(self) -> Charge:
        """What the suggestion takes out of a budget."""
        profile = PrivacyProfile.compose(
            PrivacyProfile.of([NoisyPart(self.laws[name], part.shift, part.coordinates)])
            for name, part in self.parts.items()
        )
        return Charge(profile, self.selection_delta)


def sizes_can_be_measured(groups: Groups, delta: float) -> bool:
    """Whether there are several groups, and those that are not public can be chosen by their size."""
    return bool(groups.by) and (groups.public is not None or delta > 0)


def noise_plan(
    layout: Layout,
    groups: Groups,
    neighbours: Neighbours,
    epsilon: float,
    delta: float,
    light: Collection[str] = (),
) -> NoisePlan:
    """One unit is in one place of every histogram; exchanged for another, in one more.

    Those that are `light` get more noise.
    """
    epsilon, delta = budget(epsilon, delta)
    coordinates = 1 if neighbours == "add_remove" else 2
    parts: dict[str, Part] = {}
    if layout.group_edges is not None:
        parts["groups"] = Part(SCALE, coordinates, _LIGHT if "groups" in light else 1.0)
    if layout.rows is not None:
        parts["rows"] = Part(SCALE, coordinates, _LIGHT if "rows" in light else 1.0)
    if layout.sizes:
        parts["sizes"] = Part(1, coordinates, _LIGHT)
    for name in layout.values:
        parts[f"values of {name}"] = Part(SCALE, coordinates)
    chosen = layout.sizes and groups.public is None
    share = _SELECTION_SHARE * delta if chosen else 0.0
    laws = calibrate_parts(epsilon, delta - share, list(parts.values()))
    named = {name: on_integers(law) for name, law in zip(parts, laws, strict=True)}
    selection, tau = 0.0, None
    if chosen:
        chance = chance_apart(coordinates, share)
        selection = chosen_delta(coordinates, chance)
        tau = threshold(named["sizes"], 1, chance)
    return NoisePlan(epsilon, delta, parts, named, selection, tau)
