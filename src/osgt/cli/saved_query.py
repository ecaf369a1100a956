"""`--save-query`: all that was asked for, as a query file that can be reviewed and repeated."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from osgt.cli.shared import command_target
from osgt.files import written
from osgt.locations import holds_secret

if TYPE_CHECKING:
    from osgt.tables.query_file import QueryFile


@contextmanager
def saved(file: "QueryFile", path: Path | None, *, apart: list[str], overwrite: bool) -> Iterator[None]:
    """Write the query file once what happens inside has succeeded; that it can be written is checked before."""
    if path is None:
        yield
        return
    for key, location in (("source", file.data.source), ("ledger", file.data.ledger)):
        if location is not None and holds_secret(location):
            raise ValueError(
                f"--save-query would write the user and password of the {key} into the file: leave them out of the "
                "URL and set PGUSER and PGPASSWORD, or use ~/.pgpass"
            )
    from osgt.tables.file_text import query_file_text  # noqa: PLC0415 - the extra "tables"

    target = command_target("--save-query", path, overwrite=overwrite, suffixes=(".toml",), apart=apart)
    with written(target) as place:
        place.write_text(query_file_text(file.given(), path.parent), encoding="utf-8")
        yield
