"""From complete entries to a release or a suggestion: all that can be refused is refused before anything is charged."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from osgt.files import Target, words_of
from osgt.ledger.errors import LostAnswerError
from osgt.tables.about import About
from osgt.tables.errors import NothingReleasedError, NotSettledError
from osgt.tables.publishing import (
    UnwrittenError,
    check_files,
    files_used,
    kept_elsewhere,
    out_paths,
    publish,
    release_targets,
)
from osgt.tables.query_file import QueryFile
from osgt.web.checking import ERRORS
from osgt.web.jobs import Job

if TYPE_CHECKING:
    from osgt.tables.bounds.suggestion import Suggestion
    from osgt.tables.publication import Publication
    from osgt.tables.publication_release import PublicationRelease
    from osgt.tables.query import Query
    from osgt.tables.release import Release


@dataclass(frozen=True)
class Result:
    """What became of a job: a release with its files, a suggestion, or why there is none.

    `outcome` is "done", "refused" (nothing was charged), "nothing" (charged, or perhaps, and nothing came out) or
    "left" (the tables are made, and the words say what is left to do).
    """

    outcome: str
    words: str = ""
    made: "Release | PublicationRelease | None" = None
    suggestion: "Suggestion | None" = None
    files: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Prepared:
    """A release that nothing known stands against."""

    file: QueryFile
    query: "Query | Publication"
    targets: Mapping[str, Target]
    about: About

    @property
    def title(self) -> str:
        """What is charged to what, in words."""
        data, budget = self.query.dataset, self.file.budget
        to = "no ledger" if data.ledger is None else f"{data.dataset!r} in {data.ledger.name}"
        return f"ε = {budget.epsilon:.15g}, δ = {budget.delta:.15g}, charged to {to}"


def prepared(file: QueryFile) -> Prepared:
    """Refuse what a release would refuse: an error in words. Opens data and ledger anew; reads and charges nothing."""
    used = tuple(files_used(file))
    targets = release_targets(
        file,
        lambda key, path, suffixes: Target(
            path, suffixes, apart=used, name=f"output.{key}", option="another name, or removing it first,"
        ),
    )
    for target in targets.values():
        target.checked()
    query = file.asked(file.data.ledger)
    try:
        check_files(file, query, targets.values())
        about = query.about(file.report.texts())
        query.check_release(query.plan(**file.budget.given(), **file.plan_options()))  # type: ignore[arg-type]
    except BaseException:
        _close(query)
        raise
    return Prepared(file, query, targets, about)


def release(ready: Prepared, job: Job) -> Result:
    """Charge, read, add noise, write and settle; what becomes of it, truthfully."""
    query = ready.query
    backend = query.dataset.table.get_backend()
    job.ask = lambda: query.dataset.engine.progress(backend)
    try:
        return _released(ready)
    finally:
        _close(query)


def _released(ready: Prepared) -> Result:
    files = tuple(Path(target.path) for target in ready.targets.values())
    try:
        made = publish(ready.file, ready.query, ready.targets, ready.about)
    except UnwrittenError as error:
        out, reason = out_paths(ready.query, ready.targets), error.__cause__ or error
        is_kept, words = kept_elsewhere(error.made, str(error), reason, out=out, about=ready.about)
        return Result("left" if is_kept else "nothing", words)
    except (NothingReleasedError, LostAnswerError) as error:
        return Result("nothing", words_of(error))
    except ERRORS as error:
        return Result("refused", refusal(error))
    warnings = tuple(made.left_out_warnings)
    try:
        made.settle(*files)
    except NotSettledError as error:
        return Result("left", str(error), made, files=files, warnings=warnings)
    return Result("done", "", made, files=files, warnings=warnings)


def preview(file: QueryFile) -> Any:
    """Exact figures on what the bounds cut off. Opens the data anew, as all that reads them does."""
    query = file.asked()
    try:
        return query.preview()
    finally:
        _close(query)


def suggestion(file: QueryFile, query: Any, job: Job, **options: Any) -> Result:
    """Charge a suggestion and make it."""
    backend = query.dataset.table.get_backend()
    job.ask = lambda: query.dataset.engine.progress(backend)
    try:
        found = query.suggest_bounds(
            release_epsilon=file.budget.epsilon,
            release_delta=file.budget.delta,
            confidence=file.output.confidence,
            **options,
        )
    except (NothingReleasedError, LostAnswerError) as error:
        return Result("nothing", words_of(error))
    except ERRORS as error:
        return Result("refused", refusal(error))
    finally:
        _close(query)
    return Result("done", suggestion=found, warnings=tuple(found.recommendation.cautions))


def refusal(error: BaseException) -> str:
    """What to say when nothing was charged."""
    words = words_of(error)
    if not words.lower().startswith("refused"):
        words = f"refused, nothing was charged: {words}"
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "?", "!")) else ".")


def _close(query: Any) -> None:
    with suppress(Exception):  # whatever it is, it says nothing about the release
        query.dataset.close()
