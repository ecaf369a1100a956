"""Every sentence that people read about a plan or a release, once, from plain facts.

The views (statement, report, cards, terminal, CSV on the Web, Excel, registry, planner) choose and arrange. A sentence
begins with a capital letter and ends with a full stop; `as_clause` makes it part of a longer one.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from osgt.data.unit import Noun
from osgt.support.text import (
    at_most_sure,
    counted,
    factor,
    listed,
    misses,
    one_in,
    percent,
    with_article,
    with_interval,
)

if TYPE_CHECKING:
    from osgt.query.groups import Groups

NOISE = "Noise was added to whole numbers, by an exact sampler with the operating system's randomness."

_SHOW_NOISE = "Intervals show the noise alone, neither what the limits cut off nor errors in the data."

_HOLD_TRUTH = (
    "The upper ends of counts, and of sums that cannot be negative, also allow for what the limits cut off, so that "
    "these intervals are meant to hold the true numbers; others show the noise alone. Errors in the data are in none "
    "of them."
)

NOT_MEASURED = "How much the limits left out was not measured. They work like this:"

GIVEN_GROUPS = "The groups were given beforehand; all of them are published, also those without any rows."

ESCAPED = "In CSV, text that a spreadsheet could take for a formula begins with an apostrophe (')."

#: The sentence on rows that are units of their own.
_EACH_ROW = "Every row counts as one unit, once: whoever has several rows is protected for each of them alone."

_NEGATIVE = (
    "Negative numbers are shown as 0, and the others of their column are lowered alike, so that the sum stays: small "
    "groups come out too large on average, and large ones too small."
)


def as_clause(sentence: str) -> str:
    """A sentence as part of a longer one."""
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def budget(epsilon: float, delta: float) -> str:
    """Write ε and δ in full."""
    return f"ε = {epsilon:.15g}, δ = {delta:.15g}"


def arguments(epsilon: float, delta: float) -> str:
    """ε and δ as Python's arguments, for a line about a value."""
    return f"epsilon={epsilon:.15g}, delta={delta:.15g}"


def cost(epsilon: float, delta: float, tables: int = 1) -> str:
    """Say what a plan would charge."""
    of_all = f" for {tables:,} tables together" if tables > 1 else ""
    return f"Total cost{of_all}: {budget(epsilon, delta)}. No data was read."


def definition(epsilon: float, delta: float) -> str:
    """The kind of differential privacy, with its parameters."""
    if delta > 0:
        return f"(ε, δ)-differentially private with ε = {epsilon:.15g} and δ = {delta:.15g}"
    return f"ε-differentially private with ε = {epsilon:.15g} (δ = 0)"


def protected(unit: Noun, *, tables: int = 1) -> str:
    """Say who is protected."""
    return f"Every {unit} is protected by differential privacy{', in all tables together' if tables > 1 else ''}."


def promise(
    unit: Noun, epsilon: float, delta: float, *, change_one: bool, each_row: bool = False, of: str = "any result"
) -> str:
    """Say what one unit can change, at most; where δ is 0 there is no exception."""
    rows, others = ("", "another") if each_row else ("all rows of ", "others")
    change = f"Replacing {rows}one {unit} by {others}" if change_one else f"Adding or removing {rows}one {unit}"
    but = f", except with a probability of about {one_in(delta)} (δ = {delta:.15g})" if delta > 0 else ""
    return f"{change} changes the probability of {of} by at most a factor of {factor(epsilon)}{but}."


def guess(unit: Noun, epsilon: float, delta: float, *, change_one: bool) -> str:
    """State the promise as a limit on what somebody learns who found a thing about one unit as likely as not."""
    sure = at_most_sure(epsilon)
    if sure is None:
        return f"With such an ε this hardly limits what can be learned about a single {unit}."
    again = " (with the same exception)" if delta > 0 else ""
    if change_one:
        return (
            f"In other words{again}: someone who gives two versions of the data of one {unit} equal chances can be "
            f"at most {sure} sure afterwards which one is right, whatever else they know."
        )
    return (
        f"In other words{again}: someone who gives it a 50 % chance that a {unit} is in the data can be at most "
        f"{sure} sure after seeing the table, whatever else they know."
    )


def ledger(thing: str, dataset: str | None, entry: str | None) -> str:
    """Say whether a ledger was charged, and what that means."""
    if entry is None:
        weaker = "Every further release from the same data weakens the protection."
        return f"This {thing} was not charged to a ledger. {weaker}"
    return (
        f"This {thing} was charged to a ledger (data set {dataset!r}, entry {entry}), which limits what all releases "
        "from these data reveal together."
    )


def corrects(thing: str, entry: int) -> str:
    """Say which release this one corrects."""
    return (
        f"This {thing} corrects that of entry {entry}, which is not to be used any more. Both count against the budget."
    )


def brief_promise(unit: Noun, epsilon: float, delta: float, *, tables: int = 1) -> str:
    """The promise in a line."""
    together = f", for {tables:,} tables together" if tables > 1 else ""
    return f"Promise: every {unit} is protected with {budget(epsilon, delta)} in total{together}."


def chosen(names: Sequence[str]) -> str:
    """Add to limits which of them were chosen privately."""
    return f" ({listed(names)} chosen privately)" if names else ""


def brief_limits(groups: "Groups", *, counts_units: bool) -> list[str]:
    """The limits on rows and groups in a few words each."""
    one = f"each {groups.noun}"
    if groups.each_row:
        return [f"{one} counts once"]
    result = []
    if groups.max_rows is not None:
        result.append(f"as at most {counted(groups.max_rows, 'row')}")
    if groups.max_rows_per_group is not None:
        result.append(f"as at most {counted(groups.max_rows_per_group, 'row')} in a group")
    if groups.max_length is not None:
        result.append(f"as at most {counted(groups.max_length, 'row')} in one group, √g times as many in g")
    if groups.limits_groups_of(counts_units=counts_units):
        result.append(f"in at most {counted(groups.max_groups or 1, 'group')}")
    return [f"{one} counts {listed(result) or 'once'}"] if result or counts_units else []


def brief_own_limit(arguments: Mapping[str, Any]) -> list[str]:
    """A limit of an aggregate's own on what one adds to it, in a few words; nothing if it has none."""
    column, most = arguments.get("column"), arguments.get("max_total")
    if "max_distinct" in arguments:
        return [f"at most {counted(arguments['max_distinct'], 'value')} of {column}"]
    if most is None:
        return []
    low, high = most if isinstance(most, list | tuple) else (0, most)
    return [f"at most {high:,} of {column}" if low == 0 else f"{low:,} to {high:,} of {column}"]


def brief_intervals(confidence: float, *, hold_truth: bool) -> str:
    """Say in a line what intervals are meant to hold."""
    if hold_truth:
        return (
            f"Intervals: {percent(confidence)}, meant to hold true counts and sums from 0 on; others show the noise "
            "only."
        )
    return f"Intervals: {percent(confidence)}; they show the noise only, not what the limits dropped."


def brief_ledger(dataset: str | None, entry: str | None) -> str:
    """Say in a line whether a ledger was charged."""
    if entry is None:
        return "Ledger: none was charged, so every further release from these data weakens the protection."
    return f"Ledger: charged to {dataset!r}, entry {entry}."


def interval(confidence: float) -> str:
    """Say what an interval contains."""
    return f"Each interval contains the value without noise with a probability of at least {percent(confidence)}."


def intervals(confidence: float, *, hold_truth: bool) -> list[str]:
    """Say what intervals contain, how many of them miss, and what they do not show."""
    return [f"{interval(confidence)} {misses(confidence)}", _HOLD_TRUTH if hold_truth else _SHOW_NOISE]


#: Limits in a few words.
LIMITS = {
    "max_rows": "Most rows that one counts as",
    "max_groups": "Most groups that one counts in",
    "max_rows_per_group": "Most rows of one in a group",
    "max_length": "Longest vector of rows by group that one counts as",
}


def open_limit(argument: str, column: str | None) -> str:
    """Name a limit that is chosen privately."""
    if argument == "max_total":
        return f"Most that one adds to the sum of {column}"
    if argument == "max_distinct":
        return f"Most values of {column} that one counts with"
    return LIMITS.get(argument, f"Bounds of {column}")


def distinct_limit(unit: Noun, column: str, most: int) -> str:
    """Say what `max_distinct` does."""
    return (
        f"{_one(unit)} counts with at most {counted(most, 'value')} of {column} (one in two groups is two): of one "
        f"with more, with {_of_them(most)}, chosen at random (intervals do not allow for values that are missing)."
    )


def chosen_limits(names: Sequence[str], epsilon: float) -> str:
    """Say that limits were chosen privately, and with how much of the budget."""
    were = "was" if len(names) == 1 else "were"
    return f"{listed(names)} {were} chosen privately, which took ε = {epsilon:.3g} of the total."


def limits_to_choose(names: Sequence[str], epsilon: float, total: float, counting: float) -> str:
    """Say that a release will choose limits privately first, and with how much of the budget."""
    are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    first = (
        f" First, ε = {counting:.3g} of that counts the units: if they are too few to choose {them}, nothing is "
        "released, and the charge stands."
        if counting
        else ""
    )
    return (
        f"{listed(names)} {are} not given: the release chooses {them} privately, with ε = {epsilon:.3g} of "
        f"{total:.15g}.{first}"
    )


def groups_limit(unit: Noun, most: int) -> str:
    """Say what `max_groups` does."""
    return f"{_one(unit)} in more than {counted(most, 'group')} is counted in {_of_them(most)}, chosen at random."


def rows_limit(unit: Noun, most: int, *, in_a_group: bool = False) -> str:
    """Say what `max_rows` does, or `max_rows_per_group`."""
    where = " in a group" if in_a_group else ""
    return f"{_one(unit)} counts as at most {counted(most, 'row')}{where}: of one with more, each row counts less."


def length_limit(unit: Noun, most: int) -> str:
    """Say what `max_length` does."""
    return (
        f"{_one(unit)} counts as at most {counted(most, 'row')} if all are in one group, and as √g times as many if "
        "they are spread evenly over g groups: of one with more, each row counts less."
    )


def total_limit(unit: Noun, column: str, most: str, *, each_row: bool = False) -> str:
    """Say what `max_total` does."""
    if each_row:
        return f"A row adds at most {most} of {column}."
    return f"{_one(unit)} adds at most {most} of {column} in all: of one with more, each row counts less."


def limits(groups: "Groups", *, counts_units: bool) -> list[str]:
    """Say how much of one unit counts."""
    if groups.each_row:
        return [_EACH_ROW]
    unit, result = groups.noun, []
    if groups.max_rows is not None:
        result.append(rows_limit(unit, groups.max_rows))
    if groups.max_rows_per_group is not None:
        result.append(rows_limit(unit, groups.max_rows_per_group, in_a_group=True))
    if groups.max_length is not None:
        result.append(length_limit(unit, groups.max_length))
    if groups.limits_groups_of(counts_units=counts_units):
        result.append(groups_limit(unit, groups.max_groups or 1))
    return result or [f"Every {unit} counts once."] * counts_units


def _one(unit: Noun) -> str:
    words = with_article(unit)
    return words[:1].upper() + words[1:]


def _of_them(number: int) -> str:
    return "one of them" if number == 1 else f"{number:,} of them"


def measured_limits(unit: Noun) -> str:
    """Introduce the shares of what was left out."""
    return (
        f"Limits cap what each {unit} counts for. How much they cut off was estimated, with noise as well "
        "(intervals in brackets):"
    )


def threshold(chosen_by: str, least: int, shown_size: int, often: float) -> str:
    """Say from which size on groups are published; a group of `shown_size` is published so `often`."""
    return (
        f"A group is published if its noisy number of {chosen_by} is at least {least:,}. A group of {shown_size:,} is "
        f"published {percent(often)} of the time."
    )


def choice(selection_delta: float) -> str:
    """Say what the choice of groups has to do with δ."""
    return f"δ = {selection_delta:.3g} of the total is charged for that choice."


def small_groups(chosen_by: str) -> str:
    """Say what is true of groups that are smaller than the threshold."""
    return (
        f"Smaller groups appear mostly where their noise is upward: their numbers of {chosen_by}, and what is computed "
        "from these, are too large on average, and the intervals cover less often."
    )


def totals(levels: Sequence[str]) -> str:
    """Say how totals come about where all groups are published."""
    return (
        f"Totals ({', '.join(levels)}) were measured from the same rows where that helps, and all levels estimated "
        "together by least squares. Published numbers add up exactly; means are those of each group’s own sum and "
        "count. Where negative numbers are shown as 0, others of the same total are lowered, so that totals stay."
    )


def rate_of(column: str, per_how_many: int) -> str:
    """Describe the column with the rates of another one."""
    return f"{column} per {per_how_many:,} of the public number of each group."


def rates(names: Sequence[str], per_how_many: int) -> str:
    """Say what rates are."""
    return (
        f"{listed(names)} and {'its' if len(names) == 1 else 'their'} intervals are the published numbers divided by a "
        f"public number of each group, per {per_how_many:,}."
    )


#: The words for a number without noise, in place of the half-width of its interval.
KNOWN = "public"


def known_totals(names: Sequence[str], levels: Sequence[str]) -> str:
    """Say which totals are public, and what that means for the other numbers."""
    return (
        f"The totals of {listed(names)} {listed(levels)} are public numbers that were given, not measured. They have "
        "no noise and cost no budget, and the other numbers were estimated to agree with them. They count what limits "
        "left out as well; intervals allow for that."
    )


def agreement(names: Sequence[str], *, nonnegative: bool = False) -> str:
    """Say what tables whose groups are margins of one another have in common."""
    each = " Negative numbers are shown as 0 in each table by itself: there only their totals agree." * nonnegative
    return (
        f"The tables {listed(names)} agree: what they count of the same rows is estimated once, by least squares over "
        "all of them, and published numbers add up to the same in each. Rows with a key that is not public in one of "
        f"these tables are ignored in all.{each}"
    )


def total_of_chosen_groups(other: str) -> str:
    """Say how the total comes about where groups are chosen; `other` is the name of the rest."""
    return (
        "The total of all rows has noise of its own; what is left of it beside the published groups is shown as "
        f"“{other}”."
    )


def rest_of_chosen_groups(chosen_by: str) -> str:
    """Say how far off the rest beside the published groups is."""
    return (
        "Small groups are published only if their noise is positive, so that the rest comes out too small on "
        f"average; it has no interval where it is made from the number of {chosen_by}."
    )


def distinct_units(unit: Noun, names: Sequence[str]) -> str:
    """Say that distinct units do not add up."""
    return (
        f"Distinct {unit.many} ({', '.join(names)}) were counted for each level: they do not add up, since one "
        f"{unit} can be in several groups."
    )


def computed_columns(columns: Mapping[str, str]) -> str:
    """Say how columns were computed."""
    return f"Columns were computed from each row by itself: {'; '.join(f'{k} = {v}' for k, v in columns.items())}."


def negative_numbers(*, nonnegative: bool) -> list[str]:
    """Say what was done to negative numbers, if anything."""
    return [_NEGATIVE] if nonnegative else []


def marks(good: float, caution: float) -> str:
    """Say what quality marks are, with their thresholds."""
    thresholds = thresholds_of_marks(good, caution)
    return f"Quality marks go by the coefficient of variation from the noise of each number: {thresholds}."


def marks_of(column: str, good: float, caution: float) -> str:
    """Describe the column with the quality marks of another one."""
    return (
        f"Quality mark of {column}, by its coefficient of variation (the standard deviation of its noise, divided by "
        f"the number): {thresholds_of_marks(good, caution)}. What limits cut off is not part of it."
    )


def signs_of_marks(signs: Mapping[str, str], good: float, caution: float) -> str:
    """Say what the signs of quality marks mean, in their order, with the thresholds."""
    words = [f"{sign} {word}" for word, sign in signs.items()]
    return (
        f"{words[0]}: the standard deviation of the noise is over {percent(good)} of the number; "
        f"{words[1]}: over {percent(caution)}."
    )


#: The explanation of the sign of unreliable numbers on a page without quality marks.
UNRELIABLE = (
    "† marks unreliable numbers in italics: the noise may be half as large as the number itself or more, or, for a "
    "mean or a quantile, a quarter of the distance between its limits."
)


def thresholds_of_marks(good: float, caution: float) -> str:
    """Say which coefficients of variation have which mark."""
    return f"good up to {percent(good)}, use with caution up to {percent(caution)}, too uncertain above"


def mostly_noise(groups: int, numbers: Mapping[str, int], *, has_keys: bool) -> list[str]:
    """Say in how many groups each column is mostly noise; nothing if in none."""
    result = {name: number for name, number in numbers.items() if number}
    if not result:
        return []
    what = "interval contains 0, is wider than the number or is all that the bounds allow"
    if not has_keys:
        return [f"Mostly noise: {listed(list(result))} (the {what})."]
    where = [f"{name} in {number:,}" for name, number in result.items()]
    return [f"Mostly noise, of {counted(groups, 'group')}: {listed(where)} (their {what})."]


def mostly_noise_warnings(groups: int, numbers: Mapping[str, int], *, has_keys: bool) -> list[str]:
    """Warn of columns that are mostly noise in more than half of the groups."""
    return [
        f"{name} is mostly noise in {number:,} of {counted(groups, 'group')}: use coarser groups, smaller limits or a "
        "larger ε."
        if has_keys
        else f"{name} is mostly noise: use smaller limits or a larger ε."
        for name, number in numbers.items()
        if 2 * number > groups
    ]


def gains(objective: object, saved: Mapping[str, float], *, on_average: bool) -> list[str]:
    """Say how much smaller the error is than with the other noises; nothing if there are none."""
    what = {"variance": "variance is", "interval": "intervals are"}.get(str(objective), "errors are")
    less = {"variance": "smaller", "interval": "narrower"}.get(str(objective), "smaller")
    told = {name: round(100 * part, 1) for name, part in saved.items()}
    if told.get("laplace") == told.get("laplace (pure)"):
        told.pop("laplace (pure)", None)
    others = [f"{part:.1f} % {less} than with {noise_name(name)}" for name, part in told.items() if part > 0]
    equal = [noise_name(name) for name, part in told.items() if part <= 0]
    others += [f"the same as with {listed(equal)}"] if equal else []
    text = f"{'On average, ' if on_average else ''}{what} {listed(others)}."
    return [text[:1].upper() + text[1:]] if others else []


def noise_name(name: str) -> str:
    """A noise beside that of a plan, by the name that people know: "Laplace noise of δ = 0"."""
    plain = name.removesuffix(" (pure)")
    return f"{plain[:1].upper()}{plain[1:]} noise" + (" of δ = 0" if plain != name else "")


def noise(parameters: Mapping[str, Any]) -> str:
    """A noise distribution by its family and parameters."""
    numbers = [f"{name} {value:.6g}" for name, value in parameters.items() if isinstance(value, float)]
    return f"noise on whole numbers of the family {parameters['family']}: {listed(numbers)}"


def estimates_gain(column: str, gain: float) -> str:
    """Say how much smaller the error of estimates is."""
    return (
        f"{column}: the root mean square error of the estimates is about {percent(round(100 * gain) / 100)} smaller "
        "than that of the published numbers, by an unbiased estimate."
    )


def estimates_coverage(confidence: float) -> str:
    """Say what the intervals of estimates promise."""
    return (
        f"Intervals of estimates hold {percent(confidence)} of the true numbers on average over the groups, and not "
        "for each group: unusual groups are missed more often. Intervals of the published numbers hold for each."
    )


#: Why a column is left as it was published, by the reason.
ESTIMATES_LEFT = {
    "may be negative": "its numbers may be negative",
    "noise in common": "its groups have noise in common",
    "nothing to gain": "estimates would not be clearly better: the table is not sparse, or has too few groups to tell",
}


def estimates_left(column: str, reason: str) -> str:
    """Say why a column is left as it was published."""
    return f"{column}: left as published; {ESTIMATES_LEFT[reason]}."


def described_rows(count: float, low: float, high: float) -> str:
    """Say how many rows a description is about."""
    shown = with_interval(count, low, high)
    return f"Rows: {shown.value} ({shown.low} to {shown.high}). Quartiles leave missing values out."
