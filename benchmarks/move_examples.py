"""The programs of other libraries in docs/move.md, run as they stand there, each in an environment of its own.

Claim: all of them run, with the versions that are printed, and count each of the two groups to within 300 of the truth.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tables_peers import interpreter, version

PAGE = Path(__file__).resolve().parent.parent / "docs" / "move.md"
NAMES = ("opendp", "tumult", "pipelinedp")


def rows() -> pa.Table:
    """The rows that the page makes."""
    rng = np.random.default_rng(1)
    return pa.table({"user": rng.integers(0, 2_000, 5_000), "grp": rng.choice(["a", "b"], 5_000)})


def main() -> None:
    programs = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        pa.parquet.write_table(rows(), Path(folder) / "rows.parquet")
        for name, program in zip(NAMES, programs, strict=True):
            python = interpreter(name)
            print(f"== {name} {version(python, name)}")
            environment = os.environ | {"PYSPARK_PYTHON": str(python)}
            environment.pop("PYTHONPATH", None)
            done = subprocess.run(
                [python, "-c", program], cwd=folder, env=environment, check=False, capture_output=True, text=True
            )
            print(done.stdout if done.returncode == 0 else done.stderr)
            counts = [float(number) for number in re.findall(r"\b2[0-9]{3}(?:\.[0-9]+)?\b", done.stdout)]
            close = sum(abs(count - 2_500) <= 300 for count in counts) >= 2
            print(f"{name} runs and counts both groups: {'met' if done.returncode == 0 and close else 'missed'}")


if __name__ == "__main__":
    main()
