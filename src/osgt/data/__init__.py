"""Data sets: the privacy unit, sources, declared types, derived columns, and the engines that hold the rows.

Here are the lists of codes and labels that everybody knows, and need not be written down: countries, months, weekdays.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.util import find_spec

from osgt.support.errors import missing
from osgt.support.text import MONTHS

if find_spec("pyarrow") is None:
    raise missing("this work on tables", "pyarrow", "tables")

#: What people call the months of a year and the days of a week, from 1 on.
LABELS = {
    "month": tuple(MONTHS),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
}

_COUNTRIES = "iso-countries"

#: The lists by name: ISO 3166 codes of two letters, and numbers from 1 on.
CODE_LISTS = (_COUNTRIES, "months", "weekdays")


@cache
def code_list(name: str) -> Mapping[str, str]:
    """The codes of a list that this package knows, with their labels."""
    if name != _COUNTRIES:
        return {str(i): label for i, label in enumerate(LABELS[name.removesuffix("s")], start=1)}
    text = (resources.files("osgt.data") / "lists" / f"{name}.csv").read_text(encoding="utf-8")
    return {row["code"]: row["label"] for row in csv.DictReader(text.splitlines())}
