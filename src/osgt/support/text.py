"""Text for people: numbers as noise lets them be read, lists and plurals, what is safe to show, what shows itself."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from difflib import get_close_matches
from importlib import import_module
from typing import Any

#: The beginning of text that a spreadsheet may take for a formula: =, +, - or @, after blanks and in the wide forms of
#: East Asian text too; a tab or the end of a line; and the apostrophe that CSV puts before these, so that the way back
#: is unambiguous. For Python and for Arrow alike.
FORMULA = "^(?:['\\t\\r\\n]|[\\x00-\\x20\u00a0\u3000\ufeff]*[=+\\-@\uff1d\uff0b\uff0d\uff20])"


def printable(text: object) -> str:
    """The text with a mark in place of each character that is not printed; lines and tabs stay."""
    shown = str(text)
    if shown.isprintable():
        return shown
    return "".join(c if unicodedata.category(c)[0] != "C" or c in "\n\t" else "�" for c in shown)


def one_line(text: object) -> str:
    """Put printable text on one line, with one space wherever there was more."""
    return " ".join(printable(text).split())


def shortened(text: object, length: int) -> str:
    """Shorten the text, on one line, to so many characters at most."""
    line = one_line(text)
    return line if len(line) <= length else line[: length - 1] + "…"


#: What aggregates and options are called elsewhere, and here.
OTHER_NAMES = {
    "average": "mean",
    "avg": "mean",
    "total": "sum",
    "distinct": "count_units",
    "std": "variance",
    "stddev": "variance",
    "percentile": "quantile",
    "share": "proportion",
    "group_by": "by",
    "groupby": "by",
    "where_sql": "where",
    "filter": "where",
    "condition": "where",
    "privacy_unit": "unit",
    "id": "unit",
    "user": "unit",
    "people": "units",
    "eps": "epsilon",
    "output": "out",
    "save": "out",
    "html": "report",
    "rollup": "totals",
    "sep": "delimiter",
    "separator": "delimiter",
    "dtype": "type",
    "database": "url",
    "db": "url",
}

#: Most names that a message lists.
_MOST = 20


def unknown(what: str, name: str, known: Sequence[str], having: str = "the table has") -> str:
    """Say that there is no such thing of this name, which one was perhaps meant, and which there are.

    Examples
    --------
    >>> unknown("column", "usr", ["user", "city"])
    "there is no column 'usr' (did you mean 'user'?); the table has 'user' and 'city'"
    >>> unknown("column", "user,city", ["user", "city"])
    "there is no column 'user,city': give each by itself; the table has 'user' and 'city'"
    """
    parts = [part.strip() for part in name.split(",")]
    hint = ": give each by itself" if len(parts) > 1 and any(part in known for part in parts) else nearest(name, known)
    return f"there is no {what} {name!r}{hint}; {having} {names_in_words(known)}"


def nearest(name: str, known: Sequence[str]) -> str:
    """The known name that somebody may have meant, in brackets; nothing if none is near."""
    plain: dict[str, str] = {}
    for known_name in known:
        plain.setdefault(_plain(known_name), known_name)
    plain |= {other: plain[here] for other, here in OTHER_NAMES.items() if here in plain and other not in plain}
    close = get_close_matches(_plain(name), list(plain), n=1)
    return f" (did you mean {plain[close[0]]!r}?)" if close else ""


def names_in_words(names: Sequence[str]) -> str:
    """The names in quotes; of very many the first ones."""
    shown = [repr(name) for name in names[:_MOST]] or ["none"]
    if len(names) > _MOST:
        return f"{', '.join(shown)} and {len(names) - _MOST:,} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _plain(name: str) -> str:
    """The name as people remember it: without case and dashes before it, with blanks and hyphens as underscores."""
    return name.casefold().strip(" -").replace(" ", "_").replace("-", "_")


def columns_wide(text: str) -> int:
    """The number of columns that a text takes in a terminal: wide characters take two, marks on others none."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else not unicodedata.combining(c) for c in text)


def aligned(rows: Sequence[Sequence[str]], left: int = 0) -> list[str]:
    """Rows of a table in lines, its columns below each other: so many to the left, the others to the right."""
    widths = [max(map(columns_wide, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        blanks = [" " * (width - columns_wide(text)) for text, width in zip(row, widths, strict=True)]
        cells = [
            text + blank if i < left else blank + text for i, (text, blank) in enumerate(zip(row, blanks, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


class Displayed:
    """A value that has a card in notebooks."""

    def _repr_html_(self) -> str | None:
        """Make the card for notebooks; None without Jinja2."""
        try:
            html: str = views().card(self).html()
        except ImportError:
            return None
        return html


class DisplayedInText(Displayed):
    """A value that has a card in notebooks, a line and a text."""

    def __repr__(self) -> str:
        line: str = views().line(self)
        return line

    def __str__(self) -> str:
        text: str = views().text(self)
        return text


def views() -> Any:
    """The package with the view of every kind of value."""
    return import_module("osgt.render")


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


def half_width(number: float, *, whole: bool = False, digits: int = 3) -> str:
    """A half-width, with three digits at most, never rounded down; that of counts is a whole number."""
    place = None if number == 0 else math.floor(math.log10(number)) + 1 - digits
    text = rounded(float(number), max(place, 0) if whole and place is not None else place, ROUND_CEILING)
    return f"±{text.rstrip('0').rstrip('.') if '.' in text else text}"


def percent(share: float) -> str:
    """A share in percent, as people write it."""
    return f"{100 * share:.10g} %"


def rounded_percent(share: float) -> str:
    """A share that was counted or measured: two digits of it, in hundredths of a percent at least.

    Examples
    --------
    >>> [rounded_percent(share) for share in (0.374, 0.034, 0.03, 0.0004, 0.00001, 0.0)]
    ['37 %', '3.4 %', '3 %', '0.04 %', '< 0.01 %', '0 %']
    """
    if 0 < share < 0.00005:
        return "< 0.01 %"
    digits = 0 if share >= 0.0995 or share == 0 else 1 if share >= 0.00095 else 2
    return f"{round(100 * share, digits):g} %"


def in_digits(number: float, digits: int) -> str:
    """A number with so many digits, and commas; never as a power of ten."""
    return rounded(float(number), None if number == 0 else math.floor(math.log10(abs(number))) + 1 - digits)


def percentiles(level: float, ranks: float, size: int) -> str:
    """The percentiles that a quantile of so many values is between, if its rank is off by so much at most."""
    low, high = 100 * (level - ranks / size), 100 * (level + ranks / size)
    if low <= 0 and high >= 100:
        return f"not enough data with {counted(size, 'value')}"
    first, last = max(math.floor(low), 0), min(math.ceil(high), 100)
    return f"between the {ordinal(first)} and {ordinal(last)} percentile of {counted(size, 'value')}"


def ordinal(number: int) -> str:
    """A number in an order: "1st", "12th"."""
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
