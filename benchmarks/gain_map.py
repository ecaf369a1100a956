"""Where OSGT noise wins, and by how much: variance against the better of Gaussian and Laplace at equal (ε, δ).

Both rivals are accounted for as tightly as the OSGT. Prints the map; with a path as its argument it also draws it.
"""

import sys

import numpy as np
from rich.progress import track

from measure import print_table
from osgt import compare

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
DELTAS = (1e-6, 1e-10)
COORDINATES = (1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128)


def gain(epsilon, delta, coordinates):
    """Better end, part of its variance that the OSGT saves, and the shape of the OSGT."""
    rows = compare(epsilon, delta, coordinates=coordinates, discrete=False, cells=1)
    end = min(("gaussian", "laplace"), key=lambda name: rows[name].std)
    return end[0].upper(), rows[end].gain, rows["osgt"].noise.shape


def draw(path, gains):
    from matplotlib.figure import Figure  # noqa: PLC0415 - only where a picture is asked for

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, delta in zip(figure.subplots(1, len(DELTAS), sharey=True), DELTAS, strict=True):
        values = np.array([[100 * gains[e, delta, r][1] for r in COORDINATES] for e in EPSILONS])
        picture = axes.imshow(values, cmap="viridis", vmin=0, vmax=13, aspect="auto", origin="lower")
        for i, epsilon in enumerate(EPSILONS):
            for j, count in enumerate(COORDINATES):
                letter, colour = gains[epsilon, delta, count][0], "white" if values[i, j] < 8 else "black"
                axes.text(j, i, f"{letter}\n{values[i, j]:.1f}", ha="center", va="center", fontsize=7, color=colour)
        axes.set(title=f"δ = {delta:g}", xlabel="coordinates that one person changes")
        axes.set_xticks(range(len(COORDINATES)), COORDINATES, fontsize=8)
        axes.set_yticks(range(len(EPSILONS)), [f"{e:g}" for e in EPSILONS])
    figure.axes[0].set_ylabel("ε")
    figure.colorbar(
        picture, ax=figure.axes, label="variance saved against the better of\nGaussian (G) and Laplace (L), %"
    )
    figure.savefig(path, dpi=160)


if __name__ == "__main__":
    cells = [(e, d, r) for d in DELTAS for e in EPSILONS for r in COORDINATES]
    found = {cell: gain(*cell) for cell in track(cells, description="calibrating")}
    for delta in DELTAS:
        print_table(
            f"Variance saved against the better of Gaussian (G) and Laplace (L), δ = {delta:g}: gain in % @ m/σ",
            ["coordinates", *(f"ε = {e:g}" for e in EPSILONS)],
            [
                [str(r), *(f"{g[0]} {100 * g[1]:.1f} @ {g[2]:.3g}" for g in (found[e, delta, r] for e in EPSILONS))]
                for r in COORDINATES
            ],
        )
    best = max(found, key=lambda cell: found[cell][1])
    print(f"Largest gain: {100 * found[best][1]:.1f} % at ε = {best[0]:g}, δ = {best[1]:g}, {best[2]} coordinates.")
    print(f"Least: {100 * min(g[1] for g in found.values()):.2f} % (never worse than the better end).")
    if len(sys.argv) > 1:
        draw(sys.argv[1], found)
