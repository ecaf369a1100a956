"""Functions of an engine that have no name in Ibis."""

from typing import Any

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir


def function(name: str, *arguments: ir.Value, returns: dt.DataType) -> Any:
    """A call of a function of the engine that has no name in Ibis."""
    types = tuple(argument.type() for argument in arguments)
    call = ibis.udf.scalar.builtin(_signature(len(arguments)), name=name, signature=(types, returns))
    return call(*arguments)


def reduction(name: str, argument: ir.Value, *, returns: dt.DataType) -> Any:
    """The same for a function of a column of numbers that gives one back."""
    signature = ((argument.type(),), returns)
    return ibis.udf.agg.builtin(_signature(1), name=name, signature=signature)(argument)


def _signature(arguments: int) -> Any:
    """A function with so many parameters: their names are all that is looked at."""
    names = ", ".join(f"argument_{i}" for i in range(arguments))
    return eval(f"lambda {names}: ...")
