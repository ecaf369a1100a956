"""The notebook cards of a data set, a query or a publication, its plan, its preview and a release."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from osgt.data.rows import PrivateRows
from osgt.facts import wording
from osgt.facts.plan_wording import (
    aggregate_in_words,
    gains,
    limits_to_choose,
    published_groups,
    width,
    widths_at_limits,
)
from osgt.facts.statement import Released, ReleasedTable
from osgt.plan.plan import HANDFUL, AnyPlan, Plan
from osgt.query.about import About
from osgt.query.aggregates.base import Aggregate, QuerySpec, open_limits
from osgt.query.aggregates.marks import MARK
from osgt.query.groups import SUMMED_OVER
from osgt.render.cards import Card, CardTable, Cell
from osgt.render.cross import Cross, cross_of
from osgt.render.summary import brief
from osgt.render.table import SIGNS, column_names, interval, key_text, signs_of_marks
from osgt.support.text import counted, half_width, listed, percent, shortened, with_interval

#: Columns of a data set that a card shows, and characters of a key; intervals in a line.
_COLUMNS, _LONGEST, _WIDTHS = 30, 60, 4

#: Most rows of a release that are listed; of more than that the first and the last.
_MOST, _FIRST, _LAST = 20, 12, 4

#: Most cross tables of a release, and rows of one; the columns of a page, which can be scrolled.
_CROSSED, _SIDES, WIDE = 4, 40, 200

#: Characters of headings that are shortened, where they would not fit otherwise.
_HEADS = (10, 8, 6)


def dataset_line(data: PrivateRows) -> str:
    """A data set in a line: where it is, and whom it protects. No data."""
    where = f", where={len(data.filters)}" if data.filters else ""
    name = shortened(data.identity["name"] or data.origin, _LONGEST)
    return f"Dataset({name!r}, privacy_unit={data.unit.plain!r}{where})"


def dataset_card(data: PrivateRows) -> Card:
    """Make the card of a data set: where its rows are, whom they are about, and the types of the columns. No data."""
    schema = data.table.columns
    columns = [[Cell(name), Cell(str(dtype))] for name, dtype in list(schema.items())[:_COLUMNS]]
    facts = [
        ("Protects", f"each {data.unit.noun} ({data.unit.in_words})"),
        ("Engine", data.engine.title),
        *((f"Column {name}", f"of each row: {made.text}") for name, made in data.derived.items()),
        *(("Only rows with", condition.text) for condition in data.filters),
        ("Ledger", "none: every release weakens the protection" if data.ledger is None else str(data.dataset)),
    ]
    more = f"… and {len(schema) - _COLUMNS} more" if len(schema) > _COLUMNS else ""
    table = CardTable(["Column", "Type"], columns, keys=2)
    return Card(
        _name(data),
        "No rows are shown here: they are private.",
        facts=facts,
        tables=[table],
        lines=[more] if more else [],
    )


def _name(data: PrivateRows) -> str:
    return f"Data set {data.identity['name'] or data.origin}"


def query_line(query: QuerySpec) -> str:
    """A query in a line: what is asked by which keys, and the limits."""
    limits = [f"{name}={limit:,}" for name, limit in query.groups.limits.items()]
    limits += [f"{limit.words} is chosen" for limit in open_limits(query)]
    return f"Query({'; '.join([_summarise(query, query.aggregates), *limits])})"


def _summarise(query: QuerySpec, aggregates: Sequence[Aggregate]) -> str:
    """The aggregates and the keys that a query asks for: "count, mean of cost by ward"."""
    by = f" by {', '.join(query.groups.by)}" if query.groups.by else ""
    return (", ".join(aggregate.title for aggregate in aggregates) or "nothing yet") + by


def query_card(query: QuerySpec) -> Card:
    """Make the card of a query: what is asked, by which keys, and what is limited or still open."""
    groups = query.groups
    public = "those that are large enough" if groups.public is None else f"{groups.public.num_rows:,} given beforehand"
    facts = [
        ("Data", _name(query.dataset)),
        ("Protects", f"each {query.groups.noun}"),
        ("Groups by", listed(groups.by) or "none: all rows together"),
        *([("Groups that are published", public)] if groups.by else []),
        *((wording.LIMITS[name], f"{limit:,}") for name, limit in groups.limits.items()),
        *((wording.open_limit(limit.argument, limit.column), "chosen privately") for limit in open_limits(query)),
    ]
    rows = [[Cell(listed(aggregate.names)), Cell(aggregate_in_words(aggregate))] for aggregate in query.aggregates]
    return Card("Query", facts=facts, tables=[CardTable(["Column", "What"], rows, keys=2)])


def plan_line(plan: AnyPlan) -> str:
    """A plan in a line: the budget, and the intervals of a table or the names of several."""
    if not isinstance(plan, Plan):
        what = list(plan.tables)
    elif plan.open_limits:
        what = [f"{listed([limit.words for limit in plan.open_limits])} to be chosen"]
    else:
        what = [f"{column.name} {width(column)}" for column in plan.columns[:_WIDTHS]]
        what += ["…"] if len(plan.columns) > _WIDTHS else []
    return _line(plan, wording.arguments(plan.epsilon, plan.delta), ", ".join(what), plan.warnings)


def _line(value: object, first: str, second: str, warnings: Sequence[str]) -> str:
    """A value in a line, with the number of its warnings and where they are."""
    told = f"; {counted(len(warnings), 'warning')}: see .warnings" if warnings else ""
    return f"{type(value).__name__}({first}; {second}{told})"


def plan_card(plan: AnyPlan) -> Card:
    """The intervals beside those of Gaussian and Laplace noise, and what would be charged."""
    named = {f"{name}: " if name else "": table for name, table in plan.tables.items()}
    chosen = {
        name: published_groups(table)
        for name, table in named.items()
        if table.selection is not None and not table.open_limits
    }
    return Card(
        "Plan" if "" in named else f"Plan of {counted(len(named), 'table')}",
        wording.cost(plan.epsilon, plan.delta, len(named)),
        warnings=plan.cautions,
        tables=[_widths(table, caption=name) for name, table in plan.tables.items()],
        lines=[
            *limits_to_choose(plan),
            *map(wording.agreement, plan.agreeing),
            *gains(plan),
            *(f"{name}{text}" for name, texts in chosen.items() for text in texts),
        ],
    )


def _widths(plan: Plan, caption: str) -> CardTable:
    """The half-widths of each column with the noise used, and with the others; or at limits that may be chosen."""
    if plan.open_limits:
        names = [limit.argument for limit in plan.open_limits if limit.column is None]
        first, *others = [str(size) for size in HANDFUL]
        heads = ["Column", f"{' and '.join(names) or 'any limit'} = {first}", *others]
        lines = widths_at_limits(plan)
        rows = [[Cell(line.name, ", ".join(line.remarks)), *map(Cell, line.widths)] for line in lines]
        intervals = f"{percent(plan.confidence)} noise intervals at limits that may be chosen"
        return CardTable(heads, rows, caption=f"{caption}: {intervals}" if caption else intervals)
    names = list(plan.alternatives)
    rows = [
        [Cell(column.name), *(Cell(width(used)) for used in (column, *(plan.alternatives[name][i] for name in names)))]
        for i, column in enumerate(plan.columns)
    ]
    heads = ["Column", f"{percent(plan.confidence)} noise interval", *(f"with {name.capitalize()}" for name in names)]
    return CardTable(heads, rows, caption=caption)


def preview_card(curves: Sequence[tuple[Sequence[str], Sequence[Sequence[str]]]], warning: str) -> Card:
    """Show exact figures under a red bar: a heading and lines for each limit."""
    tables = [
        CardTable(
            [text or "in percent" for text in head],
            [[Cell(text) for text in row] for row in rows],
            caption=f"What {head[0]} cuts off; * is what was given",
            chosen=next((i for i, row in enumerate(rows) if row[0].endswith("*")), None),
        )
        for head, rows in curves
    ]
    return Card("What limits cut off", alarm=warning, tables=tables)


def release_line(release: Released) -> str:
    """A release in a line: what is in it, and its budget."""
    alone = release.tables.get("")
    what = ", ".join(release.tables)
    if alone is not None:
        what = f"{_summarise(alone.query, alone.plan.aggregates)}; {counted(len(alone), 'row')}"
    return _line(release, what, wording.arguments(release.plan.epsilon, release.plan.delta), release.warnings)


def release_card(release: Released, width: int = WIDE) -> Card:
    """The tables with their intervals, for a terminal of a width, and the promise about all of them in a line."""
    tables, lines, title = [], [], f"{counted(len(release.tables), 'table')} from one budget"
    for name, table in release.tables.items():
        shown = release_tables(table, About.of([table.query], {}), width)
        rows = counted(len(table), "row")
        title = title if name else f"{rows}, each number with its {percent(release.plan.confidence)} interval"
        tables += [replace(shown[0], caption=f"{name}: {shown[0].caption or rows}"), *shown[1:]] if name else shown
        noisy = table.mostly_noise
        texts = *signs_explained(table, shown), *([] if noisy.warnings else noisy.sentences)
        lines += [f"{name}: {text}" if name else text for text in texts]
    return Card(title, warnings=release.warnings, tables=tables, lines=lines, promise="\n".join(brief(release)))


def release_tables(release: ReleasedTable, about: About, width: int) -> list[CardTable]:
    """The tables that show a release in a terminal of so many columns: crossed where it has two keys and they fit."""
    crossed = _crossed(release, about, width)
    return _listed(release, about, width) if crossed is None else crossed


def signs_explained(release: ReleasedTable, shown: Sequence[CardTable]) -> list[str]:
    """Say what stands for rows that are not listed and for groups that are not published, and what signs mean."""
    texts = {cell.text for table in shown for row in table.rows for cell in row}
    cut = [f"… stands for {counted(len(release) - _FIRST - _LAST, 'more row')}."] if "…" in texts else []
    cut += ["· stands for a group that is not published."] if "·" in texts else []
    has_signs = any(text.startswith(tuple(SIGNS.values())) for text in texts)
    return cut + ([signs_of_marks(release)] if "marks" in release.statement.values and has_signs else [])


def _crossed(release: ReleasedTable, about: About, width: int) -> list[CardTable] | None:
    """A cross table for each column, all alike; None where none fits. Intervals are below the numbers, if they fit."""
    names = column_names(release)
    cross = cross_of(release.table, release.query.groups.by, about) if len(names) <= _CROSSED else None
    if cross is None:
        return None
    rows = release.rows(len(release))
    both = [way for way in (cross, cross.turned()) if len(way.sides) <= _SIDES]
    short = [_with_short_heads(way, longest) for longest in _HEADS for way in both]
    for way, stacked in [*((way, True) for way in both), *((way, False) for way in both + short)]:
        tables = [_cross_table(release, about, way, rows, name, stacked=stacked) for name in names]
        if all(table.width <= width for table in tables):
            return tables
    return None


def _with_short_heads(cross: Cross, longest: int) -> Cross:
    """The cross table with headings of so many characters, where these are still told apart."""
    heads = tuple(shortened(head, longest) for head in cross.heads)
    told_apart = len(set(heads)) == len(set(cross.heads))
    return replace(cross, heads=heads, keys=(cross.keys[0], "…")) if told_apart else cross


def _cross_table(
    release: ReleasedTable, about: About, cross: Cross, rows: Sequence[Mapping[str, Any]], name: str, *, stacked: bool
) -> CardTable:
    heading, confidence = about.labels.get(name, name), percent(release.plan.confidence)
    shown = [[Cell("·") if at is None else _cell(rows[at], name) for at in places] for places in cross.places]
    if stacked:
        caption = f"{heading}, with {confidence} intervals"
    else:
        shown = [[Cell(cell.text) for cell in row] for row in shown]
        caption = f"{heading}; {confidence} intervals: {_reaches(rows, name)}"
    key, other = (about.labels.get(key, key) for key in cross.keys)
    cells = [[Cell(side), *row] for side, row in zip(cross.sides, shown, strict=True)]
    return CardTable([f"{key} \\ {other}", *cross.heads], cells, caption=caption, stacked=stacked)


def _reaches(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """Say how far intervals reach at most: those of groups, and of totals."""
    groups = [interval(row, name) for row in rows if row.get(SUMMED_OVER) is None]
    totals = [interval(row, name) for row in rows if row.get(SUMMED_OVER) is not None]
    return _reach(groups) + (f"; totals: {_reach(totals)}" if totals and _reach(totals) != _reach(groups) else "")


def _reach(intervals: Sequence[Sequence[Any]]) -> str:
    """Say how far intervals reach at most, on each side of the number."""
    known = [[float(number) for number in ends] for ends in intervals if None not in ends]
    if not known:
        return "none"
    below, above = max(value - low for value, low, _ in known), max(high - value for value, _, high in known)
    if half_width(below) == half_width(above):
        return f"{half_width(below)} at most"
    return f"at most {half_width(below)[1:]} below, {half_width(above)[1:]} above"


def _cell(row: Mapping[str, Any], name: str) -> Cell:
    shown, sign = with_interval(*interval(row, name)), SIGNS.get(str(row.get(name + MARK)), "")
    return Cell(f"{sign} {shown.value}" if sign else shown.value, shown.interval)


def _listed(release: ReleasedTable, about: About, width: int) -> list[CardTable]:
    """A row for each group, of many the first and the last; columns that do not fit beside the others below them."""
    keys, names, rows = release.query.groups.by, column_names(release), release.rows(len(release))
    cut = len(rows) > _MOST
    chosen = [*rows[:_FIRST], *rows[-_LAST:]] if cut else rows
    texts = [[Cell(shortened(key_text(row, [key], about), _LONGEST)) for key in keys] for row in chosen]
    heads = [about.labels.get(key, key) for key in keys]

    def table_of(some: Sequence[str], *, stacked: bool) -> CardTable:
        cells = [[*text, *(_cell(row, name) for name in some)] for text, row in zip(texts, chosen, strict=True)]
        if cut:
            cells.insert(_FIRST, [Cell("…")] * (len(keys) + len(some)))
        labels = [*heads, *(about.labels.get(name, name) for name in some)]
        return CardTable(labels, cells, keys=len(keys), stacked=stacked)

    for stacked in (False, True):
        table = table_of(names, stacked=stacked)
        if table.width <= width:
            return [table]
    blocks: list[list[str]] = [[]]
    for name in names:
        if blocks[-1] and table_of([*blocks[-1], name], stacked=False).width > width:
            blocks.append([])
        blocks[-1].append(name)
    return [table_of(block, stacked=False) for block in blocks]


def several_card(tables: Mapping[str, QuerySpec], weights: Mapping[str, float]) -> Card:
    """Make the card of a publication: what each table asks for. No data."""
    rows = [[Cell(name), Cell(query_line(query)[6:-1]), Cell(f"{weights[name]:g}")] for name, query in tables.items()]
    return Card(
        f"Publication of {counted(len(tables), 'table')}",
        "One calibration, one charge and one statement for all of them.",
        tables=[CardTable(["Table", "What", "Weight"], rows, keys=2)],
    )
