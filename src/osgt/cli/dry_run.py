"""`osgt release --dry-run`: all that a release would refuse is refused; nothing is read, charged or written."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import typer

from osgt.cli.planned import print_plan
from osgt.cli.shared import say, terminal
from osgt.files import Target, written_together

if TYPE_CHECKING:
    from osgt.tables.plan import Plan
    from osgt.tables.publication import Publication
    from osgt.tables.publication_plan import PublicationPlan
    from osgt.tables.query import Query


class _DryError(Exception):
    """Ends the files that were begun, to see whether they can be: none takes its place."""


def dry_run(
    query: "Query | Publication", plan: "Plan | PublicationPlan", targets: Mapping[str, Target], *, as_json: bool
) -> None:
    """Refuse what the release would refuse, or print what it would charge and write."""
    query.check_release(plan)  # type: ignore[arg-type]
    with suppress(_DryError), written_together(targets):
        raise _DryError
    data = query.dataset
    ledger = None if data.ledger is None else data.ledger.name
    files = [os.fspath(target.path) for target in targets.values()]
    if as_json:
        would: dict[str, Any] = {"dry_run": True, "ledger": ledger, "dataset": data.dataset, "files": files}
        typer.echo(json.dumps({**would, "plan": plan.to_dict()}, indent=2, ensure_ascii=False))
        return
    console = terminal()
    print_plan(console, plan)
    budget = f"ε = {plan.epsilon:g}, δ = {plan.delta:g}"
    charged = "no ledger" if ledger is None else f"{data.dataset!r} in {ledger}, where it fits now"
    say(console, f"Would charge: {budget} to {charged}.")
    say(console, f"Would write: {', '.join(files) if files else 'no file; the table would be printed'}.")
    say(console, "This was a dry run: no data were read, nothing was charged and nothing was written.")
