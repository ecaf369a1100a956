"""Counts by group: osgt beside OpenDP (Polars), PipelineDP (local) and Tumult Analytics (Spark) on the same table.

Claims: at the same ε, δ, groups a person and rows a group, the noise of osgt is never larger than that of a peer, and
its release is at least 5 times as fast.

Each library counts rows by group once with known keys and once with keys that it has to choose privately. Its program
stands in benchmarks/peers/ and runs in a virtual environment of its own, made on first use under build/peers/: their
dependencies exclude each other. A peer that cannot be installed or does not run is named with the reason.
"""

import argparse
import ast
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

from measure import print_table, run_apart, say_if_busy
from tables_data import BUILD, GROUPS, equal_groups_path, keys_path, table_path

HERE = Path(__file__).resolve().parent / "peers"
ENVIRONMENTS = BUILD.parent / "peers"
BUDGET = {"epsilon": 1.0, "delta": 1e-8, "max_groups": 10, "max_rows_per_group": 5}

#: Program, what is installed for it (nothing: this environment), and what a reader should know.
LIBRARIES = {
    "osgt": ((), "noise as its plan says it"),
    "opendp": (
        ("opendp[polars]>=0.12",),
        "noise as its summary says it; keeps one group fewer than it charges for, and of every user the first keys, so "
        "that its number of groups shown is not comparable",
    ),
    "pipelinedp": (("pipeline-dp>=0.3", "pyarrow"), "noise as it reports it; half of ε goes to choosing the keys"),
    "tumult": (
        ("tmlt.analytics>=0.21",),
        "noise as its session reports it; δ is unused with known keys, half of ε goes to choosing them (experimental)",
    ),
}


def interpreter(name: str) -> Path:
    """The Python that has this library, installed if need be."""
    wanted = LIBRARIES[name][0]
    if not wanted:
        return Path(sys.executable)
    home = ENVIRONMENTS / f"{name}-venv"
    python, done = home / "bin" / "python", home / "installed"
    if not done.exists():
        for command in ([sys.executable, "-m", "venv", home], [python, "-m", "pip", "install", "--quiet", *wanted]):
            attempt = subprocess.run(command, capture_output=True, text=True, check=False)
            if attempt.returncode:
                words = attempt.stderr.strip().splitlines() or ["no reason given"]
                raise RuntimeError(f"cannot be installed: {words[-1]}")
        done.touch()
    return python


def version(python: Path, name: str) -> str:
    package = {"pipelinedp": "pipeline-dp", "tumult": "tmlt.analytics"}.get(name, name)
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def program_lines(name: str) -> int:
    """Lines of code of the user's program: no blank lines, comments, docstrings, nor the question about the noise."""
    tree = ast.parse((HERE / f"{name}_count.py").read_text())
    tree.body = [node for node in tree.body[1:] if getattr(node, "name", "") != "noise_std"]
    text = (HERE / f"{name}_count.py").read_text().splitlines()
    lines = {line for node in tree.body for line in range(node.lineno, node.end_lineno + 1)}
    return sum(bool(text[i - 1].strip()) and not text[i - 1].strip().startswith("#") for i in lines)


def ask(name: str, path: Path, keys: Path | None, how: str) -> dict:
    question = json.dumps(BUDGET | {"path": str(path), "keys": keys and str(keys)})
    command = [interpreter(name), HERE / "run.py", f"{name}_count", question, how]
    return run_apart(command, cwd=ENVIRONMENTS / "scratch")


def measured_noise(name: str, known: bool) -> tuple[float, float, float]:
    """Standard deviation of the noise: as the library reports it, as its outputs show it, relative error of the latter.

    With known keys, almost all of them are absent from the data; else all groups are of one size, large enough to show.
    """
    if known:
        path, keys, exact = equal_groups_path(1, 1000), keys_path(50_000), {0: 1000}
    else:
        path, keys, exact = equal_groups_path(200, 5000), None, dict.fromkeys(range(200), 5000)
    answer = ask(name, path, keys, "noise")
    noise = np.array([count - exact.get(int(key), 0) for key, count in answer["counts"].items()])
    # The error of a deviation, with the kurtosis of a Laplace distribution.
    return answer["noise_std"], float(noise.std()), math.sqrt(5 / (4 * len(noise)))


def compare(names: list[str], rows: int, rounds: int, repeats: int, known: bool) -> None:
    runs: dict[str, list[dict]] = {name: [] for name in names}
    found, failed = {}, {}
    for _ in range(rounds):
        for name in [name for name in names if name not in failed]:
            try:
                runs[name].append(ask(name, table_path(rows), keys_path() if known else None, str(repeats)))
            except RuntimeError as reason:
                failed[name] = reason
    for name in [name for name in names if name not in failed]:
        fastest = min(runs[name], key=lambda run: run["seconds"])
        try:
            found[name] = fastest | {"gib": max(run["gib"] for run in runs[name])}, *measured_noise(name, known)
        except RuntimeError as reason:
            failed[name] = reason
    ours = found.get("osgt")
    table = []
    for name, (timed, reported, measured, error) in found.items():
        table.append(
            [
                f"{name} {version(interpreter(name), name)}",
                f"{timed['start']:.1f}",
                f"{timed['seconds']:.2f}",
                f"{timed['seconds'] / ours[0]['seconds']:.1f}" if ours else "",
                f"{timed['gib']:.2f}",
                f"{len(timed['counts']):,}",
                f"{reported:.2f}",
                f"{measured:.1f} ± {error * measured:.1f}",
                f"{ours[1] / reported:.3f}" if ours else "",
                f"{program_lines(name)}",
            ]
        )
    print_table(
        f"Counts of {rows:,} rows by {GROUPS:,} groups, keys {'known' if known else 'chosen privately'}; "
        + ", ".join(f"{key} {value:g}" for key, value in BUDGET.items()),
        ["", "start s", "release s", "× ours", "GiB", "groups", "noise std", "measured", "ours / theirs", "lines"],
        table,
    )
    for name, reason in failed.items():
        print(f"{name} does not run: {reason}")
    if ours and len(found) > 1:
        rivals = [row for name, row in found.items() if name != "osgt"]
        quieter = all(ours[1] <= row[1] for row in rivals)
        faster = min(row[0]["seconds"] for row in rivals) / ours[0]["seconds"]
        print(f"noise never larger: {'met' if quieter else 'missed'}")
        print(f"at least 5 times as fast: {'met' if faster >= 5 else 'missed'} ({faster:.1f} times the fastest peer)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2, help="processes for each library, in turns")
    parser.add_argument("--repeats", type=int, default=2, help="releases in a process; the fastest of all counts")
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    options = parser.parse_args()
    say_if_busy()
    for known in (True, False):
        compare(options.only, options.rows, options.rounds, options.repeats, known)
    for name in options.only:
        print(f"{name}: {LIBRARIES[name][1]}")
    print("start: imports, and the Spark session. measured: the noise in the outputs, with its statistical error.")
