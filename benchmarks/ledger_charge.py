"""How long does one charge take when many releases went before, and how much does exact composition leave?

Claims: one charge to an SQLite ledger takes at most 50 ms after 100 earlier releases and at most 150 ms after 10,000,
equal or unlike; its bound on ε is within a thousandth of the exact composition; and after 50 equal releases the budget
has room for more than the sum of ε allows, and for no fewer than dp_accounting finds.

The peer is needed here only: pip install dp-accounting
"""

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from measure import print_table
from osgt import DiscreteOSGT, Ledger, PrivacyProfile
from osgt.ledger.budget import new_budget
from osgt.privacy import Charge

try:
    from dp_accounting.pld import privacy_loss_distribution as pld
except ImportError:
    sys.exit("this benchmark measures against dp_accounting: pip install dp-accounting")

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
FURTHER = 25
SIZES = (100, 1_000, 10_000)


def equal_charges():
    """The same release again and again."""
    charge = Charge(PrivacyProfile(DiscreteOSGT(500, 630), coordinates=4), 1e-12)
    while True:
        yield charge


def unlike_charges():
    """Releases of which no two are alike: shape, scale and coordinates at random."""
    generator = np.random.default_rng(7)
    while True:
        shape, scale, coordinates = generator.uniform(0.1, 3), generator.uniform(500, 1250), generator.integers(1, 9)
        yield Charge(PrivacyProfile(DiscreteOSGT(shape * scale, scale), coordinates=int(coordinates)), 1e-12)


def charge_times(name, charges):
    """One charge more, after many others of its kind."""
    rows, profiles = [], []
    with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "budget.db") as ledger:
        ledger.open("data", **BUDGET)
        for earlier in SIZES:
            durations, busy = [], []
            while len(profiles) < earlier + FURTHER:
                charge = next(charges)
                start, cpu = time.perf_counter(), time.process_time()
                ledger.reserve("data", charge, query="a release")
                busy.append(time.process_time() - cpu)
                durations.append(time.perf_counter() - start)
                profiles.append(charge.profile)
            durations, busy = durations[-FURTHER:], busy[-FURTHER:]
            spent = ledger.history("data")[-1].epsilon_after
            start = time.perf_counter()
            exact = PrivacyProfile.compose(profiles).epsilon(BUDGET["delta"] - 1e-12 * len(profiles))
            whole = time.perf_counter() - start
            rows.append(
                (
                    f"{name}, {earlier:,} earlier",
                    f"{min(durations) * 1e3:.1f} ms",
                    f"{statistics.median(durations) * 1e3:.1f} ms",
                    f"{statistics.median(busy) * 1e3:.1f} ms",
                    "50 ms" if earlier <= 100 else "150 ms",
                    f"{spent:.5f}",
                    f"{spent / exact - 1:+.1e}",
                    f"{whole * 1e3:.0f} ms",
                )
            )
    columns = ("releases", "least", "median", "CPU", "bar", "ε spent", "above exact", "exact composition alone")
    print_table(f"One {name} charge to an SQLite ledger, of {FURTHER} (ε = 3, δ = 1e-6)", columns, rows)


def most_releases(epsilon_of, limit):
    """The largest number of releases whose ε is at most the limit."""
    low, high = 1, 2
    while epsilon_of(high) <= limit:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if epsilon_of(middle) <= limit else (low, middle)
    return low


def room_left():
    """A budget of ε = 6, δ = 1e-6 after 50 equal releases."""
    total, delta, each = 6.0, 1e-6, 0.1
    rows = []
    scale = 1 / each
    sigma = 100.0
    cases = {
        "Laplace, ε = 0.1 each": (
            PrivacyProfile(DiscreteOSGT.laplace(scale)),
            each,
            pld.from_discrete_laplace_mechanism(each, value_discretization_interval=1e-4),
        ),
        "Gaussian σ = 100, 8 coordinates": (
            PrivacyProfile(DiscreteOSGT.gaussian(sigma), coordinates=8),
            PrivacyProfile(DiscreteOSGT.gaussian(sigma), coordinates=8).epsilon(delta / 100),
            pld.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-4).self_compose(8),
        ),
    }
    for name, (profile, one, peer) in cases.items():

        def ours(n, profile=profile):
            return float(PrivacyProfile.compose([profile] * n).epsilon(delta))

        def theirs(n, peer=peer):
            return peer.self_compose(n).get_epsilon_for_delta(delta)

        with tempfile.TemporaryDirectory() as folder, Ledger(Path(folder) / "budget.db") as ledger:
            ledger.open("data", epsilon=total, delta=delta)
            for _ in range(50):
                ledger.reserve("data", Charge(profile), query="the same again").settle("hash")
            spent = ledger.spent("data").epsilon
        more = most_releases(ours, total) - 50
        adaptive = new_budget(total, delta, "renyi")
        moment = adaptive.moment(Charge(profile))
        filtered = most_releases(lambda n, b=adaptive, m=moment: b.epsilon_of_moment(n * m, delta), total) - 50
        rows.append(
            (
                name,
                f"{50 * one:.3f}",
                f"{spent:.4f}",
                f"{ours(50):.4f}",
                f"{theirs(50):.4f}",
                f"{max(math.floor(total / one * (1 + 1e-9)) - 50, 0)}",
                f"{most_releases(theirs, total) - 50}",
                f"{filtered}",
                f"{more}",
            )
        )
    fit = ("more: by Σε", "by dp_accounting", "by Rényi filter", "by us")
    columns = ("50 releases", "Σε", "ledger", "exact", "dp_accounting", *fit)
    print_table("ε spent after 50 equal releases, and how many more fit (ε = 6, δ = 1e-6)", columns, rows)
    print("Σε of the Gaussian: each release at δ = 1e-8, of which there may be 100. dp_accounting on its default grid.")


if __name__ == "__main__":
    room_left()
    charge_times("equal", equal_charges())
    charge_times("unlike", unlike_charges())
