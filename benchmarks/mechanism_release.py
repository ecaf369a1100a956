"""How long does a release of a million integer counts take, once the noise is calibrated? Beside OpenDP."""

import numpy as np

from measure import best_time, print_table
from osgt import Mechanism

COUNTS = 1_000_000


def opendp_release(values):
    """The same vector through OpenDP's integer Gaussian of the same standard deviation."""
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    gaussian = dp.m.make_gaussian(*space, scale=11.0)
    return lambda: gaussian(values)


if __name__ == "__main__":
    mechanism = Mechanism(1.0, 1e-8, coordinates=8)
    values = np.random.default_rng(0).integers(0, 10_000, COUNTS)
    mechanism.release(values)
    ours = best_time(lambda: mechanism.release(values), 9)
    rows = [["osgt Mechanism.release", f"{1e3 * ours:.1f} ms", "≤ 20 ms", "met" if ours <= 0.02 else "missed"]]
    try:
        part = values[: COUNTS // 10].tolist()
        theirs = 10 * best_time(opendp_release(part), 1)
        rows.append(
            ["OpenDP make_gaussian (a tenth, times ten)", f"{1e3 * theirs:,.0f} ms", f"{theirs / ours:,.0f} × ours", ""]
        )
    except ImportError:
        print("OpenDP cannot be imported: `make benchmarks` installs it")
    print_table(f"{COUNTS:,} integer counts", ["", "time", "bar", ""], rows)
