"""A question in SQL: `SELECT department, COUNT(*), AVG(cost) FROM visits GROUP BY department` as parts of a query.

Only the frame of the statement is understood here. Every expression in it goes on to `where`, `derive` and
`proportion`, whose grammar has nothing but the values of one row in it: this is no other way to the data.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from osgt.data.expressions.expression import check_expression, name_errors, parse_expression
from osgt.data.expressions.own import constant
from osgt.data.expressions.syntax import Case, Column, Node, Number, Word, by_name
from osgt.data.rows import PrivateRows
from osgt.query.clauses import Clauses, Item, Tokens, closing, in_brackets, is_mark, read_clauses, split, word, write
from osgt.support.errors import ArgumentError, ArgumentTypeError
from osgt.support.text import counted, unknown

#: By the name in SQL, the kind of the aggregate.
_KINDS = by_name(
    {
        "count": "COUNT COUNT_IF COUNTIF APPROX_COUNT_DISTINCT",
        "sum": "SUM",
        "mean": "AVG MEAN",
        "variance": "VAR VARIANCE VAR_POP VAR_SAMP",
        "median": "MEDIAN",
        "quantile": "QUANTILE QUANTILE_CONT QUANTILE_DISC APPROX_QUANTILE PERCENTILE PERCENTILE_APPROX "
        "APPROX_PERCENTILE PERCENTILE_CONT PERCENTILE_DISC",
    }
)

_ONE_ROW = "it would be the value of one row, and rows are never published. Ask for MEDIAN, or COUNT(*) with GROUP BY"

#: Aggregates that cannot be answered, by the way to ask.
_OTHERS = by_name(
    {
        "it would be the value of one person. Ask for a quantile near the end, as QUANTILE_CONT(cost, 0.99)": "MIN MAX",
        "ask for VARIANCE, and take the root of the published number": "STDDEV STD STDDEV_POP STDDEV_SAMP",
        "the column summed_over of the published table says which keys a total is summed over": "GROUPING",
        _ONE_ROW: "MODE FIRST LAST ANY_VALUE ARG_MIN ARG_MAX MIN_BY MAX_BY STRING_AGG GROUP_CONCAT LISTAGG ARRAY_AGG "
        "LIST COLLECT_LIST",
    }
)

_ANSWERED = "COUNT, SUM, AVG, VARIANCE, MEDIAN and QUANTILE_CONT are answered"


@dataclass(frozen=True)
class Selection:
    """A SELECT as parts of a query file: derived columns, a condition, groups, levels of totals and aggregates."""

    derive: dict[str, str]
    #: Keys under another name than their column.
    renamed: dict[str, str]
    where: str | None
    by: list[str]
    totals: list[list[str]]
    aggregates: list[dict[str, Any]]


def read_select(text: object, data: PrivateRows, bounds: Mapping[str, Sequence[float]]) -> Selection:
    """The parts of a query that a SELECT on these data stands for; `bounds` are those of columns or of results."""
    if not isinstance(text, str):
        words = f"sql must be text, as in SELECT COUNT(*) FROM …, got {type(text).__name__}"
        raise ArgumentTypeError(words, argument="sql")
    with name_errors("sql"), data.engine.turn(data.table.connection):
        dialect = data.engine.dialect(data.table.connection)
        clauses = read_clauses(text, dialect, _table_names(data))
    return _Reading(data, bounds, clauses).selection()


def named_table(text: str, data: PrivateRows) -> str:
    """The name of the table in FROM, whichever it is."""
    with name_errors("sql"), data.engine.turn(data.table.connection):
        return read_clauses(text, data.engine.dialect(data.table.connection), ()).table


def _table_names(data: PrivateRows) -> list[str]:
    """The names of the table: in the data file, of the file or in the database, and of the data set in its ledger."""
    return list(dict.fromkeys(name for name in (data.called, data.identity["name"], data.dataset) if name))


class _Reading:
    """One statement on its way to a query."""

    def __init__(self, data: PrivateRows, bounds: Mapping[str, Sequence[float]], clauses: Clauses) -> None:
        self.data, self.table, self.clauses = data, data.table, clauses
        self.dialect = data.engine.dialect(data.table.connection)
        self.bounds, self.used = dict(bounds), set[str]()
        #: Derived columns: the text of each, and its name by what it computes.
        self.derive: dict[str, str] = {}
        self.names: dict[Node, str] = {}
        #: The keys by what they compute, in their order.
        self.keys: dict[Node, str] = {}

    def selection(self) -> Selection:
        """Read the clauses."""
        by, totals = self.groups()
        asked = [self.aggregate(item) for item in self.clauses.items if not self.is_key(item)]
        if not asked:
            raise self.refusal("rows are never published: ask for an aggregate, as in COUNT(*) or AVG(cost)")
        for place, run in enumerate(self.clauses.order):
            self.check_order(place, run)
        if unused := [name for name in self.bounds if name not in self.used]:
            known = sorted({asked_for.get("column", asked_for["kind"]) for asked_for in asked})
            raise ArgumentError(f"bounds: {unknown('column', unused[0], known, 'asked for are')}", argument="bounds")
        where = self.text(self.clauses.where) if self.clauses.where else None
        renamed = {
            name: node.name for node, name in self.keys.items() if isinstance(node, Column) and name != node.name
        }
        return Selection(self.derive, renamed, where, by, totals, asked)

    @staticmethod
    def refusal(words: str) -> ArgumentError:
        return ArgumentError(f"sql: {words}", argument="sql")

    def text(self, run: Tokens) -> str:
        return write(run, self.dialect)

    def tree(self, run: Tokens) -> Node:
        text = self.text(run)
        return parse_expression(self.table, text, f"sql: {text}" if text else "sql")

    # Groups

    def groups(self) -> tuple[list[str], list[list[str]]]:
        """The keys, and the levels of totals above them."""
        levels: list[tuple[Node, ...]] = [()]
        for run in self.clauses.groups:
            levels = [(*one, *more) for one in levels for more in self.grouping_sets(run)]
        distinct = {frozenset(level): [self.keys[node] for node in self.keys if node in level] for level in levels}
        finest = list(self.keys.values())
        if frozenset(self.keys) not in distinct:
            raise self.refusal(f"GROUPING SETS must have the set of all keys as well: ({', '.join(finest)})")
        return finest, [names for names in distinct.values() if names != finest]

    def grouping_sets(self, run: Tokens) -> list[tuple[Node, ...]]:
        """The sets of keys that an item of GROUP BY stands for."""
        first = word(run[0]) if run else ""
        is_sets = [word(token) for token in run[:2]] == ["GROUPING", "SETS"]
        inside = in_brackets(run[2:] if is_sets else run[1:])
        if is_sets and inside is not None:
            return [self.several(part) for part in split(inside)]
        if first in ("ROLLUP", "CUBE") and inside is not None:
            return self.levels(first, [self.several(part) for part in split(inside)])
        if first == "ALL" and len(run) == 1:
            plain = [item for item in self.clauses.items if self.called(item.tokens) is None]
            return [tuple(self.key(item) for item in plain)]
        return [self.several(run)]

    @staticmethod
    def levels(what: str, parts: list[tuple[Node, ...]]) -> list[tuple[Node, ...]]:
        """The sets of ROLLUP, which leaves out keys from the end, or of CUBE, which leaves out any."""
        sizes = range(len(parts), -1, -1)
        if what == "ROLLUP":
            return [tuple(itertools.chain(*parts[:size])) for size in sizes]
        return [tuple(itertools.chain(*some)) for size in sizes for some in itertools.combinations(parts, size)]

    def several(self, run: Tokens) -> tuple[Node, ...]:
        """The keys of a set: some in brackets, or one without."""
        inside = in_brackets(run)
        return tuple(self.key(self.item(part)) for part in ([run] if inside is None else split(inside)))

    def item(self, run: Tokens) -> Item:
        """The item of SELECT that a part of GROUP BY means by its number, its name or its text; else the part."""
        if not run:
            raise self.refusal("there is a comma too many in GROUP BY")
        items, [first, *rest] = self.clauses.items, run
        if not rest and first.kind == "number" and first.value.isdigit():
            if not 1 <= int(first.value) <= len(items):
                raise self.refusal(f"GROUP BY {first.value}: SELECT has {counted(len(items), 'item')}")
            return items[int(first.value) - 1]
        if not rest and first.kind in ("word", "name"):
            is_column = any(
                self.dialect.same_name(first.value, name, quoted=first.kind == "name") for name in self.table.columns
            )
            for item in items:
                if not is_column and item.alias is not None and item.alias.lower() == first.value.lower():
                    return item
        text = self.text(run)
        return next((item for item in items if self.text(item.tokens) == text), Item(run, None))

    def key(self, item: Item) -> Node:
        """Make a key of what an item computes."""
        if self.called(item.tokens) is not None:
            raise self.refusal(f"GROUP BY: {self.text(item.tokens)} is an aggregate, and no key")
        node = self.tree(item.tokens)
        if node not in self.keys:
            is_column = isinstance(node, Column) and item.alias in (None, node.name)
            self.keys[node] = node.name if is_column else self.derived(item.tokens, item.alias)  # type: ignore[attr-defined]
        return node

    def is_key(self, item: Item) -> bool:
        """Whether an item of SELECT is one of the keys; raise if it is neither that nor an aggregate."""
        if len(item.tokens) == 1 and is_mark(item.tokens[0], "*"):
            raise self.refusal("rows are never published: in place of *, ask for COUNT(*), AVG(cost) and the like")
        if self.called(item.tokens) is not None:
            return False
        self.check_calls(item.tokens)
        text = self.text(item.tokens)
        if self.tree(item.tokens) in self.keys:
            return True
        raise self.refusal(
            f"{text} is neither in GROUP BY nor an aggregate, and rows are never published. Add it to GROUP BY; "
            f"{_ANSWERED}"
        )

    def check_calls(self, run: Tokens) -> None:
        """Raise if an aggregate stands inside an expression, or is one that cannot be answered."""
        for token, behind in itertools.pairwise(run):
            name = word(token) if is_mark(behind, "(") else ""
            if name in _OTHERS:
                raise self.refusal(f"{name} is not answered: {_OTHERS[name]}")
            if name in _KINDS:
                comma = f". Is there a comma missing before {name}?" if run[1] is token and word(run[0]) else ""
                raise self.refusal(
                    f"{self.text(run)}: an aggregate must stand by itself; compute with the published numbers "
                    f"afterwards, or within the brackets from each row{comma}"
                )

    def check_order(self, place: int, run: Tokens) -> None:
        """Raise unless ORDER BY names the keys in their order, which a published table has anyway."""
        while run and word(run[-1]) in ("ASC", "NULLS", "FIRST", "LAST"):
            run = run[:-1]
        item = self.item(run) if run and word(run[-1]) != "DESC" else None
        is_key = item is not None and self.called(item.tokens) is None
        if not (item and is_key and list(self.keys)[place : place + 1] == [self.tree(item.tokens)]):
            raise self.refusal(
                "ORDER BY: the published table is in the order of its keys. Leave it out, and sort the published table"
            )

    # Columns

    def derived(self, run: Tokens, name: str | None = None) -> str:
        """The column that an expression is, or that is derived for it."""
        return self.derived_text(self.text(run), name)

    def derived_text(self, text: str, name: str | None = None, hint: str | None = None) -> str:
        node = parse_expression(self.table, text, f"sql: {text}")
        if isinstance(node, Column) and name is None:
            return node.name
        if node not in self.names:
            taken = {column.lower() for column in (*self.table.columns, *self.derive)}
            stem = _slug(hint or text)
            free = (stem if n == 1 else f"{stem}_{n}" for n in itertools.count(1))
            self.names[node] = name or next(letter for letter in free if letter.lower() not in taken)
            self.derive[self.names[node]] = text
        return self.names[node]

    def kind_of(self, text: str) -> str:
        """The kind of values that an expression has."""
        node = parse_expression(self.table, text, f"sql: {text}")
        if isinstance(node, Column):
            return self.table.columns[node.name].kind
        return check_expression(self.table, text, f"sql: {text}").kind

    # Aggregates

    def called(self, run: Tokens) -> str | None:
        """The aggregate that an item of SELECT is; None if it is none that is answered."""
        is_call = len(run) > 2 and run[0].kind == "word" and is_mark(run[1], "(")
        if not is_call or word(run[0]) not in _KINDS:
            return None
        behind = run[closing(run, 1) + 1 :]
        return word(run[0]) if not behind or word(behind[0]) in ("FILTER", "WITHIN", "OVER") else None

    def aggregate(self, item: Item) -> dict[str, Any]:
        """The aggregate of an item, as in a query file."""
        name, end = word(item.tokens[0]), closing(item.tokens, 1)
        arguments, condition = split(item.tokens[2:end]), None
        for what, inside in self.behind(item.tokens[end + 1 :]):
            if what == "FILTER":
                condition = self.text(inside)
            elif what == "WITHIN" and name.startswith("PERCENTILE"):
                arguments = [inside, *arguments]
        if arguments and word(arguments[0][0] if arguments[0] else item.tokens[0]) == "DISTINCT":
            return self.distinct(name, arguments, condition, item)
        for run in arguments:
            self.check_calls(run)
        if _KINDS[name] == "count":
            return self.count(name, arguments, condition, item)
        wanted = 2 if _KINDS[name] == "quantile" else 1
        if len(arguments) != wanted or not all(arguments):
            takes = "an expression" if wanted == 1 else "an expression and a share, as in QUANTILE_CONT(cost, 0.9)"
            raise self.refusal(f"{name} takes {takes}")
        return self.of_values(name, arguments, condition, item)

    def behind(self, run: Tokens) -> list[tuple[str, Tokens]]:
        """Read the parts behind an aggregate: FILTER (WHERE …) and WITHIN GROUP (ORDER BY …)."""
        result = []
        while run:
            what, skipped = word(run[0]), 2 if word(run[0]) == "WITHIN" else 1
            if len(run) <= skipped or not is_mark(run[skipped], "("):
                raise self.refusal(f"did not expect {run[0].value!r} behind an aggregate")
            end = closing(run, skipped)
            inside = run[skipped + 1 : end]
            result.append((what, inside[2:] if what == "WITHIN" else inside[1:]))
            run = run[end + 1 :]
        return result

    def distinct(self, name: str, arguments: list[Tokens], condition: str | None, item: Item) -> dict[str, Any]:
        """COUNT(DISTINCT …): of the unit, or of what one expression gives."""
        inside = in_brackets(arguments[0][1:])
        parts = [arguments[0][1:], *arguments[1:]] if inside is None else split(inside)
        nodes = [self.tree(run) for run in parts]
        columns = sorted(node.name for node in nodes if isinstance(node, Column))
        unit = self.data.unit.columns
        if name == "COUNT" and unit and len(columns) == len(nodes) and columns == sorted(unit):
            return self.named({"kind": "count_units"}, item)
        if name != "COUNT" or len(parts) != 1 or not parts[0]:
            what = f"{name}(DISTINCT …){' of several columns' if name == 'COUNT' else ''}"
            raise self.refusal(
                f"{what} is not answered: ask for COUNT(DISTINCT …) of the privacy unit or of one expression"
            )
        text = self.text(parts[0])
        column = self.derived_text(text if condition is None else f"CASE WHEN {condition} THEN {text} END", hint=text)
        return self.named({"kind": "count_distinct", "column": column}, item)

    def count(self, name: str, arguments: list[Tokens], condition: str | None, item: Item) -> dict[str, Any]:
        """COUNT(*), COUNT(column) as the rows in which it is present, COUNT_IF(condition); each with FILTER."""
        if len(arguments) != 1 or not arguments[0]:
            raise self.refusal("COUNT takes one argument: COUNT(*), COUNT(column) or COUNT(DISTINCT unit)")
        [run] = arguments
        if name == "APPROX_COUNT_DISTINCT":
            return self.distinct("COUNT", [[run[0], *run]], condition, item)
        own = self.text(run) if name != "COUNT" else self.presence(run)
        conditions = [part for part in (condition, own) if part is not None]
        if not conditions:
            return self.named({"kind": "count"}, item)
        text = conditions[0] if len(conditions) == 1 else " AND ".join(f"({part})" for part in conditions)
        hint = self.text(run) if name == "COUNT" and condition is None else text
        column = self.derived_text(f"CASE WHEN {text} THEN 1 ELSE 0 END", hint=f"{hint} counted")
        return self.named({"kind": "sum", "column": column, "bounds": [0, 1], "name": f"{_slug(hint)}_count"}, item)

    def presence(self, run: Tokens) -> str | None:
        """The condition that what COUNT counts is there; None where every row counts: *, a number or the unit."""
        if is_mark(run[0], "*"):
            return None
        node = self.tree(run)
        if isinstance(node, Number) or (isinstance(node, Column) and node.name in self.data.unit.columns):
            return None
        return f"{self.text(run)} IS NOT NULL" if len(run) == 1 else f"({self.text(run)}) IS NOT NULL"

    def of_values(self, name: str, arguments: list[Tokens], condition: str | None, item: Item) -> dict[str, Any]:
        """An aggregate of the values that an expression has."""
        kind, [run, *rest] = _KINDS[name], arguments
        text = self.text(run)
        share = self.share_of(run) if kind == "mean" and condition is None else None
        if share is not None:
            return self.named({"kind": "proportion", "condition": share, "name": f"{_slug(share)}_share"}, item)
        if self.kind_of(text) == "boolean":
            text = f"CASE WHEN {text} THEN 1 ELSE 0 END"
        inner = self.tree(run)
        if condition is not None:
            text = f"CASE WHEN {condition} THEN {text} END"
        column = self.derived_text(text)
        asked: dict[str, Any] = {"kind": kind, "column": column}
        if kind == "quantile":
            asked["levels"] = self.level(rest[0])
        names = [item.alias, column, inner.name if isinstance(inner, Column) else None]
        limits = next((name for name in names if name is not None and name in self.bounds), None)
        if limits is not None:
            self.used.add(limits)
            asked["bounds"] = list(self.bounds[limits])
        elif (values := _constants(parse_expression(self.table, text, f"sql: {text}"))) is not None:
            asked["bounds"] = [min(values), max(values)]
        elif kind in ("median", "quantile") and self.data.known_column(column).range is None:
            words = f"bounds must be given for {name}({text}): the least and the largest value that it can be"
            raise ArgumentError(words, argument="bounds")
        return self.named(asked, item)

    def share_of(self, run: Tokens) -> str | None:
        """The condition whose share a mean is: of what is true or false, or of CASE WHEN … THEN 1 ELSE 0 END."""
        text = self.text(run)
        node = self.tree(run)
        if isinstance(node, Case) and len(node.branches) == 1 and word(run[1]) == "WHEN":
            [(_, value)] = node.branches
            if (constant(value), constant(node.otherwise)) == (1, 0):
                places = [i for i, token in enumerate(run) if word(token) == "THEN"]
                return self.text(run[2 : places[-1]])
        return text if self.kind_of(text) == "boolean" else None

    def level(self, run: Tokens) -> float:
        node = self.tree(run)
        if not isinstance(node, Number):
            raise self.refusal(f"the share of a quantile must be a number between 0 and 1, got {self.text(run)}")
        return float(node.text)

    def named(self, asked: dict[str, Any], item: Item) -> dict[str, Any]:
        return asked if item.alias is None else asked | {"name": item.alias}


def _constants(node: Node) -> set[int] | None:
    """The whole numbers that CASE chooses from, if these are all, and there are at least two."""

    def values(part: Node) -> set[int] | None:
        if part == Word("NULL"):
            return set()
        if not isinstance(part, Case):
            number = constant(part)
            return {number} if isinstance(number, int) else None
        each = [values(value) for value in (*(value for _, value in part.branches), part.otherwise)]
        return None if None in each else set().union(*(some for some in each if some is not None))

    result = values(node) if isinstance(node, Case) else None
    return result if result and len(result) > 1 else None


def _slug(text: str) -> str:
    """A name for what a text computes: letters, digits and underscores."""
    name = re.sub(r"\W+", "_", text).strip("_").lower()[:40].strip("_")
    return name or "value"
