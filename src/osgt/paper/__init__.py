"""The paper recomputed: its figures and numbers, its conjecture mapped, and the experiment it asks for."""

from osgt.paper.conjecture import ConjectureMap, conjecture
from osgt.paper.experiment import Measurement, measure
from osgt.paper.report import Number, Results, numbers, recompute

__all__ = ["ConjectureMap", "Measurement", "Number", "Results", "conjecture", "measure", "numbers", "recompute"]
