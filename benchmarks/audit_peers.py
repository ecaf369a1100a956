"""What `osgt.audit` says about other libraries' mechanisms, with numbers that they were made for.

Each mechanism adds noise to one number, and the neighbour's number is larger by 1. The claim is the library's own:
ε = 1 for Laplace noise of scale 1, the curve of the Gaussian of scale 4 for OpenDP's, (1, 1e-6) for diffprivlib's
Gaussian. Then come queries that are released by functions of a table, with made neighbours (`peers/audited.py`). As
many draws of NumPy's own Laplace noise, and of osgt's Mechanism, are judged beside them.

The libraries have environments of their own (`PEERS`, a folder; made if it is not there).
"""

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

from osgt import OSGT, Mechanism, PrivacyProfile, audit

DRAWS = int(os.environ.get("DRAWS", "100000"))
PEERS = Path(os.environ.get("PEERS", "build/peers/audit"))
PROGRAM = Path(__file__).parent / "peers" / "draws.py"
FUNCTIONS = Path(__file__).parent / "peers" / "audited.py"

#: The last is this project: functions of tables are audited beside the libraries that they call.
PACKAGES = [
    "opendp[polars]==0.16.0",
    "pipeline_dp",
    "diffprivlib",
    "scikit-learn<1.6",
    f"{Path(__file__).parents[1]}[tables]",
]

PURE = {"epsilon": 1, "delta": 0}
CLAIMS = {
    "opendp laplace": PURE,
    "opendp laplace on integers": PURE,
    "opendp gaussian": {"claim": PrivacyProfile(OSGT.gaussian(4.0))},
    "diffprivlib laplace": PURE,
    "diffprivlib geometric": PURE,
    "diffprivlib snapping": PURE,
    "diffprivlib gaussian": {"epsilon": 1, "delta": 1e-6},
}


def interpreter():
    """The Python of the libraries' environment."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        venv.create(PEERS, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return python


def replayed(draws):
    """A mechanism that hands out draws that were made before."""
    used = [0, 0]

    def mechanism(which, size):
        start = used[which]
        used[which] += size
        return draws[which, start : start + size]

    return mechanism


def judged(name, mechanism, claim, seconds):
    begin = time.perf_counter()
    result = audit(mechanism, data=0, neighbour=1, vectorised=True, draws=DRAWS, **claim)
    took = f"{seconds:.1f} s to draw, {time.perf_counter() - begin:.1f} s to judge"
    print(f"{name}: {'passed' if result.passed else 'FAILED'} ({took})")
    print("  " + " ".join([result.checks[0].words, *(finding.what for finding in result.findings)]))


def main():
    python = interpreter()
    listed = subprocess.run([python, "-m", "pip", "list"], capture_output=True, text=True, check=True).stdout
    print(
        ", ".join(" ".join(line.split()) for line in listed.splitlines() if line.startswith(("opendp", "diffprivlib")))
    )
    print(f"{DRAWS:,} draws on each of two numbers; false alarms at most once in a million audits")
    rng = np.random.default_rng()
    begin = time.perf_counter()
    noise = rng.laplace(size=(2, DRAWS)) + np.array([[0.0], [1.0]])
    judged("numpy laplace, added to floats", replayed(noise), PURE, time.perf_counter() - begin)
    own = Mechanism(1, 0)
    begin = time.perf_counter()
    noise = np.stack([own.release(np.full(DRAWS, value)) for value in (0, 1)])
    judged("osgt Mechanism(1, 0)", replayed(noise), PURE, time.perf_counter() - begin)
    for name, claim in CLAIMS.items():
        with tempfile.TemporaryDirectory() as folder:
            path, begin = Path(folder) / "draws.npy", time.perf_counter()
            done = subprocess.run(
                [python, PROGRAM, name, str(DRAWS), path], capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"{name}: did not run: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                continue
            judged(name, replayed(np.load(path)), claim, time.perf_counter() - begin)
    subprocess.run([python, FUNCTIONS], check=True)


if __name__ == "__main__":
    main()
