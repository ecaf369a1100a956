"""Every number of the paper, against formulas written down a second time, and the verdicts."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from osgt import OSGT, PrivacyProfile
from osgt.paper.report import Number, added_numbers, markdown, numbers

ROWS = {row.what: row for row in numbers()}
DIFFERING = {
    "ρ of the zCDP statement as Δ²/σ², at m = 3, σ² = 40",
    "δ of the OSGT from Rényi divergence, k = 8, ε = 0.9",
}


def variance(m, parameter):
    """Proposition 1, as printed."""
    sigma = math.sqrt(parameter)
    return (
        parameter + m**2 - m * sigma * math.exp(-(m**2) / (2 * parameter)) / math.sqrt(2 * math.pi) / norm.sf(m / sigma)
    )


def delta_osgt(m, parameter, epsilon):
    """Theorem 1, as printed."""
    sigma = math.sqrt(parameter)
    if parameter * epsilon <= 0.5 + m:
        b = sigma / (2 * m + 1)
        inner = norm.sf(0.5 / b - b * epsilon) + math.exp(epsilon) * norm.sf(0.5 / b + b * epsilon)
        return 1 - inner / (2 * norm.sf(m / sigma))
    inner = norm.sf(sigma * epsilon - 0.5 / sigma) - math.exp(epsilon) * norm.sf(sigma * epsilon + 0.5 / sigma)
    return inner / (2 * norm.sf(m / sigma))


def delta_gaussian(variance_, epsilon):
    s = math.sqrt(variance_)
    return norm.sf(s * epsilon - 0.5 / s) - math.exp(epsilon) * norm.sf(s * epsilon + 0.5 / s)


def conversion(renyi, alpha, epsilon):
    """The δ that the paper's Section IV-C has for one order."""
    return math.exp((alpha - 1) * (renyi - epsilon)) / (alpha - 1) * (1 - 1 / alpha) ** alpha


EXPECTED = {
    "Q⁻¹(0.25), the stated limit of m/σ for a sub-Gaussian tail": (norm.isf(0.25), 1e-12),
    "ρ of the zCDP statement as Δ²/σ², at m = 3, σ² = 40": (0.0125, 1e-12),
    "V(3, 40)": (27.704678326334605, 1e-12),
    "V(3, 40) is below σ²": (variance(3, 40), 1e-12),
    "V(2, 20) is below σ²": (variance(2, 20), 1e-12),
    "V(15, 630) is below σ²": (variance(15, 630), 1e-12),
    "m/σ at (3, 40)": (3 / math.sqrt(40), 1e-12),
    "m/σ at (3, 40) is within the limit": (3 / math.sqrt(40), 1e-12),
    "ε of the OSGT at δ = 1e-10, (3, 40)": (0.936625756498584, 1e-10),
    "ε of the Gaussian at δ = 1e-10, V = 27.7047": (1.11994533875367, 1e-10),
    "δ of the OSGT at ε = 1, (3, 40)": (delta_osgt(3, 40, 1.0), 1e-7),
    "δ of the Gaussian at ε = 1, V = 27.7047": (delta_gaussian(variance(3, 40), 1.0), 1e-7),
    "m/σ at (2, 20)": (2 / math.sqrt(20), 1e-12),
    "m/σ at (2, 20) is within the limit": (2 / math.sqrt(20), 1e-12),
    "the α below which the bound bends upwards: below 10": (
        1 + math.sqrt(math.log(norm.cdf(3 / math.sqrt(40)) / norm.sf(3 / math.sqrt(40))) * 80),
        1e-9,
    ),
    "V(15, 630), to two digits": (398.21747353301515, 1e-12),
    "δ of the OSGT from Rényi divergence, k = 8, ε = 0.9": (1.2287e-14, 1e-4),
    "δ of the Gaussian from Rényi divergence, k = 8, ε = 0.9": (
        min(conversion(a * 4 / variance(15, 630), a, 0.9) for a in np.linspace(30, 70, 4001)),
        1e-6,
    ),
    "orders of magnitude between these two": (math.log10(2.2297e-11 / 1.2287e-14), 1e-4),
}


def test_every_row_has_an_oracle():
    assert set(ROWS) == set(EXPECTED)


@pytest.mark.parametrize("what", EXPECTED)
def test_number(what):
    value, tolerance = EXPECTED[what]
    assert ROWS[what].ours == pytest.approx(value, rel=tolerance)
    assert ROWS[what].expected
    assert ROWS[what].agrees == (what not in DIFFERING)


def test_the_reason_for_the_printed_delta():
    # The least bound lies between the two orders at which the printed value is met.
    renyi = PrivacyProfile(OSGT(15, 630**0.5), coordinates=8).renyi
    assert conversion(renyi(66.5), 66.5, 0.9) == pytest.approx(1.44e-14, abs=0.005e-14)
    assert conversion(renyi(76.8), 76.8, 0.9) == pytest.approx(1.44e-14, abs=0.005e-14)
    assert conversion(renyi(71.66), 71.66, 0.9) == pytest.approx(1.2287e-14, rel=1e-4)


def test_continuity_between_the_cases_of_theorem_1():
    epsilon = 7 / 80
    stated = 0.5 - math.exp(epsilon) * norm.sf(4 / math.sqrt(40)) / (2 * norm.sf(3 / math.sqrt(40)))
    assert PrivacyProfile(OSGT(3, 40**0.5)).delta(epsilon) == pytest.approx(stated, rel=1e-9)


@pytest.mark.parametrize(
    ("printed", "ours", "agrees"),
    [
        ("0.94", 0.9366, True),
        ("0.94", 0.9449, True),
        ("0.94", 0.9451, False),
        ("7.8e-12", 7.847e-12, True),
        ("7.8e-12", 7.86e-12, False),
        ("27.7047", 27.70464, False),
    ],
)
def test_tolerance_is_what_the_printed_digits_imply(printed, ours, agrees):
    assert Number("", "", printed, ours).agrees is agrees


def test_verdicts():
    assert Number("", "", "1.0", 1.0).verdict == "agrees"
    wrong = Number("", "", "1.0", 2.0)
    assert not wrong.expected
    assert wrong.verdict == "differs: no reason known"
    explained = Number("", "", "1.0", 2.0, why="a slip")
    assert explained.expected
    assert explained.verdict == "differs: a slip"
    assert not Number("", "", "1.0", 1.0, why="a slip").expected
    assert Number("", "", "40", 39.9, "<").agrees
    assert not Number("", "", "40", 40.0, "<").agrees
    assert Number("", "", "40", 40.0, "≤").agrees


def test_added_numbers():
    values = list(added_numbers().values())
    assert values[:3] == pytest.approx([1.6746392134e-15, 3.5984e-12, 2149], rel=3e-4)
    assert values[3:5] == pytest.approx(values[:2], rel=0.01)
    assert values[5:] == pytest.approx([8 * math.sqrt(2 / variance(15, 630)), math.sqrt(2 / variance(3, 40))])


def test_markdown_and_json():
    table = markdown(list(ROWS.values()))
    assert table.count("\n") == len(ROWS) + 2
    assert "| 1.44e-14 | 1.22872e-14 |" in table
    plain = json.loads(json.dumps([row.to_dict() for row in ROWS.values()], allow_nan=False))
    assert {row["verdict"].split(":")[0] for row in plain} == {"agrees", "differs"}


def test_the_docs_page_has_this_table():
    page = Path(__file__).parents[2] / "docs" / "paper" / "numbers.md"
    assert markdown(list(ROWS.values())) in page.read_text(encoding="utf-8")
