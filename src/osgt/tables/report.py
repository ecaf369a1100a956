"""The report: one page of HTML that needs nothing else, with the table, a picture, the statement and the noises."""

import json
from collections.abc import Sequence
from decimal import Decimal
from heapq import nlargest
from html import escape
from typing import TYPE_CHECKING, Any

from osgt.tables.picture import interval_picture
from osgt.tables.plan import Plan

if TYPE_CHECKING:
    from osgt.tables.release import Release

#: Most groups in the picture, and most rows of the table: a page should open quickly.
_DRAWN, _LISTED = 40, 2_000

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 72rem; margin: 2rem auto;
  padding: 0 1.2rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
.meta { color: #555; margin-top: 0; } .statement { background: #f3f6f9; border-left: 4px solid #0072B2;
  padding: .7rem 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } .wide { overflow-x: auto; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #e3e3e3; text-align: right; white-space: nowrap; }
th { border-bottom: 2px solid #999; position: sticky; top: 0; background: #fff; }
td.key, th.key { text-align: left; } .interval { color: #666; font-size: .9em; }
pre { background: #f6f6f6; padding: .8rem; overflow-x: auto; font-size: .82rem; } svg { max-width: 100%; height: auto; }
li { margin: .2rem 0; } summary { cursor: pointer; }
"""


def page(release: "Release") -> str:
    """The page as text."""
    values, plan = release.statement.to_dict(), release.plan
    title = f"Private table: {values['query']['data']['source']}"
    body = [
        f"<h1>{escape(title)}</h1>",
        f"<p class='meta'>{escape(values['date'])} · {escape(values['software'])} · "
        f"{values['groups_shown']:,} groups · ε = {plan.epsilon:.15g}, δ = {plan.delta:.15g}</p>",
        f"<h2>What is promised</h2><p class='statement'>{escape(str(release.statement))}</p>",
        f"<h2>Values and their noise intervals</h2>{_pictures(release)}",
        f"<h2>The table</h2>{_table(release)}",
        f"<h2>The noise</h2>{_noise(plan)}",
        f"<h2>What the bounds can cut off</h2><ul>{''.join(f'<li>{escape(cut)}</li>' for cut in plan.cuts)}</ul>",
        "<h2>Every parameter</h2><details><summary>The statement for programs (JSON)</summary>"
        f"<pre>{escape(json.dumps(values, indent=2, ensure_ascii=False))}</pre></details>",
    ]
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        # Keys come from the data: the page may run no script and load nothing, whatever they hold.
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _pictures(release: "Release") -> str:
    table, keys = release.table, release.query.groups.by
    names = [name for aggregate in release.plan.aggregates for name in aggregate.names]
    if table.num_rows == 0:
        return "<p>No group is large enough to be shown.</p>"
    pictures, every = [], release.rows(table.num_rows)
    for name in names:
        rows = every
        if len(rows) > _DRAWN:
            rows = nlargest(_DRAWN, rows, key=lambda row: row[name])
        labels = [_label(row, keys) for row in rows] if keys else ["all rows"]
        ends = [[float(row[name + suffix]) for row in rows] for suffix in ("", "_low", "_high")]
        note = f" (the {_DRAWN} largest of {table.num_rows:,})" if len(rows) < table.num_rows else ""
        pictures.append(interval_picture(name + note, labels, *ends))
    first, rest = pictures[0], pictures[1:]
    more = f"<details><summary>The other columns</summary>{''.join(rest)}</details>" if rest else ""
    return first + more


def _label(row: dict[str, Any], keys: Sequence[str]) -> str:
    return ", ".join("(none)" if row[key] is None else str(row[key]) for key in keys)


def _table(release: "Release") -> str:
    table, keys = release.table, release.query.groups.by
    named = {name: aggregate for aggregate in release.plan.aggregates for name in aggregate.names}
    names = list(named)
    head = "".join(f"<th class='key'>{escape(key)}</th>" for key in keys)
    head += "".join(f"<th>{escape(name)}</th><th>{release.plan.confidence:.15g} interval</th>" for name in names)
    rows = []
    for row in release.rows(_LISTED):
        cells = "".join(f"<td class='key'>{escape(_label(row, [key]))}</td>" for key in keys)
        for name in names:
            ends = row[f"{name}_low"], row[f"{name}_high"]
            low, high = (_number(end) for end in ends)
            nothing = named[name].tells_nothing(*map(float, ends))
            value = "too small to tell" if nothing else _number(row[name])
            cells += f"<td>{value}</td><td class='interval'>{low} to {high}</td>"
        rows.append(f"<tr>{cells}</tr>")
    rest = table.num_rows - _LISTED
    note = f"<p>{rest:,} more rows are in the file that was released with this page.</p>" if rest > 0 else ""
    return f"<div class='wide'><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>{note}"


def _number(value: Any) -> str:
    """Whole numbers and decimals as they are, floats with six digits or all that stand before the point."""
    if isinstance(value, int | Decimal):
        return f"{value:,}"
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _noise(plan: Plan) -> str:
    """The columns with the noise used and the two ends of the family beside it."""
    names = list(plan.alternatives)
    head = f"<th class='key'>column</th><th>used</th>{''.join(f'<th>{escape(name)}</th>' for name in names)}"
    rows = []
    for i, column in enumerate(plan.columns):
        others = "".join(f"<td>{plan.alternatives[name][i].width_in_words()}</td>" for name in names)
        rows.append(f"<tr><td class='key'>{escape(column.name)}</td><td>{column.width_in_words()}</td>{others}</tr>")
    return (
        f"<p>Half-widths of the {plan.confidence:.15g} noise interval at the same budget, all accounted for exactly. "
        f"{escape(plan.gains_in_words())}</p><div class='wide'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
