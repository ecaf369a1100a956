"""From complete entries to a release: all that can be refused is refused before anything is charged."""

import itertools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osgt.api.publish import UnwrittenError, close_data
from osgt.api.query_file import Request, build_query, files_used, fill_limits, release_targets
from osgt.ledger.errors import LostAnswerError
from osgt.query.file.model import QueryFile
from osgt.query.file.reading import with_parts
from osgt.release.limits import TooFewUnitsError
from osgt.release.measuring import NothingReleasedError
from osgt.support.files import Target, words_of
from osgt.support.servers import names_server
from osgt.web.checking import ERRORS
from osgt.web.jobs import Job

if TYPE_CHECKING:
    from osgt.api.release import AnyRelease


@dataclass(frozen=True)
class Result:
    """The result of a job: a release with its files, or why there is none.

    `outcome` is "done", "refused" (nothing was charged), "nothing" (charged, or perhaps, and nothing came out) or
    "left" (the tables are made, and the words say what is left to do).
    """

    outcome: str
    words: str = ""
    made: "AnyRelease | None" = None
    files: tuple[Path, ...] = ()
    #: The query file with the limits that the release has chosen; None if all were given.
    limited: QueryFile | None = None
    warnings: tuple[str, ...] = field(default=())


def title(request: Request) -> str:
    """The charge, and the ledger that it goes to, in words."""
    data, budget = request.query.dataset, request.file.budget
    to = "no ledger" if data.ledger is None else f"{data.dataset!r} in {data.ledger.name}"
    return f"ε = {budget.epsilon:.15g}, δ = {budget.delta:.15g}, charged to {to}"


def default_files(source: str) -> tuple[str, str]:
    """The names of the table and the report, if none are given: after the data, and not those of files that exist."""
    stem = "table" if names_server(source) else re.sub(r"\W+", "-", Path(source).stem).strip("-") or "table"
    tries = (f"{stem}-published{'' if number == 1 else f'-{number}'}" for number in itertools.count(1))
    name = next(name for name in tries if not any(map(os.path.lexists, (f"{name}.csv", f"{name}.html"))))
    return f"{name}.csv", f"{name}.html"


def with_files(file: QueryFile) -> QueryFile:
    """Make a copy that has names for the table and the report."""
    usual = dict(zip(("out", "report"), default_files(file.data.source), strict=True))
    return with_parts(file, {"output": {**usual, **file.output.given()}}, [])


def prepare(file: QueryFile) -> Request:
    """Refuse what a release would refuse: an error in words. Opens data and ledger anew; reads and charges nothing."""
    used = tuple(files_used(file))
    targets = release_targets(
        file,
        lambda key, path, suffixes: Target(
            path, suffixes, apart=used, name=f"output.{key}", option="another name, or removing it first,"
        ),
    )
    request = Request.of(file, file.data.ledger, targets)
    try:
        request.query.check_release(request.plan)
    except BaseException:
        request.close()
        raise
    return request


def release(request: Request, job: Job) -> Result:
    """Charge, read, add noise, write and settle; what becomes of it, truthfully."""
    data = request.query.dataset
    job.ask = lambda: data.engine.progress(data.table.connection)
    try:
        published = request.publish()
    except UnwrittenError as error:
        return Result("left" if error.is_kept else "nothing", str(error))
    except (NothingReleasedError, TooFewUnitsError, LostAnswerError) as error:
        return Result("nothing", words_of(error))
    except ERRORS as error:
        return Result("refused", refusal(error))
    finally:
        request.close()
    made, words = published.release, published.left_to_do
    warnings = tuple(made.data_warnings)
    limited = None
    if request.plan.choice is not None:
        limited = fill_limits(request.file, {name: table.query for name, table in made.tables.items()})
    return Result("done" if words is None else "left", words or "", made, published.files, limited, warnings)


def preview(file: QueryFile) -> Any:
    """Exact figures on what limits cut off. Opens the data anew, as all that reads them does."""
    query = build_query(file)
    try:
        return query.preview()
    finally:
        close_data(query)


def refusal(error: BaseException) -> str:
    """Compose the message of a refusal, where nothing was charged."""
    words = words_of(error)
    if not words.lower().startswith("refused"):
        words = f"refused, nothing was charged: {words}"
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")
