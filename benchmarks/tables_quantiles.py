"""Rank errors of quantiles: trees of every fan-out, what a plan chooses, and OpenDP's tree and private quantile.

Claim: with Gaussian noise the rank error of a median in 256 bins is at most 3 standard deviations of one count at the
same budget, a third of that of a plain histogram; and quartiles have a smaller rank error than those of OpenDP's tree.

The first table is computed. The second is of draws: quartiles of the same 2,000 values from noisy numbers, and how many
ranks the published value is away, as a root mean square over draws and quartiles. OpenDP makes a b-ary tree of the same
bins with its own `choose_branching_factor`, Laplace noise for the whole ε, the same on all levels, least squares and a
distribution function; it has no intervals. "one median" is a median alone that gets the whole budget: ours without an
interval, and OpenDP's private quantile, an exponential mechanism with the same edges as candidates.
"""

import math

import numpy as np
import pyarrow as pa

from measure import print_table, say_if_busy
from osgt import Dataset
from osgt.api.query import Query
from osgt.plan.plan import Plan
from osgt.query.quantiles import Layout, Leaves, NoisyTree, QuantileDraw, layouts
from osgt.release.exponential_mechanism import draw_bins
from osgt.support.numeric import Floats, Integers

BOUNDS, BINS = (0, 200), 256
LEVELS = (0.25, 0.5, 0.75)
VALUES, DRAWS = 2_000, 400
BUDGETS = ((1.0, 0.0), (1.0, 1e-6), (0.2, 0.0), (0.2, 1e-6))


def groups(max_groups: int = 1) -> Query:
    """A query that asks for nothing yet: plans read no rows."""
    table = pa.table({"person": [1], "group": ["a"], "x": [1.0]})
    keys = [str(i) for i in range(20 * max_groups)]
    return Dataset(table, privacy_unit="person").group_by(
        "group", max_groups=max_groups, max_rows_per_group=1, public_keys=keys
    )


def tree_of(plan: Plan) -> NoisyTree:
    """The noise of the only tree of a plan."""
    [tree] = plan.noise.scheme.trees(plan.laws).values()
    return tree


def computed() -> None:
    """Standard deviations of ranks in the middle half, in units of one count: by fan-out, and as planned."""
    rows = []
    for bins in (64, 256, 1024):
        plan = groups(64).median("x", BOUNDS, bins=bins).plan(epsilon=1, delta=1e-8)
        count = groups(64).count().plan(epsilon=1, delta=1e-8)
        noise, [one] = plan.ends["gaussian"], count.ends["gaussian"].laws.values()
        [tree] = noise.scheme.trees(noise.laws).values()
        ranks = tree.rank_noise(0.5)
        middle = [each.var() for each in ranks[len(ranks) // 4 : 3 * len(ranks) // 4 + 1]]
        planned = math.sqrt(float(np.mean(middle))) / one.std()
        by_fan_out = [f"{float(sum(layout.coefficients[0])):.2f}" for layout in layouts(tree.layout.leaves, None)]
        rows.append([str(bins), *by_fan_out, f"{planned:.2f} (fan-out {tree.layout.fan_out})"])
    title = "Rank errors with Gaussian noise, in standard deviations of one count; planned: ε = 1, δ = 1e-8, 64 groups"
    print_table(title, ["bins", "one level", "16-ary", "8-ary", "4-ary", "binary", "planned"], rows)


def counted(layout: Layout, values: Floats) -> list[Integers]:
    """The exact numbers of values in the ranges of every level."""
    leaves = layout.leaves
    steps = np.floor(values / float(leaves.grid.step) + 0.5)
    bins = np.bincount(np.searchsorted(leaves.edges[1:-1], steps, side="right"), minlength=leaves.numbers)[None, :]
    return [level.exact({leaves: bins}) for level in layout.levels]


def ours(plan: Plan, values: Floats) -> Floats:
    """Quartiles with the noise of a tree: draws by levels."""
    tree = tree_of(plan)
    numbers = [
        exact + plan.laws[level].sample((DRAWS, exact.shape[1])) * float(plan.groups.step(level))
        for level, exact in zip(tree.layout.levels, counted(tree.layout, values), strict=True)
    ]
    found = tree.with_values(numbers, None).quantiles(LEVELS, 0.95)
    return np.stack([each.values for each in found], axis=1) * float(tree.layout.leaves.grid.step)


def our_median(plan: Plan, values: Floats) -> Floats:
    """One median without an interval: draws of bins."""
    [(asked, law)] = plan.laws.items()
    assert isinstance(asked, QuantileDraw)
    steps = round(1 / plan.groups.step(asked))
    [bins] = counted(Layout(asked.leaves, asked.leaves.numbers, None), values)
    drawn = draw_bins(asked, np.repeat(bins * steps, DRAWS, axis=0), law)[:, 0]
    edges = asked.leaves.edges * float(asked.leaves.grid.step)
    return ((edges[drawn] + edges[drawn + 1]) / 2)[:, None]


def opendp_tree(leaves: Leaves, values: Floats, epsilon: float) -> Floats:
    """Quartiles from OpenDP's tree."""
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    exact = counted(Layout(leaves, leaves.numbers, None), values)[0][0].tolist()
    branching = dp.t.choose_branching_factor(size_guess=VALUES)
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    tree = space >> dp.t.then_b_ary_tree(leaf_count=leaves.numbers, branching_factor=branching)
    noisy = dp.binary_search_chain(lambda scale: tree >> dp.m.then_laplace(scale), d_in=1, d_out=epsilon)
    consistent = dp.t.make_consistent_b_ary_tree(branching_factor=branching)
    edges = (leaves.edges * float(leaves.grid.step)).tolist()
    quantiles = dp.t.make_quantiles_from_counts(edges, alphas=list(LEVELS), F=float)
    return np.array([quantiles(consistent(noisy(exact))) for _ in range(DRAWS)])


def opendp_median(leaves: Leaves, values: Floats, epsilon: float) -> Floats:
    """One median by OpenDP's exponential mechanism."""
    import opendp.prelude as dp  # noqa: PLC0415

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    edges = (leaves.edges * float(leaves.grid.step)).tolist()

    def mechanism(scale: float) -> dp.Measurement:
        return space >> dp.m.then_private_quantile(dp.max_divergence(), candidates=edges, alpha=0.5, scale=scale)

    found = dp.binary_search_chain(mechanism, d_in=1, d_out=epsilon)
    data = values.tolist()
    return np.array([[found(data)] for _ in range(DRAWS)])


def rank_error(found: Floats, levels: tuple[float, ...], values: Floats) -> float:
    """Root mean square of the ranks between the published values and the quantiles."""
    ordered = np.sort(values)
    under, upto = (np.searchsorted(ordered, found, side=side) for side in ("left", "right"))
    wanted = np.array(levels) * len(values)
    away = np.maximum(np.maximum(under - wanted, wanted - upto), 0.0)
    return math.sqrt(float(np.mean(away**2)))


def drawn() -> None:
    """Rank errors of published quartiles."""
    values = np.clip(np.random.default_rng(3).gamma(2.0, 20.0, VALUES), *BOUNDS)
    rows = []
    for epsilon, delta in BUDGETS:
        asked = {"epsilon": epsilon, "delta": delta, "measure_left_out": False}
        plan = groups().quantile("x", LEVELS, BOUNDS, bins=BINS).plan(**asked)
        alone = groups().median("x", BOUNDS, bins=BINS, interval="none").plan(**asked)
        errors = [rank_error(ours(plan, values), LEVELS, values)]
        tree = tree_of(plan)
        errors.append(rank_error(opendp_tree(tree.layout.leaves, values, epsilon), LEVELS, values))
        errors.append(rank_error(our_median(alone, values), (0.5,), values))
        errors.append(rank_error(opendp_median(tree.layout.leaves, values, epsilon), (0.5,), values))
        half = max(tree.rank_error(level, 0.95) for level in LEVELS)
        rows.append(
            [
                f"{epsilon:g}",
                f"{delta:g}",
                f"{errors[0]:.1f}",
                f"{half:.0f}",
                f"{errors[1]:.1f}",
                f"{errors[1] / errors[0]:.2f}",
                f"{errors[2]:.1f}",
                f"{errors[3]:.1f}",
            ]
        )
    columns = ["ε", "δ", "osgt", "95 % half-width", "OpenDP's tree (δ = 0)", "ratio", "one median, osgt", "OpenDP"]
    print_table(f"Quartiles of {VALUES:,} values in {BINS} bins: rank error over {DRAWS} draws", columns, rows)


if __name__ == "__main__":
    say_if_busy()
    computed()
    drawn()
