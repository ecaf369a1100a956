"""Data sets: the privacy unit, sources, declared types, derived columns, and the engines that hold the rows."""

from importlib.util import find_spec

from osgt.support.errors import missing

for _name in ("ibis", "pyarrow"):
    if find_spec(_name) is None:
        raise missing("this work on tables", _name, "tables")
