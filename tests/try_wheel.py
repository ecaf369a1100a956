"""Install a wheel alone in a new environment and run the README's example: `python tests/try_wheel.py WHEEL`."""

import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]


def example():
    """The README's first example in Python."""
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block[1]


def main(wheel):
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{wheel.resolve()}[demo]"], check=True)
        # In a folder of its own and without the user's paths: the package that runs is the one in the wheel.
        run = subprocess.run(
            [python, "-I", "-c", example()], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
    print(run)
    months = {int(line.split()[0].strip("│")) for line in run.splitlines() if re.match(r"\W*\d+\s", line)}
    if not set(range(1, 13)) <= months:
        raise SystemExit("the table that the README's example prints does not have its twelve months")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
