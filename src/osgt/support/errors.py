"""Errors and warnings of this package: what went wrong, and which argument it is about.

Messages name arguments as Python does. The command line, query files and the planner know them by other names, and find
out from `argument` which one is meant.
"""

import sys
import warnings
from collections.abc import Iterable
from typing import TypeVar


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
_AROUND_METHODS = "osgt.support.familiar"


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
