"""A budget in, the best law out; and the noises compared."""

from osgt.calibrate.compare import Comparison, compare
from osgt.calibrate.family import Part
from osgt.calibrate.reverse import Calibration, calibrate_delta, calibrate_epsilon
from osgt.calibrate.search import calibrate

__all__ = ["Calibration", "Comparison", "Part", "calibrate", "calibrate_delta", "calibrate_epsilon", "compare"]
