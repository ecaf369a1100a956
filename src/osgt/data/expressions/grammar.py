"""The grammar of conditions: tokens become a tree in which nothing but the values of one row can be named.

What is not in this grammar is refused: there are no queries, windows, parameters or lambdas in it. The engines agree
about the order of operators; where they do not (two comparisons in a row, LIKE beside =), brackets are asked for.
"""

from collections.abc import Callable
from dataclasses import dataclass

from osgt.data.expressions.syntax import (
    Between,
    Binary,
    Call,
    Case,
    Cast,
    Column,
    Extract,
    In,
    Is,
    Like,
    Node,
    Number,
    Text,
    Token,
    Typed,
    Unary,
    Word,
    by_name,
)


@dataclass(frozen=True)
class Grammar:
    """The differences between the grammars of engines."""

    #: Whether || stands beside + and -, or below them with the engine's other operators.
    concat_beside_plus: bool
    comparisons: frozenset[str]
    products: frozenset[str]
    powers: frozenset[str]
    #: Operators on strings that stand below + and -: regular expressions.
    matches: frozenset[str]
    #: Words between two values that mean LIKE or a regular expression.
    likes: frozenset[str]
    #: The engine's names of types, each with what it is called in a cast.
    types: dict[str, str]


_NULL = Word("NULL")
#: Words that are no names of columns unless they are in quotes.
RESERVED = frozenset(
    by_name(
        {
            "reserved": "ALL AND ANY ARRAY AS BETWEEN BY CASE COLLATE DISTINCT ELSE END ESCAPE EXCEPT EXISTS FOR FROM "
            "GLOB GROUP HAVING ILIKE IN INTERSECT IS ISNULL LAMBDA LIKE LIMIT NOT NOTNULL OFFSET OR ORDER OVER REGEXP "
            "RETURNING RLIKE SELECT SIMILAR SOME STRUCT TABLE THEN UNION USING VALUES WHEN WHERE WINDOW WITH"
        }
    )
)
_WORDS = ("TRUE", "FALSE", "NULL", "CURRENT_DATE", "CURRENT_TIMESTAMP")
_DEEPEST = 50
_LONGEST = 200


def parse(tokens: list[Token], grammar: Grammar, column: Callable[[str, bool], str]) -> Node:
    """The tree of a condition.

    Parameters
    ----------
    column
        The table's own name of a column, from the name that was written and whether it was in quotes.
    """
    parser = _Parser(tokens, grammar, column)
    node = parser.condition()
    if parser.here.kind != "end":
        raise parser.unexpected()
    return node


class _Parser:
    """One function for each level of precedence, the loosest first."""

    def __init__(self, tokens: list[Token], grammar: Grammar, column: Callable[[str, bool], str]) -> None:
        self.tokens, self.grammar, self.column = tokens, grammar, column
        self.place = self.depth = self.length = 0

    def binary(self, operator: str, left: Node, right: Node) -> Node:
        self.length += 1
        if self.length > _LONGEST:
            raise ValueError(f"there may be {_LONGEST} operators; use IN, or several calls")
        return Binary(operator, left, right)

    @property
    def here(self) -> Token:
        return self.tokens[self.place]

    def unexpected(self) -> ValueError:
        token = self.here
        if token.kind == "end":
            return ValueError("it ends too early: a value or a column must follow")
        what = "a string" if token.kind == "string" else repr(token.value)
        hint = {
            "string": "; strings in a row are not joined, write || between them",
            "word": "; it looks at one row alone and has no queries, aggregates over rows or windows",
        }
        at = f" at character {token.at + 1}"
        return ValueError(f"did not expect {what}{at}{hint.get(token.kind, '; brackets may help')}")

    def next(self) -> Token:
        token = self.here
        self.place += 1
        return token

    def word(self, *words: str) -> str | None:
        """The next word if it is one of these."""
        if self.here.kind == "word" and self.here.value.upper() in words:
            return self.next().value.upper()
        return None

    def operator(self, operators: frozenset[str] | str) -> str | None:
        if self.here.kind == "operator" and self.here.value in (
            {operators} if isinstance(operators, str) else operators
        ):
            return self.next().value
        return None

    def expect(self, what: str) -> None:
        if not (self.word(what) if what.isalpha() else self.operator(what)):
            raise self.unexpected()

    def condition(self) -> Node:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError(f"it may be nested {_DEEPEST} deep")
        node = self.conjunction()
        while self.word("OR"):
            node = self.binary("OR", node, self.conjunction())
        self.depth -= 1
        return node

    def conjunction(self) -> Node:
        node = self.negation()
        while self.word("AND"):
            node = self.binary("AND", node, self.negation())
        return node

    def negation(self) -> Node:
        negations = 0
        while self.word("NOT") or self.operator("!"):
            negations += 1
        node = self.test()
        for _ in range(negations):
            node = Unary("NOT", node)
        return node

    def test(self) -> Node:
        node = self.comparison()
        if self.word("ISNULL"):
            return Is(node, "NULL")
        if self.word("NOTNULL"):
            return Unary("NOT", Is(node, "NULL"))
        if not self.word("IS"):
            return node
        negated = self.word("NOT") is not None
        if self.word("DISTINCT"):
            self.expect("FROM")
            different = self.binary("IS DISTINCT FROM", node, self.operand())
            return Unary("NOT", different) if negated else different
        what = self.word("NULL", "TRUE", "FALSE", "UNKNOWN")
        if what is None:
            raise self.unexpected()
        return Unary("NOT", Is(node, what)) if negated else Is(node, what)

    def comparison(self) -> Node:
        left = self.operand()
        operator = self.operator(self.grammar.comparisons)
        if operator is not None:
            operator = {"!=": "<>", "==": "="}.get(operator, operator)
            return self.binary(operator, left, self.operand())
        negated = self.word("NOT") is not None
        node = self.membership(left)
        if node is None:
            if negated:
                raise self.unexpected()
            return left
        return Unary("NOT", node) if negated else node

    def membership(self, left: Node) -> Node | None:
        if self.word("BETWEEN"):
            low = self.operand()
            self.expect("AND")
            return Between(left, low, self.operand())
        if self.word("IN"):
            self.expect("(")
            return In(left, self.arguments())
        operator = self.word(*self.grammar.likes)
        if operator in ("LIKE", "ILIKE"):
            pattern = self.string("the pattern of LIKE")
            escape = self.string("the character after ESCAPE") if self.word("ESCAPE") else None
            return Like(operator, left, pattern, escape)
        if operator is not None:
            return self.binary("RLIKE", left, self.operand())
        return None

    def string(self, what: str) -> str:
        if self.here.kind != "string":
            raise ValueError(f"{what} must be written out, as in 'a%'")
        return self.next().value

    def operand(self) -> Node:
        node = self.sum()
        loose = self.grammar.matches if self.grammar.concat_beside_plus else self.grammar.matches | {"||"}
        while operator := self.operator(loose):
            node = self.binary(operator, node, self.sum())
        return node

    def sum(self) -> Node:
        node = self.product()
        operators = frozenset({"+", "-", "||"} if self.grammar.concat_beside_plus else {"+", "-"})
        while operator := self.operator(operators):
            node = self.binary(operator, node, self.product())
        return node

    def product(self) -> Node:
        node = self.power()
        while operator := self.operator(self.grammar.products):
            node = self.binary(operator, node, self.power())
        return node

    def power(self) -> Node:
        node = self.signed()
        while self.operator(self.grammar.powers):
            node = self.binary("^", node, self.signed())
        return node

    def signed(self) -> Node:
        signs = []
        while sign := self.operator(frozenset("+-")):
            signs.append(sign)
        node = self.primary()
        while self.operator("::"):
            node = Cast(node, self.type(), tolerant=False)
        for sign in reversed(signs):
            node = Unary(sign, node)
        return node

    def primary(self) -> Node:
        token = self.next()
        if token.kind == "string":
            return Text(token.value)
        if token.kind == "number":
            return Number(token.value)
        if token.kind == "operator" and token.value == "(":
            node = self.condition()
            self.expect(")")
            return node
        if token.kind not in ("word", "name"):
            self.place -= 1
            raise self.unexpected()
        if token.kind == "name":
            return Column(self.column(token.value, True))
        return self.keyword(token)

    def keyword(self, token: Token) -> Node:
        """Parse an expression that begins with a word: a constant, a function or a column."""
        word = token.value.upper()
        if word == "CASE":
            return self.case()
        called = self.operator("(") is not None
        if word in _WORDS:
            if called:
                self.expect(")")
            return Word(word)
        if word in ("DATE", "TIMESTAMP") and not called and self.here.kind == "string":
            return Typed(word, self.next().value)
        if word == "INTERVAL" and not called:
            return self.interval()
        if word in RESERVED:
            self.place -= 2 if called else 1
            raise self.unexpected()
        if not called:
            return Column(self.column(token.value, False))
        return self.call(word)

    def interval(self) -> Node:
        if self.here.kind not in ("string", "number"):
            raise self.unexpected()
        value = self.next().value
        units = [name + plural for name in _UNITS for plural in ("", "S")]
        return Typed("INTERVAL", value, self.word(*units) or "")

    def call(self, word: str) -> Node:
        if word in ("CAST", "TRY_CAST"):
            value = self.condition()
            self.expect("AS")
            node: Node = Cast(value, self.type(), tolerant=word == "TRY_CAST")
        elif word == "EXTRACT":
            if self.here.kind not in ("word", "string"):
                raise self.unexpected()
            field = self.next().value.upper()
            self.expect("FROM")
            node = Extract(field, self.condition())
        elif word == "POSITION":
            part = self.operand()
            self.expect("IN")
            node = Call("position", (part, self.condition()))
        elif word == "SUBSTRING":
            return self.substring()
        elif word == "TRIM":
            return self.trim(self.word("BOTH", "LEADING", "TRAILING"))
        else:
            return Call(word.lower(), self.arguments())
        self.expect(")")
        return node

    def substring(self) -> Node:
        value = self.condition()
        if not self.word("FROM"):
            if not self.operator(","):
                raise self.unexpected()
            return Call("substring", (value, *self.arguments()))
        arguments = [value, self.condition()]
        if self.word("FOR"):
            arguments.append(self.condition())
        self.expect(")")
        return Call("substring", tuple(arguments))

    def trim(self, side: str | None) -> Node:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(side or "", "trim")
        if side is not None and self.word("FROM"):
            return Call(name, self.arguments())
        first = self.condition()
        if self.word("FROM"):  # where functions have the characters differs from engine to engine
            return Call({"trim": "btrim"}.get(name, name), (*self.arguments(), first))
        if side is None and self.operator(","):
            return Call(name, (first, *self.arguments()))
        self.expect(")")
        return Call(name, (first,))

    def arguments(self) -> tuple[Node, ...]:
        """Parse the arguments behind an opening bracket, up to the closing one."""
        if self.operator(")"):
            return ()
        result = [self.condition()]
        while self.operator(","):
            result.append(self.condition())
        self.expect(")")
        return tuple(result)

    def type(self) -> str:
        words: list[str] = []
        while self.here.kind == "word" and len(words) < 4 and self.here.value.upper() not in ("AND", "OR", "IS", "IN"):
            words.append(self.next().value.lower())
            if " ".join(words) in self.grammar.types and not self._type_goes_on(words):
                break
        name = " ".join(words)
        if name not in self.grammar.types:
            raise ValueError(f"a cast to {name or self.here.value!r} is not known here")
        if not self.operator("("):
            return self.grammar.types[name]
        sizes = [self._size()]
        while self.operator(","):
            sizes.append(self._size())
        self.expect(")")
        return f"{self.grammar.types[name]}({', '.join(sizes)})"

    def _type_goes_on(self, words: list[str]) -> bool:
        more = self.here.value.lower() if self.here.kind == "word" else ""
        return any(name.startswith(" ".join([*words, more])) and more for name in self.grammar.types)

    def _size(self) -> str:
        if self.here.kind != "number" or not self.here.value.isdigit():
            raise self.unexpected()
        return self.next().value

    def case(self) -> Node:
        operand = None if self.here.value.upper() == "WHEN" and self.here.kind == "word" else self.condition()
        branches = []
        while self.word("WHEN"):
            test = self.condition()
            self.expect("THEN")
            branches.append((test if operand is None else self.binary("=", operand, test), self.condition()))
        if not branches:
            raise self.unexpected()
        otherwise = self.condition() if self.word("ELSE") else _NULL
        self.expect("END")
        return Case(tuple(branches), otherwise)


_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
