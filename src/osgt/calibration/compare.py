"""The noises side by side at one budget."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from osgt.calibration.allocation import allocated
from osgt.calibration.family import Part, family_of
from osgt.calibration.scale import ScaleSearch, pure_scale
from osgt.calibration.search import calibrate
from osgt.noise.error import Law, Objective, expected_maximum


@dataclass(frozen=True)
class Row:
    """One noise at the budget. Intervals are half-widths, at 95 % and at 99.9999 % confidence."""

    name: str
    noise: Law
    std: float
    mean_abs: float
    interval_95: float
    interval_999999: float
    expected_max: float
    #: Part of the variance that the OSGT saves against this noise.
    gain: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for tables and JSON."""
        plain = asdict(self)
        del plain["noise"]
        return {**plain, "slope": self.noise.slope, "curvature": self.noise.curvature}


@dataclass(frozen=True)
class Comparison:
    """The rows "gaussian", "laplace", "laplace (pure)" and "osgt"; which of the ends is better, and why.

    Iterates over its rows; `comparison["osgt"]` is one of them.
    """

    rows: tuple[Row, ...]
    better_end: str
    reason: str

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
    cells: int = 10_000,
    noise: Law | None = None,
) -> Comparison:
    """What Gaussian, Laplace and OSGT noise cost in error at the budget (ε, δ); arguments as for `calibrate`.

    The Gaussian and the Laplace are accounted for as tightly as the OSGT ("laplace (pure)" is the usual ε/coordinates
    for each coordinate). `cells` is the number of cells over which the expected largest error is taken. With δ = 0
    there is no Gaussian. `noise` is a law of your own in place of the calibrated one.
    """
    best = noise or calibrate(
        epsilon, delta, shift=shift, coordinates=coordinates, objective=objective, discrete=discrete
    )
    laws = {
        name: ends[0] for name, ends in ends_of_family(epsilon, delta, [Part(shift, coordinates)], discrete).items()
    }
    laws["osgt"] = best
    rows = tuple(_row(name, law, best, cells) for name, law in laws.items())
    return Comparison(rows, *_verdict({row.name: row for row in rows}))


def ends_of_family(
    epsilon: float, delta: float, parts: Sequence[Part], discrete: bool = True
) -> dict[str, tuple[Law, ...]]:
    """The ends of the family at a budget, a law for each part: "gaussian", "laplace" and "laplace (pure)".

    The first two are accounted for as tightly as the OSGT and need δ > 0; the last is the usual sum of losses.
    """
    family = family_of(parts, discrete=discrete)
    laws = {}
    if delta > 0:
        search = ScaleSearch(family, epsilon, delta)
        laws["gaussian"] = family.laws(0.0, math.exp(search.fine(0.0)))
        laplace = allocated(search, search, 1.0, "variance")
        laws["laplace"] = laplace.family.laws(1.0, math.exp(laplace.fine(1.0)))
    laws["laplace (pure)"] = family.laws(1.0, pure_scale(family, epsilon))
    return laws


def _row(name: str, law: Law, best: Law, cells: int) -> Row:
    return Row(
        name=name,
        noise=law,
        std=law.std(),
        mean_abs=law.mean_abs(),
        interval_95=float(law.isf(0.025)),
        interval_999999=float(law.isf(0.5e-6)),
        expected_max=expected_maximum(law, cells),
        gain=1.0 - best.var() / law.var(),
    )


def _verdict(rows: dict[str, Row]) -> tuple[str, str]:
    """The better end and the reason, in words."""
    if "gaussian" not in rows:
        return "laplace", "δ = 0 is pure differential privacy, which only the Laplace end of the family gives."
    ratio = (rows["laplace"].std / rows["gaussian"].std) ** 2
    better = "laplace" if ratio <= 1 else "gaussian"
    saved = 100 * rows[better].gain
    if rows["osgt"].noise.slope == 0:
        return better, "One person changes so many coordinates for this δ that the Gaussian itself is the best."
    if rows["osgt"].noise.curvature == 0:
        return better, "One person changes so few coordinates for this δ that the Laplace itself is the best."
    why = {
        "laplace": "few coordinates for this δ: the bounded privacy loss of the Laplace pays",
        "gaussian": "many coordinates for this δ: their losses add up to a bell curve, which suits the Gaussian",
    }[better]
    return (
        better,
        f"Of the two ends the {better.capitalize()} is better ({why}); between them {saved:.1f} % more is saved.",
    )
