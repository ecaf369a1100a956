"""Numbers as people read them: rounded by their noise, with commas; and words around them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Any

#: For figures that are promised: never rounded down.
_FOUR_DIGITS = Context(prec=4, rounding=ROUND_CEILING)

#: Enough digits for the largest and the finest number that a table can hold.
_EXACT = Context(prec=400)

#: What people call the months of a year.
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]

#: In place of a number that there is not, and of one that the table does not have for a row.
_NONE, _UNCOUNTED = "–", "not counted"

#: e^ε is told as a number up to this ε.
_LARGEST_FACTOR = 14.0


@dataclass(frozen=True)
class Shown:
    """A number and the ends of its interval, as texts."""

    value: str
    low: str
    high: str

    @property
    def interval(self) -> str:
        """The interval in words: "857 to 1,147"; nothing where nothing was counted."""
        if self.value == _UNCOUNTED:
            return ""
        return "no interval" if _NONE in (self.low, self.high) else f"{self.low} to {self.high}"


def with_interval(value: Any, low: Any, high: Any) -> Shown:
    """Rounded to two or three digits of the interval's half-width; the ends outwards, so that they lose nothing.

    Wherever values of a release are shown to people, they are rounded here.
    """
    place = last_place((float(high) - float(low)) / 2) if _is_number(low) and _is_number(high) else None
    ways = ((value, ROUND_HALF_EVEN), (low, ROUND_FLOOR), (high, ROUND_CEILING))
    texts = [rounded(number, place, way) if _is_number(number) else _NONE for number, way in ways]
    if value is None:
        texts[0] = _UNCOUNTED if _NONE in texts[1:] else "not enough data"
    return Shown(*texts)


def last_place(half_width: float) -> int | None:
    """The power of ten of the second digit of a half-width, of the third from 100 on; None if there is no noise."""
    if not (half_width > 0 and math.isfinite(half_width)):
        return None
    first = math.floor(math.log10(half_width))
    return first - 1 if first < 2 else first - 2


def rounded(number: Any, place: int | None, way: str = ROUND_HALF_EVEN) -> str:
    """A number without the digits after a place; all of its digits if there is none, but for the ".0" of a float."""
    exact = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if place is None and exact == exact.to_integral_value():
        place = 0
    if place is not None and exact.as_tuple().exponent < place:  # type: ignore[operator]
        exact = exact.quantize(Decimal((0, (1,), place)), rounding=way, context=_EXACT)
    return f"{exact + 0 if exact == 0 else exact:,f}".removeprefix("-" if exact == 0 else "\0")


def half_width(number: float, *, whole: bool = False) -> str:
    """A half-width, with three digits at most, never rounded down; that of counts is a whole number."""
    place = None if number == 0 else math.floor(math.log10(number)) - 2
    text = rounded(float(number), max(place, 0) if whole and place is not None else place, ROUND_CEILING)
    return f"±{text.rstrip('0').rstrip('.') if '.' in text else text}"


def percent(share: float) -> str:
    """A share in percent, as people write it."""
    return f"{100 * share:.10g} %"


def in_digits(number: float, digits: int) -> str:
    """A number with so many digits, and commas; never as a power of ten."""
    return rounded(float(number), None if number == 0 else math.floor(math.log10(abs(number))) + 1 - digits)


def percentiles(level: float, ranks: float, size: int) -> str:
    """The percentiles that a quantile of so many values is between, if its rank is off by so much at most."""
    low, high = 100 * (level - ranks / size), 100 * (level + ranks / size)
    if low <= 0 and high >= 100:
        return f"not enough data with {counted(size, 'value')}"
    first, last = max(math.floor(low), 0), min(math.ceil(high), 100)
    return f"between the {_ordinal(first)} and {_ordinal(last)} percentile of {counted(size, 'value')}"


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def misses(confidence: float) -> str:
    """Say how many intervals miss: "Of 100 intervals, at most about 5 miss"."""
    share, of = 1.0 - confidence, 100
    while share * of < 0.95 and of < 10**9:
        of *= 10
    number = f"{share * of:,.2g}" if share * of < 10 else f"{share * of:,.0f}"
    return f"Of {of:,} intervals, at most about {number} {'misses' if number == '1' else 'miss'}."


def factor(epsilon: float) -> str:
    """e^ε as a number that is not rounded down: "7.4 (e^ε with ε = 2)"."""
    if epsilon > _LARGEST_FACTOR:
        return f"e^ε with ε = {epsilon:.15g}"
    more = math.expm1(epsilon)
    # Two digits of what it is above 1; the last bit of a float could be too small.
    value = Decimal(1) + Decimal(math.nextafter(math.nextafter(more, math.inf), math.inf))
    return f"{rounded(value, math.floor(math.log10(more)) - 1, ROUND_CEILING)} (e^ε with ε = {epsilon:.15g})"


def at_most_sure(epsilon: float) -> str | None:
    """Bound how sure somebody can be who thought a thing 50 % likely, rounded up: "73.2 %"; None without a limit."""
    share = 100 / (1 + math.exp(-epsilon))
    tenths = math.ceil(math.nextafter(10 * share, math.inf))
    return None if tenths > 999 else f"{tenths / 10:.10g} %"


def one_in(probability: float) -> str:
    """A small probability as people say it, not rounded down: "1 in 100 million"."""
    for size, word in ((10**12, " trillion"), (10**9, " billion"), (10**6, " million"), (1, "")):
        if probability * size <= 1.0 + 1e-9:
            number = float(f"{1 / (probability * size):.3g}")
            while number > 1 and 1 / (number * size) < probability * (1 - 1e-9):
                number = float(f"{number * 0.995:.3g}")
            return f"1 in {number:,.15g}{word}"
    return f"{probability:.15g}"


def rounded_up(value: float) -> str:
    """Four digits, never rounded down."""
    return f"{float(Decimal(value).normalize(_FOUR_DIGITS)):.4g}" if math.isfinite(value) else "∞"


def day(time: datetime) -> str:
    """A date as people write it: "16 November 2026"."""
    return f"{time.day} {MONTHS[time.month - 1]} {time.year}"


def with_article(noun: object) -> str:
    """A noun after its article: "a person", "an aircraft"; before a u it is mostly "a", as in "a user"."""
    return f"{'an' if str(noun)[:1].lower() in tuple('aeio') else 'a'} {noun}"


def listed(texts: Sequence[str]) -> str:
    """Texts in one phrase: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things: "1 group", "2 groups"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and math.isfinite(value)
