"""Least squares over a tree: two passes give what a dense solver gives, for any tree, variances and gaps."""

import numpy as np
import pytest

from osgt.estimation.totals import Tree


def random_tree(rng, levels):
    """Parents and variances of a ragged tree: nodes without children, levels and nodes that are not measured."""
    sizes, parents, has_children = [int(rng.integers(1, 4))], [], []
    for _ in range(levels - 1):
        chosen = rng.random(sizes[-1]) < 0.7
        chosen[rng.integers(sizes[-1])] = True
        has_children.append(chosen)
        up = np.repeat(np.flatnonzero(chosen), rng.integers(1, 5, int(chosen.sum())))
        parents.append(rng.permutation(up))
        sizes.append(len(up))
    has_children.append(np.zeros(sizes[-1], bool))
    variances = []
    for n, inner in zip(sizes, has_children, strict=True):
        noise = rng.uniform(0.2, 5.0, n)
        noise[inner & (rng.random(n) < 0.4)] = np.inf
        variances.append(None if inner.all() and rng.random() < 0.4 else noise)
    return parents, variances, sizes


def design(parents, sizes):
    """Every node, level by level, as a sum of nodes without children."""
    leaves, rows = [], [np.zeros((0, 0))] * len(sizes)
    for level in range(len(sizes)):
        inner = set(parents[level].tolist()) if level < len(parents) else set()
        leaves += [(level, node) for node in range(sizes[level]) if node not in inner]
    for level in reversed(range(len(sizes))):
        rows[level] = np.zeros((sizes[level], len(leaves)))
        for place, (at, node) in enumerate(leaves):
            if at == level:
                rows[level][node, place] = 1.0
        if level < len(parents):
            np.add.at(rows[level], parents[level], rows[level + 1])
    return np.concatenate(rows)


@pytest.mark.parametrize("levels", [1, 2, 3, 4, 6])
def test_estimates_are_those_of_a_dense_solver(levels):
    rng = np.random.default_rng(levels)
    for _ in range(20):
        parents, variances, sizes = random_tree(rng, levels)
        matrix = design(parents, sizes)
        noise = np.concatenate([np.full(n, np.inf) if v is None else v for v, n in zip(variances, sizes, strict=True)])
        known, scale = np.isfinite(noise), 1.0 / np.sqrt(noise)
        values = rng.normal(0, 10, (len(noise), 3))
        weighted = (scale[:, None] * matrix)[known]
        solution = np.linalg.lstsq(weighted, (scale[:, None] * values)[known], rcond=None)[0]
        # Weights of the measured numbers in every estimate, by the normal equations.
        entering = np.zeros((len(noise), len(noise)))
        entering[:, known] = matrix @ np.linalg.pinv(weighted) * scale[known]

        tree = Tree(parents, variances)
        ends = np.cumsum(sizes)[:-1]
        given = [None if v is None else part for v, part in zip(variances, np.split(values, ends), strict=True)]
        assert np.concatenate(tree.estimates(given)) == pytest.approx(matrix @ solution)
        weights = np.concatenate(tree.weights(np.split(np.eye(len(noise)), ends)))
        assert weights == pytest.approx(entering.T, abs=1e-9)
        of_weights = np.sum(weights[known] ** 2 * noise[known][:, None], axis=0)
        assert np.concatenate(tree.variances_of_estimates) == pytest.approx(of_weights)


def test_estimates_add_up():
    rng = np.random.default_rng(7)
    parents = [np.repeat(np.arange(4**level), 4) for level in range(4)]
    tree = Tree(parents, [None, 3.0, 3.0, 1.0, 2.0])
    assert tree.sizes == [1, 4, 16, 64, 256]
    measured = [None, *(rng.integers(-50, 900, (4**level, 2)) for level in range(1, 5))]
    found = tree.estimates(measured)
    for level, up in enumerate(parents):
        summed = np.zeros_like(found[level])
        np.add.at(summed, up, found[level + 1])
        assert found[level] == pytest.approx(summed, rel=1e-12)


def test_a_roll_up_of_1_16_and_400_groups():
    """Each level is measured with a third of the variance budget: three times the variance of one count alone."""
    tree = Tree([np.zeros(16, int), np.repeat(np.arange(16), 25)], [3.0, 3.0, 3.0])
    assert [level[0] for level in tree.variances_of_estimates] == pytest.approx([2.8, 2.7, 2.9], rel=0.03)


def test_numbers_that_are_not_measured_may_be_anything():
    tree = Tree([[0, 0], [0, 0, 1]], [np.inf, [np.inf, 2.0], 1.0])
    found = tree.estimates([[np.nan], [np.nan, 4.0], [1.0, 2.0, 7.0]])
    assert np.concatenate(found).ravel().tolist() == pytest.approx([9.0, 3.0, 6.0, 1.0, 2.0, 6.0])


def test_numbers_without_noise():
    """They stay as they are where others can give way; where none can, the difference is shared out."""
    exact = Tree([[0, 0]], [0.0, [1.0, 3.0]]).estimates([[10.0], [3.0, 3.0]])
    assert np.concatenate(exact).ravel().tolist() == pytest.approx([10.0, 4.0, 6.0])
    below = Tree([[0, 0]], [1.0, 0.0]).estimates([[10.0], [3.0, 3.0]])
    assert np.concatenate(below).ravel().tolist() == pytest.approx([6.0, 3.0, 3.0])
    every = Tree([[0, 0]], [0.0, 0.0]).estimates([[9.0], [3.0, 3.0]])
    assert np.concatenate(every).ravel().tolist() == pytest.approx([8.0, 4.0, 4.0])


def test_trees_that_cannot_be_solved_are_refused():
    with pytest.raises(ValueError, match="without children must be measured"):
        Tree([[0, 0]], [1.0, None])
    with pytest.raises(ValueError, match="without children must be measured"):
        Tree([[0, 0]], [[1.0, np.inf], 1.0])
    with pytest.raises(ValueError, match="at least 0"):
        Tree([[0, 0]], [1.0, [1.0, -0.5]])
    with pytest.raises(ValueError, match="at least 0"):
        Tree([[0, 0]], [1.0, [1.0, np.nan]])
    with pytest.raises(ValueError, match="all levels but the first"):
        Tree([], [1.0, 1.0])
