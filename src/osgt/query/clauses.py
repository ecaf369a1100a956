"""The clauses of a SELECT: the frame of a statement in SQL, which is taken apart but not yet understood.

Expressions stay runs of tokens, which are written out again and handed on to the grammar of conditions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from osgt.data.expressions.dialect import Dialect
from osgt.data.expressions.grammar import RESERVED
from osgt.data.expressions.syntax import Token, tokens

Tokens = list[Token]

#: The clauses that are read, in their order.
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP", "ORDER")

_AFTERWARDS = "the whole table is published for the same budget; do that with the published table afterwards"
_ONE_QUERY = (
    "a query inside a query is not answered, since one person's rows could decide about another's. Columns that are "
    "computed from each row can be made with derive, and rows be chosen with WHERE. A column "
    'of that name stands in double quotes: "select"'
)

#: What begins a clause, or goes on with one, that cannot be answered: the reason, and the way to ask.
_REFUSED = {
    "HAVING": "HAVING is not answered: groups are chosen by their noisy size, and not by exact numbers. Leave it out, "
    "and drop rows of the published table afterwards",
    "LIMIT": f"LIMIT is not answered: {_AFTERWARDS}",
    "OFFSET": f"OFFSET is not answered: {_AFTERWARDS}",
    "QUALIFY": f"QUALIFY is not answered: {_AFTERWARDS}",
    "OVER": "window functions are not answered: a row's number would depend on other people's rows. Group by what "
    "stands after PARTITION BY",
    "WINDOW": "window functions are not answered: a row's number would depend on other people's rows",
} | dict.fromkeys(
    ("UNION", "INTERSECT", "EXCEPT"),
    "several tables are released together as Publication(a=data.sql(…), b=data.sql(…)), or one after the other",
)

#: What stands between tables in FROM.
_JOINS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "ASOF", "LATERAL", "POSITIONAL")


@dataclass(frozen=True)
class Item:
    """An expression in SELECT, and the name after AS."""

    tokens: Tokens
    alias: str | None


@dataclass(frozen=True)
class Clauses:
    """A statement: `SELECT items FROM table WHERE where GROUP BY groups ORDER BY order`."""

    items: list[Item]
    table: str
    where: Tokens
    groups: list[Tokens]
    order: list[Tokens]


def word(token: Token) -> str:
    """The word in capitals; nothing for what is no word."""
    return token.value.upper() if token.kind == "word" else ""


def is_mark(token: Token, mark: str) -> bool:
    """Whether it is a certain bracket, comma or operator."""
    return token.kind == "operator" and token.value == mark


def split(run: Tokens, mark: str = ",") -> list[Tokens]:
    """The parts between marks outside of brackets; none of nothing."""
    parts: list[Tokens] = [[]]
    for token, depth in with_depth(run):
        if depth == 0 and is_mark(token, mark):
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if run else []


def with_depth(run: Tokens) -> list[tuple[Token, int]]:
    """Each token with the number of brackets around it; brackets themselves are inside."""
    depth, result = 0, []
    for token in run:
        depth += is_mark(token, "(")
        result.append((token, depth))
        depth -= is_mark(token, ")")
        if depth < 0:
            raise ValueError(f"the bracket at character {token.at + 1} closes nothing")
    if depth:
        raise ValueError("a bracket is never closed")
    return result


def closing(run: Tokens, place: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depths = enumerate(with_depth(run[place:]), place)
    return next(i for i, (token, depth) in depths if depth == 1 and is_mark(token, ")"))


def in_brackets(run: Tokens) -> Tokens | None:
    """The tokens between brackets around all of them; None if there are none."""
    is_inside = bool(run) and is_mark(run[0], "(") and closing(run, 0) == len(run) - 1
    return run[1:-1] if is_inside else None


def write(run: Sequence[Token], dialect: Dialect) -> str:
    """The tokens as text again: without comments, one space between them where one is usual."""
    text = ""
    for before, token in zip([None, *run], run, strict=False):
        tight = before is None or is_mark(before, "(") or token.value in (")", ",")
        called = before is not None and is_mark(token, "(") and before.kind == "word" and word(before) not in RESERVED
        text += ("" if tight or called else " ") + _write_one(token, dialect)
    return text


def _write_one(token: Token, dialect: Dialect) -> str:
    if token.kind == "string":
        return dialect.shown_string(token.value)
    quote = dialect.lexicon.quote
    return quote + token.value.replace(quote, 2 * quote) + quote if token.kind == "name" else token.value


def read_clauses(text: str, dialect: Dialect, names: Sequence[str]) -> Clauses:
    """Take a statement apart; `names` are those that the table may have in FROM, any name if there are none."""
    dialect.check_text(text)
    run = tokens(text, dialect.lexicon, "(),.;")[:-1]
    while run and is_mark(run[-1], ";"):
        run.pop()
    if any(is_mark(token, ";") for token in run):
        raise ValueError("there must be one statement, got several; ask for one table after the other")
    if not run or word(run[0]) == "WITH":
        raise ValueError(_ONE_QUERY if run else "it must be a SELECT with an aggregate, as in SELECT COUNT(*) FROM …")
    clauses = _split_clauses(run)
    if any(word(token) == "SELECT" for token in run[1:]):
        raise ValueError(_ONE_QUERY)
    table, alias = _read_table(clauses.get("FROM", []), names)
    parts = {name: _without_table(part, alias) for name, part in clauses.items() if name != "FROM"}
    return Clauses(
        [_read_item(part) for part in split(_selected(parts["SELECT"]))],
        table,
        parts.get("WHERE", []),
        split(_by(parts.get("GROUP"), "GROUP")),
        split(_by(parts.get("ORDER"), "ORDER")),
    )


def _split_clauses(run: Tokens) -> dict[str, Tokens]:
    """The clauses by the word that each begins with."""
    clauses: dict[str, Tokens] = {}
    name = ""
    for place, (token, depth) in enumerate(with_depth(run)):
        here = word(token) if depth == 0 else ""
        before = [word(earlier) for earlier in run[max(place - 2, 0) : place]]
        if here in _REFUSED:
            raise ValueError(_REFUSED[here])
        # "IS DISTINCT FROM" and "WITHIN GROUP" begin no clause.
        is_inside = here == "FROM" and before in (["IS", "DISTINCT"], ["NOT", "DISTINCT"])
        if here in _CLAUSES and not is_inside and before[-1:] != ["WITHIN"]:
            if name and _CLAUSES.index(here) <= _CLAUSES.index(name) and here != "SELECT":
                raise ValueError(
                    f"{here} must not stand after {name}; the order is SELECT, FROM, WHERE, GROUP BY. "
                    'A column with such a word in its name stands in double quotes, as "group by"'
                )
            name = here
            clauses.setdefault(name, [])
        elif name:
            clauses[name].append(token)
        else:
            raise ValueError(f"it must begin with SELECT, got {token.value!r}: only aggregates of rows are answered")
    return clauses


def _selected(run: Tokens) -> Tokens:
    if not run:
        raise ValueError("SELECT must be followed by what is asked for, as in SELECT COUNT(*)")
    if word(run[0]) in ("DISTINCT", "ALL"):
        raise ValueError(
            f"SELECT {word(run[0])} lists values of single rows, which are never published. Count them, as in "
            "SELECT department, COUNT(*) … GROUP BY department"
        )
    return run


def _by(run: Tokens | None, name: str) -> Tokens:
    if run is None:
        return []
    if not run or word(run[0]) != "BY" or len(run) == 1:
        raise ValueError(f"{name} must be followed by BY and columns")
    return run[1:]


def _read_item(run: Tokens) -> Item:
    """An item of SELECT: the name stands after AS, or behind a bracket, END or a column."""
    if not run:
        raise ValueError("there is a comma too many")
    last, before = run[-1], run[-2] if len(run) > 1 else None
    if before is None or last.kind not in ("word", "name"):
        return Item(run, None)
    if word(before) == "AS":
        return Item(run[:-2], last.value)
    is_alone = len(run) == 2 and before.kind in ("word", "name") and word(before) not in RESERVED
    if word(last) not in RESERVED and (is_alone or is_mark(before, ")") or word(before) == "END"):
        return Item(run[:-1], last.value)
    return Item(run, None)


def _read_table(run: Tokens, names: Sequence[str]) -> tuple[str, str]:
    """The name of the table, and the one that may stand before columns."""
    known = f"FROM {names[0]}" if names else "FROM and the name of the table"
    if not run:
        raise ValueError(f"FROM must say which table is meant: {known}")
    _check_no_join(run)
    end = 1
    while end + 1 < len(run) and is_mark(run[end], "."):
        end += 2
    rest = [token for token in run[end:] if word(token) != "AS"]
    if run[0].kind not in ("word", "name", "string") or len(rest) > 1 or any(is_mark(token, "(") for token in rest):
        raise ValueError(f"FROM must be followed by the name of one table: {known}")
    name = run[end - 1].value
    if names and name.lower() not in map(str.lower, names):
        raise ValueError(f"FROM names the table {name!r}, and these data are {' or '.join(map(repr, names))}")
    return name, rest[0].value if rest else name


def _check_no_join(run: Tokens) -> None:
    """Raise if several tables are named."""
    if any(is_mark(token, ",") or word(token) in _JOINS for token in run):
        raise ValueError(
            "a join is not written in the query: that each row is about one person has to be sure. Declare it with the "
            "data, and name one table: [tables.NAME] in a data file, or Dataset(…).join(…, on=…)"
        )


def _without_table(run: Tokens, alias: str) -> Tokens:
    """Columns without the name of the table and the point before them."""
    result: Tokens = []
    for place, token in enumerate(run):
        if not is_mark(token, "."):
            result.append(token)
            continue
        table, column = (run[i].value if 0 <= i < len(run) else "" for i in (place - 1, place + 1))
        if table.lower() != alias.lower():
            raise ValueError(f"{table}.{column} is not a column of {alias!r}, the table that FROM names")
        result.pop()
    return result
