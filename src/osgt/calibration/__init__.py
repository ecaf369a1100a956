"""A budget in, the best noise out; and the noises compared."""

from osgt.calibration.compare import Comparison, compare
from osgt.calibration.joint import Column, JointNoise, Part
from osgt.calibration.reverse import Calibration, calibrate_delta, calibrate_epsilon
from osgt.calibration.search import calibrate, calibrate_joint, calibrate_parts

__all__ = [
    "Calibration",
    "Column",
    "Comparison",
    "JointNoise",
    "Part",
    "calibrate",
    "calibrate_delta",
    "calibrate_epsilon",
    "calibrate_joint",
    "calibrate_parts",
    "compare",
]
