"""The report on the paper: its numbers recomputed, pictures, conjecture and experiment, written to a folder."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from osgt.noise import OSGT
from osgt.paper import drawing
from osgt.paper.conjecture import ConjectureMap, conjecture, steps
from osgt.paper.drawing import Picture
from osgt.paper.experiment import (
    CONFIDENCE,
    DEFAULT,
    FULL,
    Measurement,
    experiment_picture,
    measure,
    total_applications,
)
from osgt.paper.figures import (
    DIMENSIONS,
    EIGHT,
    FIRST,
    READ_AT,
    SECOND,
    Trio,
    figure_1,
    figure_2,
    figure_3,
    figure_4,
    figure_5,
    figure_6,
    law_of,
    whole_law_of,
)
from osgt.render.page import new_figure
from osgt.support.files import Target, written


@dataclass(frozen=True)
class Number:
    """A number as the paper prints it, ours, and why they differ if they are known to.

    `relation` is ≈, < or ≤. With ≈ the two agree if ours rounds to the printed digits: within half a unit of the last.
    """

    place: str
    what: str
    printed: str
    ours: float
    relation: str = "≈"
    why: str = ""
    #: The unit of the last digit that counts, where it is not the last one printed.
    last_digit: float | None = None

    @property
    def paper(self) -> float:
        """The printed number."""
        return float(self.printed)

    @property
    def tolerance(self) -> float:
        """Half a unit in the last digit that counts."""
        if self.last_digit is not None:
            return 0.5 * self.last_digit
        exponent = Decimal(self.printed).as_tuple().exponent
        assert isinstance(exponent, int)
        return 0.5 * 10.0**exponent

    @property
    def agrees(self) -> bool:
        """Whether ours is what the paper prints."""
        if self.relation == "<":
            return self.ours < self.paper
        if self.relation == "≤":
            return self.ours <= self.paper
        return abs(self.ours - self.paper) <= self.tolerance * (1 + 1e-9)

    @property
    def expected(self) -> bool:
        """Whether the outcome is the one that we can explain: agreement, or a difference with a reason."""
        return self.agrees == (not self.why)

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        if self.agrees:
            return "agrees" if self.expected else "agrees, though a difference was expected"
        return f"differs: {self.why or 'no reason known'}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "place": self.place,
            "what": self.what,
            "relation": self.relation,
            "paper": self.printed,
            "ours": self.ours,
            "difference": self.ours - self.paper,
            "tolerance": self.tolerance if self.relation == "≈" else None,
            "agrees": self.agrees,
            "expected": self.expected,
            "verdict": self.verdict,
        }


def numbers() -> list[Number]:
    """The table, in the order of the paper."""
    first, second, eight = Trio.of(law_of(FIRST)), Trio.of(law_of(SECOND)), Trio.of(law_of(EIGHT))
    osgt, gaussian, _ = first.profiles()
    bound = float(eight.profiles(DIMENSIONS)[0].delta_from_renyi(READ_AT))
    rival = float(eight.profiles(DIMENSIONS)[1].delta_from_renyi(READ_AT))
    quarter = float(OSGT.gaussian(1.0).isf(0.25))
    rho = 0.5 * first.osgt.curvature
    constant = float(osgt.zcdp(2.0)) - 2 * rho
    return [
        Number("Sec. I, Prop. 2", "Q⁻¹(0.25), the stated limit of m/σ for a sub-Gaussian tail", "0.6745", quarter),
        Number(
            "Sec. I, contributions",
            "ρ of the zCDP statement as Δ²/σ², at m = 3, σ² = 40",
            "0.025",
            rho,
            why="a slip of the list of contributions; Theorem 2 and its proof have Δ²/2σ² = 0.0125",
        ),
        Number("Fig. 3, Sec. IV-A", "V(3, 40)", "27.7047", first.osgt.var()),
        Number("Prop. 1", "V(3, 40) is below σ²", "40", first.osgt.var(), "<"),
        Number("Prop. 1", "V(2, 20) is below σ²", "20", second.osgt.var(), "<"),
        Number("Prop. 1", "V(15, 630) is below σ²", "630", eight.osgt.var(), "<"),
        Number("Fig. 3", "m/σ at (3, 40)", "0.4743", first.osgt.shape),
        Number("Fig. 3", "m/σ at (3, 40) is within the limit", "0.6745", first.osgt.shape, "≤"),
        Number("Sec. IV-A", "ε of the OSGT at δ = 1e-10, (3, 40)", "0.94", float(osgt.epsilon(1e-10))),
        Number("Sec. IV-A", "ε of the Gaussian at δ = 1e-10, V = 27.7047", "1.12", float(gaussian.epsilon(1e-10))),
        Number("Sec. IV-A", "δ of the OSGT at ε = 1, (3, 40)", "7.8e-12", float(osgt.delta(1.0))),
        Number("Sec. IV-A", "δ of the Gaussian at ε = 1, V = 27.7047", "3.9e-9", float(gaussian.delta(1.0))),
        Number("Sec. IV-A", "m/σ at (2, 20)", "0.4472", second.osgt.shape),
        Number("Sec. IV-A", "m/σ at (2, 20) is within the limit", "0.6745", second.osgt.shape, "≤"),
        Number(
            "Sec. IV-B, Fig. 5",
            "the α below which the bound bends upwards: below 10",
            "10",
            1.0 + math.sqrt(constant / rho),
            "<",
        ),
        Number("Sec. IV-C, Fig. 6", "V(15, 630), to two digits", "400", eight.osgt.var(), last_digit=10.0),
        Number(
            "Sec. IV-C, Fig. 6",
            "δ of the OSGT from Rényi divergence, k = 8, ε = 0.9",
            "1.44e-14",
            bound,
            why="the least bound over all real α is smaller, at α = 71.66; the printed value is met at α = 66.5 and at "
            "76.8, so the search for α was coarser",
        ),
        Number("Sec. IV-C, Fig. 6", "δ of the Gaussian from Rényi divergence, k = 8, ε = 0.9", "2.23e-11", rival),
        Number("Sec. IV-C", "orders of magnitude between these two", "3", math.log10(rival / bound)),
    ]


def added_numbers() -> dict[str, float]:
    """Compute the numbers that the paper could not state: the exact values behind its bounds, and the third noise."""
    reals = Trio.of(law_of(EIGHT)).profiles(DIMENSIONS)
    integers = Trio.of(whole_law_of(EIGHT)).profiles(DIMENSIONS)
    osgt, gaussian = float(reals[0].delta(READ_AT)), float(reals[1].delta(READ_AT))
    return {
        "exact δ of the OSGT, k = 8, ε = 0.9": osgt,
        "exact δ of the Gaussian, k = 8, ε = 0.9": gaussian,
        "ratio of these two": gaussian / osgt,
        "exact δ of the OSGT on the integers, k = 8, ε = 0.9": float(integers[0].delta(READ_AT)),
        "exact δ of the Gaussian on the integers, k = 8, ε = 0.9": float(integers[1].delta(READ_AT)),
        "pure ε of the Laplace of the same variance, k = 8": float(reals[2].epsilon(0.0)),
        "pure ε of the Laplace of the same variance as (3, 40), k = 1": float(
            Trio.of(law_of(FIRST)).profiles()[2].epsilon(0.0)
        ),
    }


def markdown(rows: list[Number]) -> str:
    """The table as Markdown."""
    lines = ["| where | what | paper | ours | difference | verdict |", "|---|---|---|---|---|---|"]
    for row in rows:
        sign = "" if row.relation == "≈" else f"{row.relation} "
        lines.append(
            f"| {row.place} | {row.what} | {sign}{row.printed} | {row.ours:.6g} | {row.ours - row.paper:+.2g} | "
            f"{row.verdict} |"
        )
    return "\n".join(lines) + "\n"


FIGURES = (figure_1, figure_2, figure_3, figure_4, figure_5, figure_6)

#: The files that are written.
_PICTURES = *(f"figure-{i}" for i in range(1, 7)), "conjecture", "experiment"
WRITTEN = *(f"{name}{suffix}" for name in _PICTURES for suffix in drawing.SUFFIXES), "numbers.md", "results.json"

#: Called with the name of a stage and the number of its parts; what it returns is called with the parts done.
Stage = Callable[[str, int], Callable[[int], object]]


def no_progress(name: str, total: int) -> Callable[[int], object]:
    """A stage that nobody watches."""
    return lambda done: None


@dataclass(frozen=True)
class Results:
    """The recomputed results, and the files that hold them."""

    numbers: list[Number]
    added: dict[str, float]
    pictures: list[Picture]
    conjecture: ConjectureMap
    measurement: Measurement
    files: list[Path]

    @property
    def as_expected(self) -> bool:
        """Whether every number is what it should be, and the experiment does not contradict the theory."""
        return all(number.expected for number in self.numbers) and self.measurement.agrees

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "numbers": [number.to_dict() for number in self.numbers],
            "added": self.added,
            "turns": {picture.name: picture.turns for picture in self.pictures if picture.turns},
            "conjecture": _conjecture_dict(self.conjecture),
            "experiment": _experiment_dict(self.measurement),
            "as_expected": self.as_expected,
            "files": [str(path) for path in self.files],
        }


def recompute(
    folder: Path, *, full: bool = False, overwrite: bool = False, stage: Stage = no_progress, fine: bool = True
) -> Results:
    """Compute and draw everything.

    `full` measures on 10⁹ applications of the mechanism; `fine = False` is a coarse and quick try.
    """
    new_figure(1, 1)  # fails at once, and clearly, where there is no matplotlib
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--out must be a folder, but {folder} is a file")
    there = [name for name in WRITTEN if (folder / name).exists()]
    if there and not overwrite:
        raise FileExistsError(f"--out: {str(folder)!r} holds files of an earlier run; --overwrite replaces them")
    folder.mkdir(parents=True, exist_ok=True)
    files: list[Path] = []
    done = stage("figures 1 to 6", len(FIGURES))
    pictures = []
    for figure in FIGURES:
        pictures.append(figure())
        files += drawing.draw(pictures[-1], folder)
        done(1)
    done = stage("numbers", 1)
    rows, added = numbers(), added_numbers()
    done(1)
    mapped_one = stage("conjecture", steps(fine))
    mapped = conjecture(lambda: mapped_one(1), fine=fine)
    files += drawing.draw_conjecture(mapped, folder)
    sizes = FULL if full else DEFAULT if fine else (200_000, 1 << 12)
    measured = measure(*sizes, stage("experiment", total_applications(*sizes)))
    files += drawing.draw(experiment_picture(measured), folder)
    files += [folder / "numbers.md", folder / "results.json"]
    results = Results(rows, added, pictures, mapped, measured, files)
    _write(folder / "numbers.md", markdown(rows))
    _write(folder / "results.json", as_json(results) + "\n")
    return results


def as_json(results: Results) -> str:
    """The results as JSON; what is not a number becomes null."""
    return json.dumps(_plain(results.to_dict()), indent=2, ensure_ascii=False, allow_nan=False)


def _write(path: Path, text: str) -> None:
    with written(Target(path, overwrite=True)) as place:
        place.write_text(text, encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return value


def _conjecture_dict(mapped: ConjectureMap) -> dict[str, Any]:
    return {
        "variance": mapped.variance,
        "log10_ratio": "of δ of the Gaussian to δ of the OSGT; the conjecture holds where positive",
        "coordinates": mapped.coordinates,
        "epsilons": mapped.epsilons,
        "shape": mapped.shape,
        "log10_ratio_by_coordinates_and_epsilon": mapped.by_epsilon,
        "shapes": mapped.shapes,
        "fixed_epsilon": mapped.fixed_epsilon,
        "log10_ratio_by_shape_and_coordinates": mapped.by_shape,
        "holds_below_delta": {
            "coordinates": mapped.threshold_coordinates,
            **{f"m/sigma={shape:.4g}": values for shape, values in mapped.thresholds.items()},
        },
    }


def _experiment_dict(measured: Measurement) -> dict[str, Any]:
    return {
        "applications": measured.on_data.applications + measured.on_neighbour.applications,
        "noise_values": 8 * (measured.on_data.applications + measured.on_neighbour.applications),
        "confidence": CONFIDENCE,
        "agrees_with_theory": measured.agrees,
        "audit": measured.audit.to_dict(),
        "estimates": [
            {
                "method": one.method,
                "applications": one.applications,
                "epsilon": one.epsilon,
                "delta": one.value,
                "low": one.low,
                "high": one.high,
                "theory": measured.truth(one.epsilon),
            }
            for one in measured.estimates()
        ],
    }
