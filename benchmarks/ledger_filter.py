"""What does it cost that budgets may be chosen after seeing the answers?

Claims: of the releases that an exact composition allows, which is valid only if they are planned beforehand, the
adaptive filters allow at least nine tenths where more than ten fit (Laplace noise on one number: 85 %), and never fewer
than the sum of their ε does; one more charge takes a few milliseconds, whatever came before.
"""

import math
import statistics
import time

import numpy as np

from measure import print_table
from osgt import DiscreteOSGT, PrivacyProfile, calibrate
from osgt.privacy import Charge
from osgt.privacy.filters import costs
from osgt.privacy.filters.budget import SELECTION_SHARE, shares_for
from osgt.privacy.filters.union import FilterState

#: (name, release, ε by which releases of noise at the Laplace end add up)
OF_THE_TABLE = [
    ("OSGT z = 1.33, σ = 100, 8 coordinates", PrivacyProfile(DiscreteOSGT(133, 100), coordinates=8), None),
    ("Laplace, ε = 0.1", PrivacyProfile(DiscreteOSGT.from_rates(0.1, 0.0)), 0.1),
    ("Laplace, ε = 0.3", PrivacyProfile(DiscreteOSGT.from_rates(0.3, 0.0)), 0.3),
]


def most(fits):
    """The largest n that fits, by doubling and halving."""
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def counts(epsilon, delta, profile):
    """How many releases fit: exactly composed, adaptive with public keys, adaptive with the default quota."""
    exact = most(lambda n: PrivacyProfile.compose([profile] * n).delta(epsilon) <= delta)
    found = [exact]
    for share in (0.0, SELECTION_SHARE):
        shares = shares_for(epsilon, delta, share)
        found.append(FilterState.start(shares).how_many(Charge(profile), most=10**6))
    return found


def row(budget, name, profile, each):
    """One line of the table of releases that fit."""
    exact, public, private = counts(*budget, profile)
    basic = "" if each is None else f"{math.floor(budget[0] / each * (1 + 1e-12))}"
    return (
        f"ε = {budget[0]:g}, δ = {budget[1]:g}",
        name,
        f"{exact:,}",
        f"{public:,}",
        f"{public / exact:.1%}" if exact else "",
        f"{private:,}",
        f"{private / exact:.1%}" if exact else "",
        basic,
    )


def releases_that_fit():
    """Equal releases, one after the other."""
    rows = [row(b, *release) for b in ((6, 1e-6), (3, 1e-6), (1, 1e-8)) for release in OF_THE_TABLE]
    for epsilon, delta in ((1, 1e-6), (3, 1e-6), (10, 1e-8)):
        for each in (0.1, 0.2, 0.5):
            for coordinates in (1, 8, 32):
                noise = calibrate(each, delta / 100, coordinates=coordinates)
                profile = PrivacyProfile(noise, coordinates=coordinates)
                name = (
                    f"calibrated: ε = {each}, δ = {delta / 100:g}, {coordinates} coordinates, shape {noise.shape:.2g}"
                )
                rows.append(row((epsilon, delta), name, profile, each))
    columns = ("budget", "release", "exact", "adaptive, public keys", "share", "with quota", "share", "by Σε")
    print_table("Equal releases that fit", columns, rows)


def laplace_on_one_number():
    """Why fewer fit: what a Rényi filter alone would allow with all of δ, at the order that is best for the release."""
    rows = []
    for epsilon, delta, each in ((3, 1e-6, 0.1), (10, 1e-8, 0.2)):
        profile = PrivacyProfile(DiscreteOSGT.from_rates(each, 0.0))
        exact, public, _ = counts(epsilon, delta, profile)
        orders = np.exp(np.arange(-1.0, 6.0, 0.02))
        alone = max(
            costs.renyi_limit(epsilon, delta, order) / costs.renyi_divergence(profile.parts, order) for order in orders
        )
        cells = (f"ε = {epsilon}, δ = {delta:g}", f"{each}", f"{exact}", f"{public} ({public / exact:.1%})")
        rows.append((*cells, f"{math.floor(alone)} ({math.floor(alone) / exact:.1%})"))
    columns = ("budget", "ε of each", "exact", "adaptive, public keys", "Rényi alone, all of δ, best order")
    print_table("Laplace noise on one number", columns, rows)


def different_releases(count):
    """Releases of which no two are alike: shape, scale and coordinates at random."""
    generator = np.random.default_rng(7)
    for _ in range(count):
        shape, scale, coordinates = generator.uniform(0.1, 3), generator.uniform(500, 1250), generator.integers(1, 9)
        yield Charge(PrivacyProfile(DiscreteOSGT(shape * scale, scale), coordinates=int(coordinates)), 1e-12)


def times():
    """CPU time of one more charge, and of all again."""
    shares = shares_for(3, 1e-6)
    rows = []
    equal = [Charge(PrivacyProfile(DiscreteOSGT(500, 630), coordinates=4), 1e-12)] * 10_000
    for name, charges in (("equal", equal), ("different", list(different_releases(2_000)))):
        state, busy = FilterState.start(shares), []
        for charge in charges:
            start = time.process_time()
            moved = state.try_charge(charge)
            busy.append(time.process_time() - start)
            assert moved is not None
            state = moved
        busy.sort()
        median, last = statistics.median(busy), busy[int(0.99 * len(busy))]
        rows.append(
            (f"{len(charges):,} {name}", f"{median * 1e3:.2f} ms", f"{last * 1e3:.1f} ms", f"{sum(busy):.1f} s")
        )
    print_table("CPU time of one charge", ("releases", "median", "99 of 100 below", "all together"), rows)
    start = time.process_time()
    allowed = [state.fits(charge) for charge in different_releases(30)]
    print(f"{len(allowed)} questions whether a release fits, as for the largest ε: {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    begun = time.perf_counter()
    releases_that_fit()
    laplace_on_one_number()
    times()
    print(f"All in {time.perf_counter() - begun:.0f} s")
