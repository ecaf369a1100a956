"""Data sets: the privacy unit, sources, declared types, derived columns, and the engines that hold the rows."""

from importlib.util import find_spec

from osgt.support.errors import missing

if find_spec("pyarrow") is None:
    raise missing("this work on tables", "pyarrow", "tables")
