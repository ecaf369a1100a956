"""The noises side by side at one budget."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any

from osgt.calibration.joint import Part, is_bounded, joint_noise
from osgt.calibration.scale import ScaleSearch, allocated, pure_scale
from osgt.calibration.search import calibrate
from osgt.noise import Distribution, Family, family_of, written
from osgt.noise.arguments import count
from osgt.noise.error import Objective, expected_maximum

#: Percent of the variance that are told as 0.0 %.
_NOTHING_SAVED = 0.05


@dataclass(frozen=True)
class Row:
    """One noise at the budget. Intervals are half-widths, at 95 % and at 99.9999 % confidence."""

    name: str
    noise: Distribution
    std: float
    mean_abs: float
    interval_95: float
    interval_999999: float
    expected_max: float
    #: Part of the variance that the best noise saves against this one.
    gain: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for tables and JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {"noise": written(self.noise)}


@dataclass(frozen=True)
class Comparison:
    """A row for each end of the family and one for the family itself; which of the ends is better, and why.

    The rows are "gaussian", "laplace", "laplace (pure)" and "osgt" unless another family is compared. Iterates over its
    rows; `comparison["osgt"]` is one of them.
    """

    rows: tuple[Row, ...]
    better_end: str
    reason: str

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{row.name}: std {row.std:.4g}' for row in self.rows)})"

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str | int) -> Row:
        if isinstance(name, int):
            return self.rows[name]
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r}; there are {', '.join(row.name for row in self.rows)}")


def compare(
    epsilon: float,
    delta: float,
    *,
    shift: float = 1,
    coordinates: int = 1,
    objective: Objective = "variance",
    discrete: bool = True,
    family: str | Family = "osgt",
    cells: int = 10_000,
    noise: Distribution | None = None,
) -> Comparison:
    """The error of Gaussian, Laplace and OSGT noise at the budget (ε, δ); arguments as for `calibrate`.

    The Gaussian and the Laplace are accounted for as tightly as the OSGT ("laplace (pure)" is the usual ε/coordinates
    for each coordinate). `cells` is the number of cells over which the expected largest error is taken. With δ = 0
    there is no Gaussian. `noise` is a distribution of your own in place of the calibrated one.
    """
    chosen, cells = family_of(family), count("cells", cells)
    best = noise or calibrate(
        epsilon, delta, shift=shift, coordinates=coordinates, objective=objective, discrete=discrete, family=chosen
    )
    ends = ends_of_family(epsilon, delta, [Part(shift, coordinates)], discrete, chosen)
    noises = {name: noises[0] for name, noises in ends.items()}
    rows = {name: _row(name, one, best, cells) for name, one in (noises | {chosen.name: best}).items()}
    return Comparison(tuple(rows.values()), *_verdict(chosen, rows))


def ends_of_family(
    epsilon: float, delta: float, parts: Sequence[Part], discrete: bool = True, family: str | Family = "osgt"
) -> dict[str, tuple[Distribution, ...]]:
    """The ends of the family at a budget, a distribution for each part: "gaussian", "laplace" and "laplace (pure)"."""
    search = ScaleSearch(joint_noise(parts, discrete=discrete, family=family), epsilon, delta)
    return {name: end_of_family(name, search) for name in names_of_ends(search.joint.family, delta, parts)}


def names_of_ends(family: Family, delta: float, parts: Sequence[Part] = ()) -> list[str]:
    """The ends that there are at a δ; those with a largest privacy loss on all parts have a second name, with "(pure)".

    The first are accounted for as tightly as what is between them and need δ > 0; the last are the usual sum of losses.
    """
    tight = [end.name for end in family.ends] if delta > 0 else []
    bounded = [end for u, end in enumerate(family.ends) if is_bounded(family, float(u))]
    return tight + [f"{end.name} (pure)" for end in bounded if not any(part.euclidean for part in parts)]


def end_of_family(
    name: str, search: ScaleSearch, objective: Objective = "variance", *, proved: bool = True
) -> tuple[Distribution, ...]:
    """The noise of an end at a budget, shared out among the parts as well as it can be.

    Noise that nobody will use need not be `proved` to meet the budget: estimated, it takes a tenth of the time.
    """
    joint = search.joint
    u = float(next(u for u, end in enumerate(joint.family.ends) if end.name == name.removesuffix(" (pure)")))
    if name.endswith(" (pure)"):
        return joint.distributions(u, pure_scale(joint, u, search.epsilon))
    result = allocated(search, u, objective)
    return result.joint.distributions(u, math.exp(result.proved(u) if proved else result.roughly(u)))


def _row(name: str, noise: Distribution, best: Distribution, cells: int) -> Row:
    return Row(
        name=name,
        noise=noise,
        std=noise.std(),
        mean_abs=noise.mean_abs(),
        interval_95=float(noise.isf(0.025)),
        interval_999999=float(noise.isf(0.5e-6)),
        expected_max=expected_maximum(noise, cells),
        gain=1.0 - best.var() / noise.var(),
    )


def _verdict(family: Family, rows: dict[str, Row]) -> tuple[str, str]:
    """The better end and the reason, in words."""
    ends = [end for end in family.ends if end.name in rows]
    if not ends:
        bounded = next(end.name for end in family.ends if f"{end.name} (pure)" in rows)
        return bounded, f"δ = 0 is pure differential privacy, which only the {_title(bounded)} end of the family gives."
    better = min(reversed(ends), key=lambda end: rows[end.name].std)
    name, saved = _title(better.name), 100 * rows[better.name].gain
    if saved < _NOTHING_SAVED:
        number = "many" if better == family.ends[0] else "few"
        return better.name, f"One person changes so {number} coordinates for this δ that the {name} itself is the best."
    return (
        better.name,
        f"Of the two ends the {name} is better ({better.better_with}); between them {saved:.1f} % more is saved.",
    )


def _title(name: str) -> str:
    return name.capitalize()
