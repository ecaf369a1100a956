"""Several tables from one budget: one publication, against a release of each table with its part of ε and δ.

Claims: at the same ε and δ in all, the intervals of a publication are clearly narrower than those of as many releases
with equal parts of the budget, and none is wider. All one-way and two-way tables of five keys, which agree, have at
most 0.84 times the noise of tables that do not know of each other, and the sum of their variances is within 0.5 % of
the least that there is.

"apart" is osgt with ε and δ split evenly over the tables; "publication" is one calibration of all tables; "do not
agree" is one calibration of tables each of which is estimated by itself. The least sum of variances of any Gaussian
noise, also correlated, follows from the formula of ResidualPlanner (Xiao et al. 2023). OpenDP (Polars) splits its
budget evenly over the queries of a context (`split_evenly_over`) and is asked for its noise on the same counts and sums
with the same bounds. It runs in a virtual environment of its own, made on first use under build/peers/. "-": it has no
interval for that, or cannot ask for it together with the others.
"""

import itertools
import json
import math
import subprocess
import time

import duckdb

from measure import print_table, say_if_busy
from osgt import Dataset, Publication
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


#: Five keys of a census, with their numbers of values.
KEYS = {"age": 8, "sex": 2, "canton": 26, "work": 5, "marital": 4}
PAIRS = [names for n in (1, 2) for names in itertools.combinations(KEYS, n)]


def fifteen() -> dict[str, Query]:
    """All one-way and two-way tables of five keys; a person has one row."""
    columns = ", ".join(f"{name} INTEGER" for name in KEYS)
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE census (person BIGINT, {columns})")
    table = Dataset(connection, "person", table="census")
    return {
        "_".join(names): table.group_by(
            *names, max_rows=1, public_keys={name: list(range(KEYS[name])) for name in names}
        ).count()
        for names in PAIRS
    }


def residual_planner() -> float:
    """The least sum of the variances of one number of each table, with Gaussian noise of sensitivity over σ of 1."""
    every = {
        frozenset(some) for names in PAIRS for n in range(len(names) + 1) for some in itertools.combinations(names, n)
    }
    total = 0.0
    for part in every:
        loss = math.prod(1 - 1 / KEYS[name] for name in part)
        among = [
            math.prod(KEYS[name] ** -2 for name in names if name not in part) for names in PAIRS if part <= {*names}
        ]
        total += math.sqrt(loss * loss * sum(among))
    return total**2


def say_what_agreeing_gains() -> None:
    """Print the noise of fifteen tables that agree beside that of tables which do not, and the least there is."""
    tables = fifteen()
    publication, apart = Publication(tables), Publication(tables)
    apart.__dict__["sets"] = ()
    plan, before = (
        each.plan(EPSILON, DELTA, measure_left_out=False, objective="variance") for each in (publication, apart)
    )
    rows, ratios = [], []
    for name, query in tables.items():
        own, its = plan[name].columns[0].std, before[name].columns[0].std
        alone = query.plan(EPSILON / len(tables), DELTA / len(tables), measure_left_out=False).columns[0].std
        peer = opendp(query, len(tables))
        ratios.append(own / its)
        rows.append(
            [name, f"{alone:.1f}", f"{its:.1f}", f"{own:.1f}", f"{own / its:.2f}", f"{peer[0]:.1f}" if peer else "-"]
        )
    print_table(
        f"standard deviations of 15 counts, ε = {EPSILON:g}, δ = {DELTA:g} in all; of OpenDP, half-widths",
        ["table", "apart", "do not agree", "publication", "ratio", "opendp, split"],
        rows,
    )
    print(f"{min(ratios):.2f} to {max(ratios):.2f} times the noise of tables that do not agree")
    laws = [law for block in plan.blocks for law in block.laws.values()]
    steps = [float(block.groups.step(measure)) for block in plan.blocks for measure in block.laws]
    loss = sum(1 / (law.std() * step) ** 2 for law, step in zip(laws, steps, strict=True))
    least = residual_planner() / loss
    ours = sum(plan[name].columns[0].std ** 2 for name in tables)
    print(f"sum of variances over the least that there is with this loss of Gaussian noise: {ours / least:.4f}")


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
    say_what_agreeing_gains()
    print(f"planning took {min(took):.2f} to {max(took):.2f} s of CPU a publication")


def _say(against: str, ratios: list[float]) -> None:
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    least, most = (f"{100 * (1 - ratio):.0f}" for ratio in (max(ratios), min(ratios)))
    print(f"{least} to {most} % narrower than {against}, {100 * (1 - mean):.0f} % on average")


if __name__ == "__main__":
    main()
