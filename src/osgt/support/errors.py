"""Errors and warnings: what went wrong, which argument it is about, and words for names from elsewhere.

Messages name arguments as Python does. The command line, query files and the planner know them by other names, and find
out from `argument` which one is meant.

People bring names from pandas, polars, Spark, SQL and other libraries for privacy. `Familiar` is for objects: an
attribute that there is not says what to write, and `dir` shows what is for users. `guided` does the same for the
arguments of methods. No message quotes what an argument holds, which may be data.
"""

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, ParamSpec, TypeVar

from osgt.support.text import nearest


class OsgtError(Exception):
    """The base of the package's own errors.

    Attributes
    ----------
    argument : str or None
        The argument that is wrong, as Python names it; None if it is none in particular.
    """

    argument: str | None = None


class ArgumentError(OsgtError, ValueError):
    """An argument has a value that is not allowed. The message begins with its name."""

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


class ArgumentTypeError(OsgtError, TypeError):
    """An argument has a value of another type. The message begins with its name."""

    def __init__(self, message: str, *, argument: str | None = None) -> None:
        super().__init__(message)
        self.argument = argument


#: What the library raises for what a user may do wrong; anything else that Python raises is a mistake in here.
USER_ERRORS = (ValueError, TypeError, OverflowError, OSError, ImportError, RuntimeError)

Anything = TypeVar("Anything", bound=BaseException)


def about(argument: str, error: Anything) -> Anything:
    """The error, which is one of Python, with the argument that it is about. The message begins with its name."""
    error.argument = argument  # type: ignore[attr-defined]
    return error


def argument_of(error: BaseException) -> str | None:
    """The argument that an error is about; None if it is none in particular."""
    argument: str | None = getattr(error, "argument", None)
    return argument


def message_naming(error: BaseException, name: str) -> str:
    """The message of an error with another name for the argument that it begins with."""
    message, argument = str(error), argument_of(error)
    is_first = argument is not None and message.startswith(argument)
    return name + message.removeprefix(argument or "") if is_first else message


#: The module whose frame stands around a method that people call.
_AROUND_METHODS = __name__


class OsgtWarning(UserWarning):
    """Something about a plan or a release that is worth knowing before it is relied on."""


def warn_caller(texts: Iterable[str], told: set[str]) -> None:
    """Warn the caller of the method that calls this, at their line, of what they were not `told` before.

    Code of this package that calls the method tells it by itself.
    """
    level = _level_of_caller()
    for text in texts if level else ():
        if text not in told:
            warnings.warn(text, OsgtWarning, stacklevel=level)
            told.add(text)


def warn_caller_after_charge(texts: Iterable[str]) -> None:
    """Warn the caller where a budget is spent: no filter may turn it into an error, by which a table would be lost."""
    level = _level_of_caller()
    for text in texts if level else ():
        try:
            warnings.warn(text, OsgtWarning, stacklevel=level)
        except OsgtWarning:
            sys.stderr.write(f"OsgtWarning: {text}\n")


def _level_of_caller() -> int:
    """The level of the stack, as seen from the function that calls this, of the caller; 0 if it is this package."""
    level = 3
    while (module := sys._getframe(level).f_globals.get("__name__", "")) == _AROUND_METHODS:
        level += 1
    return 0 if module.partition(".")[0] == "osgt" else level


def missing(what: str, package: str, extra: str) -> ImportError:
    """The error for work whose packages are not installed: what needs which, and the command that installs it."""
    return ImportError(f'{what} needs {package}: pip install "osgt[{extra}]"')


def _by_name(advice: Mapping[str, str]) -> dict[str, str]:
    """The advice for each of the names, which stand together in the table."""
    return {name: words for names, words in advice.items() for name in names.split()}


_RELEASE = 'data.group_by("department").count().release(epsilon=1, delta=1e-8)'
_FRAME = "release.to_pandas() is an ordinary frame"

#: On data sets and queries: what is written in place of what people know.
ASKING = _by_name(
    {
        "groupby group by partition_by": 'use group_by, as in data.group_by("department").count()',
        "filter query loc": 'use where, as in data.where("cost > 3 AND emergency")',
        "where": 'choose the rows before the groups: data.where("cost > 3").group_by("department").count()',
        "derive": 'derive columns before the groups: data.derive(net="cost - paid").group_by("department").sum("net")',
        "group_by": 'give all columns to one group_by: data.group_by("department", "month").count()',
        "having": "small groups are left out anyway; to name the groups, use group_by(…, public_keys=…)",
        "agg aggregate summarize summarise apply": 'ask for one after the other: query.count().mean("cost")',
        "avg average": 'use mean, as in query.mean("cost", bounds=(0, 5000))',
        "std stddev stdev var": 'use variance, as in query.variance("cost", bounds=(0, 5000)), and take its root',
        "nunique n_unique distinct countDistinct unique": "use count_units, which counts people, or count_distinct, "
        'which counts values of a column: query.count_distinct("diagnosis")',
        "size len num_rows shape": "use count, which counts rows with noise: query.count()",
        "value_counts crosstab": 'use group_by and count: data.group_by("department").count()',
        "total": 'use sum, as in query.sum("cost")',
        "hist": 'use histogram, as in query.histogram("age", edges=[0, 18, 65, 120])',
        "percentile quantiles approx_quantile": 'use quantile, as in query.quantile("cost", 0.9, bounds=(0, 5000))',
        "min max": "it would be the value of one person, which is never published; use quantile, as in "
        'query.quantile("cost", [0.05, 0.95], bounds=(0, 5000))',
        "share ratio fraction": 'use proportion, as in query.proportion("emergency")',
        "pivot pivot_table unstack": "group by both keys, and make the release wide: "
        'data.group_by("department", "month").count().release(…).to_pandas(wide="month")',
        "rollup cube": 'it is an argument: data.group_by("department", "month", totals="rollup")',
        "assign with_columns withColumn mutate": 'use derive, as in data.derive(net="cost - paid")',
        "sort sort_values order_by orderBy nlargest": f"sort what was published: {_FRAME}",
        "join merge": 'join before the groups: data.join("wards.csv", on="ward_id")',
        "select drop": 'name columns where they are needed, as in data.group_by("department").mean("cost")',
        "head tail sample show take first limit iloc describe info df data frame to_frame to_pandas to_polars to_arrow "
        "to_csv to_parquet to_excel report collect execute run": f"rows are private; release something: {_RELEASE}",
        "columns dtypes schema types": "print(data) lists the columns and their types",
        "remaining left spent budget history": "ask the ledger: data.ledger.remaining(data.dataset)",
        "plan release preview choose_limits": f"say first what is asked for, as in {_RELEASE}",
    }
)

#: On releases.
RELEASED = _by_name(
    {
        "df data frame to_frame to_df toPandas pandas dataframe": "use release.to_pandas()",
        "columns dtypes schema head tail describe info sort_values loc iloc groupby group_by filter where merge "
        "join agg aggregate value_counts nlargest set_index iterrows itertuples": _FRAME,
        "size shape num_rows": "use len(release)",
        "pivot pivot_table unstack crosstab wide": 'use release.to_pandas(wide="month")',
        "to_xlsx excel": 'use release.to_excel("table.xlsx")',
        "to_html html": 'use release.report("page.html")',
        "save to_file export publish": 'use release.write(out="table.parquet", report="page.html")',
        "to_json to_dict": 'use release.to_pandas().to_dict("records"); release.statement.to_dict() has the statement',
        "value values item result results": 'use release["count"], a column by its name',
        "interval intervals error errors std ci": "the ends of the intervals are columns: "
        'release["count_low"] and release["count_high"]',
        "epsilon delta confidence budget threshold": "it is in release.plan",
        "show display": "use print(release)",
        "avg average mean sum count count_units count_distinct variance median quantile histogram proportion": "ask "
        'for it in the query: data.group_by("department").count().mean("cost")',
    }
)

#: On plans.
PLANNED = _by_name(
    {
        "cost price": "use plan.charge; plan.epsilon and plan.delta are the whole budget",
        "interval intervals half_width error std sigma scale": "each column has its own: plan.columns",
        "run execute publish": "release the query that was planned: query.release(epsilon=1, delta=1e-8)",
    }
)

#: On publications of several tables, and on their releases.
SEVERAL = _by_name(
    {
        "to_pandas to_polars to_arrow to_csv to_parquet to_frame df frame columns head plot": "take one of the "
        'tables, as in release["by_department"].to_pandas()',
        "save export to_xlsx": 'use release.write("tables.xlsx", report="page.html")',
        "count count_units count_distinct sum mean avg variance median quantile histogram proportion group_by groupby "
        "where filter "
        "derive agg": 'ask for it in a table: Publication(by_department=data.group_by("department").count())',
        "add append": "name all tables at once: Publication(by_department=query_1, by_month=query_2)",
        "epsilon delta confidence": "it is in the plan",
    }
)

#: On ledgers.
KEPT = _by_name(
    {
        "show display budget budgets": "use print(ledger)",
        "left": 'use ledger.remaining("visits"), the largest ε that one more release may use',
        "charge": "releases charge it by themselves; ledger.reserve charges for a program of your own",
        "releases": 'use ledger.history("visits")',
    }
)

#: On the package.
PACKAGE = _by_name(
    {
        "read_csv read_parquet read_excel read_sql scan_csv scan_parquet load dataset DataFrame from_pandas": "use "
        'osgt.Dataset("visits.csv", privacy_unit="patient_id")',
        "from_file read_file data_file": 'use osgt.Dataset.from_file("data.toml")',
        "sql query": 'use data.sql("SELECT department, COUNT(*) FROM visits GROUP BY department")',
        "noise Laplace Gaussian laplace gaussian": "use osgt.Mechanism(epsilon=1, delta=1e-8) to add noise to numbers",
    }
)

#: Options of commands.
OPTIONS = _by_name(
    {
        "bounds lower upper min max clip": "write them after the column, as in --mean cost:0:5000",
        "format csv excel xlsx parquet": "the ending of --out says it, as in --out table.csv",
        "agg aggregate": "each aggregate is an option: --count, --mean cost, …",
        "column columns": "columns come after the aggregate, as in --mean cost; --by names those to group by",
    }
)


class Familiar:
    """An object whose unknown attributes are told the word here, and of which `dir` shows what is for users."""

    #: What such an object is called, the advice for names that it has not, and the names for users.
    _called: ClassVar[str]
    _advice: ClassVar[Mapping[str, str]] = {}
    _for_users: ClassVar[str]

    if not TYPE_CHECKING:  # a checker of types knows what there is

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or hasattr(type(self), name):  # the second: a property failed, and says why itself
                return object.__getattribute__(self, name)
            advice = self._advice_on(name) or self._advice.get(name)
            if advice is None:
                raise AttributeError(f"{self._called} has no {name!r}{nearest(name, dir(self))}")
            raise AttributeError(f"{self._called} has no {name!r}: {advice}")

    def _advice_on(self, name: str) -> str | None:
        """The advice on a name that only this object knows; None if it is nothing to it."""
        return None

    def __dir__(self) -> list[str]:
        return sorted(self._for_users.split())


P = ParamSpec("P")
R = TypeVar("R")

#: Arguments as they are called elsewhere, and here.
_ARGUMENTS = _by_name(
    {
        "eps budget privacy_budget": "epsilon",
        "unit id user user_id person privacy_id privacy_key uid": "privacy_unit",
        "keys groups partitions public_partitions categories": "public_keys",
        "max_contributions max_rows_per_unit max_rows_per_person max_contributions_per_unit": "max_rows",
        "max_partitions max_partitions_contributed max_groups_per_unit": "max_groups",
        "max_contributions_per_partition max_rows_per_partition": "max_rows_per_group",
        "q quantiles percentiles probabilities level": "levels",
        "breaks cuts": "edges",
        "alias label as_": "name",
        "alpha": "confidence",
        "rollup cube margins": "totals",
        "output file": "out",
        "condition": "where",
    }
)
_LOWEST = ("lower", "low", "min", "min_value", "lower_bound", "minimum")
_LARGEST = ("upper", "high", "max", "max_value", "upper_bound", "maximum")
_BOUNDS = (*_LOWEST, *_LARGEST, "clip", "clamp", "range", "bound", "limits")

#: What must be given, and what it is.
_MUST = {
    "epsilon": ": the budget, as in epsilon=1",
    "delta": ": far below 1 divided by the number of people, as in delta=1e-8; 0 with public keys for pure ε",
    "column": ': the name of a column in quotes, as in "cost"',
    "privacy_unit": ': the column that names the person, as in privacy_unit="patient_id"; "row" where each row is one',
    "levels": ": shares between 0 and 1, as in [0.25, 0.5, 0.75]",
    "edges": ": a list of ascending numbers, as in [0, 18, 65, 120]",
    "condition": ': SQL in quotes, as in "cost > 3"',
}

#: Arguments that may be frames and arrays, or that say themselves what they are.
_TAKE_DATA = ("self", "source", "columns", "public_keys", "totals", "per", "condition", "named", "axes")

#: Libraries whose arrays and frames may hold rows.
_LIBRARIES = ("pandas", "polars", "pyarrow", "numpy", "pyspark", "ibis", "duckdb")


def guided(method: Callable[P, R]) -> Callable[P, R]:
    """The method, which tells what is missing among its arguments, what an unknown one is called, and refuses data."""
    signature = inspect.signature(method)
    kinds = signature.parameters
    named = {name for name, kind in kinds.items() if kind.kind in (kind.POSITIONAL_OR_KEYWORD, kind.KEYWORD_ONLY)}
    takes_any = any(kind.kind is kind.VAR_KEYWORD for kind in kinds.values())

    @wraps(method)
    def run(*given: P.args, **more: P.kwargs) -> R:
        for name in more:
            if name not in named and (not takes_any or _ARGUMENTS.get(name) in named):
                raise ArgumentTypeError(f"{method.__name__} {_unknown(name, more, [*named])}", argument=name)
        try:
            arguments = signature.bind(*given, **more).arguments
        except TypeError:
            _complain(method.__name__, signature, given, more)
        for name, value in arguments.items():
            if name not in _TAKE_DATA or kinds[name].kind is inspect.Parameter.VAR_POSITIONAL:
                _refuse_data(name, value)
        return method(*given, **more)

    return run


def _unknown(name: str, given: Mapping[str, Any], known: list[str]) -> str:
    """Say what an argument is called here, if that is known."""
    if name in _BOUNDS and "bounds" in known:
        low, high = (next((given[end] for end in names if end in given), "…") for names in (_LOWEST, _LARGEST))
        low, high = (end if isinstance(end, Number) else "…" for end in (low, high))
        return f"has no argument {name!r}: write bounds=({low}, {high}), the least and the largest value that may count"
    here = _ARGUMENTS.get(name)
    close = (
        f" (did you mean {here!r}?)" if here in known else nearest(name, [other for other in known if other != "self"])
    )
    return f"has no argument {name!r}{close}"


def _complain(name: str, signature: inspect.Signature, given: tuple[Any, ...], more: Mapping[str, Any]) -> NoReturn:
    """Say which argument is missing, or which one is too many."""
    there = {*list(signature.parameters)[: len(given)], *more}
    for parameter in signature.parameters.values():
        is_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        if is_named and parameter.default is parameter.empty and parameter.name not in there:
            words = f"{parameter.name} must be given{_MUST.get(parameter.name, '')}"
            raise ArgumentTypeError(words, argument=parameter.name)
    by_name = [one.name for one in signature.parameters.values() if one.kind is one.KEYWORD_ONLY]
    example = f"; give the others by name, as in {by_name[0]}=…" if by_name else ""
    raise ArgumentTypeError(f"{name} has too many arguments, or one of them twice{example}")


def _refuse_data(name: str, value: Any) -> None:
    """Raise if an argument is or holds a frame, a column of one or an array: not printed, since it may hold rows."""
    if isinstance(value, tuple | list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            _refuse_data(name, item)
    elif type(value).__module__.partition(".")[0] in _LIBRARIES and not isinstance(value, Number):
        raise ArgumentTypeError(
            f'{name} must not be data: name a column in quotes, as "cost", and write a condition as SQL in quotes, as '
            f'"cost > 3"; got an object of type {type(value).__name__}',
            argument=name,
        )
