"""The data of the pictures: axes, ranges, and values against formulas and reference numbers."""

import math

import numpy as np
import pytest
from scipy.stats import laplace, norm

from osgt import OSGT, DiscreteOSGT, PrivacyProfile
from osgt.paper.drawing import draw
from osgt.paper.figures import Trio, figure_1, figure_2, figure_3, figure_4, figure_5, figure_6, of_shape, turns

V = 27.704678326334605


@pytest.fixture(scope="module")
def pictures():
    return {p.name: p for p in (figure() for figure in (figure_1, figure_2, figure_3, figure_4, figure_5, figure_6))}


def test_every_picture_shows_the_paper_and_what_we_add(pictures):
    assert list(pictures) == [f"figure-{i}" for i in range(1, 7)]
    for picture in pictures.values():
        assert {panel.added for panel in picture.panels} == {False, True}
        for panel in picture.panels:
            for curve in panel.curves:
                assert curve.x.shape == curve.y.shape
                assert not np.any(np.isnan(curve.y))


def test_figure_1_is_the_schematic(pictures):
    panel = pictures["figure-1"].panels[0]
    kept, left = panel.curve("kept: the OSGT"), panel.curve("left out")
    two = np.exp(-0.5 * (kept.x + 0.6) ** 2), np.exp(-0.5 * (kept.x - 0.6) ** 2)
    assert kept.y == pytest.approx(np.minimum(*two), rel=1e-12)
    assert left.y == pytest.approx(np.maximum(*two), rel=1e-12)
    assert (panel.x.low, panel.x.high) == (-5, 5)
    assert (panel.y.low, panel.y.high) == (0, 1.1)
    pmf = pictures["figure-1"].panels[1].curves[0]
    weights = np.exp(-3 * np.abs(pmf.x) / 40 - pmf.x**2 / 80)
    assert pmf.y / pmf.y.max() == pytest.approx(weights, rel=1e-12)


def test_figure_2_is_below_sigma_squared_and_widens_with_m(pictures):
    panel, added = pictures["figure-2"].panels
    two, three = panel.curve("V(m, σ²), m = 2"), panel.curve("V(m, σ²), m = 3")
    assert np.all(three.y < two.y)
    assert np.all(two.y < two.x)
    assert np.interp(40, three.x, three.y) == pytest.approx(V, rel=1e-3)
    assert panel.marks[0].y == pytest.approx(V)
    information = added.curves[1]
    assert information.y[0] == pytest.approx(1)
    assert np.all(np.diff(information.y) > 0)
    assert information.y[-1] < 2


def test_figure_3_compares_at_equal_variance(pictures):
    density, survival, _ = pictures["figure-3"].panels
    y = density.curve("OSGT").x
    assert density.curve("Gaussian").y == pytest.approx(norm.pdf(y, scale=math.sqrt(V)), rel=1e-9)
    assert density.curve("Laplace").y == pytest.approx(laplace.pdf(y, scale=math.sqrt(V / 2)), rel=1e-9)
    far = survival.curve("OSGT")
    between = far.x > 9.3
    assert np.all(survival.curve("Gaussian").y[between] < far.y[between])
    assert np.all(far.y[between] < survival.curve("Laplace").y[between])
    assert far.y == pytest.approx(norm.sf((3 + far.x) / 40**0.5) / (2 * norm.sf(3 / 40**0.5)), rel=1e-9)
    assert list(pictures["figure-3"].turns.values()) == pytest.approx([7.8712, 9.2192], abs=1e-3)


def test_figure_4_has_the_numbers_of_the_text(pictures):
    first, second, ratio = pictures["figure-4"].panels
    osgt, gaussian = first.curve("OSGT"), first.curve("Gaussian")
    at_one = np.argmin(np.abs(osgt.x - 1.0))
    assert osgt.x[at_one] == pytest.approx(1.0)
    assert osgt.y[at_one] == pytest.approx(7.84736101774877e-12, rel=1e-9)
    assert gaussian.y[at_one] == pytest.approx(3.92850593291963e-9, rel=1e-9)
    assert "V = 14.1372" in second.title
    assert first.y.log
    turn = pictures["figure-4"].turns["(a): OSGT below the Gaussian from ε"]
    assert turn == pytest.approx(0.14313, abs=1e-4)
    better = ratio.curve("m = 3, σ² = 40")
    assert np.all(better.y[better.x > turn] > 1)
    assert np.all(better.y[better.x < turn] < 1)
    # The Laplace of the same variance has the scale √(V/2) and is (1/scale)-differentially private.
    assert pictures["figure-4"].turns["(a): Laplace gives δ = 0 from ε"] == pytest.approx(math.sqrt(2 / V))


def test_figure_5_shows_divergence_bound_and_gaussian(pictures):
    panel, _ = pictures["figure-5"].panels
    exact, bound, gaussian = (panel.curve(label) for label in ("OSGT, exact", "OSGT, bound of Theorem 2", "Gaussian"))
    assert np.all(exact.y <= bound.y)
    assert gaussian.y == pytest.approx(gaussian.x / (2 * V))
    constant = math.log(norm.cdf(3 / 40**0.5) / norm.sf(3 / 40**0.5))
    assert bound.y == pytest.approx(bound.x / 80 + constant / (bound.x - 1))
    # α = 2 by quadrature: the integral of f(y)²/f(y - 1).
    law, y = OSGT(3, 40**0.5), np.linspace(-150, 150, 600_001)
    integral = np.sum(np.exp(2 * law.logpdf(y) - law.logpdf(y - 1))) * (y[1] - y[0])
    assert np.interp(2.0, exact.x, exact.y) == pytest.approx(math.log(integral), rel=1e-6)
    turns_ = pictures["figure-5"].turns
    assert turns_["OSGT below the Gaussian from α"] == pytest.approx(4.847, abs=1e-2)
    assert turns_["bound of Theorem 2 below the Gaussian from α"] == pytest.approx(12.251, abs=1e-2)


def test_figure_6_has_bounds_and_exact_values(pictures):
    paper, exact, _ = pictures["figure-6"].panels
    bound = paper.curve("OSGT, from Rényi divergence")
    at = np.argmin(np.abs(bound.x - 0.9))
    assert bound.x[at] == pytest.approx(0.9)
    assert bound.y[at] == pytest.approx(1.2287e-14, rel=1e-4)
    assert paper.curve("Gaussian, from Rényi divergence").y[at] == pytest.approx(2.2297e-11, rel=1e-4)
    assert exact.curve("OSGT, exact").y[at] == pytest.approx(1.6746392134e-15, rel=2e-4)
    assert exact.curve("Gaussian, exact").y[at] == pytest.approx(3.5984e-12, rel=1e-4)
    assert np.all(exact.curve("OSGT, exact").y <= bound.y)
    integers = exact.curve("OSGT on the integers, exact")
    law = DiscreteOSGT(15, 630**0.5)
    assert integers.y == pytest.approx(PrivacyProfile(law, coordinates=8).delta(integers.x))
    turn = pictures["figure-6"].turns["k = 8: OSGT below the Gaussian from ε"]
    assert turn == pytest.approx(0.3864, abs=1e-3)


@pytest.mark.parametrize("law", [OSGT(3, 40**0.5), DiscreteOSGT(3, 40**0.5), DiscreteOSGT(0.4, 0.6)])
def test_trio_has_one_variance(law):
    trio = Trio.of(law)
    assert trio.gaussian.var() == pytest.approx(law.var(), rel=1e-9)
    assert trio.laplace.var() == pytest.approx(law.var(), rel=1e-9)


def test_of_shape():
    law = of_shape(0.6, 400.0)
    assert law.shape == pytest.approx(0.6)
    assert law.var() == pytest.approx(400)


def test_turns_finds_all():
    assert turns(math.cos, np.linspace(0, 10, 50)) == pytest.approx([math.pi / 2, 1.5 * math.pi, 2.5 * math.pi])
    assert turns(lambda x: 1.0 + x, np.linspace(0, 10, 5)) == []


def test_drawing_writes_png_and_svg_alike(pictures, tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        paths = draw(pictures["figure-3"], folder)
        assert [path.name for path in paths] == ["figure-3.png", "figure-3.svg"]
    for name in ("figure-3.png", "figure-3.svg"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert (first / "figure-3.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (first / "figure-3.svg").read_text(encoding="utf-8")
