"""Preview: what the bounds of a query cut off, exactly. For whoever may see the data; never part of a release."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir

from osgt.tables.bounding import UNIT
from osgt.tables.cards import preview_card
from osgt.tables.query import Query
from osgt.tables.release import prepared_rows
from osgt.tables.values import present

WARNING = "NOT PRIVATE: exact figures from the data, for choosing bounds. Do not publish them."

#: Quantiles of groups for each unit, and of rows for each unit and group.
_QUANTILES = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Preview:
    """How many rows, units and values each bound drops or changes. Not private."""

    rows: Mapping[str, int]
    units: Mapping[str, int]
    groups_per_unit: Mapping[str, float]
    rows_per_group: Mapping[str, float]
    values: Mapping[str, Mapping[str, int]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "warning": WARNING,
            "rows": dict(self.rows),
            "units": dict(self.units),
            "groups_per_unit": dict(self.groups_per_unit),
            "rows_per_unit_and_group": dict(self.rows_per_group),
            "values": {name: dict(counts) for name, counts in self.values.items()},
        }

    def __repr__(self) -> str:
        return "Preview(NOT PRIVATE; print it to see what the bounds cut off)"

    def _repr_html_(self) -> str:
        return preview_card(self, WARNING).html()

    def __str__(self) -> str:
        lines = [WARNING]
        for title, counts in self.to_dict().items():
            if title == "values":
                lines += [f"values of {name}: {_listed(each)}" for name, each in counts.items()]
            elif title != "warning":
                lines.append(f"{title.replace('_', ' ')}: {_listed(counts)}")
        return "\n".join(lines)


def _listed(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {number:,.10g}" for name, number in counts.items())


def make_preview(query: Query) -> Preview:
    """Run the counting queries. They take about as long as a release."""
    planning = query.planning()
    planning.checked()
    measures = list(planning.alternatives.directly().measured)
    backend = query.dataset.table.get_backend()

    def counted(**expressions: Any) -> dict[str, Any]:
        return {name: _number(backend, expression) for name, expression in expressions.items()}

    every, (rows, keys, values) = query.dataset.table, prepared_rows(query, measures)
    left = query.dataset.rows()
    unit = query.dataset.unit
    with_unit = rows.filter(rows[UNIT].notnull())
    pairs = with_unit.group_by([UNIT, *keys]).agg(size=with_unit.count())
    units = pairs.group_by(UNIT).agg(groups=pairs.count(), size=pairs["size"].sum())
    most_groups, most_rows = query.groups.max_groups, query.groups.max_rows
    over = units["groups"] > most_groups
    table_rows = counted(
        in_the_table=every.count(),
        after_where=left.count(),
        without_unit=left.filter(unit.missing(left)).count(),
        with_public_keys_and_a_unit=with_unit.count(),
    )
    if query.groups.public is None:
        table_rows["with_a_unit"] = table_rows.pop("with_public_keys_and_a_unit")
    if keys:
        # Groups are chosen at random: the expected number of rows in those left out.
        lost = (units["size"] * (1 - most_groups / units["groups"].cast("float64"))).sum(where=over)
        table_rows["dropped_by_max_groups_about"] = round(_number(backend, lost))
    if most_rows is not None:
        beyond = (pairs["size"] - most_rows).sum(where=pairs["size"] > most_rows)
        table_rows["beyond_max_rows_per_group"] = _number(backend, beyond)
    unit_counts = counted(in_all=units.count(), in_more_than_max_groups=over.sum())
    if most_rows is not None:
        crowded = pairs.filter(pairs["size"] > most_rows)[UNIT].nunique()
        unit_counts["with_more_than_max_rows_in_a_group"] = _number(backend, crowded)
    return Preview(
        rows=table_rows,
        units=unit_counts,
        groups_per_unit=_distribution(backend, units["groups"]) if keys else {},
        rows_per_group=_distribution(backend, pairs["size"]),
        values=_values(backend, with_unit, query, values),
    )


def _distribution(backend: Any, column: ir.IntegerColumn) -> dict[str, float]:
    found = {f"{q:.0%}": float(_number(backend, column.quantile(q))) for q in _QUANTILES}
    return found | {"most": float(_number(backend, column.max()))}


def _values(backend: Any, rows: ir.Table, query: Query, columns: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """For each column with bounds or edges: how many values are missing, below and above."""
    found: dict[str, dict[str, int]] = {}
    every = (limits for aggregate in query.aggregates for limits in aggregate.limits)
    for name, low, high in dict.fromkeys((limits.column, limits.low, limits.high) for limits in every):
        column = rows[columns[name]]
        there = present(column)
        counts = found.setdefault(name, {"missing": _number(backend, (~there).sum())})
        counts |= {
            f"below {low:,}": _number(backend, (there & (column < low)).sum()),
            f"above {high:,}": _number(backend, (there & (column > high)).sum()),
        }
    return found


def _number(backend: Any, expression: ir.Scalar) -> Any:
    """What the expression comes to; a sum over no rows is null, and counts as 0."""
    value = backend.to_pyarrow(expression).as_py()
    return 0 if value is None else value
