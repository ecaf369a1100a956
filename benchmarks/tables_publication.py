"""Several tables from one budget: one publication, against a release of each table with its part of ε and δ.

Claim: at the same ε and δ in all, the intervals of a publication are clearly narrower than those of as many releases
with equal parts of the budget.

"apart" is osgt with ε and δ split evenly over the tables; "publication" is one calibration of all tables. OpenDP
(Polars) splits its budget evenly over the queries of a context (`split_evenly_over`) and is asked for its noise on the
same counts and sums with the same bounds. It runs in a virtual environment of its own, made on first use under
build/peers/. "-": it has no interval for that, or cannot ask for it together with the others.
"""

import json
import math
import subprocess
import time

from measure import print_table, say_if_busy
from osgt import Publication
from osgt.api.query import Query
from tables_noise import DELTA, EPSILON, SIZE, data, question
from tables_peers import HERE, interpreter


def publications() -> dict[str, dict[str, Query]]:
    """Sets of tables as offices and shops publish them."""
    table = data()
    months, regions = list(range(1, 13)), list(range(1, 17))
    cells = {"region": regions, "month": months}

    def by(*columns: str, groups: int, rows: int, keys: object = None) -> Query:
        return table.group_by(*columns, max_groups=groups, max_rows_per_group=rows, public_keys=keys)

    return {
        "two": {
            "by region and month": by("region", "month", groups=8, rows=3, keys=cells).count().sum("spent", (0, 5000)),
            "by shop, chosen": by("shop", groups=10, rows=3).count(),
        },
        "three": {
            "by region": by("region", groups=2, rows=5, keys=regions).count().mean("spent", (0, 500)),
            "by month": by("month", groups=12, rows=2, keys=months).count(),
            "by shop": by("shop", groups=8, rows=2, keys=list(range(500))).count().sum("spent", (0, 500)),
        },
        "four": {
            f"by shop, {i + 1}": by("shop", groups=6, rows=1, keys=list(range(500 + i))).count() for i in range(4)
        },
    }


def opendp(query: Query, tables: int) -> list[float]:
    """The half-widths that OpenDP says for one of so many tables; empty if it cannot be asked."""
    asked = question(query)
    if asked is None:
        return []
    command = [interpreter("opendp"), "opendp_widths.py", json.dumps(asked | {"split": tables})]
    return json.loads(subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout)


def _width(column: object) -> float:
    return column.half_width if column.half_width is not None else column.by_size[SIZE]


def main() -> None:
    say_if_busy()
    rows, ratios, peers, took = [], [], [], []
    for title, tables in publications().items():
        names = {f"table_{i}": name for i, name in enumerate(tables)}
        publication = Publication({short: tables[name] for short, name in names.items()})
        start = time.process_time()
        plan = publication.plan(EPSILON, DELTA, measure_left_out=False)
        took.append(time.process_time() - start)
        for short, name in names.items():
            apart = tables[name].plan(EPSILON / len(tables), DELTA / len(tables), measure_left_out=False)
            peer = opendp(tables[name], len(tables))
            for i, column in enumerate(plan[short].columns):
                before, width = _width(apart.columns[i]), _width(column)
                ratios.append(width / before)
                other = f"{peer[i]:,.4g}" if peer else "-"
                peers += [width / peer[i]] if peer else []
                shown = f"{before:,.4g}", f"{width:,.4g}", f"{100 * (1 - width / before):.0f} %"
                rows.append([title if short == "table_0" and i == 0 else "", name, column.name, *shown, other])
    print_table(
        f"95 % half-widths at ε = {EPSILON:g}, δ = {DELTA:g} in all; of means with {SIZE:,} values",
        ["tables", "table", "column", "apart", "publication", "narrower by", "opendp, split"],
        rows,
    )
    _say("as many releases with equal parts of the budget", ratios)
    _say("OpenDP with its budget split evenly", peers)
    print(f"planning took {min(took):.2f} to {max(took):.2f} s of CPU a publication")


def _say(against: str, ratios: list[float]) -> None:
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    least, most = (f"{100 * (1 - ratio):.0f}" for ratio in (max(ratios), min(ratios)))
    print(f"{least} to {most} % narrower than {against}, {100 * (1 - mean):.0f} % on average")


if __name__ == "__main__":
    main()
