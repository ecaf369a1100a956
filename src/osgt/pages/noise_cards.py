"""Cards and pictures of a mechanism and of a privacy profile."""

import math
from typing import Any

import numpy as np

from osgt.mechanism import Mechanism
from osgt.pages.cards import Card, CardTable, Cell, Curve, curve
from osgt.pages.numbers import half_width, listed, percent, rounded_up
from osgt.pages.plots import INK, axes_for
from osgt.privacy import PrivacyProfile

#: δ of a curve reaches from 1 down to this; ε is told for some δ in between. A picture needs no more exactness.
_LEAST, _TOLD, _SLACK, _POINTS = 1e-12, (1e-4, 1e-6, 1e-8, 1e-10), 1e-2, 25

_CONFIDENCES = (0.5, 0.9, 0.95, 0.99)


def profile_card(profile: PrivacyProfile) -> Card:
    """δ(ε) in a small picture, and ε for some δ."""
    told = [[Cell(f"{delta:g}"), Cell(rounded_up(float(profile.epsilon(delta, slack=_SLACK))))] for delta in _TOLD]
    return Card(
        title="Privacy profile",
        line=listed([_part(part.noise, part.shift, part.coordinates) for part in profile.parts]),
        curve=_delta_curve(profile),
        tables=[CardTable(["δ", "ε"], told, keys=1, caption="Smallest ε that is proved for a δ, rounded up")],
    )


def _part(noise: Any, shift: float, coordinates: int) -> str:
    return f"{noise!r}, shift {shift:g}, {coordinates:,} {'coordinate' if coordinates == 1 else 'coordinates'}"


def delta_points(profile: PrivacyProfile, points: int) -> tuple[Any, Any]:
    """ε from 0 to where δ is next to nothing, and δ there."""
    last = float(profile.epsilon(_LEAST, slack=_SLACK))
    epsilons = np.linspace(0.0, last, points)
    return epsilons, np.asarray(profile.delta(epsilons, slack=_SLACK))


def _delta_curve(profile: PrivacyProfile) -> Curve:
    epsilons, deltas = delta_points(profile, _POINTS)
    points = [(float(e), math.log10(max(float(d), _LEAST))) for e, d in zip(epsilons, deltas, strict=True)]
    last = float(epsilons[-1])
    across = [(0.0, "ε = 0"), (last / 2, f"{last / 2:.2g}"), (last, f"{last:.2g}")]
    up = [(0.0, "δ = 1"), (-6.0, "10⁻⁶"), (-12.0, "10⁻¹²")]
    words = f"δ falls from {float(deltas[0]):.2g} at ε = 0 to 10⁻¹² at ε = {last:.3g}"
    return curve(points, across, up, words)


def plot_profile(profile: PrivacyProfile, axes: Any) -> Any:
    """δ against ε."""
    axes = axes_for(axes)
    epsilons, deltas = delta_points(profile, 200)
    axes.semilogy(epsilons, np.maximum(deltas, _LEAST), color=INK, linewidth=1.8)
    axes.set(xlabel="ε", ylabel="δ", ylim=(_LEAST, 1), title="Privacy profile: smallest δ that is proved for an ε")
    return axes


def mechanism_card(mechanism: Mechanism) -> Card:
    """The noise, its intervals and what is promised."""
    noise, step = mechanism.noise, mechanism.step
    facts = [
        ("Values", mechanism.values),
        ("Largest change of a value", f"{mechanism.shift:g}"),
        ("Values that one person can change", f"{mechanism.coordinates:,}"),
        ("Noise", f"{noise!r}" + ("" if step == 1 else f", in steps of {step:g}")),
        ("Standard deviation", f"{noise.std() * step:.4g}"),
    ]
    widths = [[Cell(percent(often)), Cell(half_width(float(mechanism.interval(often))))] for often in _CONFIDENCES]
    epsilon, delta = mechanism.epsilon, mechanism.delta
    promise = (
        "" if epsilon is None else f"Each release is (ε, δ)-differentially private: ε = {epsilon:g}, δ = {delta:g}."
    )
    table = CardTable(["of the time", "the noise is within"], widths, keys=1)
    return Card(title="Mechanism", facts=facts, tables=[table], promise=promise)
