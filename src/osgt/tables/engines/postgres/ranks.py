"""Ranks that PostgreSQL stops at: it leaves the rest of a window alone where a condition is about a rank as it is.

Ibis counts ranks from 0 on and writes `DENSE_RANK() OVER (…) - 1 AS group_rank`, of which the planner knows nothing. So
`group_rank < 10` becomes `"group_rank from 1" <= 10`, with the rank itself under that name beside the other.
"""

import sqlglot.expressions as exp

_RANKS = (exp.RowNumber, exp.Rank, exp.DenseRank)


def with_limits(query: exp.Query) -> exp.Query:
    """The same query, in which conditions on ranks are about ranks from 1 on."""
    for where in query.find_all(exp.Where):
        ranks = _ranks(where.parent)
        for condition in list(where.find_all(exp.LT)):
            column, most = condition.this, condition.expression
            if isinstance(column, exp.Column) and column.name in ranks and most.is_int:
                renamed = exp.column(_from_1(column.name), table=column.table, quoted=True)
                condition.replace(exp.LTE(this=renamed, expression=most.copy()))
    return query


def _ranks(select: exp.Expression | None) -> set[str]:
    """The columns that are ranks in the subquery from which a query selects; each gets another beside it."""
    source = select.find(exp.From) if isinstance(select, exp.Select) else None
    inner = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select):
        return set()
    ranks = {each.alias: each.this.this for each in inner.expressions if _is_rank(each.this)}
    for name, rank in ranks.items():
        if _from_1(name) not in inner.named_selects:
            inner.append("expressions", exp.alias_(rank.copy(), _from_1(name), quoted=True))
    return set(ranks)


def _is_rank(column: exp.Expression) -> bool:
    """Whether it is a rank over a window, less 1. A table that a caller has derived may have other differences."""
    if not (isinstance(column, exp.Sub) and isinstance(column.this, exp.Window)):
        return False
    return isinstance(column.this.this, _RANKS) and column.expression == exp.Literal.number(1)


def _from_1(name: str) -> str:
    return f"{name} from 1"
