"""The life of a release: prepare, charge, read, add noise, estimate, write, settle.

Up to the charge no row is read, and all that can be refused is refused. Between the charge and the noise an error may
depend on single rows, so it is not shown. From the noise on nothing depends on the data any more: a finished table that
cannot be written where it was wanted is kept elsewhere, since its budget is spent.
"""

import datetime
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from osgt.api.charge import (
    SharedReservation,
    charge,
    check_charge,
    check_corrected,
    settle_command,
    settle_or_explain,
    title_of,
)
from osgt.api.release import AnyRelease, PublicationRelease, Release, fill
from osgt.data.engines.query import EngineQuery
from osgt.data.rows import PrivateRows
from osgt.facts.statement import Made, NoisyTable, statements
from osgt.limits.left_out import LeftOut, left_out_measures
from osgt.limits.misfits import declared_columns
from osgt.plan.agreement import SharedNumbers
from osgt.plan.choice import Draw, limit_of
from osgt.plan.plan import AnyPlan, Plan
from osgt.plan.publication import PublicationPlan
from osgt.query.about import About
from osgt.query.aggregates.base import Limit, OpenLimit, QuerySpec, open_limits, with_any_limits
from osgt.release.choice import (
    PreparedDraw,
    TooFewUnitsError,
    choose_limits,
    compile_draw,
    noise_at_one,
    prepare_draw,
)
from osgt.release.measuring import (
    Measured,
    NothingReleasedError,
    Presentation,
    check_presentation,
    compile_release,
    exact_numbers,
    noisy_table,
    prepare,
    with_noise,
)
from osgt.render.published import out_key, write_parquet
from osgt.support.errors import OsgtError
from osgt.support.files import Target, words_of, written_together

#: The steps that an observer is told of as they begin.
Step = Literal["charge", "read", "write", "settle"]
Observer = Callable[[Step], None]


class AnyQuery(Protocol):
    """A query of one table or of several: `Query` or `Publication`."""

    @property
    def dataset(self) -> PrivateRows:
        """The rows that all tables are about."""

    @property
    def tables(self) -> Mapping[str, QuerySpec]:
        """The queries of the tables by their names; a table alone has none."""

    @property
    def computed(self) -> Sequence[QuerySpec]:
        """The queries that the engine computes, one for each block of the plan."""

    def plan(self, epsilon: float | None = None, delta: float | None = None) -> AnyPlan:
        """The noise, the intervals and what would be charged at a budget."""

    def with_limits(self, limits: Mapping[OpenLimit, Limit]) -> "AnyQuery":
        """Give the query limits that were chosen for those that are open."""

    def renew(self, plan: AnyPlan) -> AnyPlan:
        """Make the plan of this query out of that of the query whose limits were open."""

    def to_dict(self) -> dict[str, Any]:
        """The query in plain values, as in a query file."""


def publish(
    query: AnyQuery,
    plan: AnyPlan,
    targets: Mapping[str, Target],
    about: About,
    presentation: Presentation,
    *,
    observe: Observer = lambda _: None,
) -> "Outcome":
    """Release a query into files: begin these, charge, read, add noise, write, settle.

    Raises what is refused before the charge, NothingReleasedError if reading fails, UnwrittenError if writing does.
    """
    files, release = tuple(Path(target.path) for target in targets.values()), None
    try:
        with written_together(targets) as places:  # what cannot be written is not charged
            release = make_release(query, plan, presentation, observe=observe)
            observe("write")
            fill(release, targets, places, about)
    except (Exception, KeyboardInterrupt) as error:
        if release is None:
            raise
        out = [Path(targets[key].path) for key in map(out_key, query.tables) if key in targets]
        raise rescue_unwritten(release, "the files could not be written", error, out=out, about=about) from error
    observe("settle")
    return Outcome(release, files, settle_or_explain(release, files) if files else None)


def make_release(
    query: AnyQuery, plan: AnyPlan, presentation: Presentation, *, observe: Observer = lambda _: None
) -> AnyRelease:
    """Prepare, charge, read, add noise, estimate, in this order. If it fails after the charge, the charge stands."""
    check_corrected(query.dataset, presentation.corrects)
    for own in plan.tables.values():
        check_presentation(own, presentation)
    draws = prepare_draws(query, plan)
    blocks = _prepare(query, plan)
    observe("charge")
    reservation = charge(query.dataset, plan, _title(query), query.to_dict(), presentation.corrects)
    observe("read")
    try:
        if draws:
            query, plan = _with_chosen_limits(query, plan, draws)
            blocks = _prepare(query, plan)
        exact = [exact_numbers(block, own, ready) for block, own, ready in blocks]
        noisy = [with_noise(block, own, numbers) for (block, own, _), numbers in zip(blocks, exact, strict=True)]
        sql = _in_order(draws, [ready for _, _, ready in blocks])
        return estimate(query, plan, noisy, presentation, reservation, sql)
    except TooFewUnitsError:
        raise
    except Exception as error:
        raise NothingReleasedError(error, charged=reservation is not None) from error


def prepare_draws(query: AnyQuery, plan: AnyPlan) -> list[PreparedDraw]:
    """Compile and check the queries for the choice of limits that are open, and each kind of limit. No row is read."""
    if plan.choice is None:
        return []
    for place in range(max(len(draw.ladders) for draw in plan.choice.draws)):
        # No kind of limit that may be drawn is refused after the charge.
        kinds = {draw.limit: draw.ladders[min(place, len(draw.ladders) - 1)] for draw in plan.choice.draws}
        query.with_limits({limit: limit_of(limit, [*ladder][-1]) for limit, ladder in kinds.items()}).renew(plan)
    return [prepare_draw(block, draw) for block, draw in _draws(query, plan)]


def _draws(query: AnyQuery, plan: AnyPlan) -> list[tuple[QuerySpec, Draw]]:
    """List the draws of limits that are open, each with the first table that needs it."""
    first = {limit: block for block in reversed(query.computed) for limit in open_limits(block)}
    return [(first[draw.limit], draw) for draw in plan.choice.draws] if plan.choice is not None else []


def sql_of(query: AnyQuery, plan: AnyPlan) -> str:
    """Write out the statements that a release of this plan sends to the engine. No row is read.

    Limits that are to be chosen stand as some number; so does the salt, which is drawn anew for each release.
    """
    draws = [compile_draw(block, draw) for block, draw in _draws(query, plan)]
    computed = zip(map(with_any_limits, query.computed), plan.blocks, strict=True)
    return _in_order(draws, [compile_release(block, own, 0) for block, own in computed])


def _in_order(draws: Sequence[PreparedDraw], blocks: Sequence[EngineQuery]) -> str:
    """Write statements one after the other, with a line before each that says what it is for."""
    texts = [(f"The choice of {draw.draw.limit.words}", sql) for draw in draws for sql in draw.query.readable]
    for ready in blocks:
        first, *others = ready.readable
        texts.append(("The sums that noise is added to", first))
        texts += [("Values that do not fit their declared types", sql) for sql in others]
    return "\n\n".join(f"-- Statement {i} of {len(texts)}: {title}.\n{sql};" for i, (title, sql) in enumerate(texts, 1))


def _with_chosen_limits(query: AnyQuery, plan: AnyPlan, draws: Sequence[PreparedDraw]) -> tuple[AnyQuery, AnyPlan]:
    """Choose the limits that are open, and give them to query and plan."""
    assert plan.choice is not None
    closed = query.with_limits(choose_for(query, plan, draws))
    return closed, closed.renew(plan)


def choose_for(query: AnyQuery, plan: AnyPlan, draws: Sequence[PreparedDraw]) -> dict[OpenLimit, Limit]:
    """Draw the open limits of a query."""
    assert plan.choice is not None
    noises = {draw.draw.limit: max(noise_at_one(block, draw.draw.limit) for block in plan.blocks) for draw in draws}
    given = [block.groups.most_rows for block in query.computed]
    data = query.dataset
    return choose_limits(draws, plan.choice, noises, data.neighbours, data.units, max(given))


def check_release(query: AnyQuery, plan: AnyPlan) -> None:
    """Refuse all that a release of this plan would refuse now. No row is read and nothing is charged."""
    prepare_draws(query, plan)
    _prepare(query, plan)
    check_charge(query.dataset, plan)


def _prepare(query: AnyQuery, plan: AnyPlan) -> list[tuple[QuerySpec, Plan, EngineQuery]]:
    """Compile and check the query for the engine, for each block. No row is read."""
    _own_version()  # what the statement needs must not be missing after the charge
    blocks = [with_any_limits(block) for block in query.computed]
    return [(block, own, prepare(block, own)) for block, own in zip(blocks, plan.blocks, strict=True)]


@cache
def _own_version() -> str:
    """The version of this package, for the statement."""
    return version("osgt")


def _title(query: AnyQuery) -> str:
    return "; ".join(f"{name}: {title_of(own)}" if name else title_of(own) for name, own in query.tables.items())


def estimate(
    query: AnyQuery,
    plan: AnyPlan,
    noisy: Sequence[Measured],
    presentation: Presentation,
    reservation: SharedReservation | None = None,
    sql: str = "",
) -> AnyRelease:
    """Make tables and their statement of what was measured with noise, block by block: post-processing alone."""
    tables, shared = {}, _shared_numbers(plan, noisy, presentation)
    for name, own in query.tables.items():
        measured, own_plan = noisy[plan.block_of[name]], plan.tables[name]
        left_out = _left_out(own, plan, plan.block_of[name], noisy)
        if left_out is not None and name:
            bounded = {str(column) for a in own.aggregates if (column := a.arguments().get("column")) is not None}
            left_out = left_out.of_columns(bounded, declared_columns(own))
        measured = replace(measured, left_out=left_out)
        table = noisy_table(own, own_plan, measured, presentation, shared.get(plan.block_of[name]))
        tables[name] = NoisyTable(table, own_plan, own, left_out)
    made = Made(
        nonnegative=presentation.nonnegative,
        intervals=presentation.intervals,
        marks=presentation.marks,
        corrects=presentation.corrects,
        date=datetime.datetime.now(datetime.UTC),
        version=_own_version(),
        reservation=None if reservation is None else str(reservation.sequence),
        entry_hash=None if reservation is None else reservation.entry_hash,
    )
    whole, own_statements = statements(tables, plan, made)
    releases = {
        name: Release(table.table, table.plan, table.query, table.left_out, own_statements[name], sql, reservation)
        for name, table in tables.items()
    }
    if isinstance(plan, PublicationPlan):
        return PublicationRelease(releases, plan, query, whole, reservation)
    return releases[""]


def _left_out(query: QuerySpec, plan: AnyPlan, block: int, noisy: Sequence[Measured]) -> LeftOut | None:
    """Gather what was left out of a table, also as far as it was measured beside tables with the same rows."""
    own, others = noisy[block].left_out, [i for places in plan.sets if block in places for i in places if i != block]
    told = [left_out for i in others if (left_out := noisy[i].left_out) is not None]
    asked = left_out_measures(query.groups, query.aggregates, declared_columns(query))
    return own if not told or asked is None else LeftOut.of_several(asked, own, told)


def _shared_numbers(plan: AnyPlan, noisy: Sequence[Measured], presentation: Presentation) -> dict[int, SharedNumbers]:
    """The numbers that blocks share with others, by the places of these."""
    result: dict[int, SharedNumbers] = {}
    for places in plan.sets:
        agreeing = plan.blocks[places[0]].shared
        assert agreeing is not None
        measured = tuple(noisy[i].noisy for i in places)
        result |= dict.fromkeys(places, SharedNumbers(agreeing[0].noise, measured, presentation.nonnegative))
    return result


@dataclass(frozen=True)
class Outcome:
    """A release whose files are in place, and what is left to do if the ledger could not be told."""

    release: AnyRelease
    files: tuple[Path, ...]
    left_to_do: str | None


class UnwrittenError(OsgtError):
    """The budget is spent and the tables are made, but their files could not be written: `__cause__` says why.

    `is_kept` says whether the tables are kept elsewhere; the message says where, and what to do.
    """

    def __init__(self, words: str, *, is_kept: bool) -> None:
        super().__init__(words)
        self.is_kept = is_kept


def rescue_unwritten(
    release: AnyRelease, what: str, reason: BaseException, *, out: Sequence[Path] = (), about: About | None = None
) -> UnwrittenError:
    """Keep finished tables that could not be written or shown, and say where. `out` is where they were to be."""
    why = "interrupted" if isinstance(reason, KeyboardInterrupt) else words_of(reason)
    stands = "" if release.reservation is None else " The charge to the ledger stands."
    tables = [*release.tables.values()]
    it, table = ("it", "table") if len(tables) == 1 else ("them", "tables")
    try:
        paths = keep(tables, about)
    except OSError as error:
        words = (
            f"Nothing was released: {what} ({why}), and the finished {table} could not be kept elsewhere "
            f"({words_of(error)}).{stands}"
        )
        return UnwrittenError(words, is_kept=False)
    places = [os.path.abspath(file) for file in out] or ["FILE"] * len(paths)
    options = [word for path, place in zip(paths, places, strict=True) for word in ("--kept", path, "--out", place)]
    how = (
        f"Move {it} to {'its' if len(tables) == 1 else 'their'} place"
        if release.reservation is None
        else f"To put {it} in place, run `{settle_command(release, *options)}`"
    )
    with_it = "with its statement, is" if len(tables) == 1 else "with their statement, are"
    shown = ", ".join(repr(str(path)) for path in paths)
    words = (
        f"The budget is spent, but {what}: {why}. The finished {table}, {with_it} kept in {shown}."
        f"{stands} {how}; do not release again."
    )
    return UnwrittenError(words, is_kept=True)


def keep(releases: Sequence[Release], about: About | None = None) -> list[Path]:
    """Write tables to new Parquet files with their statement that only their owner can read; OSError if nowhere.

    All go into the first of these that can be written: `osgt` in the user's folder for state (`XDG_STATE_HOME`, or
    `.local/state` in the home folder), and the folder for temporary files.
    """
    reason: Exception | None = None
    for folder in _folders():
        paths: list[Path] = []
        try:
            for release in releases:
                paths.append(_keep(release, about or About(), folder))
        except Exception as error:
            reason = error
            for path in paths:
                path.unlink(missing_ok=True)
        else:
            return paths
    assert reason is not None
    raise OSError(words_of(reason)) from reason


def _folders() -> Iterator[Path]:
    state = os.environ.get("XDG_STATE_HOME")
    yield (Path(state) if state else Path("~/.local/state").expanduser()) / "osgt"
    yield Path(tempfile.gettempdir())


def _keep(release: Release, about: About, folder: Path) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    entry = "" if release.reservation is None else f"{release.reservation.sequence}-"
    descriptor, name = tempfile.mkstemp(prefix=f"release-{entry}", suffix=".parquet", dir=folder)  # mode 0600
    path = Path(name)
    try:
        write_parquet(release.table, release.statement, about, path)
        os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)  # pyarrow may have done it
        raise
    finally:
        os.close(descriptor)
    return path


def close_data(query: Any) -> None:
    """Close the data of a query after its release."""
    with suppress(Exception):  # whatever it is, it says nothing about the release
        query.dataset.close()
