"""A budget in, the best noise out; and the noises compared."""

from osgt.calibration.joint import Column, JointNoise, Part
from osgt.calibration.search import (
    Calibration,
    Comparison,
    calibrate,
    calibrate_delta,
    calibrate_epsilon,
    calibrate_joint,
    calibrate_parts,
    compare,
)

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
