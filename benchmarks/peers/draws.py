"""Draws of a library's mechanisms on 0 and on 1, as its user writes them: `python draws.py NAME DRAWS FILE`.

Runs with the interpreter of the library's own virtual environment and writes an array of shape (2, draws).
"""

import sys

import numpy as np

DELTA = 1e-6


def opendp(kind):
    import opendp.prelude as dp  # noqa: PLC0415 - only one of the libraries is there

    dp.enable_features("contrib")
    if kind == "laplace on integers":
        space = dp.atom_domain(T=int), dp.absolute_distance(T=int)
        return space >> dp.m.then_laplace(scale=1.0), int
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    if kind == "laplace":
        return space >> dp.m.then_laplace(scale=1.0), float
    return space >> dp.m.then_gaussian(scale=4.0), float


def diffprivlib(kind):
    from diffprivlib import mechanisms  # noqa: PLC0415

    made = {
        "laplace": lambda: mechanisms.Laplace(epsilon=1, sensitivity=1),
        "geometric": lambda: mechanisms.Geometric(epsilon=1, sensitivity=1),
        "snapping": lambda: mechanisms.Snapping(epsilon=1, sensitivity=1, lower=-1000, upper=1000),
        "gaussian": lambda: mechanisms.GaussianAnalytic(epsilon=1, delta=DELTA, sensitivity=1),
    }[kind]()
    return made.randomise, int if kind == "geometric" else float


if __name__ == "__main__":
    name, draws, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    library, _, kind = name.partition(" ")
    mechanism, dtype = {"opendp": opendp, "diffprivlib": diffprivlib}[library](kind)
    np.save(path, np.array([[mechanism(dtype(value)) for _ in range(draws)] for value in (0, 1)]))
