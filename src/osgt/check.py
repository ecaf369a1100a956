"""Check what a published table promises, from its file alone: `osgt check FILE`, or `python check.py FILE`.

A published file says which noise was added to what. From this statement the checker derives what one unit can change,
and recomputes the δ at the stated ε. It is one file that needs NumPy alone (and pyarrow to open Parquet), and shares no
code with the software that made the promise; `check.html` is the same in a browser. docs/dominance.md has the proofs.
All rounding is to the unsafe side: δ is never too small, and too large by less than `TOLERANCE` of itself.
"""

import csv
import json
import math
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

#: The steps of a unit: its rows are worth ⌊K / max(rows, limit)⌋ each, so that it adds K in all at most.
K = 2**30
#: How far its own rounding may take the checker's δ above the stated one, and its tails above the stated chance.
TOLERANCE, SAME = 1e-3, 1e-11
#: What a row, or a unit in a group, adds to a number at least and at most; and the other kinds that are known.
COUNTS = dict.fromkeys(("rows", "units", "units_in_any"), (1, 1))
COUNTS |= dict.fromkeys(("values", "bins", "leaves", "ranges", "units_at", "distinct"), (0, 1)) | {
    "quantile_draw": (-1, 1)
}
SUMS, CENTRED = ("clipped_sum", "limited_sum", "centred_sum", "squares"), ("centred", "centred_on_all")
LEFT_OUT = ("cut_off", "outside", "misfits")
KNOWN = {*COUNTS, *SUMS, *CENTRED, *LEFT_OUT, "total"}
EACH, SEVERAL = ("units", "units_in_any", "units_at", "centred_on_all"), ("bins", "leaves", "ranges")
NEIGHBOURS = {"add_remove": "added or removed", "change_one": "exchanged for those of another"}
#: The mark of the cells of an Excel file that hold the statement, and the parts of the file that hold cells.
MARK, SHEET = "osgt statement: ", re.compile(r"xl/(sharedStrings|worksheets/sheet(\d+))\.xml")


class NotCheckedError(ValueError):
    """The file cannot be checked: it is none of osgt's, not whole, or of a kind that is not known here."""


class Part(NamedTuple):
    """Noise with density ∝ exp(-U(|y|)), U(y) = a·y + c·y²/2, on whole numbers or the reals, on n numbers that move."""

    a: float
    c: float
    whole: int
    shift: float
    n: int


@dataclass
class Result:
    """The recomputed δ at ε, what is wrong, and what had to be taken on trust."""

    statement: dict[str, Any]
    noise_delta: float = 1.0
    selection_delta: float = 0.0
    problems: list[str] = field(default_factory=list)
    trusted: list[str] = field(default_factory=list)
    series: str = ""  # of an instalment: what is promised of all together
    delta: float = 1.0


# 1. What one unit can change.
class Limits:
    """The limits on what one unit counts for in a table, by its query, and how far it moves a number."""

    def __init__(self, query: dict[str, Any], aggregates: list[dict[str, Any]]) -> None:
        given, data, self.aggregates = query["groups"], query["data"], aggregates
        self.each_row, self.exchanged = data["privacy_unit"] == "row", data["neighbours"] == "change_one"
        self.times = 2 if self.exchanged else 1
        names = ("max_rows", "max_rows_per_group", "max_length", "max_groups", "public_keys")
        if any(value is not None and (type(value) is not int or value < 1) for value in map(given.get, names)):
            raise NotCheckedError(f"limits are whole numbers from 1 on, and there are others in {given}")
        self.rows, self.box, self.length = (given.get(name) for name in names[:3])
        self.public = given["public_keys"] if given["by"] else 1  # how many groups; None if they are chosen by size
        most = self.rows if "max_groups" not in given and self.public is None else given.get("max_groups")
        counted = [1] if self.each_row or not given["by"] else [n for n in (most, self.public) if n is not None]
        self.groups: int = min(counted)  # so many groups does a unit count in at most

    def kind_of(self, rule: dict[str, Any]) -> str:
        """Name the limit on what a unit adds: on each number, "in all", on the "length" of all, or "box" for groups."""
        if rule["kind"] in ("limited_sum", "distinct"):
            return "in all"
        if self.each_row or rule["kind"] in EACH or (rule["kind"] not in KNOWN and rule["of"] == "unit"):
            return "each"
        limit = "in all" if self.rows else "length" if self.length else "box" if self.box else ""
        if not limit:
            raise NotCheckedError(f"nothing limits the rows that a unit adds to {rule['kind']}")
        return limit

    def reach(self, rule: dict[str, Any]) -> tuple[int, int]:
        """Say how far a unit moves one number, and in how many groups at once: K in all is at worst in one number."""
        limit = self.kind_of(rule)
        if rule["kind"] == "distinct" and not rule["in_steps"]:
            return (1 if self.each_row else self.most_distinct(rule)), 1
        spread = self.groups if limit in ("each", "box") and rule["kind"] != "units_in_any" else 1
        return max(map(abs, self.adds(rule))) if limit == "each" else K, spread

    def moves(self, rule: dict[str, Any]) -> list[tuple[int, int]]:
        """List how far a unit moves how many numbers: (shift, coordinates). Exchanged for another, both move some."""
        if rule["kind"] in LEFT_OUT:
            return [self.moves_left_out(rule)]
        if rule["kind"] == "total":
            return [self.moves_totals(rule["base"], rule["groups"])]
        (low, high), (shift, spread), kind = self.adds(rule), self.reach(rule), rule["kind"]
        if kind == "centred_on_all":  # who comes or goes moves the groups that they are not in as well
            if self.exchanged:
                raise NotCheckedError("units in any group must come and go, and not be exchanged")
            return [(far, n) for far, n in [(shift, spread), (abs(rule["by"]), self.public - spread)] if n]
        if not self.exchanged or kind == "units_in_any":
            return [(shift, spread)]
        signs, most = low < 0 < high, self.public if self.public and kind not in SEVERAL else 2 * spread
        if self.kind_of(rule) == "length":  # two vectors are 2K apart, or √2·K if no number is negative
            return [(2 * K if signs else math.isqrt(2 * K * K) + 1, 1)]
        return [(2 * shift, spread) if signs else (shift, min(2 * spread, most))]  # without signs they do not add up

    def moves_left_out(self, rule: dict[str, Any]) -> tuple[int, int]:
        """Say how far a unit moves a number about what limits leave out, over all groups."""
        if rule["kind"] == "cut_off":  # what is cut off counts up to 3K and what is kept up to K; of lengths 11K each
            return (22 if self.length and rule["what"] not in ("sum", "pairs") else 4) * K, self.times
        in_all = rule["kind"] == "misfits" or self.each_row or self.rows
        root = math.isqrt((self.public or self.groups) - 1) + 1  # of a length, over so many groups
        return (1 if self.each_row else K) * (1 if in_all else root if self.length else self.groups), self.times

    def moves_totals(self, base: dict[str, Any], groups: int) -> tuple[int, int]:
        """Say how far a unit moves how many of the totals of a level: all that it adds may fall on one of them."""
        (low, high), (shift, spread) = self.adds(base), self.reach(base)
        if self.kind_of(base) == "length" or base["kind"] == "centred_on_all":
            raise NotCheckedError(f"nothing bounds totals of {base['kind']}")
        if base["kind"] == "units_at":
            return 1, min(self.times * spread, groups)
        if low < 0 < high:
            return self.times * shift * spread, 1
        return shift * spread, 1 if groups == 1 and base["kind"] not in SEVERAL else self.times

    def most_distinct(self, rule: dict[str, Any]) -> int:
        """The pairs of group and value that a unit counts with at most: the limit that the query states."""
        stated = [each.get("max_distinct") for each in self.aggregates if each.get("column") == rule["column"]]
        if rule["limit"] not in stated or type(rule["limit"]) is not int or rule["limit"] < 1:
            raise NotCheckedError(f"the limit on values of {rule['column']}, {rule['limit']}, is not that of the query")
        return int(rule["limit"])

    def adds(self, rule: dict[str, Any]) -> tuple[int, int]:
        """The least and the most that a row, or a unit in a group, adds, before it is weighed."""
        kind, low, high = rule["kind"], rule.get("from", 0), rule.get("to", 0)
        if kind in SUMS:
            if not any(reaches(rule, aggregate) for aggregate in self.aggregates):
                raise NotCheckedError(f"the steps of {rule['column']}, {low} to {high}, are not those of its bounds")
            width = (high - low) ** (2 if kind == "squares" else 1)
            return (-width, width) if kind in SUMS[2:] else (min(low, 0), max(high, 0))
        if kind in CENTRED:
            low, high = (rule["times"] * end - rule["by"] for end in self.adds(rule["base"]))
            return low, high
        return COUNTS.get(kind) or (rule["adds"][0], rule["adds"][1])


def reaches(rule: dict[str, Any], aggregate: dict[str, Any]) -> bool:
    """Whether the steps of a sum reach from bound to bound of an aggregate, or to the whole numbers within, rounded."""
    most = aggregate.get("max_total")
    bounds = aggregate.get("bounds") or (most if isinstance(most, list) else most and [-most, most])
    if aggregate.get("column") != rule["column"] or not bounds:
        return False
    low, high = ({Fraction(end), Fraction(str(end))} for end in bounds)
    near = low | {Fraction(math.ceil(end)) for end in low}, high | {Fraction(math.floor(end)) for end in high}
    steps = [{math.floor(end / Fraction(rule["step"]) + Fraction(1, 2)) for end in ends} for ends in near]
    return rule["from"] in steps[0] and rule["to"] in steps[1]


# 2. The privacy loss. If Y + Δ is seen rather than Y, the loss at y is L(y) = U(|y|) - U(|y - Δ|), which does not fall
# as y grows; of several numbers the losses add up, and δ(ε) = E[(1 - exp(ε - ΣL))₊].
#: Tilts θ that are tried, from the place `NO_TILT` on those above 0; and what computed losses may be off by.
TILTS = np.array([-(2.0**j) for j in range(20, -21, -1)] + [0.0] + [2.0 ** (j / 2) for j in range(-40, 41)])
NO_TILT, MARGIN = 41, 2.0**-44


def quantile(a: float, c: float, level: float) -> float:
    """The y with U(y) = level: P[|Y| ≥ y] ≤ exp(-level), since U(y + x) ≥ U(y) + U(x)."""
    return 2 * level / (a + math.sqrt(a * a + 2 * c * level))


def log_sum(x: Any) -> Any:
    """log Σ exp(x), along the last axis."""
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[..., 0]


def average(slope: Any, c: float, count: Any, whole: int) -> Any:
    """The mean of exp(-U) over a block of outcomes over its value in the middle, where U has this slope s."""
    # E[exp(-s·J - c·J²/2)] = 1 + (s² - c)·E[J²]/2 + (s⁴ - 6s²c + 3c²)·E[J⁴]/24, but for 2e-14 if s·count ≤ 0.02.
    square, fourth = (count**2 - whole) / 12, (count**2 - whole) * (3 * count**2 - 7 * whole) / 240
    s = slope * slope
    return 1 + (s - c) * square / 2 + (s * s - 6 * s * c + 3 * c * c) * fourth / 24


def blocks(first: float, last: float, width: float, whole: int, cuts: Any) -> tuple[Any, Any, Any]:
    """Starts, counts and middles of neighbouring blocks of outcomes; one begins at every cut."""
    if last + whole <= first:
        return np.zeros(0), np.zeros(0), np.zeros(0)
    width = max(1.0, float(math.floor(width))) if whole else width  # over one whole number nothing is averaged
    start = first + width * np.arange(math.ceil((last + whole - first) / width))
    cuts = np.ceil(cuts) if whole else cuts
    start = np.unique(np.concatenate([start, cuts[(cuts > first) & (cuts < last)]]))
    count = np.append(start[1:], last + whole) - start
    return start, count, start + (count - whole) / 2


def losses(part: Part, level: float, width: float, step: float = 0.0) -> tuple[Any, Any, Any, Any]:
    """Blocks of outcomes of Y + Δ, cut where L passes a multiple of `step`: log p, the least, largest and mean loss."""
    # With p and q the probabilities of a block with and without the shift, "mean" is log(p/q). What is above all
    # blocks, with probability exp(-level) at most, counts as an infinite loss; what is below as the least loss of any.
    a, c, whole, shift, _ = part
    most = quantile(a, c, level)
    most = float(math.ceil(most)) if whole else most
    regions = (  # from where to where L(y) = slope·(y - Δ/2) + height
        (shift - most, 0.0, c * shift, -a * shift),
        (max(float(whole), shift - most), shift - whole, 2 * a + c * shift, 0.0),
        (shift, shift + most, c * shift, a * shift),
    )
    found = []
    for first, last, slope, height in regions:
        ends = [(slope * (y - shift / 2) + height) / step for y in (first, last)] if step else [0.0, 0.0]
        between = range(math.ceil(ends[0]), math.floor(ends[1]) + 1) if 0 < ends[1] - ends[0] < 2**18 else range(0)
        cuts = (np.array(between, dtype=np.float64) * step - height) / (slope or 1.0) + shift / 2
        start, count, middle = blocks(first, last, width / (a + c * most), whole, cuts)
        mine, other = np.abs(middle - shift), np.abs(middle)
        steep = ((a + c * other) * count > 1.01 * width) & (count > whole)  # there the largest loss stands for the mean
        own = average(a + c * mine, c, count, whole)
        theirs = average(np.where(steep, 0.0, a + c * other), c, count, whole)
        low, middle, high = (slope * (y - shift / 2) + height for y in (start, middle, start + count - whole))
        mean = np.where(steep, high, middle + np.log(own / np.where(steep, 1.0, theirs)))
        found.append((np.log(count * own) - mine * (a + c * mine / 2), low, high, mean))
    logp, low, high, mean = (np.concatenate(each) for each in zip(*found, strict=True))
    logp -= log_sum(logp)
    logp[0], mean[0] = np.logaddexp(logp[0], -level), high[0]
    mean = mean + MARGIN + np.abs(mean) * 2.0**-48
    return logp, low, np.maximum(high, mean), mean


def log_tail(a: float, c: float, rounded: bool, k: int) -> float:
    """log P[Y > k], k ≥ 0: exp(-U) summed from k + 1 on, over its sum over all; rounded, from k + ½ on."""
    whole, most, sums = int(not rounded), float(math.ceil(quantile(a, c, 45.0))), []
    for first in (k + (0.5 if rounded else 1.0), float(whole)):
        _, count, middle = blocks(first, first + most, 0.02 / (a + c * (first + most)), whole, np.zeros(0))
        sums.append(log_sum(np.log(count * average(a + c * middle, c, count, whole)) - middle * (a + c * middle / 2)))
    return float(sums[0] - (math.log(2) + sums[1] if rounded else math.log1p(2 * math.exp(sums[1]))))


@lru_cache(maxsize=4096)
def delta_of(parts: tuple[Part, ...], epsilon: float, stated: float) -> float:
    """An upper bound on the δ at ε of all numbers together; computed more finely if it exceeds the stated one."""
    # Without curvature no loss exceeds a·Δ: added up in fractions, and within ε, δ is 0.
    most = sum(Fraction(p.a) * Fraction(p.shift) * p.n for p in parts)
    if all(p.c == 0 for p in parts) and most <= Fraction(epsilon):
        return 0.0
    bound = 1.0
    for accuracy in (4e-4, 1e-5, 1e-7, 1e-9):
        if bound > stated > 0:
            bound = min(bound, delta_on_grid(parts, epsilon, stated, accuracy))
    return bound


def delta_on_grid(parts: tuple[Part, ...], epsilon: float, stated: float, accuracy: float) -> float:
    """An upper bound on δ at ε: losses on a grid, added up by the Fourier transform."""
    # A block goes to the two grid points around it so that p and q are kept: that can only raise δ. All probabilities
    # are multiplied by exp(θ·L), θ the saddle point of ε, so that rounding is relative to δ itself.
    n = sum(part.n for part in parts)
    level = 14 + math.log(n) - math.log(stated)
    growth = np.zeros(len(TILTS))  # log E[exp(θ·ΣL)]
    for part in parts:
        logp, _, _, mean = losses(part, level, 0.2)
        growth += part.n * log_sum(logp + TILTS[:, None] * mean)
    best = NO_TILT + int(np.argmin((growth - TILTS * epsilon)[NO_TILT:-1]))
    tilt = float(TILTS[best])
    # Going to the grid adds about step²/6 to the variance of a loss, and tilt·(tilt + 1)/2 times that to log δ.
    step = math.sqrt(12 * accuracy / (n * max(tilt * (tilt + 1), 1e-9)))
    step = epsilon / math.ceil(epsilon / step)
    # All but exp(-30) of the tilted sum lies between these (Chernoff).
    bounds = (growth - growth[best] + 30) / np.where(tilt == TILTS, np.inf, TILTS - tilt)
    steeper = float(TILTS[best + 1 + int(np.argmin(bounds[best + 1 :]))]) - tilt
    top, bottom = max(float(bounds[best + 1 :].min()), epsilon + step), min(float(bounds[:best].max()), epsilon)
    while (top - bottom) / step > 2**21:
        step *= 2
    size = 1 << max(4, math.ceil(math.log2((top - bottom) / step + 4)))
    start, spectrum, scale, beyond = math.floor(bottom / step), np.ones(size // 2 + 1, complex), 0.0, 0.0
    for part in parts:
        logp, low, high, mean = losses(part, level, 0.02, step)
        left, right = np.floor(low / step), np.ceil(high / step)
        up = np.expm1(left * step - mean) / np.where(right > left, np.expm1((left - right) * step), -np.inf)
        up = np.where(right > left, np.clip(up, 0.0, 1.0), 1.0)
        at = np.concatenate([left, right])
        with np.errstate(divide="ignore"):
            tilted = np.concatenate([logp + np.log1p(-up), logp + np.log(up)]) + tilt * step * at
        mass = float(log_sum(tilted))
        base = np.fft.rfft(np.bincount(np.mod(at, size).astype(np.int64), np.exp(tilted - mass), size))
        power = part.n
        while power:
            spectrum = spectrum * base if power & 1 else spectrum
            base, power = base * base, power >> 1
        scale += part.n * mass
        beyond += part.n * float(log_sum(tilted + steeper * step * at) - mass)
    total, index = np.fft.irfft(spectrum, size), start + np.mod(np.arange(size) - start, size)
    over = np.maximum(index * step - epsilon, 0.0)
    gain = np.exp(-tilt * over) * -np.expm1(-over)
    # Added: what wraps round from above the window, and the rounding of transforms, bounded in Euclidean norm.
    end = (start + size) * step
    wrapped = math.exp(min(beyond - steeper * end - tilt * (end - epsilon), 0.0))
    rounding = 2.0**-50 * (math.log2(size) + 2) * (n + 1) * math.sqrt(float(gain @ gain))
    log_value = scale - tilt * epsilon + math.log(float(total @ gain) + rounding + wrapped) + n * 2.0**-43
    return min(1.0, math.exp(min(log_value, 0.0)) + n * math.exp(-level))


# 3. The statement: which noise was added to what, and whether all of it fits together.
def check(statement: dict[str, Any], columns: list[str] | None = None, rows: int = 0) -> Result:
    """Recompute the promise of a statement; `columns` and `rows` are those of the table in its file, if it has one."""
    try:
        whole = statement.get("publication", statement)
        tables, privacy, result = whole.get("tables", {"": whole}), whole["privacy"], Result(whole)
        epsilon, delta = float(whole["epsilon"]), float(whole["delta"])
        if not (0 < epsilon < math.inf and 0 <= delta < 1):
            raise NotCheckedError(f"ε = {epsilon} and δ = {delta} promise nothing")
        result.problems += [
            *_contradicting_words(whole),
            *_strange_table(statement, whole, tables, columns or [], rows),
            *_strange_groups(privacy, tables),
        ]
        parts = _choice(result, privacy["choice_of_limits"])
        parts += [part for block in _blocks(tables) for part in _parts_of(result, block)]
        charged = [_part(each["noise"], each["shift"], each["coordinates"]) for each in privacy["charge"]["parts"]]
        if _merged(parts) != _merged(charged):
            result.problems.append("what was charged for is not what is said to have been measured")
        if not math.isclose(result.selection_delta, privacy["charge"]["selection_delta"], rel_tol=1e-9):
            result.problems.append("what was charged for choosing groups is not the chance of showing one unit")
        result.noise_delta = delta_of(_merged(parts), epsilon, max(delta - result.selection_delta, 0.0))
        result.delta = result.selection_delta + (1 - result.selection_delta) * result.noise_delta
        if not result.delta <= delta * (1 + TOLERANCE):
            result.problems.append(f"at ε = {epsilon:.15g} it keeps δ = {result.delta:.4g}, and promises {delta:.15g}")
        if "parts" in (data := next(iter(tables.values()))["query"]["data"]):
            _add_parts_of_people(result, data, _merged(parts))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        if isinstance(error, NotCheckedError):
            raise
        raise NotCheckedError(f"the statement is not whole, or of another version of osgt ({error!r})") from error
    return result


def _contradicting_words(whole: dict[str, Any]) -> Iterator[str]:
    """Compare the words of the promise with its values."""
    for name, value in (("ε", whole["epsilon"]), ("δ", whole["delta"])):
        said = re.search(rf"{name} = (\d[\d.e+-]*(?<=\d)|\d)", whole["statement"])
        if (value or said) and (said is None or not math.isclose(float(said[1]), value, rel_tol=1e-9)):
            yield f"the words of the statement do not say {name} = {value:.15g}, as its values do"
    if ("chosen privately" in whole["statement"]) != (whole["privacy"]["choice_of_limits"] is not None):
        yield "words and values do not tell the same of limits that were chosen privately"


def _strange_table(statement: Any, whole: Any, tables: Any, columns: list[str], rows: int) -> Iterator[str]:
    """Compare the file with its publication, and the table in it with what was released."""
    own = next(iter(tables.values())) if statement is whole else tables.get(statement.get("table"), {})
    shared = [(statement[key], whole[key]) for key in ("epsilon", "delta", "statement")]
    shared += [(statement[key], own[key]) for key in ("query", "columns", "groups_shown") if statement is not whole]
    if any(mine != other for mine, other in shared):
        yield "the file says something else than the publication that it belongs to"
    known = [column["name"] for column in own["columns"]]
    yield from (f"the statement does not say what the column {name!r} is" for name in columns if name not in known)
    if columns and rows > own["groups_shown"]:
        yield f"the table has {rows:,} rows, and {own['groups_shown']:,} were released"


def _strange_groups(privacy: dict[str, Any], tables: dict[str, Any]) -> Iterator[str]:
    """Compare units, neighbours and the number of groups with those of the queries."""
    for table in tables.values():
        data, groups, shown = table["query"]["data"], table["query"]["groups"], table["groups_shown"]
        columns, unit = data["privacy_unit"], privacy["unit"]
        names = " + ".join([columns] if isinstance(columns, str) else sorted(columns))  # unclear ones are in quotes
        is_named = names.replace('"', "") == unit.replace('"', "") and (columns == "row") == (unit == "row")
        if not is_named or data["neighbours"] != privacy["neighbours"] or data["neighbours"] not in NEIGHBOURS:
            yield "the promise is about other units, or other neighbours, than the query"
        most = groups["public_keys"] if groups["by"] else 1
        if not 0 <= shown <= (math.inf if most is None else most * (1 + len(groups.get("totals") or []))):
            yield f"{shown} groups were released, and {most} are public"


def _blocks(tables: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The tables, those with the same measured numbers together: they have their noise in common."""
    blocks: dict[frozenset[str], list[dict[str, Any]]] = {}
    for name, table in tables.items():
        blocks.setdefault(frozenset([name, *table.get("measured_with", [])]), []).append(table)
    for names, members in blocks.items():
        same = [(m["privacy"]["measures"], m["query"]["groups"], m["query"]["data"]) for m in members]
        if len(members) != len(names) or any(each != same[0] for each in same):
            raise NotCheckedError(f"the tables {', '.join(sorted(names))} do not have the same measured numbers")
    return list(blocks.values())


def _part(noise: dict[str, Any], shift: float, n: int) -> Part:
    """Noise that is known here; a rounded Gaussian counts as the Gaussian, since rounding tells nothing more."""
    rounded = noise["family"] == "rounded_gaussian"
    part = Part(noise.get("slope", 0.0), noise["curvature"], int(noise["discrete"] and not rounded), float(shift), n)
    known = (
        (part.a == 0 if rounded else noise["family"] == "osgt") and type(noise["discrete"]) is bool and type(n) is int
    )
    if not (known and min(part.a, part.c) >= 0 and 0 < part.a + part.c < math.inf and 1 <= shift < math.inf and n >= 1):
        raise NotCheckedError(f"this is no noise that the checker knows: {noise} on a number that moves by {shift}")
    return part


def _merged(parts: list[Part]) -> tuple[Part, ...]:
    """The parts in order, equal ones as one."""
    kinds = {part[:4] for part in parts}
    return tuple(Part(*kind, sum(part.n for part in parts if part[:4] == kind)) for kind in sorted(kinds))


def _choice(result: Result, choice: dict[str, Any] | None) -> list[Part]:
    """A choice that is ε₁-private is at worst randomised response: losses of ε₁ and -ε₁."""
    if choice is None:
        return []
    result.trusted.append(f"that the choice of {', '.join(choice['limits'])} was private at the stated ε")
    counting = [] if choice["noise_on_units"] is None else [_part(choice["noise_on_units"], 1, 1)]
    response = {"family": "osgt", "discrete": True, "slope": choice["epsilon_of_each"], "curvature": 0.0}
    return [_part(response, 1, len(choice["limits"])), *counting]


def _add_parts_of_people(result: Result, data: dict[str, Any], parts: tuple[Part, ...]) -> None:
    """Say of a release about one part of the people what several parts promise together."""
    most, count, plain = data["max_parts"], len(data["parts"]), result.statement
    if type(most) is not int or most < 1 or count < 2:
        raise NotCheckedError(f"a unit counts in {most!r} of {count} parts")
    result.trusted.append(f"that a unit counts in the first {most} of {count} parts alone, also if rows change")
    if ", instalment " in str((plain["ledger"] or {}).get("reservation")):
        k = min(most * (2 if data["neighbours"] == "change_one" else 1), count)
        epsilon, delta = k * plain["epsilon"], k * plain["delta"]
        noise = delta_of(tuple(Part(*part[:4], part.n * k) for part in parts), epsilon, delta)
        this = f"the total of {len(plain['total_of'])}" if "total_of" in plain else "one"
        if not set(plain.get("total_of", ())) <= set(data["parts"]):
            result.problems.append(f"it is a total of {', '.join(plain['total_of'])}, which are not all instalments")
        result.series = (
            f"This is {this} of {count} instalments. One unit, or two that are exchanged, count in {k} of them: "
            f"together they keep ε = {epsilon:.15g} at δ ≤ {min(noise + k * result.selection_delta, delta):.6g}."
        )


def _parts_of(result: Result, block: list[dict[str, Any]]) -> list[Part]:
    """The noise of a table, on what a unit moves by the rules; adds the choice of groups, and what is trusted."""
    privacy, query = block[0]["privacy"], block[0]["query"]
    limits = Limits(query, [aggregate for table in block for aggregate in table["query"]["aggregates"]])
    parts = [part for measure in privacy["measures"] for part in _judge_measure(result, limits, measure)]
    if any(level.get("known") for level in query["groups"].get("totals") or []):
        result.trusted.append("that the known totals, which have no noise, were public and not taken from the data")
    result.problems += _unmeasured(limits, privacy["measures"])
    if limits.public is None:
        [count] = [m for m in privacy["measures"] if m["measure"] == privacy["chosen_by_measure"]]
        result.selection_delta += _selection(result, limits, count, privacy)
    elif query["groups"]["by"]:
        result.trusted.append(f"that the {limits.public} groups are public, and not taken from the data")
    return parts


def _judge_measure(result: Result, limits: Limits, measure: dict[str, Any]) -> list[Part]:
    """Compare what is stated that a unit moves with the rules, and return the noise on it."""
    rule, name, noise = measure["rule"], measure["measure"], measure["noise"]
    moves, stated = limits.moves(rule), [(m["shift"], m["coordinates"]) for m in measure["moved_by_one_unit"]]
    length = rule["kind"] not in (*LEFT_OUT, "total") and limits.kind_of(rule) == "length"
    if not _covers(stated, moves, in_one=not length):
        result.problems.append(f"a unit can move {name!r} by {moves}, and {stated} is stated")
    if length and noise["family"] != "rounded_gaussian":
        raise NotCheckedError(f"of {name!r} a length is known, which takes rounded Gaussian noise")
    result.trusted += _trusted(rule, name, noise)
    return [_part(noise, shift, n) for shift, n in stated]


def _covers(stated: list[tuple[int, int]], moves: list[tuple[int, int]], *, in_one: bool) -> bool:
    """Whether numbers move no further than is stated; one that moves as far as all of them together covers several."""
    if in_one and sum(shift * n for shift, n in moves) <= stated[0][0]:
        return True
    return len(moves) == len(stated) and all(a <= b for a, b in zip(sum(moves, ()), sum(stated, ()), strict=True))


def _unmeasured(limits: Limits, measures: list[dict[str, Any]]) -> list[str]:
    """Say which limits on different values no number has: it would pass for a number with a smaller one."""
    stated = {(asked["column"], asked["max_distinct"]) for asked in limits.aggregates if "max_distinct" in asked}
    stated -= {(m["rule"]["column"], m["rule"]["limit"]) for m in measures if m["rule"]["kind"] == "distinct"}
    return [f"no number of values of {column} has the limit {most}, as the query says" for column, most in stated]


def _trusted(rule: dict[str, Any], name: str, noise: dict[str, Any]) -> list[str]:
    """Say what is trusted of a rule: of a kind that is not known here; or of a drawn quantile (docs/quantiles.md)."""
    if type(rule["kind"]) is not str or rule.get("of") not in ("row", "unit", None):
        raise NotCheckedError(f"of {name!r} it is not said what a row or a unit adds")
    if rule["kind"] not in KNOWN:
        return [f"that a {rule['of']} adds {rule['adds'][0]} to {rule['adds'][1]} to {name!r}"]
    if rule["kind"] != "quantile_draw":
        return []
    if noise["family"] != "osgt" or noise["curvature"] != 0:  # no more is lost than by Laplace noise of this slope
        raise NotCheckedError(f"the quantile of {rule['column']} is drawn, which takes Laplace noise")
    return [f"that the {rule['level']:g} quantile of {rule['column']} was drawn with the slope of its noise"]


def _selection(result: Result, limits: Limits, count: dict[str, Any], privacy: dict[str, Any]) -> float:
    """The chance that a group of one unit alone reaches the threshold τ, of the g groups that it may be in."""
    # With F the distribution of the noise it is 1 - F(τ-1-K)^g, or 1 - F(τ-1-K)·F(τ-1)^(g-1) if it adds K in all.
    rule, noise, tau = count["rule"], count["noise"], privacy["threshold_in_steps"]
    limit, shift = limits.kind_of(rule), limits.reach(rule)[0]
    worth = 1 if limit == "each" else K // (limits.rows or limits.box or limits.length or 1)
    if rule["kind"] not in ("rows", "units", "values") or privacy["threshold"] != -(-tau // worth):
        result.problems.append(f"{tau} steps are not the threshold of {privacy['threshold']} that is stated")
    part, logs = _part(noise, 1, 1), []  # log F at two places
    for k in (tau - 1 - shift, tau - 1):
        tail = math.exp(log_tail(part.a, part.c, not part.whole, k if k >= 0 else -k - 1))
        logs.append(math.log1p(-tail) if k >= 0 else math.log(tail))
    chance = -math.expm1(logs[0] + (limits.groups - 1) * logs[1 if limit == "in all" else 0])
    if not chance <= privacy["selection_delta"] * (1 + SAME):
        result.problems.append(f"one unit alone is shown with probability {chance}, not {privacy['selection_delta']}")
    return chance * (1 + SAME)


# 4. The file, and what is said about it.
def read(path: Path) -> tuple[dict[str, Any], list[str] | None, int]:
    """Read the statement in a file (.parquet, .csv beside its description, .xlsx, .json), the columns, and the rows."""
    if not path.is_file():
        raise NotCheckedError(f"there is no file {str(path)!r}")
    try:
        return _read(path, path.suffix.lower())
    except Exception as error:  # whatever a file may hold
        missing = isinstance(error, FileNotFoundError) and Path(str(error.filename)).name
        why = f"there is no file {missing!r} beside it" if missing else error
        raise NotCheckedError(f"{str(path)!r} holds no statement of a release ({why})") from error


def _read(path: Path, suffix: str) -> tuple[dict[str, Any], list[str] | None, int]:
    columns, rows = None, 0
    if suffix == ".parquet":
        from pyarrow import parquet  # noqa: PLC0415 - nothing else needs it

        found = parquet.read_metadata(path)
        text, rows = (found.metadata or {}).get(b"osgt", b""), found.num_rows
        columns = found.schema.to_arrow_schema().names
    elif suffix == ".xlsx":
        text, columns, rows = _read_book(path)
    else:
        beside = path.with_name(path.name + "-metadata.json") if suffix == ".csv" else path
        text = beside.read_text(encoding="utf-8")
        notes = {note["schema:name"]: note["schema:text"] for note in json.loads(text).get("notes", [])}
        text = notes.get("osgt statement", text)
    if suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            names, *lines = csv.reader(file)
        columns, rows = [name.removeprefix("'") for name in names], len(lines)
    return json.loads(text, parse_constant=Fraction), columns, rows


def _read_book(path: Path) -> tuple[str, list[str], int]:
    """Read the statement, the columns and the number of rows in an Excel file, whose texts may be kept apart."""
    with zipfile.ZipFile(path) as book:
        found = [match for name in book.namelist() if (match := SHEET.fullmatch(name))]
        parts = {int(match[2] or 0): ElementTree.fromstring(book.read(match[0])) for match in found}
    shared = ["".join(text.itertext()) for text in parts.pop(0, ())]
    sheets = [[_texts(row, shared) for row in part.findall(".//{*}row")] for _, part in sorted(parts.items())]
    marked = (text for sheet in sheets for row in sheet for text in row if text.startswith(MARK))
    return "".join(text.removeprefix(MARK) for text in marked), sheets[0][0], len(sheets[0]) - 1


def _texts(row: ElementTree.Element, shared: list[str]) -> list[str]:
    """The texts of the cells of a row: their own, or the shared one whose number they have."""
    own = [int(cell.findtext("{*}v", "")) if cell.get("t") == "s" else "".join(cell.itertext()) for cell in row]
    return [shared[text] if isinstance(text, int) else text for text in own]


def explain(result: Result) -> str:
    """Say what is promised to whom, whether it holds, and what no file can show."""
    statement, privacy = result.statement, result.statement["privacy"]
    unit = privacy["unit"] if isinstance(privacy["unit"], str) else " and ".join(privacy["unit"])
    who, rows = ("row", "it is") if unit == "row" else (f"{privacy['noun'][0]} (column {unit})", "all rows of one are")
    lines = [
        f"DOES NOT HOLD: {'; '.join(result.problems)}." if result.problems else "HOLDS, if what is below is true.",
        f"Promised: ε = {statement['epsilon']:.15g} and δ = {statement['delta']:.15g}, in total, for every {who}, "
        f"if {rows} {NEIGHBOURS.get(privacy['neighbours'], '?')}.",
        f"Recomputed: δ ≤ {result.delta:.6g}, of which {result.noise_delta:.6g} is for the noise and "
        f"{result.selection_delta:.6g} for showing groups that are large enough.",
        *([result.series] if result.series else []),
        "No file can show: that noise was really drawn, in secret and from these distributions; that limits were kept, "
        "and numbers measured as their rules say; that nothing else about these data was published.",
        *(f"Taken on trust: {each}." for each in result.trusted),
    ]
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in lines)


def main(arguments: list[str]) -> int:
    """Check the files that are named: 0 if all promises hold, 1 if one does not, 2 if one cannot be checked."""
    codes = [0 if arguments else 2]
    for name in arguments:
        try:
            print(f"{name}: {explain(result := check(*read(Path(name))))}")
            codes.append(1 if result.problems else 0)
        except (NotCheckedError, OSError) as error:
            print(f"{name} cannot be checked: {error}", file=sys.stderr)
            codes.append(2)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
