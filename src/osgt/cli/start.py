"""`osgt start`: describe the data once, in answers to six questions or in options, and open their budget."""

import datetime
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from osgt.cli.options import BUDGET, OUTPUT, takes_keys
from osgt.cli.shared import clear_errors, command_target, option, say, switch, terminal
from osgt.data import CODE_LISTS
from osgt.facts import wording
from osgt.support.errors import USER_ERRORS
from osgt.support.text import names_in_words, nearest, printable

if TYPE_CHECKING:
    from osgt.api.data_file import Offers
    from osgt.api.dataset import Dataset

_COLUMNS = "Columns"

#: The word for no ledger, and for units that are rows.
_NONE, _ROW = "none", "row"


#: The options that say what is known of a column, by its key in the file.
_OPTION_OF = {"range": "--range", "values": "--keys"}

#: How a file is read: options as of every command.
_FORM = ("table", "delimiter", "encoding", "decimal", "date_format")

_Keys = Annotated[
    list[str] | None,
    option(
        "COLUMN=VALUES",
        "A column to group by and its public values: between commas, a CSV file of codes and labels, or the name "
        f"of a list ({', '.join(CODE_LISTS)}). May be repeated.",
        "--keys",
        panel=_COLUMNS,
    ),
]
_Yes = Annotated[
    bool,
    switch(
        "--yes",
        "Ask nothing: take what is offered for what is not given. Values of the data are never taken: keys "
        "without values are chosen by size.",
        panel=OUTPUT,
    ),
]


@takes_keys("unit", "noun", "units", "types", *_FORM, "dataset")
def start(
    known: Mapping[str, Any],
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help="The data: CSV, Parquet, Excel, SPSS, Stata, SAS or a database."),
    ],
    key: _Keys = None,
    ranges: Annotated[
        list[str] | None,
        option(
            "COLUMN=LOW:HIGH", "The least and the largest plausible value; may be repeated.", "--range", panel=_COLUMNS
        ),
    ] = None,
    epsilon: Annotated[float | None, option("NUMBER", "ε of a usual release.", panel=BUDGET)] = None,
    delta: Annotated[float | None, option("NUMBER", "δ of a usual release.", panel=BUDGET)] = None,
    ledger: Annotated[
        str | None,
        option("LEDGER", "The ledger that releases are charged to, or none: a file or a URL.", panel=BUDGET),
    ] = None,
    total_epsilon: Annotated[float | None, option("NUMBER", "ε of all releases together.", panel=BUDGET)] = None,
    total_delta: Annotated[float | None, option("NUMBER", "δ of all releases together.", panel=BUDGET)] = None,
    out: Annotated[Path, option("FILE", "The data file to write: .toml.", panel=OUTPUT)] = Path("data.toml"),
    overwrite: Annotated[bool, switch("--overwrite", "Replace the data file if it exists.", panel=OUTPUT)] = False,
    yes: _Yes = False,
) -> None:
    """Describe your data once: asks six questions, writes data.toml and opens the ledger's budget.

    What is offered comes from the header and the first rows of the file, and is shown on your screen alone. What you
    confirm becomes public. Where every row is about another person, the unit is row.

    Example: osgt start visits.csv --unit patient_id --noun patient --units 14000 --keys department=Cardiology,Emergency
    """
    with clear_errors(), _named_by_options():
        command_target("--out", out, overwrite=overwrite, suffixes=(".toml",), apart=[source]).checked()
        from osgt.api.data_file import make_offers  # noqa: PLC0415 - the extra "tables"
        from osgt.api.data_file import start as write_data_file  # noqa: PLC0415 - the extra "tables"

        form = {name: known[name] for name in _FORM}
        asking = _Asking(terminal(), make_offers(source, form), yes=yes)
        described = asking.data(source, known, {**form, **asking.offers.form}, key)
        plausible = asking.ranges(ranges, described["types"])
        epsilon, delta = asking.budget(epsilon, delta, described["units"])
        ledger, total_epsilon, total_delta = asking.ledger(ledger, out, epsilon, delta, total_epsilon, total_delta)
        data = write_data_file(
            source,
            **described,
            ranges=plausible,
            epsilon=epsilon,
            delta=delta,
            ledger=None if ledger == _NONE else ledger,
            dataset=known["dataset"],
            total_epsilon=total_epsilon,
            total_delta=total_delta,
            out=out,
            overwrite=overwrite,
        )
        data.close()
        _tell(asking.console, out, data, described["keys"])


@contextmanager
def _named_by_options() -> Iterator[None]:
    """Name the option in a message about what is known of a column, or that stands for an answer."""
    try:
        yield
    except typer.Abort:
        if sys.stdin.isatty():
            raise
        typer.echo(err=True)
        words = (
            "a question got no answer: --yes takes what is offered, and each answer has an option (osgt start --help)"
        )
        raise ValueError(words) from None
    except USER_ERRORS as error:
        named = re.match(r"columns: (?=.+?: (range|values)\b)", str(error))
        if named is None:
            raise
        raise ValueError(f"{_OPTION_OF[named[1]]} {str(error)[named.end() :]}") from None


def _tell(console: Console, out: Path, data: "Dataset", keys: Mapping[str, Any]) -> None:
    """Say what was written, and what to type next."""
    say(console, f"Wrote {out}: what is known about the data. Read it, and change what is wrong or missing.")
    if data.ledger is not None:
        all_of_them = data.ledger.spent(str(data.dataset))
        say(
            console,
            f"Releases are charged to {data.dataset!r} in {data.ledger.name}. Budget of all of them: "
            f"{wording.budget(all_of_them.budget_epsilon, all_of_them.budget_delta)}; of one, unless you say "
            f"otherwise: {wording.budget(**data.budget)}.",
        )
    by = [part for name in list(keys)[:1] for part in ("--by", name)]
    say(console, "Next:")
    say(console, "  " + shlex.join(["osgt", "plan", str(out), *by, "--count"]))
    files = ["--out", "table.xlsx", "--report", "table.html"]
    say(console, "  " + shlex.join(["osgt", "release", str(out), *by, "--count", *files]))


class _Asking:
    """The six questions: what is given is not asked, and with `yes` what is offered is taken."""

    def __init__(self, console: Console, offers: "Offers", *, yes: bool) -> None:
        self.console, self.offers, self.yes = console, offers, yes

    def data(
        self,
        source: str,
        known: Mapping[str, Any],
        form: Mapping[str, Any],
        keys: list[str] | None,
    ) -> dict[str, Any]:
        """Ask for what is known about the data, but for their budget."""
        unit = self.unit(known["unit"])
        noun = self.noun(known["noun"] or None, unit)
        units = self.units(known["units"], noun)
        types = self.types(_pairs("--type", known["types"], ":"), unit)
        types = {name: dtype for name, dtype in types.items() if dtype != "string"}
        return {
            "privacy_unit": _one_or_several(unit),
            "noun": None if noun is None else _one_or_several(noun),
            "units": units,
            "types": types,
            "keys": self.keys(_pairs("--keys", keys, "="), _open(source, {"types": types, **form}), unit),
            **form,
        }

    def unit(self, given: list[str] | None) -> list[str]:
        """Ask for the columns that name whom a row is about."""
        if given:
            return given
        if self.yes:
            raise ValueError("--unit must be given: who is protected is never guessed")
        say(self.console, f"Columns: {names_in_words(self.offers.columns)}")
        while True:
            words = f"1. Who is protected? The column that names them ({_ROW} if every row is about another)"
            answer = str(typer.prompt(words, default=self.offers.privacy_unit))
            if answer == _ROW or answer in self.offers.columns:
                return [answer]
            say(self.console, f"There is no column {answer!r}{nearest(answer, self.offers.columns)}.")

    def noun(self, given: list[str] | None, unit: list[str]) -> list[str] | None:
        """Ask what one of them is called."""
        if given is not None or self.yes or unit == [_ROW]:
            return given
        offered = unit[0].lower().removesuffix("id").strip("_ ").replace("_", " ") or None
        return [str(typer.prompt("   What is one of them called?", default=offered))]

    def units(self, given: int | None, noun: Sequence[str] | None) -> int | None:
        """Ask how many there are."""
        if given is not None or self.yes:
            return given
        answer = typer.prompt(
            f"2. About how many are there, if that is public? ({noun[0] if noun else 'units'}; 0: not known)",
            default=0,
            type=int,
        )
        return int(answer) or None

    def types(self, given: Mapping[str, str], unit: list[str]) -> dict[str, str]:
        """Ask for the types of columns of a CSV file; the unit's stay text unless they are given."""
        for name in given:
            if name not in self.offers.columns:
                raise ValueError(f"--type: there is no column {name!r}{nearest(name, self.offers.columns)}")
        offered = {name: "string" if name in unit else dtype for name, dtype in self.offers.types.items()}
        declared = {**offered, **given}
        while offered and not self.yes:
            say(self.console, "3. Types of columns, by the first rows:")
            table = Table()
            for head in ("column", "type"):
                table.add_column(head)
            for name, dtype in declared.items():
                table.add_row(printable(name), dtype)
            self.console.print(table)
            if self.offers.form:
                form = [f"{name.replace('_', ' ')} {value!r}" for name, value in self.offers.form.items()]
                say(self.console, f"   Read with {', '.join(form)}; options such as --date-format change that.")
            answer = str(typer.prompt("   Right? Enter, or changes as column:type, …", default="yes"))
            if answer == "yes":
                break
            try:
                declared |= _pairs("changes", [part.strip() for part in answer.split(",")], ":")
            except ValueError as error:
                say(self.console, str(error))
        return declared

    def ranges(self, given: list[str] | None, types: Mapping[str, str]) -> dict[str, list[float]]:
        """Ask for the plausible ranges of numbers, if there are any; they come from what people know, not from rows."""
        numbers = [name for name, dtype in types.items() if dtype not in ("boolean", "date", "timestamp")]
        if given or self.yes or not numbers:
            return _ranges(_pairs("--range", given, "="))
        words = "   Plausible ranges of numbers, from what you know, as cost=0:50000, days=0:60"
        while True:
            answer = str(typer.prompt(words, default=_NONE))
            try:
                ranges = {} if answer == _NONE else _ranges(_pairs("--range", answer.split(","), "="))
                for name in ranges:
                    if name not in numbers:
                        raise ValueError(f"There is no column of numbers {name!r}{nearest(name, numbers)}.")
                return ranges
            except ValueError as error:
                say(self.console, str(error))

    def keys(self, given: Mapping[str, str], data: "Dataset", unit: list[str]) -> dict[str, Any]:
        """Ask which columns are keys, and for their public values."""
        keys = {name: _values(data, name, text) for name, text in given.items()}
        if given or self.yes:
            return {name: values for name, values in keys.items() if values is not None}
        offered = [name for name in self.offers.few if name not in unit]
        answer = typer.prompt(
            "4. Which columns will tables be grouped by? (between commas; none)", default=", ".join(offered) or _NONE
        )
        names = [] if answer == _NONE else [name.strip() for name in str(answer).split(",") if name.strip()]
        for name in names:
            values = self._ask_values(data, name)
            if values is not None:
                keys[name] = values
        return keys

    def _ask_values(self, data: "Dataset", name: str) -> Any:
        """Show the values of a column to the steward, who may make them public, give others, or none."""
        from osgt.api.data_file import values_in_data  # noqa: PLC0415 - the extra "tables"

        data.type_of("group_by", name)
        values = self.offers.labels.get(name) or values_in_data(data, name)
        words = f"   {name}: public values between commas, a CSV file, or the name of a list; none: chosen by size"
        if values is None:
            answer = str(typer.prompt(words, default=_NONE))
        else:
            codes = [f"{code} = {label}" for code, label in values.items()] if isinstance(values, dict) else values
            say(self.console, f"   {name} has these values in your data: {', '.join(map(str, codes))}")
            say(
                self.console,
                "   If you confirm them, this list becomes public, whoever is in it.",
            )
            if typer.confirm("   Publish this list?", default=False):
                return values
            answer = str(typer.prompt(words, default=_NONE))
        return None if answer == _NONE else _values(data, name, answer)

    def budget(self, epsilon: float | None, delta: float | None, units: int | None) -> tuple[float, float]:
        """Ask for the budget of a release."""
        from osgt.api.data_file import usual_delta  # noqa: PLC0415 - the extra "tables"

        usual = usual_delta(units)
        if self.yes:
            return 1.0 if epsilon is None else epsilon, usual if delta is None else delta
        if epsilon is None:
            epsilon = float(typer.prompt("5. Privacy budget of a usual release: ε", default=1.0, type=float))
        if delta is None:
            delta = float(typer.prompt("   and δ, far below 1 / number of units", default=usual, type=float))
        return epsilon, delta

    def ledger(
        self,
        given: str | None,
        out: Path,
        epsilon: float,
        delta: float,
        total_epsilon: float | None,
        total_delta: float | None,
    ) -> tuple[str, float, float]:
        """Ask for the ledger, and the budget of all releases together."""
        from osgt.api.data_file import whole_budget  # noqa: PLC0415 - the extra "tables"

        usual = str(out.parent / "ledger.db")
        whole = whole_budget(epsilon, delta)
        if given is None:
            words = f"6. The ledger that keeps account of all releases (a file; {_NONE}: no ledger)"
            given = usual if self.yes else str(typer.prompt(words, default=usual))
        if given != _NONE and not self.yes and total_epsilon is None:
            total_epsilon = float(typer.prompt("   ε of all releases together", default=whole[0], type=float))
        if given != _NONE and not self.yes and total_delta is None:
            total_delta = float(typer.prompt("   δ of all releases together", default=whole[1], type=float))
        return (
            given,
            whole[0] if total_epsilon is None else total_epsilon,
            whole[1] if total_delta is None else total_delta,
        )


def _open(source: str, options: Mapping[str, Any]) -> "Dataset":
    """The data, to look at the types of columns."""
    from osgt.api.dataset import Dataset  # noqa: PLC0415 - the extra "tables"

    given = {name: value for name, value in options.items() if value}
    return Dataset(source, _ROW, **given)


def _one_or_several(texts: list[str]) -> str | list[str]:
    return texts[0] if len(texts) == 1 else texts


def _pairs(option: str, texts: Sequence[str] | None, between: str) -> dict[str, str]:
    """Names and what stands after them."""
    pairs = {}
    for text in texts or []:
        name, found, rest = text.rpartition(between) if between == ":" else text.partition(between)
        if not (found and name.strip() and rest.strip()):
            example = {":": "age:int64", "=": "department=Cardiology,Emergency"}[between]
            example = "cost=0:50000" if option == "--range" else example
            hint = "; keys without public values are left out here" if option == "--keys" else ""
            raise ValueError(f"{option} must be like {example}, got {text!r}{hint}")
        pairs[name.strip()] = rest.strip()
    return pairs


def _ranges(texts: Mapping[str, str]) -> dict[str, list[float]]:
    from osgt.query.file.aggregates import number  # noqa: PLC0415 - the extra "tables"

    ranges = {}
    for name, text in texts.items():
        try:
            low, high = (number(end) for end in text.split(":"))
        except ValueError:
            raise ValueError(f"--range must be like cost=0:50000, got {name}={text!r}") from None
        ranges[name] = [low, high]
    return ranges


def _values(data: "Dataset", name: str, text: str) -> Any:
    """The values of a column that were typed: a list in its type, the path of a file, or the name of a list."""
    dtype = data.type_of("key", name)
    if text in CODE_LISTS or text.lower().endswith(".csv"):
        return text
    readers: dict[str, Any] = {"integer": int, "boolean": _truth, "date": datetime.date.fromisoformat}
    try:
        return [readers.get(dtype.kind, str)(value.strip()) for value in text.split(",") if value.strip()]
    except (ValueError, KeyError):
        raise ValueError(f"--keys: values of {name!r} must be of type {dtype}, got {text!r}") from None


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]
