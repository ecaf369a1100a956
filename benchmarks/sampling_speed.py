"""How fast are exact draws? Against NumPy's normal generator and the exact samplers of other libraries.

Claims: 4M draws at standard deviation 20 take at most half the time of `numpy.random.Generator.standard_normal`, at 800
no longer, at 3e5 at most half as long again; a scalar draw at most 3 µs; the first draw of a new distribution at most
100 ms; a sampler at most 32 MiB.
"""

import math
import tracemalloc

import numpy as np

from measure import best_time, best_times, print_table
from osgt import DiscreteOSGT
from osgt.sampling import Sampler, reference

DRAWS = 4_000_000


def laws(std):
    """A Gaussian, a Laplace and one between them, all of about this standard deviation."""
    sigma = std / OSGT_STD
    return {
        "Gaussian": DiscreteOSGT.gaussian(std),
        "OSGT": DiscreteOSGT(0.5 * sigma, sigma),
        "Laplace": DiscreteOSGT.laplace(std / math.sqrt(2)),
    }


OSGT_STD = DiscreteOSGT(500, 1000).std() / 1000


def against_numpy():
    generator = np.random.default_rng()
    rows = []
    for std, bar in ((20, 0.5), (800, 1.0), (3e5, 1.5)):
        for name, law in laws(std).items():
            sampler = Sampler(law.potential)
            sampler.sample(DRAWS)
            ours, numpys = best_times(
                [lambda s=sampler: s.sample(DRAWS), lambda: generator.standard_normal(DRAWS)], repeats=9
            )
            ratio = ours / numpys
            verdict = "met" if ratio <= bar else "missed"
            rows.append(
                [
                    f"{name}, std {law.std():.4g}",
                    f"{ours / DRAWS * 1e9:.2f}",
                    f"{numpys / DRAWS * 1e9:.2f}",
                    f"{ratio:.2f}",
                    f"≤ {bar:g}",
                    verdict,
                ]
            )
    print_table(
        "4M exact draws against numpy.random.Generator.standard_normal",
        ["distribution", "ns a draw", "NumPy ns", "ratio", "bar", ""],
        rows,
    )


def peers(std):
    """Exact integer samplers of other libraries: name → (function that makes n draws, n)."""
    found = {"osgt reference sampler": (lambda n: [reference.discrete_osgt(0, std**-2) for _ in range(n)], 400)}
    try:
        import opendp.prelude as dp  # noqa: PLC0415

        dp.enable_features("contrib")
        space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
        gaussian = dp.m.make_gaussian(*space, scale=float(std))
        found["OpenDP make_gaussian"] = (lambda n: gaussian([0] * n), 20_000)
    except ImportError:
        print("OpenDP cannot be imported: `make benchmarks` installs it")
    try:
        from diffprivlib.mechanisms import GaussianDiscrete  # noqa: PLC0415

        mechanism = GaussianDiscrete(epsilon=1.0, delta=1e-5)
        mechanism._scale = float(std)
        found["diffprivlib GaussianDiscrete"] = (lambda n: [mechanism.randomise(0) for _ in range(n)], 2_000)
    except ImportError:
        print("diffprivlib cannot be imported: `make benchmarks` installs it")
    return found


def against_peers():
    std = 20
    sampler = Sampler(DiscreteOSGT.gaussian(std).potential)
    sampler.sample(DRAWS)
    rows = []
    for name, (make, count) in peers(std).items():
        theirs, ours = best_times([lambda m=make, n=count: m(n), lambda: sampler.sample(DRAWS)], repeats=5)
        ours, theirs = ours / DRAWS * 1e9, theirs / count * 1e9
        rows.append([name, f"{theirs:,.0f}", f"{ours:.2f}", f"{theirs / ours:,.0f}"])
    print_table(f"Discrete Gaussian, standard deviation {std}", ["peer", "ns a draw", "osgt ns", "factor"], rows)


def single_draws():
    rows = []
    sampler = Sampler(DiscreteOSGT(15, 30).potential)

    def scalars():
        for _ in range(100_000):
            sampler.sample()

    scalar = best_time(scalars, 5) / 100_000 * 1e6
    rows.append(["scalar sample()", f"{scalar:.2f} µs", "≤ 3 µs", "met" if scalar <= 3 else "missed"])
    for name, law in laws(30).items():
        first = best_time(lambda law=law: Sampler(law.potential).sample(), 5) * 1e3
        label = f"first draw of a new distribution ({name}, std {law.std():.3g})"
        rows.append([label, f"{first:.1f} ms", "≤ 100 ms", "met" if first <= 100 else "missed"])
    peak = 0
    for std in (0.05, 1, 30, 100, 250, 800, 3e5, 1e7, 1e12):
        for law in laws(std).values():
            tracemalloc.start()
            Sampler(law.potential).sample()
            peak = max(peak, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    verdict = "met" if peak <= 2**25 else "missed"
    rows.append(["memory of a sampler, peak, std 0.05 to 1e12", f"{peak / 2**20:.1f} MiB", "≤ 32 MiB", verdict])
    print_table("Single draws and memory", ["claim", "measured", "bar", ""], rows)


if __name__ == "__main__":
    against_numpy()
    against_peers()
    single_draws()
