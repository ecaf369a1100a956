"""The report on the paper: pictures, numbers, conjecture and experiment, written to a folder."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from osgt.paper.figures import figure_1, figure_2, figure_3, figure_4, figure_5, figure_6
from osgt.paper.numbers import Number, added_numbers, markdown, numbers
from osgt.render.pictures import new_figure
from osgt.support.files import Target, written

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
