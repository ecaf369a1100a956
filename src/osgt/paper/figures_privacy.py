"""Figures 4 to 6 of the paper: the privacy loss of the noise."""

import math

import numpy as np

from osgt.noise import DiscreteOSGT
from osgt.paper.figures_law import FIRST, SECOND, law_of
from osgt.paper.picture import Curve, Mark, Panel, Picture
from osgt.paper.trio import Trio, alpha_turn, epsilon_turn, log_ratio

#: (m, σ²) and the number of coordinates of the paper's last example, and the ε at which it reads the curves.
EIGHT, DIMENSIONS, READ_AT = (15.0, 630.0), 8, 0.9


def _turns(trio: Trio, coordinates: int, end: float, name: str) -> dict[str, float]:
    """Where OSGT overtakes the Gaussian, and where the Laplace of the same variance overtakes the OSGT."""
    osgt, gaussian, laplace = trio.profiles(coordinates)
    pure = float(laplace.epsilon(0.0))
    below = pure * (1.0 - np.geomspace(0.98, 1e-9, 40))  # the Laplace's δ falls to 0 at the very end
    return {
        f"{name}: OSGT below the Gaussian from ε": epsilon_turn(osgt, gaussian, np.linspace(0.0, end, 25)),
        f"{name}: Laplace below the OSGT from ε": epsilon_turn(laplace, osgt, below),
        f"{name}: Laplace gives δ = 0 from ε": pure,
    }


def _one_dimension(example: tuple[float, float], letter: str, end: float) -> tuple[Panel, Curve, dict[str, float]]:
    m, parameter = example
    trio, whole = Trio.of(law_of(example)), Trio.of(DiscreteOSGT(m, math.sqrt(parameter)))
    osgt, gaussian, laplace = trio.profiles()
    epsilon = np.linspace(0, end, 241)
    few = np.linspace(0, end, 25)
    one, other = osgt.delta(epsilon), gaussian.delta(epsilon)
    panel = Panel(
        f"({letter}) m = {m:g}, σ² = {parameter:g}, V = {trio.osgt.var():.4f}",
        "ε",
        "δ(ε)",
        (
            Curve("OSGT", "osgt", epsilon, one),
            Curve("Gaussian", "gaussian", epsilon, other),
            Curve(
                f"added: Laplace, δ = 0 from ε = {laplace.epsilon(0.0):.3f}",
                "laplace",
                epsilon,
                laplace.delta(epsilon),
                "dashed",
            ),
            Curve("added: OSGT on the integers", "discrete", few, whole.profiles()[0].delta(few), "points"),
        ),
        xlim=(0, end),
        ylim=(1e-14, 1),
        ylog=True,
        legend="upper right",
    )
    advantage = Curve(f"m = {m:g}, σ² = {parameter:g}", "osgt", epsilon, np.exp(log_ratio(other, one)))
    return panel, advantage, _turns(trio, 1, end, f"({letter})")


def figure_4() -> Picture:
    """δ(ε) in one dimension at two parameters, and the ratio of the two."""
    first, ratio_1, turns_1 = _one_dimension(FIRST, "a", 1.2)
    second, ratio_2, turns_2 = _one_dimension(SECOND, "b", 1.6)
    ratio_2 = Curve(ratio_2.label, "second", ratio_2.x, ratio_2.y, "dashed")
    level = np.array([0.0, 1.6])
    turn_1, turn_2 = turns_1["(a): OSGT below the Gaussian from ε"], turns_2["(b): OSGT below the Gaussian from ε"]
    added = Panel(
        "Added: how many times smaller δ is with the OSGT",
        "ε",
        "δ of the Gaussian / δ of the OSGT",
        (ratio_1, ratio_2, Curve("equal", "gaussian", level, np.ones(2), "dotted")),
        (
            Mark(turn_1, 1.0, f"Gaussian better\nbelow ε = {turn_1:.3f} (a)\nand {turn_2:.3f} (b)", (22, -40)),
            Mark(turn_2, 1.0, "", (0, 0)),
        ),
        xlim=(0, 1.6),
        ylim=(0.01, 1e5),
        ylog=True,
        added=True,
        legend="upper left",
    )
    return Picture("figure-4", "Approximate differential privacy, Δ = 1", (first, second, added), turns_1 | turns_2)


def figure_5() -> Picture:
    """Rényi divergence, its bound of Theorem 2 and the Gaussian's; and all of them in units of the Gaussian's."""
    trio, whole = Trio.of(law_of(FIRST)), Trio.of(DiscreteOSGT(FIRST[0], math.sqrt(FIRST[1])))
    osgt, gaussian, laplace = trio.profiles()
    alpha = np.concatenate([1 + np.geomspace(0.01, 1, 20, endpoint=False), np.linspace(2, 100, 99)])
    few = np.array([2.0, *range(10, 101, 10)])
    exact, bound, rival = osgt.renyi(alpha), osgt.zcdp(alpha), gaussian.renyi(alpha)
    paper = Panel(
        "Divergence of order α, m = 3, σ² = 40",
        "α",
        "Rényi divergence",
        (
            Curve("OSGT, exact", "osgt", alpha, exact),
            Curve("OSGT, bound of Theorem 2", "bound", alpha, bound, "dashed"),
            Curve("Gaussian", "gaussian", alpha, rival),
            Curve("added: OSGT on the integers", "discrete", few, whole.profiles()[0].renyi(few), "points"),
        ),
        xlim=(1, 100),
        ylim=(0, 2),
        legend="upper left",
    )
    grid = 1 + np.geomspace(1e-2, 99, 80)
    turns = {
        "OSGT below the Gaussian from α": alpha_turn(osgt.renyi, gaussian.renyi, grid),
        "bound of Theorem 2 below the Gaussian from α": alpha_turn(osgt.zcdp, gaussian.renyi, grid),
        "Laplace below the OSGT from α": alpha_turn(laplace.renyi, osgt.renyi, grid),
        "bound of Theorem 2 least at α": _least_bound(trio),
    }
    first, second, third = list(turns.values())[:3]
    added = Panel(
        "Added: in units of the Gaussian's",
        "α",
        "divergence / α·Δ²/2V",
        (
            Curve("OSGT, exact", "osgt", alpha, exact / rival),
            Curve("OSGT, bound of Theorem 2", "bound", alpha, bound / rival, "dashed"),
            Curve("Gaussian", "gaussian", alpha, rival / rival),
            Curve("Laplace", "laplace", alpha, laplace.renyi(alpha) / rival, "dashed"),
        ),
        (
            Mark(first, 1.0, f"Gaussian better\nbelow α = {first:.2f}", (-84, -40)),
            Mark(second, 1.0, f"bound better\nfrom α = {second:.1f}", (14, 24)),
            Mark(
                third,
                float(osgt.renyi(third) / gaussian.renyi(third)),
                f"Laplace better\nfrom α = {third:.1f}",
                (-62, -44),
            ),
        ),
        xlim=(1.01, 100),
        ylim=(0, 2.5),
        xlog=True,
        added=True,
        legend="upper right",
    )
    return Picture("figure-5", "Rényi divergence and zCDP, Δ = 1", (paper, added), turns)


def _least_bound(trio: Trio) -> float:
    """The order where α·ρ + constant/(α - 1) is least, from the bound at one order."""
    profile = trio.profiles()[0]
    rho = 0.5 * trio.osgt.curvature
    constant = float(profile.zcdp(2.0)) - 2 * rho
    return 1.0 + math.sqrt(constant / rho)


def figure_6() -> Picture:
    """Eight dimensions: the paper's conversion from Rényi divergence, and the exact δ(ε)."""
    trio, whole = Trio.of(law_of(EIGHT)), Trio.of(DiscreteOSGT(EIGHT[0], math.sqrt(EIGHT[1])))
    osgt, gaussian, laplace = trio.profiles(DIMENSIONS)
    epsilon, few = np.linspace(0.0, 1.2, 33), np.linspace(0.1, 1.2, 12)
    exact, rival, pure = osgt.delta(epsilon), gaussian.delta(epsilon), laplace.delta(epsilon)
    bound, rival_bound = osgt.delta_from_renyi(epsilon), gaussian.delta_from_renyi(epsilon)
    limits = {"xlim": (0.0, 1.2), "ylim": (1e-20, 1.0), "ylog": True, "legend": "lower left"}
    curves = (
        Curve("OSGT, from Rényi divergence", "osgt", epsilon, bound),
        Curve("Gaussian, from Rényi divergence", "gaussian", epsilon, rival_bound),
    )
    marks = tuple(
        Mark(READ_AT, value, f"{value:.3g}", offset)
        for value, offset in (
            (float(osgt.delta_from_renyi(READ_AT)), (-62.0, -10.0)),
            (float(gaussian.delta_from_renyi(READ_AT)), (8.0, 6.0)),
        )
    )
    paper = Panel("k = 8, m = 15, σ² = 630", "ε", "δ(ε), a bound", curves, marks, **limits)  # type: ignore[arg-type]
    added = Panel(
        "Added: the exact δ(ε)",
        "ε",
        "δ(ε)",
        (
            Curve("OSGT, exact", "osgt", epsilon, exact),
            Curve("Gaussian, exact", "gaussian", epsilon, rival),
            Curve(f"Laplace, exact; δ = 0 from ε = {laplace.epsilon(0.0):.3f}", "laplace", epsilon, pure, "dashed"),
            Curve("OSGT on the integers, exact", "discrete", few, whole.profiles(DIMENSIONS)[0].delta(few), "points"),
            Curve("the bounds of the left picture", "faint", epsilon, bound, "dotted"),
            Curve("", "faint", epsilon, rival_bound, "dotted"),
        ),
        tuple(
            Mark(READ_AT, value, f"{value:.3g}", offset)
            for value, offset in (
                (float(osgt.delta(READ_AT)), (-66.0, -10.0)),
                (float(gaussian.delta(READ_AT)), (8.0, 6.0)),
            )
        ),
        added=True,
        **limits,  # type: ignore[arg-type]
    )
    turns = _turns(trio, DIMENSIONS, 1.2, "k = 8")
    first = turns["k = 8: OSGT below the Gaussian from ε"]
    ratios = Panel(
        "Added: bounds and truth",
        "ε",
        "ratio",
        (
            Curve("δ of the Gaussian / of the OSGT", "osgt", epsilon, np.exp(log_ratio(rival, exact))),
            Curve("paper's bound / exact, OSGT", "bound", epsilon, bound / exact, "dashed"),
            Curve("paper's bound / exact, Gaussian", "gaussian", epsilon, rival_bound / rival, "dashed"),
            Curve("equal", "faint", np.array([0.0, 1.2]), np.ones(2), "dotted"),
        ),
        (Mark(first, 1.0, f"Gaussian better\nbelow ε = {first:.3f}", (14, -34)),),
        xlim=(0, 1.2),
        ylim=(0.03, 1e6),
        ylog=True,
        added=True,
        legend="upper left",
    )
    return Picture("figure-6", "Eight dimensions, Δ = 1 in each, all of variance 398.2", (paper, added, ratios), turns)
