"""audit: evidence for or against a promise."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from osgt.auditing.result import Audit, Check

if TYPE_CHECKING:
    from osgt.tables.query import Query

Progress = Callable[[str, float], object]


def audit(
    target: Any,
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    real_rows: bool = True,
    measure_left_out: bool = False,
    progress: Progress = lambda what, done: None,
) -> Audit:
    """Evidence for or against the promise of a query, in an `Audit`: what was checked, and what was found.

    The query runs on neighbouring tables, which differ in one privacy unit, with the same salt and the same order of
    rows. Its exact numbers may differ by what the noise is made for; nothing else may differ at all. Nothing is
    released, and nothing is charged.

    Parameters
    ----------
    target
        The query.
    epsilon, delta
        The budget that it promises to keep.
    real_rows
        Whether rows of the data set are among those that are tried. Findings may then tell about them: they are for
        people who may see the data. Otherwise no row of it is read.
    measure_left_out
        As in the release that is audited.
    progress
        Called with what is being done and which part of it is done.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from osgt import Dataset
    >>> rides = pa.table({"user": [1, 1, 2], "city": ["Bern", "Rome", "Rome"]})
    >>> query = Dataset(rides, privacy_unit="user").group_by("city", max_groups=1).count_units()
    >>> audit(query, epsilon=1, delta=1e-6).passed
    True
    """
    started = time.perf_counter()
    if epsilon is None or delta is None:
        raise ValueError("epsilon and delta must be given: the promise that is audited")
    if not (hasattr(target, "plan") and hasattr(target, "release")):
        raise TypeError(f"target must be a query, got {type(target).__name__}")
    subject, checks = _of_query(target, epsilon, delta, real_rows, measure_left_out, progress)
    return Audit(subject, tuple(checks), time.perf_counter() - started)


def _of_query(
    query: "Query", epsilon: float, delta: float, real_rows: bool, measure_left_out: bool, progress: Progress
) -> tuple[str, list[Check]]:
    from osgt.auditing.replay import replay  # noqa: PLC0415 - the extra "tables"

    progress("planning", 0.0)
    plan = query.plan(epsilon, delta, measure_left_out=measure_left_out)
    title = ", ".join(aggregate.title for aggregate in query.aggregates)
    by = f" by {', '.join(query.groups.by)}" if query.groups.by else ""
    subject = f"{title}{by} at ε = {epsilon:.15g}, δ = {delta:.15g}"
    return subject, [replay(query, plan, real=real_rows, progress=progress)]
