"""The periods of a series: days, weeks, months, quarters or years, by name, with their first day and the day after."""

import datetime
import re
from collections.abc import Callable, Mapping
from datetime import date, timedelta

from osgt.support.errors import ArgumentError

#: More instalments than this are no series.
MOST_PERIODS = 1000


def _month(text: str) -> date:
    year, month = map(int, text.split("-"))
    return date(year, month, 1)


def _quarter(text: str) -> date:
    year, quarter = map(int, text.split("-Q"))
    return date(year, 3 * quarter - 2, 1)


def _week(text: str) -> date:
    year, week = map(int, text.split("-W"))
    return datetime.date.fromisocalendar(year, week, 1)


def _months_later(day: date, months: int) -> date:
    count = 12 * day.year + day.month - 1 + months
    return date(count // 12, count % 12 + 1, 1)


#: For each length its form, an example, the first day of a name, the name of a first day and the day after.
_LENGTHS: dict[str, tuple[str, str, Callable[[str], date], Callable[[date], str], Callable[[date], date]]] = {
    "day": (r"\d{4}-\d\d-\d\d", "2027-01-31", date.fromisoformat, date.isoformat, lambda day: day + timedelta(1)),
    "week": (
        r"\d{4}-W\d\d",
        "2027-W05",
        _week,
        lambda day: f"{day.isocalendar().year}-W{day.isocalendar().week:02}",
        lambda day: day + timedelta(7),
    ),
    "month": (r"\d{4}-\d\d", "2027-01", _month, lambda day: f"{day:%Y-%m}", lambda day: _months_later(day, 1)),
    "quarter": (
        r"\d{4}-Q[1-4]",
        "2027-Q1",
        _quarter,
        lambda day: f"{day:%Y}-Q{(day.month + 2) // 3}",
        lambda day: _months_later(day, 3),
    ),
    "year": (
        r"\d{4}",
        "2027",
        lambda text: date(int(text), 1, 1),
        lambda day: f"{day:%Y}",
        lambda day: _months_later(day, 12),
    ),
}


#: The longer periods that periods add up to: weeks are in two months or years.
_LONGER = {"day": ("week", "month", "quarter", "year"), "month": ("quarter", "year"), "quarter": ("year",)}


def longer_periods(length: str, periods: Mapping[str, tuple[date, date]], longer: str) -> dict[str, list[str]]:
    """The longer periods that these have whole, each with the names of its periods."""
    _, _, start_of, name_of, after = _LENGTHS[longer]
    within: dict[str, list[str]] = {}
    for name, (start, _) in periods.items():
        within.setdefault(name_of(start), []).append(name)
    return {
        name: names
        for name, names in within.items()
        if longer in _LONGER.get(length, ())
        and (periods[names[0]][0], periods[names[-1]][1]) == (start_of(name), after(start_of(name)))
    }


def all_longer_periods(length: str, periods: Mapping[str, tuple[date, date]]) -> list[str]:
    """The names of all longer periods that these have whole."""
    return [name for longer in _LONGER.get(length, ()) for name in longer_periods(length, periods, longer)]


def periods_between(length: str, first: str | None, last: str | None) -> dict[str, tuple[date, date]]:
    """The periods from the first to the last, each with its first day and the day after it."""
    _, _, _, name_of, after = _LENGTHS[length]
    day, end = _start(length, "from", first), _start(length, "until", last)
    if end < day:
        raise ArgumentError(f"until: the last period, {last}, is before the first, {first}", argument="until")
    periods: dict[str, tuple[date, date]] = {}
    while day <= end:
        if len(periods) == MOST_PERIODS:
            raise ArgumentError(f"until: a series has at most {MOST_PERIODS:,} periods", argument="until")
        periods[name_of(day)] = (day, after(day))
        day = after(day)
    return periods


def _start(length: str, argument: str, text: str | None) -> date:
    """The first day of a period that is named."""
    form, example, start_of, _, _ = _LENGTHS[length]
    try:
        if text is not None and re.fullmatch(form, text, re.ASCII):
            return start_of(text)
    except ValueError:
        pass
    raise ArgumentError(f'{argument} must name a {length}, as in "{example}", got {text!r}', argument=argument)
