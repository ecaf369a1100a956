"""`osgt noise`: add calibrated noise to a column of integers in a CSV file."""

import csv
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from osgt.cli.shared import Delta, MaxGroups, ObjectiveText, Shift, clear_errors, objective_of, warn
from osgt.mechanism import Mechanism
from osgt.privacy.cautions import budget_warnings


def noise(
    source: Annotated[str, typer.Argument(metavar="FILE|-", help="CSV file with a header line; - for standard input.")],
    column: Annotated[str, typer.Option(help="Name of the column of integers.")],
    epsilon: Annotated[float, typer.Option(help="ε of the budget.")],
    delta: Delta,
    max_groups: MaxGroups,
    shift: Shift = 1,
    objective: ObjectiveText = "variance",
    interval: Annotated[
        float | None,
        typer.Option(help="Add columns <name>_low and <name>_high: the noise interval at this confidence."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output if not given.")] = None,
) -> None:
    """Add noise to a column of integers. Nothing is written unless every value could be read.

    Example: osgt noise counts.csv --column people --epsilon 1 --delta 1e-8 --max-groups 8 --out noisy.csv
    """
    with clear_errors():
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
        header, rows, place, values = _read(text, column)
        mechanism = Mechanism(epsilon, delta, shift, max_groups, objective=objective_of(objective))
        warn(budget_warnings(epsilon, delta))
        half_width = None if interval is None else mechanism.interval(interval)
        noisy = mechanism.release(values).tolist()
        if half_width is not None:
            header = [*header, f"{column}_low", f"{column}_high"]
        for row, value in zip(rows, noisy, strict=True):
            row[place] = str(value)
            if half_width is not None:
                row.extend([str(value - half_width), str(value + half_width)])
        _write(header, rows, out)
        Console(stderr=True).print(mechanism.describe(), highlight=False, soft_wrap=True)


def _read(text: str, column: str) -> tuple[list[str], list[list[str]], int, list[int]]:
    """Header, rows, place of the column, and its values."""
    header, *rows = list(csv.reader(io.StringIO(text))) or [[]]
    if column not in header:
        raise ValueError(f"there is no column {column!r}; the columns are {', '.join(map(repr, header)) or 'none'}")
    if header.count(column) > 1:
        raise ValueError(f"there are {header.count(column)} columns {column!r}: rename all but one")
    place, values = header.index(column), []
    for number, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(f"line {number} has {len(row)} fields where the header has {len(header)}")
        try:
            values.append(int(row[place]))
        except ValueError:
            raise ValueError(f"line {number}: {row[place]!r} in column {column!r} is not an integer") from None
    return header, [row for row in rows if row], place, values


def _write(header: list[str], rows: list[list[str]], out: Path | None) -> None:
    """All or nothing: a file is written beside its place first and then moved there."""
    if out is None:
        csv.writer(sys.stdout, lineterminator="\n").writerows([header, *rows])
        return
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([header, *rows])
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
