"""A budget in, the best law out; and the noises compared."""

from osgt.calibration.compare import Comparison, compare
from osgt.calibration.family import Part
from osgt.calibration.reverse import Calibration, calibrate_delta, calibrate_epsilon
from osgt.calibration.search import calibrate

__all__ = ["Calibration", "Comparison", "Part", "calibrate", "calibrate_delta", "calibrate_epsilon", "compare"]
