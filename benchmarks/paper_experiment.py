"""Speed of the experiment, and what importance sampling saves against direct draws at equal width of the interval."""

import math

import numpy as np
from scipy.integrate import trapezoid

from measure import best_time, print_table
from osgt import DiscreteOSGT, Mechanism, PrivacyProfile
from osgt.paper.experiment import tally, weighted

LAW, COORDINATES = DiscreteOSGT(15, math.sqrt(630)), 8
APPLICATIONS, WEIGHTED, ERROR = 1 << 20, 1 << 17, 1e-3

mechanism = Mechanism.of(LAW, 1, COORDINATES)
data = np.zeros(COORDINATES, dtype=np.int64)
LAW.sample(10_000)  # the tables are made once
seconds = best_time(lambda: tally(mechanism, LAW, data, data, APPLICATIONS), repeats=5)
drawing = best_time(lambda: LAW.sample((COORDINATES, APPLICATIONS)), repeats=5)
print_table(
    f"{APPLICATIONS:,} applications of the mechanism in {COORDINATES} dimensions",
    ["what", "ns for each application", "10⁹ applications"],
    [
        ["draw, release and count", f"{1e9 * seconds / APPLICATIONS:.0f}", f"{1e9 * seconds / APPLICATIONS:.0f} s"],
        ["of which exact draws", f"{1e9 * drawing / APPLICATIONS:.0f}", f"{1e9 * drawing / APPLICATIONS:.0f} s"],
    ],
)

epsilons = np.array([0.3, 0.5, 0.7, 0.9, 1.1])
profile = PrivacyProfile(LAW, coordinates=COORDINATES)
truth = profile.delta(epsilons)
estimate = weighted(LAW, COORDINATES, epsilons, WEIGHTED).estimate(ERROR)
width = (estimate.high - estimate.low) / (2 * truth)
# The mean square of max(1 - exp(ε - L), 0) is the integral of 2·exp(2(ε - t))·δ(t) from ε on (by parts, twice).
steps = np.linspace(0, 0.6, 601)
squares = [trapezoid(2 * np.exp(-2 * steps) * profile.delta(e + steps), steps) for e in epsilons]
needed = 2 * math.log(4 * len(epsilons) / ERROR) * np.array(squares) / (truth * width) ** 2
print_table(
    f"Importance sampling, {WEIGHTED:,} draws for each ε",
    ["ε", "δ", "relative half-width", "direct applications needed", "saved"],
    [
        [f"{e:g}", f"{d:.2e}", f"{w:.1%}", f"{n:.1e}", f"× {n / WEIGHTED:.1e}"]
        for e, d, w, n in zip(epsilons, truth, width, needed, strict=True)
    ],
)
