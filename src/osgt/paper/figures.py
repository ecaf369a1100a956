"""Figures of the paper: 1 to 3 are about the distribution itself, 4 to 6 about the privacy loss of the noise.

They compare three noises of the same variance, OSGT, Gaussian and Laplace, and show where one overtakes another.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from osgt.noise import OSGT, DiscreteOSGT
from osgt.paper.drawing import Axis, Curve, Mark, Panel, Picture
from osgt.privacy import PrivacyProfile
from osgt.support.numeric import Floats


@dataclass(frozen=True)
class Trio:
    """An OSGT with the Gaussian and the Laplace of its variance, on the reals or on the integers.

    Examples
    --------
    >>> trio = Trio.of(OSGT(3, 40**0.5))
    >>> round(trio.laplace.var() / trio.osgt.var(), 9)
    1.0
    """

    osgt: OSGT | DiscreteOSGT
    gaussian: OSGT | DiscreteOSGT
    laplace: OSGT | DiscreteOSGT

    @classmethod
    def of(cls, law: OSGT | DiscreteOSGT) -> "Trio":
        """The distribution and its two rivals at equal variance."""
        if isinstance(law, OSGT):
            return cls(law, OSGT.gaussian(law.std()), OSGT.laplace(law.std() / math.sqrt(2)))
        # The two-sided geometric distribution with ratio exp(-1/t) has the variance 1/(2·sinh²(1/2t)).
        scale = 1.0 / (2 * math.asinh(1.0 / (math.sqrt(2) * law.std())))
        return cls(law, _discrete_gaussian(law.var()), DiscreteOSGT.laplace(scale))

    def profiles(self, coordinates: int = 1) -> tuple[PrivacyProfile, PrivacyProfile, PrivacyProfile]:
        """Privacy of OSGT, Gaussian and Laplace, each coordinate changed by 1."""
        osgt, gaussian, laplace = (
            PrivacyProfile(law, coordinates=coordinates) for law in (self.osgt, self.gaussian, self.laplace)
        )
        return osgt, gaussian, laplace


def _discrete_gaussian(variance: float) -> DiscreteOSGT:
    """Find the discrete Gaussian of a variance: from σ = 1 on σ² to seven digits and more; below, solved for."""
    law = DiscreteOSGT.gaussian(math.sqrt(variance))
    if abs(law.var() / variance - 1) < 1e-12:
        return law
    scale = brentq(lambda s: DiscreteOSGT.gaussian(s).var() - variance, 0.2, 2 * math.sqrt(variance) + 1, xtol=1e-12)
    return DiscreteOSGT.gaussian(scale)


def of_shape(shape: float, variance: float) -> OSGT:
    """The OSGT with the given m/σ and variance."""
    unit = OSGT(shape, 1.0).var()
    sigma = math.sqrt(variance / unit)
    return OSGT(shape * sigma, sigma)


def log_ratio(numerator: Floats, denominator: Floats) -> Floats:
    """log(numerator/denominator), infinite where one of them is 0 and NaN where both are."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(numerator) - np.log(denominator))


def turns(difference: Callable[[float], float], grid: Floats) -> list[float]:
    """Find the zeros of a difference, to 10 digits, if its sign changes once between neighbours of the grid."""
    values = np.array([difference(float(x)) for x in grid])
    result = []
    for i in np.flatnonzero(np.signbit(values[:-1]) != np.signbit(values[1:])):
        if np.isfinite(values[i]) and np.isfinite(values[i + 1]):
            result.append(float(brentq(difference, grid[i], grid[i + 1], xtol=1e-12, rtol=1e-10)))
    return result


def last_turn(difference: Callable[[float], float], grid: Floats) -> float:
    """The last change of sign; NaN where there is none."""
    result = turns(difference, grid)
    return result[-1] if result else math.nan


def epsilon_turn(one: PrivacyProfile, other: PrivacyProfile, grid: Floats) -> float:
    """The ε from which on `one` has the smaller δ (up to the end of the grid); NaN where there is none."""
    return last_turn(lambda e: float(log_ratio(one.delta(e), other.delta(e))), grid)


def alpha_turn(one: Callable[[float], float], other: Callable[[float], float], grid: Floats) -> float:
    """The order α from which on `one` is the smaller divergence or bound."""
    return last_turn(lambda a: one(a) - other(a), grid)


#: The schematic of Figure 1 has these parameters, up to its unit of length.
SCHEMATIC_M = 0.6
#: (m, σ²) of the two examples in one dimension.
FIRST, SECOND = (3.0, 40.0), (2.0, 20.0)


def law_of(example: tuple[float, float]) -> OSGT:
    """The OSGT with the paper's (m, σ²)."""
    m, variance_parameter = example
    return OSGT(m, math.sqrt(variance_parameter))


def whole_law_of(example: tuple[float, float]) -> DiscreteOSGT:
    """The OSGT on the integers with the paper's (m, σ²)."""
    m, variance_parameter = example
    return DiscreteOSGT(m, math.sqrt(variance_parameter))


def figure_1() -> Picture:
    """The schematic density, and beside it a distribution on the integers."""
    m = SCHEMATIC_M
    law, bell = OSGT(m, 1.0), OSGT.gaussian(1.0)
    y = np.linspace(-5, 5, 401)
    inner = law.pdf(y) / law.pdf(0.0) * math.exp(-(m**2) / 2)
    outer = bell.pdf(np.abs(y) - m) / bell.pdf(0.0)
    schematic = Panel(
        "Two Gaussians at ±m, and the tails kept",
        Axis("y", -5, 5),
        Axis("", 0, 1.1),
        (
            Curve("kept: the OSGT", "osgt", y, inner, "area"),
            Curve("left out", "gaussian", y, outer, "dotted"),
        ),
        (Mark(m, 1.0, "m", (5, 4)), Mark(-m, 1.0, "−m", (-18, 4))),
        legend="upper left",
    )
    real, whole = law_of(FIRST), whole_law_of(FIRST)
    k, fine = np.arange(-20.0, 21.0), np.linspace(-20, 20, 401)
    added = Panel(
        "Added: the law on the integers (m = 3, σ² = 40)",
        Axis("y", -20, 20),
        Axis("probability", 0, 0.115),
        (
            Curve(f"on the integers, variance {whole.var():.4f}", "discrete", k, whole.pmf(k), "bars"),
            Curve(f"on the reals, variance {real.var():.4f}", "osgt", fine, real.pdf(fine)),
        ),
        legend="upper left",
    )
    return Picture("figure-1", "The offset-symmetric Gaussian tails", (schematic, added))


def figure_2() -> Picture:
    """Variance against σ² for two m, and what it means in units of σ²."""
    parameter = np.linspace(0.5, 100, 200)
    curves = [Curve("V = σ² (Gaussian)", "gaussian", parameter, parameter, "dashed")]
    for (m, _), noise in ((SECOND, "second"), (FIRST, "osgt")):
        curves.append(
            Curve(f"V(m, σ²), m = {m:g}", noise, parameter, np.array([law_of((m, v)).var() for v in parameter]))
        )
    on_integers = np.arange(5.0, 101.0, 5.0)
    discrete = np.array([whole_law_of((FIRST[0], v)).var() for v in on_integers])
    curves.append(Curve("added: on the integers, m = 3", "discrete", on_integers, discrete, "points"))
    marks = tuple(
        Mark(v, law_of((m, v)).var(), f"V({m:g}, {v:g}) = {law_of((m, v)).var():.4f}", offset)
        for (m, v), offset in ((FIRST, (14.0, -16.0)), (SECOND, (14.0, -16.0)))
    )
    paper = Panel(
        "Variance against the parameter σ²",
        Axis("σ²", 0, 100),
        Axis("variance V", 0, 100),
        tuple(curves),
        marks,
        legend="upper left",
    )
    shape = np.linspace(0.0, 6.0, 241)
    laws = [OSGT(z, 1.0) for z in shape]
    variance = np.array([law.var() for law in laws])
    information = np.array([law.fisher_information() for law in laws])
    added = Panel(
        "Added: one curve for all m and σ, and its price",
        Axis("m/σ", 0, 6),
        Axis("", 0, 2.5),
        (
            Curve("V/σ²: what the OSGT gains far out", "osgt", shape, variance),
            Curve(
                "V·Fisher information: what it loses with very many coordinates", "bound", shape, variance * information
            ),
            Curve("2: the Laplace end", "laplace", shape, np.full_like(shape, 2.0), "dotted"),
        ),
        legend="upper right",
    )
    return Picture("figure-2", "Variance of the OSGT", (paper, added))


#: A label, its colour and a distribution.
_Named = tuple[tuple[str, str, OSGT | DiscreteOSGT], ...]


def figure_3() -> Picture:
    """Density and survival function against Gaussian and Laplace, and where the tails cross."""
    trio = Trio.of(law_of(FIRST))
    named = (("OSGT", "osgt", trio.osgt), ("Gaussian", "gaussian", trio.gaussian), ("Laplace", "laplace", trio.laplace))
    grid = np.linspace(0.25, 40, 160)
    from_gaussian = last_turn(lambda v: float(trio.osgt.logsf(v) - trio.gaussian.logsf(v)), grid)
    from_laplace = last_turn(lambda v: float(trio.laplace.logsf(v) - trio.osgt.logsf(v)), grid)
    return Picture(
        "figure-3",
        "Density and tail at m = 3, σ² = 40, all of variance 27.7047",
        (_density(named), _survival(named), _tails(named, trio, from_gaussian, from_laplace)),
        {"OSGT tail above the Gaussian's from y": from_gaussian, "Laplace tail above the OSGT's from y": from_laplace},
    )


def _density(named: _Named) -> Panel:
    y = np.linspace(-20, 20, 801)
    return Panel(
        "(a) Density",
        Axis("y", -20, 20),
        Axis("f(y)", 0, 0.14),
        tuple(Curve(label, noise, y, np.asarray(law.pdf(y))) for label, noise, law in named if isinstance(law, OSGT)),
    )


def _survival(named: _Named) -> Panel:
    whole = whole_law_of(FIRST)
    far, k = np.linspace(0, 40, 401), np.arange(0.0, 41.0, 2.0)
    return Panel(
        "(b) Survival function",
        Axis("y", 0, 40),
        Axis("P[Y > y]", 1e-14, 1, log=True),
        (
            *(Curve(label, noise, far, np.asarray(law.sf(far))) for label, noise, law in named),
            # On the integers P[Y > k] belongs to the middle between k and k + 1.
            Curve("added: OSGT on the integers", "discrete", k + 0.5, np.asarray(whole.sf(k)), "points"),
        ),
    )


def _tails(named: _Named, trio: Trio, from_gaussian: float, from_laplace: float) -> Panel:
    """The tails in units of the Gaussian's, with the places where they cross."""
    near = np.linspace(0, 20, 401)
    return Panel(
        "Added: tails in units of the Gaussian's",
        Axis("y", 0, 20),
        Axis("P[Y > y] / P[Gaussian > y]", 0.3, 20, log=True),
        tuple(
            Curve(label, noise, near, np.exp(np.asarray(law.logsf(near)) - trio.gaussian.logsf(near)))
            for label, noise, law in named
        ),
        (
            Mark(from_gaussian, 1.0, f"OSGT above the\nGaussian from y = {from_gaussian:.2f}", (2, -50)),
            Mark(
                from_laplace,
                math.exp(float(trio.osgt.logsf(from_laplace) - trio.gaussian.logsf(from_laplace))),
                f"Laplace above the\nOSGT from y = {from_laplace:.2f}",
                (-86, 44),
            ),
        ),
        legend="upper left",
    )


#: (m, σ²) and the number of coordinates of the paper's last example, and the ε at which it reads the curves.
EIGHT, DIMENSIONS, READ_AT = (15.0, 630.0), 8, 0.9


def _turns(trio: Trio, coordinates: int, end: float, name: str) -> dict[str, float]:
    """Find the ε where OSGT overtakes the Gaussian, and where the Laplace of the same variance overtakes the OSGT."""
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
    trio, whole = Trio.of(law_of(example)), Trio.of(whole_law_of(example))
    osgt, gaussian, laplace = trio.profiles()
    epsilon = np.linspace(0, end, 241)
    few = np.linspace(0, end, 25)
    one, other = osgt.delta(epsilon), gaussian.delta(epsilon)
    panel = Panel(
        f"({letter}) m = {m:g}, σ² = {parameter:g}, V = {trio.osgt.var():.4f}",
        Axis("ε", 0, end),
        Axis("δ(ε)", 1e-14, 1, log=True),
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
        Axis("ε", 0, 1.6),
        Axis("δ of the Gaussian / δ of the OSGT", 0.01, 1e5, log=True),
        (ratio_1, ratio_2, Curve("equal", "gaussian", level, np.ones(2), "dotted")),
        (
            Mark(turn_1, 1.0, f"Gaussian better\nbelow ε = {turn_1:.3f} (a)\nand {turn_2:.3f} (b)", (22, -40)),
            Mark(turn_2, 1.0, "", (0, 0)),
        ),
        legend="upper left",
    )
    return Picture("figure-4", "Approximate differential privacy, Δ = 1", (first, second, added), turns_1 | turns_2)


def figure_5() -> Picture:
    """Rényi divergence, its bound of Theorem 2 and the Gaussian's; and all of them in units of the Gaussian's."""
    trio, whole = Trio.of(law_of(FIRST)), Trio.of(whole_law_of(FIRST))
    osgt, gaussian, laplace = trio.profiles()
    alpha = np.concatenate([1 + np.geomspace(0.01, 1, 20, endpoint=False), np.linspace(2, 100, 99)])
    few = np.array([2.0, *range(10, 101, 10)])
    exact, bound, rival = osgt.renyi(alpha), osgt.zcdp(alpha), gaussian.renyi(alpha)
    paper = Panel(
        "Divergence of order α, m = 3, σ² = 40",
        Axis("α", 1, 100),
        Axis("Rényi divergence", 0, 2),
        (
            Curve("OSGT, exact", "osgt", alpha, exact),
            Curve("OSGT, bound of Theorem 2", "bound", alpha, bound, "dashed"),
            Curve("Gaussian", "gaussian", alpha, rival),
            Curve("added: OSGT on the integers", "discrete", few, whole.profiles()[0].renyi(few), "points"),
        ),
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
        Axis("α", 1.01, 100, log=True),
        Axis("divergence / α·Δ²/2V", 0, 2.5),
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
    trio = Trio.of(law_of(EIGHT))
    osgt, gaussian, laplace = trio.profiles(DIMENSIONS)
    epsilon = np.linspace(0.0, 1.2, 33)
    exact, rival, pure = osgt.delta(epsilon), gaussian.delta(epsilon), laplace.delta(epsilon)
    bound, rival_bound = osgt.delta_from_renyi(epsilon), gaussian.delta_from_renyi(epsilon)
    paper = _eight_dimensions(
        "k = 8, m = 15, σ² = 630",
        "δ(ε), a bound",
        (
            Curve("OSGT, from Rényi divergence", "osgt", epsilon, bound),
            Curve("Gaussian, from Rényi divergence", "gaussian", epsilon, rival_bound),
        ),
        (float(osgt.delta_from_renyi(READ_AT)), float(gaussian.delta_from_renyi(READ_AT))),
    )
    few, whole = np.linspace(0.1, 1.2, 12), Trio.of(whole_law_of(EIGHT))
    added = _eight_dimensions(
        "Added: the exact δ(ε)",
        "δ(ε)",
        (
            Curve("OSGT, exact", "osgt", epsilon, exact),
            Curve("Gaussian, exact", "gaussian", epsilon, rival),
            Curve(f"Laplace, exact; δ = 0 from ε = {laplace.epsilon(0.0):.3f}", "laplace", epsilon, pure, "dashed"),
            Curve("OSGT on the integers, exact", "discrete", few, whole.profiles(DIMENSIONS)[0].delta(few), "points"),
            Curve("the bounds of the left picture", "faint", epsilon, bound, "dotted"),
            Curve("", "faint", epsilon, rival_bound, "dotted"),
        ),
        (float(osgt.delta(READ_AT)), float(gaussian.delta(READ_AT))),
    )
    turns = _turns(trio, DIMENSIONS, 1.2, "k = 8")
    first = turns["k = 8: OSGT below the Gaussian from ε"]
    ratios = Panel(
        "Added: bounds and truth",
        Axis("ε", 0, 1.2),
        Axis("ratio", 0.03, 1e6, log=True),
        (
            Curve("δ of the Gaussian / of the OSGT", "osgt", epsilon, np.exp(log_ratio(rival, exact))),
            Curve("paper's bound / exact, OSGT", "bound", epsilon, bound / exact, "dashed"),
            Curve("paper's bound / exact, Gaussian", "gaussian", epsilon, rival_bound / rival, "dashed"),
            Curve("equal", "faint", np.array([0.0, 1.2]), np.ones(2), "dotted"),
        ),
        (Mark(first, 1.0, f"Gaussian better\nbelow ε = {first:.3f}", (14, -34)),),
        legend="upper left",
    )
    return Picture("figure-6", "Eight dimensions, Δ = 1 in each, all of variance 398.2", (paper, added, ratios), turns)


def _eight_dimensions(title: str, what: str, curves: tuple[Curve, ...], read: tuple[float, float]) -> Panel:
    """Curves over ε, with the δ of the OSGT and of the Gaussian where the paper reads them."""
    places = (-64.0, -10.0), (8.0, 6.0)
    marks = tuple(Mark(READ_AT, value, f"{value:.3g}", place) for value, place in zip(read, places, strict=True))
    x, y = Axis("ε", 0, 1.2), Axis(what, 1e-20, 1, log=True)
    return Panel(title, x, y, curves, marks, legend="lower left")
