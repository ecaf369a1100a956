"""How often the intervals of the tutorials hold the truth, and how wide they are against the numbers, in ten releases.

Claim: in each table of each tutorial at least 90 % of the intervals hold the true number, and their half-widths are a
few percent of the numbers. The code is that of the pages: those blocks that release and compare run again.
"""

import contextlib
import io
import re
import tempfile
import warnings
from pathlib import Path

from measure import print_table

DOCS = Path(__file__).parents[1] / "docs"
RUNS = 10
LINE = re.compile(r"^(\w+): (\d+) of (\d+) intervals hold the truth.*half-width (\S+)", flags=re.MULTILINE)


def runs(page: str) -> list[list[tuple[str, ...]]]:
    """What the comparisons of a page say, in each run."""
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, object] = {}
    said = [_say(blocks, names)]
    [release] = re.findall(r"^release = .*$", "\n".join(blocks), re.MULTILINE)
    compare = [block for block in blocks if "hold the truth" in block]
    return said + [_say([release, *compare], names) for _ in range(RUNS - 1)]


def _say(blocks: list[str], names: dict[str, object]) -> list[tuple[str, ...]]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(block, names)
    return LINE.findall(printed.getvalue())


def main() -> None:
    warnings.simplefilter("ignore")
    rows = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for page in ("tutorial.md", "tutorial-tables.md"):
            for lines in zip(*runs(page), strict=True):
                held, intervals = (sum(int(line[i]) for line in lines) for i in (1, 2))
                widths = sorted((line[3] for line in lines), key=lambda width: float(width.rstrip("%")))
                share, width = f"{held / intervals:.0%}", widths[len(widths) // 2]
                rows.append([page, lines[0][0], f"{held} of {intervals}", share, width])
    columns = ["page", "column or table", "held", "share", "half-width"]
    print_table(f"Intervals of the tutorials in {RUNS} releases", columns, rows)


if __name__ == "__main__":
    main()
