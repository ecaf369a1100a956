"""Commands that write documents: `osgt statement`, `osgt schema`, `osgt paper`, the reference of the command line.

`python -m osgt.cli.documents FOLDER` writes the reference into a folder of the docs.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from osgt.cli import app
from osgt.cli.shared import AsJson, Overwrite, clear_errors, command_target, say, terminal
from osgt.support.files import written

if TYPE_CHECKING:
    from osgt.paper import Results
    from osgt.paper.report import Stage
    from osgt.render.published import Published


def statement(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Table of `osgt release`: .parquet, or .csv with its description.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print every parameter as JSON.")] = False,
    csvw: Annotated[
        bool, typer.Option("--csvw", help="Print the description of the table as CSV: CSV on the Web (W3C).")
    ] = False,
    registry: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write an entry for the Differential Privacy Deployments Registry: .yaml. What only you know is left "
            "as marked blanks.",
        ),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Show what a release promises, from its file alone.

    Example: osgt statement release.parquet --registry entry.yaml
    """
    with clear_errors():
        if as_json + csvw + (registry is not None) > 1:
            raise ValueError("give one of --json, --csvw and --registry")
        from osgt.render.published import read_published  # noqa: PLC0415 - the extra "tables"

        published = read_published(file)
        if as_json:
            typer.echo(json.dumps(published.statement.to_dict(), indent=2, ensure_ascii=False))
        elif csvw:
            typer.echo(published.description or published.metadata(f"{file.stem}.csv"), nl=False)
        elif registry is not None:
            _write_entry(published, file, registry, overwrite=overwrite)
        else:
            _say(published)


def _say(published: "Published") -> None:
    from osgt.facts.plan_wording import notes  # noqa: PLC0415 - the extra "tables"

    console = terminal()
    if published.about.title is not None:
        say(console, f"{published.about.title}\n")
    say(console, published.statement)
    say(console, "\nColumns:")
    for note in notes(published.statement.to_dict(), published.about):
        unit = "" if note.unit is None else f" In {note.unit}."
        say(console, f"  {note.name}: {note.words}{unit}")


def _write_entry(published: "Published", file: Path, registry: Path, *, overwrite: bool) -> None:
    from osgt.render.registry import BLANK, registry_yaml  # noqa: PLC0415 - the extra "tables"

    suffixes = (".yaml", ".yml")
    target = command_target("--registry", registry, overwrite=overwrite, suffixes=suffixes, apart=[str(file)])
    text = registry_yaml(published.statement, published.about)
    with written(target) as place:
        place.write_text(text, encoding="utf-8")
    blanks = sum(line.count(f"{BLANK}:") for line in text.splitlines())
    say(terminal(), f"{registry}: {blanks} blanks are left for you, each marked {BLANK!r}.")


def schema(
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File to write; standard output if not given.")
    ] = None,
    data: Annotated[bool, typer.Option("--data", help="That of data files instead.")] = False,
    overwrite: Overwrite = False,
) -> None:
    """Print the JSON Schema of query files: with it, editors complete keys and mark mistakes.

    Example: osgt schema --out query.schema.json, and as the first line of the query file: #:schema query.schema.json
    """
    with clear_errors():
        from osgt.query.file.reference import data_file_schema, query_file_schema  # noqa: PLC0415 - the extra "tables"

        text = json.dumps(data_file_schema() if data else query_file_schema(), indent=2, ensure_ascii=False) + "\n"
        if out is None:
            typer.echo(text, nl=False)
            return
        target = command_target("--out", out, overwrite=overwrite, suffixes=(".json",))
        with written(target) as place:
            place.write_text(text, encoding="utf-8")


def paper(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the pictures and tables; made if it does not exist.")
    ],
    full: Annotated[
        bool, typer.Option("--full", help="Measure δ on 10⁹ applications of the mechanism: a few minutes.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the files of an earlier run in that folder.")
    ] = False,
    as_json_text: AsJson = False,
) -> None:
    """Recompute every figure and number of the paper, and say where they differ.

    Ends with exit code 1 if a number that should agree does not, or if the experiment contradicts the theory.

    Example: osgt paper --out paper
    """
    with clear_errors():
        from osgt.paper import recompute  # noqa: PLC0415 - takes a while
        from osgt.paper.report import as_json  # noqa: PLC0415 - takes a while

        with _watched() as stage:
            results = recompute(out, full=full, overwrite=overwrite, stage=stage)
        if as_json_text:
            typer.echo(as_json(results))
        else:
            _print_numbers(results, out)
        if not results.as_expected:
            raise typer.Exit(1)


@contextmanager
def _watched() -> Iterator["Stage"]:
    """A progress bar on standard error for each stage, so that standard output stays clean."""
    columns = (*Progress.get_default_columns()[:-1], TimeRemainingColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def stage(name: str, total: int) -> Callable[[int], object]:
            task = progress.add_task(name, total=total)
            return lambda done: progress.advance(task, done)

        yield stage


def _print_numbers(results: "Results", out: Path) -> None:
    console = Console()
    table = Table(title="The paper's numbers and ours", title_justify="left")
    for column in ("where", "what", "paper", "ours", "difference", "verdict"):
        table.add_column(column, justify="right" if column in ("paper", "ours", "difference") else "left")
    for row in results.numbers:
        sign = "" if row.relation == "≈" else f"{row.relation} "
        table.add_row(
            row.place,
            row.what,
            f"{sign}{row.printed}",
            f"{row.ours:.6g}",
            f"{row.ours - row.paper:+.2g}",
            row.verdict,
            style=None if row.expected else "bold red",
        )
    console.print(table)
    agree = sum(row.agrees for row in results.numbers)
    explained = sum(row.expected and not row.agrees for row in results.numbers)
    wrong = len(results.numbers) - agree - explained
    console.print(
        f"{agree} of {len(results.numbers)} agree to the printed digits, {explained} differ for a known reason, "
        f"{wrong} without one.",
        highlight=False,
    )
    for words, value in results.added.items():
        console.print(f"added: {words} = {value:.4g}", highlight=False)
    for picture in results.pictures:
        for words, value in picture.turns.items():
            console.print(f"{picture.name}: {words} = {value:.4g}", highlight=False)
    from osgt.paper.experiment import CONFIDENCE  # noqa: PLC0415 - takes a while

    measured = results.measurement
    verdict = "agrees with" if measured.agrees else "contradicts"
    console.print(
        f"Experiment: {measured.on_data.applications + measured.on_neighbour.applications:,} applications of the "
        f"eight-dimensional mechanism; the measured δ(ε) {verdict} the theory "
        f"(intervals at {CONFIDENCE:.1%} confidence in the picture). An audit of these: {measured.audit.words}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"Written to {out}: {len(results.files)} files.", highlight=False, soft_wrap=True)


PAGE = "options.md"

_INTRODUCTION = """# Options of the commands

<!-- Made by `python -m osgt.cli.documents docs/reference`, from the code: change it there. -->

What `--help` says, for all commands. [The commands at a glance, and their exit codes](commands.md).
"""


def reference() -> str:
    """The page in Markdown."""
    root = typer.main.get_command(app)
    return "\n".join([_INTRODUCTION, *_of_all(root, typer.Context(root, info_name="osgt"))])


def _of_all(group: Any, context: Any) -> Iterator[str]:
    for name, command in group.commands.items():
        alone = command.make_context(name, [], parent=context, resilient_parsing=True)
        if hasattr(command, "commands"):
            yield from _of_all(command, alone)
        else:
            yield _of_one(alone)


def _of_one(context: Any) -> str:
    command = context.command
    words, _, example = inspect.cleandoc(command.help or "").partition("Example: ")
    call, _, rest = example.partition("\n\n")
    text = f"## `{context.command_path}`\n\n{words.strip()}\n"
    if call:
        text += f"\n```\n{call.strip()}\n```\n"
    if rest:
        text += f"\n{rest.strip()}\n"
    shown = [
        parameter
        for parameter in command.get_params(context)
        if not getattr(parameter, "hidden", False) and parameter.name != "help"
    ]
    order = list(dict.fromkeys(map(_panel, shown)))
    for panel, parameters in groupby(sorted(shown, key=lambda each: order.index(_panel(each))), key=_panel):
        rows = "".join(f"| {_name(parameter)} | {_meaning(parameter)} |\n" for parameter in parameters)
        text += f"\n| {panel.lower()} | meaning |\n|---|---|\n{rows}"
    return text


def _panel(parameter: Any) -> str:
    return getattr(parameter, "rich_help_panel", None) or f"{parameter.param_type_name}s"


def _name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
    return f"`{flags} {parameter.metavar or ''}".rstrip() + "`"


def _meaning(parameter: Any) -> str:
    words = " ".join((parameter.help or "").split()).replace("|", r"\|").replace("<", "&lt;")
    return f"{words} Required." if parameter.required else words


def main(folder: str) -> None:
    """Write the page into a folder."""
    (Path(folder) / PAGE).write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
