"""Does the duration of a scalar draw tell how large the noise is?

For each sampler the duration of many scalar draws is set against the magnitude drawn: Spearman's rank correlation, and
the mean duration of the draws with large magnitude over that of the others. The refill of the pool, which falls on
every 4,096th draw whatever its value, is timed like all the rest.
"""

import time

import numpy as np
from scipy import stats

from measure import print_table
from osgt import DiscreteOSGT
from osgt.sampling import Sampler, reference


def timed(draw, count):
    """Magnitudes and durations (ns) of `count` scalar draws."""
    magnitudes, durations = np.empty(count), np.empty(count)
    for i in range(count):
        start = time.perf_counter_ns()
        value = draw()
        durations[i] = time.perf_counter_ns() - start
        magnitudes[i] = abs(value)
    return magnitudes, durations


def row(name, draw, count):
    draw()
    magnitudes, durations = timed(draw, count)
    correlation = stats.spearmanr(magnitudes, durations)
    large = magnitudes > np.quantile(magnitudes, 0.9)
    clipped = np.minimum(durations, np.quantile(durations, 0.999))  # interruptions by the system
    ratio = clipped[large].mean() / clipped[~large].mean()
    return [
        name,
        f"{count:,}",
        f"{np.median(durations):,.0f}",
        f"{correlation.statistic:+.4f}",
        f"±{3.29 / count**0.5:.4f}",
        f"{ratio:.4f}",
    ]


if __name__ == "__main__":
    rows = []
    for std in (20, 800):
        law = DiscreteOSGT.gaussian(std)
        sampler = Sampler(law.potential)
        rows.append(row(f"pooled sample(), std {std}", sampler.sample, 1_000_000))
        rows.append(
            row(
                f"reference sampler, std {std}",
                lambda law=law: reference.discrete_osgt(law.slope, law.curvature),
                20_000,
            )
        )
    print_table(
        "Duration of scalar draws against their magnitude",
        ["sampler", "draws", "median ns", "rank correlation", "99.9 % of chance", "largest tenth / rest"],
        rows,
    )
