"""Floats on PostgreSQL: conditions have its own answer wherever it has one, up to the largest and the smallest float.

PostgreSQL fails for results that are too large or too small. There, and nowhere else, a value is missing.
"""

import itertools
import math
import random

import pytest

from engines import UNIT, new_name, rows_of
from osgt import Dataset

#: Pairs of random numbers for each operation, beside the odd ones.
PAIRS = 2000

#: By type: binary digits, and exponents of the smallest and the largest number.
FLOATS = {"float8": (53, -1074, 1023), "float4": (24, -149, 127)}

#: The engine's own answer, null where it fails.
TRIED = """
CREATE FUNCTION {name}(a {kind}, b {kind}) RETURNS {result} LANGUAGE plpgsql AS
$$ BEGIN RETURN {operation}; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$
"""


def odd_numbers(kind):
    digits, low, high = FLOATS[kind]
    large, small = math.ldexp(2 - 2.0 ** (1 - digits), high), math.ldexp(1, low)
    near = [large, large / 2, large / 4 * 3, math.sqrt(large), 1 / large, 3 * small, small, math.sqrt(small), 1.0, 0.3]
    return [*near, *(-number for number in near), 0.0, math.inf, -math.inf, math.nan]


def pairs(kind, operator):
    """Numbers of which many have a result next to the largest or the smallest float."""
    chance = random.Random(f"{kind} {operator}")
    digits, low, high = FLOATS[kind]

    def number(exponent):
        ones = chance.choice((1 << digits - 1, chance.getrandbits(digits - 1) | 1 << digits - 1, (1 << digits) - 1))
        return chance.choice((-1, 1)) * math.ldexp(ones, min(max(exponent, low), high) - digits + 1)

    yield from itertools.product(odd_numbers(kind), repeat=2)
    for _ in range(PAIRS):
        limit = chance.choice((low, high)) + chance.randint(-2, 2)
        first = chance.randint(low, high) if operator in "*/" else high - chance.randint(0, 2)
        second = {"*": limit - first, "/": first - limit}.get(operator, high - chance.randint(0, digits + 3))
        yield number(first), number(second)


def with_own_answer(engine, kind, operation, rows, result=None):
    """A data set of pairs a and b, beside the engine's own answer."""
    tried, name = new_name(), new_name()
    engine.execute(TRIED.format(name=tried, kind=kind, result=result or kind, operation=operation))
    values = ", ".join(f"({i}, '{a}', '{b}')" for i, (a, b) in enumerate(rows))
    pairs_alone = engine.made({UNIT: "integer", "a": kind, "b": kind}, values).table.text
    engine.execute(f"CREATE TABLE {name} AS SELECT *, {tried}(a, b) AS own FROM {pairs_alone}")
    return Dataset(engine.table(name), UNIT)


def others(dataset, value):
    """The rows for which a value in a condition is not the engine's own answer."""
    rows = dataset.where(f"{value} IS DISTINCT FROM own").rows()
    return rows_of(rows, "a", "b", "own").to_pylist()


@pytest.mark.parametrize("operator", "+-*/")
@pytest.mark.parametrize("kind", FLOATS)
def test_arithmetic_up_to_the_limits(engine_of, kind, operator):
    operation = f"a {operator} b"
    dataset = with_own_answer(engine_of("postgres"), kind, operation, pairs(kind, operator))
    missing = dataset.where("own IS NULL").rows()
    assert rows_of(missing).num_rows > 100  # there are results beyond the limits
    assert others(dataset, f"({operation})") == []


CONSTANTS = ["5e-324", "-2e-308", "1e-200", "0.3", "0", "3", "1e200", "1.7976931348623157e308"]


@pytest.mark.parametrize("operator", "+-*/")
def test_arithmetic_with_constants(engine_of, operator):
    """The engine computes what is constant in a test before it reads a row: no test may fail for a constant."""
    rows = [(number, 0.0) for number in odd_numbers("float8")]
    for constant in CONSTANTS:
        for operation in (f"a {operator} {constant}", f"{constant} {operator} a", f"{constant} {operator} (0 * a)"):
            dataset = with_own_answer(engine_of("postgres"), "float8", operation, rows)
            assert others(dataset, f"({operation})") == [], operation


NEAR_FLOAT8 = ["1e400", "1.7976931348623159e308", "1.7976931348623157e308", "1e305", "3e-324", "2e-324", "1e-400", "0"]
NEAR_FLOAT4 = ["1e39", "3.40282357e38", "3.4028235e38", "2e38", "1e-45", "8e-46", "7e-46", "1e-50", "0"]
CASTS = [
    ("numeric", "CAST(a AS float8)", "float8", NEAR_FLOAT8),
    ("text", "CAST(a AS float8)", "float8", NEAR_FLOAT8),
    ("numeric", "CAST(a AS float4)", "float4", NEAR_FLOAT4),
    ("float8", "CAST(a AS float4)", "float4", [*NEAR_FLOAT4, repr(2.0**-150), repr(2.0**128 - 2.0**103)]),
    ("text", "CAST(a AS float4)", "float4", NEAR_FLOAT4),
    ("float8", "exp(a)", "float8", ["709.7", "709.79", "710", "-744.9", "-746", "-1e300", "Infinity", "NaN"]),
    ("numeric", "exp(a)", "numeric", ["4999", "6001", "-744.9", "-1e300", "Infinity", "-Infinity", "NaN"]),
    ("bigint", "exp(a)", "float8", ["709", "710", "-745", "-746", "9223372036854775807", "-9223372036854775808"]),
]


@pytest.mark.parametrize(("kind", "operation", "result", "numbers"), CASTS)
def test_casts_and_exponentials_up_to_the_limits(engine_of, kind, operation, result, numbers):
    rows = [(number, number) for number in numbers]
    dataset = with_own_answer(engine_of("postgres"), kind, operation, rows, result)
    assert others(dataset, operation) == []
