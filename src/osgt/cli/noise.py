"""`osgt noise`: add calibrated noise to a column of numbers in a CSV file.

Also the error of each noise at a budget, which `osgt plan` shows where no table is given.
"""

import glob
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from osgt.cli.shared import Coordinates, Delta, ObjectiveText, Overwrite, clear_errors, command_target, terminal, warn
from osgt.support.files import written
from osgt.support.text import counted, unknown

if TYPE_CHECKING:
    from osgt.calibration import Comparison
    from osgt.mechanism import Values
    from osgt.noise import Distribution

#: Chances that some cell is off by more, for which `plan` names the error.
_CHANCES = (0.5, 0.1, 0.01)


def largest_of(law: "Distribution", cells: int, chance: float) -> float:
    """The least x such that any of the cells is off by more than x with at most this probability."""
    return float(law.isf(-0.5 * math.expm1(math.log1p(-chance) / cells)))


def as_dict(comparison: "Comparison", budget: dict[str, Any], cells: int) -> dict[str, Any]:
    best = comparison["osgt"].noise
    return {
        **budget,
        "cells": cells,
        "noises": [row.to_dict() for row in comparison],
        "better_end": comparison.better_end,
        "reason": comparison.reason,
        "any_cell_off_by_more": {str(chance): largest_of(best, cells, chance) for chance in _CHANCES},
    }


def print_noises(comparison: "Comparison", budget: dict[str, Any], cells: int) -> None:
    console = terminal()
    best = comparison["osgt"]
    table = Table(
        title=f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}: one person changes at most "
        f"{counted(budget['coordinates'], 'number')}, each by at most {budget['shift']:,}",
        title_justify="left",
    )
    for column in ("noise", "std", "mean error", "95 %", "99.9999 %", f"largest of {cells:,}", "OSGT saves"):
        table.add_column(column, justify="left" if column == "noise" else "right")
    for row in comparison:
        table.add_row(
            row.name,
            f"{row.std:.4g}",
            f"{row.mean_abs:.4g}",
            f"±{row.interval_95:g}",
            f"±{row.interval_999999:g}",
            f"{row.expected_max:.4g}",
            "" if row is best else f"{100 * row.gain:.1f} %",
            style="bold" if row is best else None,
        )
    console.print(table)
    console.print(comparison.reason, highlight=False, soft_wrap=True)
    console.print(
        f"Use {best.noise!r}: 95 % of the cells are off by at most {best.interval_95:g}.",
        highlight=False,
        soft_wrap=True,
    )
    limits = ", ".join(f"{largest_of(best.noise, cells, chance):g} ({chance:.0%})" for chance in _CHANCES)
    console.print(f"Chance that any of {cells:,} cells is off by more than: {limits}.", highlight=False, soft_wrap=True)


#: A field as it is written, quotes and all, and what ends it.
_FIELD = re.compile(r'("[^"]*(?:""[^"]*)*"|[^",\r\n][^,\r\n]*|)(,|\r\n|\r|\n|\Z)')


def noise(
    source: Annotated[str, typer.Argument(metavar="FILE|-", help="CSV file with a header line; - for standard input.")],
    column: Annotated[str, typer.Option(metavar="COLUMN", help="Name of the column of numbers.")],
    epsilon: Annotated[float, typer.Option(metavar="NUMBER", help="ε of the budget.")],
    delta: Delta,
    coordinates: Coordinates,
    shift: Annotated[
        float, typer.Option(metavar="NUMBER", help="The most by which one person can change a value.")
    ] = 1,
    values: Annotated[
        str,
        typer.Option(metavar="KIND", help="integers or floats: what the column holds. Never guessed from the file."),
    ] = "integers",
    objective: ObjectiveText = "variance",
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER", help="Add columns <name>_low and <name>_high: the noise interval at this confidence."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; standard output if not given.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Add noise to a column of numbers. Nothing is written unless every value could be read.

    Everything else in the file stays as it is, byte for byte.

    Example: osgt noise counts.csv --column people --epsilon 1 --delta 1e-8 --coordinates 8 --out noisy.csv
    """
    with clear_errors():
        target = None if out is None else command_target("--out", out, overwrite=overwrite, apart=[glob.escape(source)])
        if target is not None:
            target.checked()
        from osgt.mechanism import Mechanism  # noqa: PLC0415 - takes a while
        from osgt.noise.error import objective_of  # noqa: PLC0415 - takes a while
        from osgt.privacy.filters.budget import budget_warnings  # noqa: PLC0415 - takes a while
        from osgt.support.numeric import confidence_level  # noqa: PLC0415 - takes a while

        kind: Values = _kind(values)
        mechanism = Mechanism(epsilon, delta, shift, coordinates, values=kind, objective=objective_of(objective))
        warn(budget_warnings(epsilon, delta))
        half_width = None if interval is None else mechanism.interval(confidence_level(interval, "interval"))
        file = _read(_text_of(source))
        place, numbers = _numbers(file, column, kind)
        noisy = mechanism.release(numbers).tolist()
        if half_width is not None:
            file.header.fields += [_quoted(f"{column}_low"), _quoted(f"{column}_high")]
        for row, value in zip(file.rows, noisy, strict=True):
            row.fields[place] = str(value)
            if half_width is not None:
                row.fields += [str(value - half_width), str(value + half_width)]
        if target is None:
            sys.stdout.write(str(file))
        else:
            with written(target) as temporary:
                temporary.write_bytes(str(file).encode())
        Console(stderr=True).print(mechanism.describe(), highlight=False, soft_wrap=True)


@dataclass
class _Row:
    """The fields of a line as they are written, the end of the line, and where it begins."""

    fields: list[str]
    end: str
    line: int

    def __str__(self) -> str:
        return ",".join(self.fields) + self.end


@dataclass
class _File:
    """A CSV file whose fields can be changed without touching the others; empty lines are no rows."""

    mark: str
    lines: list[_Row]

    @property
    def header(self) -> _Row:
        return self.lines[0]

    @property
    def rows(self) -> list[_Row]:
        return [row for row in self.lines[1:] if row.fields != [""]]

    def __str__(self) -> str:
        return self.mark + "".join(map(str, self.lines))


def _kind(values: str) -> "Values":
    if values == "integers":
        return "integers"
    if values == "floats":
        return "floats"
    raise ValueError(f"--values must be integers or floats, got {values!r}")


def _text_of(source: str) -> str:
    data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("the file must be text in UTF-8: convert it first") from None


def _read(text: str) -> _File:
    """The lines of a CSV file. A mark that the text is Unicode, as spreadsheets write it, is no part of a name."""
    body = text.removeprefix("\ufeff")
    lines: list[_Row] = []
    fields: list[str] = []
    at, line, begun = 0, 1, 1
    while at < len(body) or fields or not lines:
        match = _FIELD.match(body, at)
        if match is None:
            raise ValueError(f"line {line}: quotes must enclose a whole field, and those within must be doubled")
        raw, end = match.groups()
        fields.append(raw)
        at = match.end()
        line += raw.count("\n")
        if end != ",":
            lines.append(_Row(fields, end, begun))
            fields, line = [], line + 1
            begun = line
    return _File(text[: len(text) - len(body)], lines)


def _numbers(file: _File, column: str, kind: "Values") -> tuple[int, list[int] | list[float]]:
    """The place of the column, and its values."""
    names = [_unquoted(raw) for raw in file.header.fields]
    if column not in names:
        if len(names) == 1 and ";" in names[0]:
            raise ValueError("the file must have commas between its fields, not semicolons: convert it first")
        raise ValueError(unknown("column", column, names, having="the file has"))
    if names.count(column) > 1:
        raise ValueError(f"there are {names.count(column)} columns {column!r}: rename all but one")
    place = names.index(column)
    number, words = (int, "an integer") if kind == "integers" else (float, "a number")
    numbers = []
    for row in file.rows:
        if len(row.fields) != len(names):
            raise ValueError(f"line {row.line} has {len(row.fields)} fields where the header has {len(names)}")
        try:
            numbers.append(number(_unquoted(row.fields[place])))
        except ValueError:
            hint = "; numbers with decimals need --values floats" if kind == "integers" else ""
            raise ValueError(f"line {row.line}: what is in column {column!r} is not {words}{hint}") from None
    return place, numbers


def _unquoted(raw: str) -> str:
    return raw[1:-1].replace('""', '"') if raw.startswith('"') else raw


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if re.search(r'[",\r\n]', text) else text
