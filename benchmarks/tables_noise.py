"""Half-widths of the columns of ten queries: each number measured as it is, against measured once and derived.

Claim: at the same ε and δ no interval is wider than when every column brings its own numbers, as this package did it
before, and many are much narrower.

"apart" is one joint calibration for the least variance in which every number is measured as it is and a tenth of δ is
set aside for choosing groups; "osgt" is the plan of the query. OpenDP (Polars) and PipelineDP are asked for their noise
on the same counts and sums with the same bounds and budget, by their defaults: Laplace noise, and ε split evenly among
the numbers. Each runs in a virtual environment of its own, made on first use under build/peers/. "-": it has no
interval for that, or cannot ask for it together with the others.
"""

import json
import subprocess
import time
from dataclasses import replace

import duckdb

from measure import print_table, say_if_busy
from osgt import Dataset
from osgt.api.query import Query
from osgt.calibration import Part, calibrate_parts
from osgt.noise import on_integers
from osgt.plan.plan import Plan
from osgt.plan.schemes import Scheme
from osgt.query.aggregates.base import Aggregate, Noisy
from tables_peers import HERE, interpreter

EPSILON, DELTA = 1.0, 1e-8

#: A count of so many is what the interval of a mean is told for.
SIZE = 10_000

PEERS = "opendp", "pipelinedp"


def data(**options: object) -> Dataset:
    """A table without rows: plans read none."""
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE t (person BIGINT, region INTEGER, month INTEGER, shop INTEGER, spent BIGINT, income BIGINT, "
        "stay BIGINT NOT NULL, age INTEGER NOT NULL)"
    )
    return Dataset(connection, "person", table="t", **options)


def queries() -> dict[str, Query]:
    """Ten queries as offices, hospitals and shops have them."""
    months, regions, table = {"month": list(range(1, 13))}, list(range(1, 17)), data()
    cells = {"region": regions, "month": list(range(1, 13))}

    def by(*columns: str, groups: int, rows: int, keys: object = None) -> Query:
        return table.group_by(*columns, max_groups=groups, max_rows_per_group=rows, public_keys=keys)

    return {
        "persons by month": by("month", groups=12, rows=1, keys=months).count(),
        "visits and persons by region": by("region", groups=2, rows=5, keys=regions).count().count_units(),
        "visits and money by region and month": by("region", "month", groups=8, rows=3, keys=cells)
        .count()
        .sum("spent", (0, 5000)),
        "the same and the mean": by("region", "month", groups=8, rows=3, keys=cells)
        .count()
        .sum("spent", (0, 5000))
        .mean("spent", (0, 5000)),
        "stays and their mean length": by("region", groups=2, rows=4, keys=regions).count().mean("stay", (0, 60)),
        "persons by shop, chosen": by("shop", groups=10, rows=1).count_units(),
        "visits and money by shop, chosen": by("shop", groups=6, rows=4).count().sum("spent", (0, 500)),
        "income and its variance by region": by("region", groups=1, rows=1, keys=regions)
        .count()
        .mean("income", (0, 20_000))
        .variance("income", (0, 20_000)),
        "two sums by month": by("month", groups=12, rows=2, keys=months)
        .sum("spent", (0, 1000))
        .sum("income", (0, 9000)),
        "ages by region": by("region", groups=1, rows=1, keys=regions)
        .count()
        .mean("age", (0, 110))
        .histogram("age", [0, 18, 30, 45, 65, 110]),
    }


def apart(plan: Plan) -> dict[str, float]:
    """The half-widths if every number is measured as it is."""
    scheme, groups = _as_it_is(plan), plan.groups
    parts = [Part(*groups.sensitivity(measure, plan.neighbours)[0]) for measure in scheme.measured]
    laws = calibrate_parts(plan.epsilon, plan.delta * (1.0 if groups.shows_all else 0.9), parts)
    named = {measure: on_integers(law) for measure, law in zip(scheme.measured, laws, strict=True)}
    noisy = Noisy({}, scheme.noises(named), plan.confidence, nonnegative=False)
    return {c.name: _width(c) for aggregate in plan.aggregates for c in aggregate.plan_columns(noisy)}


def _as_it_is(plan: Plan) -> Scheme:
    """Every number measured as it is, a count of values for each column among them."""
    return replace(plan.planning, complete=frozenset()).alternatives.directly()


def question(query: Query) -> dict[str, object] | None:
    """What a peer is asked for: the counts and sums of a query; None if there is more."""
    asked = [_asked(aggregate, query.groups.most_rows) for aggregate in query.aggregates]
    if not {kind for kind, _, _ in asked} <= {"count", "sum"}:
        return None
    groups = query.groups
    return {
        "epsilon": EPSILON,
        "delta": DELTA,
        "groups": groups.max_groups_per_unit,
        "rows": groups.most_rows,
        "by": list(groups.by),
        "keys": None if groups.public is None else [list(row.values()) for row in groups.public.to_pylist()],
        "asked": asked,
    }


def peer_widths(name: str, query: Query) -> dict[str, float]:
    """The half-widths that a peer says for the counts and sums of a query; empty if it cannot be asked for them."""
    asked = question(query)
    kinds = [aggregate.kind for aggregate in query.aggregates]
    if asked is None or (name == "pipelinedp" and len(set(kinds)) < len(kinds)):
        return {}
    command = [interpreter(name), f"{name}_widths.py", json.dumps(asked)]
    answer = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True).stdout
    return dict(zip([aggregate.name for aggregate in query.aggregates], json.loads(answer), strict=True))


def _asked(aggregate: Aggregate, max_rows: int) -> tuple[str, object, object]:
    """Kind, column and bounds. With one row of a unit in a group, units are rows."""
    plain = aggregate.to_dict()
    is_rows = plain["kind"] == "count_units" and max_rows == 1
    return "count" if is_rows else plain["kind"], plain.get("column"), plain.get("bounds")


def _width(column: object) -> float:
    return column.half_width if column.half_width is not None else column.by_size[SIZE]


def main() -> None:
    say_if_busy()
    rows, took = [], []
    for name, query in queries().items():
        start = time.process_time()
        plan = query.plan(EPSILON, DELTA, measure_left_out=False)
        took.append(time.process_time() - start)
        before = apart(plan)
        peers = [peer_widths(peer, query) for peer in PEERS]
        for i, column in enumerate(plan.columns):
            width = _width(column)
            saved = f"{100 * (1 - width / before[column.name]):.0f} %"
            others = [f"{found[column.name]:,.4g}" if column.name in found else "-" for found in peers]
            widths = f"{before[column.name]:,.4g}", f"{width:,.4g}"
            rows.append([name if i == 0 else "", column.name, *widths, saved, *others])
    title = f"95 % half-widths at ε = {EPSILON:g}, δ = {DELTA:g}; of means and variances with {SIZE:,} values"
    print_table(title, ["query", "column", "apart", "osgt", "narrower by", *PEERS], rows)
    print(f"planning took {min(took):.2f} to {max(took):.2f} s of CPU a query, {sum(took) / len(took):.2f} on average")


if __name__ == "__main__":
    main()
