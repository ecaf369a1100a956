"""Figures 1 to 3 of the paper: the distribution itself."""

import math

import numpy as np

from osgt.noise import OSGT, DiscreteOSGT
from osgt.paper.picture import Curve, Mark, Panel, Picture
from osgt.paper.trio import Trio, last_turn

#: The schematic of Figure 1 has these parameters, up to its unit of length.
SCHEMATIC_M = 0.6
#: (m, σ²) of the two examples in one dimension.
FIRST, SECOND = (3.0, 40.0), (2.0, 20.0)


def law_of(example: tuple[float, float]) -> OSGT:
    """The OSGT with the paper's (m, σ²)."""
    m, variance_parameter = example
    return OSGT(m, math.sqrt(variance_parameter))


def figure_1() -> Picture:
    """The schematic density, and beside it a distribution on the integers."""
    m = SCHEMATIC_M
    law, bell = OSGT(m, 1.0), OSGT.gaussian(1.0)
    y = np.linspace(-5, 5, 401)
    inner = law.pdf(y) / law.pdf(0.0) * math.exp(-(m**2) / 2)
    outer = bell.pdf(np.abs(y) - m) / bell.pdf(0.0)
    schematic = Panel(
        "Two Gaussians at ±m, and the tails kept",
        "y",
        "",
        (
            Curve("kept: the OSGT", "osgt", y, inner, "area"),
            Curve("left out", "gaussian", y, outer, "dotted"),
        ),
        xlim=(-5, 5),
        ylim=(0, 1.1),
        marks=(Mark(m, 1.0, "m", (5, 4)), Mark(-m, 1.0, "−m", (-18, 4))),
        legend="upper left",
    )
    real = law_of(FIRST)
    whole = DiscreteOSGT.from_rates(real.slope, real.curvature)
    k, fine = np.arange(-20.0, 21.0), np.linspace(-20, 20, 401)
    added = Panel(
        "Added: the law on the integers (m = 3, σ² = 40)",
        "y",
        "probability",
        (
            Curve(f"on the integers, variance {whole.var():.4f}", "discrete", k, whole.pmf(k), "bars"),
            Curve(f"on the reals, variance {real.var():.4f}", "osgt", fine, real.pdf(fine)),
        ),
        xlim=(-20, 20),
        ylim=(0, 0.115),
        added=True,
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
    discrete = np.array([DiscreteOSGT(FIRST[0], math.sqrt(v)).var() for v in on_integers])
    curves.append(Curve("added: on the integers, m = 3", "discrete", on_integers, discrete, "points"))
    marks = tuple(
        Mark(v, law_of((m, v)).var(), f"V({m:g}, {v:g}) = {law_of((m, v)).var():.4f}", offset)
        for (m, v), offset in ((FIRST, (14.0, -16.0)), (SECOND, (14.0, -16.0)))
    )
    paper = Panel(
        "Variance against the parameter σ²",
        "σ²",
        "variance V",
        tuple(curves),
        marks,
        xlim=(0, 100),
        ylim=(0, 100),
        legend="upper left",
    )
    shape = np.linspace(0.0, 6.0, 241)
    laws = [OSGT(z, 1.0) for z in shape]
    variance = np.array([law.var() for law in laws])
    information = np.array([law.fisher_information() for law in laws])
    added = Panel(
        "Added: one curve for all m and σ, and its price",
        "m/σ",
        "",
        (
            Curve("V/σ²: what the OSGT gains far out", "osgt", shape, variance),
            Curve(
                "V·Fisher information: what it loses with very many coordinates", "bound", shape, variance * information
            ),
            Curve("2: the Laplace end", "laplace", shape, np.full_like(shape, 2.0), "dotted"),
        ),
        xlim=(0, 6),
        ylim=(0, 2.5),
        added=True,
        legend="upper right",
    )
    return Picture("figure-2", "Variance of the OSGT", (paper, added))


def figure_3() -> Picture:
    """Density and survival function against Gaussian and Laplace, and where the tails cross."""
    trio = Trio.of(law_of(FIRST))
    whole = Trio.of(DiscreteOSGT(FIRST[0], math.sqrt(FIRST[1])))
    named = (("OSGT", "osgt", trio.osgt), ("Gaussian", "gaussian", trio.gaussian), ("Laplace", "laplace", trio.laplace))
    y = np.linspace(-20, 20, 801)
    density = Panel(
        "(a) Density",
        "y",
        "f(y)",
        tuple(Curve(label, noise, y, np.asarray(law.pdf(y))) for label, noise, law in named if isinstance(law, OSGT)),
        xlim=(-20, 20),
        ylim=(0, 0.14),
    )
    far = np.linspace(0, 40, 401)
    k = np.arange(0.0, 41.0, 2.0)
    survival = Panel(
        "(b) Survival function",
        "y",
        "P[Y > y]",
        (
            *(Curve(label, noise, far, np.asarray(law.sf(far))) for label, noise, law in named),
            # On the integers P[Y > k] belongs to the middle between k and k + 1.
            Curve("added: OSGT on the integers", "discrete", k + 0.5, np.asarray(whole.osgt.sf(k)), "points"),
        ),
        xlim=(0, 40),
        ylim=(1e-14, 1),
        ylog=True,
    )
    grid = np.linspace(0.25, 40, 160)
    from_gaussian = last_turn(lambda v: float(trio.osgt.logsf(v) - trio.gaussian.logsf(v)), grid)
    from_laplace = last_turn(lambda v: float(trio.laplace.logsf(v) - trio.osgt.logsf(v)), grid)
    near = np.linspace(0, 20, 401)
    added = Panel(
        "Added: tails in units of the Gaussian's",
        "y",
        "P[Y > y] / P[Gaussian > y]",
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
        xlim=(0, 20),
        ylim=(0.3, 20),
        ylog=True,
        added=True,
        legend="upper left",
    )
    return Picture(
        "figure-3",
        "Density and tail at m = 3, σ² = 40, all of variance 27.7047",
        (density, survival, added),
        {"OSGT tail above the Gaussian's from y": from_gaussian, "Laplace tail above the OSGT's from y": from_laplace},
    )
