"""The tables of a ledger, and the steps that bring an older ledger to the present form."""

from collections.abc import Callable

import sqlalchemy as sa

from osgt.ledger.errors import LedgerError

metadata = sa.MetaData()

#: One row: the version of the schema. Whoever opens a data set locks it, so that openings have an order.
schema = sa.Table(
    "osgt_schema", metadata, sa.Column("id", sa.Integer, primary_key=True), sa.Column("version", sa.Integer)
)

#: A data set and the end of its chain. Whoever charges it locks its row here.
datasets = sa.Table(
    "osgt_datasets",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("head_sequence", sa.Integer, nullable=False),
    sa.Column("head_hash", sa.Text, nullable=False),
)

#: What happened, for ever. `content` is the row; kind and refers_to repeat what is in it, for searching.
entries = sa.Table(
    "osgt_entries",
    metadata,
    sa.Column("dataset", sa.Integer, sa.ForeignKey("osgt_datasets.number"), primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("refers_to", sa.Integer, nullable=True),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("previous_hash", sa.Text, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Index("osgt_entries_refers_to", "dataset", "refers_to"),
)

#: The composed state after some entry: a cache. It can be thrown away at any time.
states = sa.Table(
    "osgt_states",
    metadata,
    sa.Column("dataset", sa.Integer, sa.ForeignKey("osgt_datasets.number"), primary_key=True, autoincrement=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("hash", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
)

_SQLITE_GUARDS = [
    f"CREATE TRIGGER osgt_entries_no_{act} BEFORE {act} ON osgt_entries "
    "BEGIN SELECT RAISE(ABORT, 'entries of a ledger are never changed'); END"
    for act in ("UPDATE", "DELETE")
]
_POSTGRESQL_GUARDS = [
    "CREATE FUNCTION osgt_entries_stay() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'entries of a ledger are never changed'; END $$",
    "CREATE TRIGGER osgt_entries_no_change BEFORE UPDATE OR DELETE ON osgt_entries "
    "FOR EACH ROW EXECUTE FUNCTION osgt_entries_stay()",
    "CREATE TRIGGER osgt_entries_no_truncation BEFORE TRUNCATE ON osgt_entries "
    "FOR EACH STATEMENT EXECUTE FUNCTION osgt_entries_stay()",
]


def _create_tables(connection: sa.Connection) -> None:
    metadata.create_all(connection)
    connection.execute(schema.insert().values(id=1, version=0))


def _guard_entries(connection: sa.Connection) -> None:
    """Let the database itself refuse to change or delete an entry, as a fence against accidents."""
    guards = _SQLITE_GUARDS if connection.dialect.name == "sqlite" else _POSTGRESQL_GUARDS
    for statement in guards:
        connection.exec_driver_sql(statement)


#: The step from version i to version i + 1 stands at i. Steps that users may have run are never changed.
STEPS: tuple[Callable[[sa.Connection], None], ...] = (_create_tables, _guard_entries)


def version_of(connection: sa.Connection, *, known_to_exist: bool = False) -> int:
    """The schema's version; 0 where there is no ledger yet."""
    if not known_to_exist and not sa.inspect(connection).has_table(schema.name):
        return 0
    return int(connection.execute(sa.select(schema.c.version)).scalar_one())


def check(version: int, where: str) -> None:
    """Refuse what a later version of this software wrote."""
    if version > len(STEPS):
        raise LedgerError(
            f"the ledger {where} has schema version {version}, and this version of osgt knows versions up to "
            f"{len(STEPS)}: a newer osgt wrote it. Install that or a later one; nothing was changed"
        )


def migrate(connection: sa.Connection, where: str) -> None:
    """Bring the ledger to the present version, inside the caller's transaction."""
    if connection.dialect.name == "postgresql":
        # Two that meet in an empty database would both create the tables.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(6038274001)")
    version = version_of(connection)
    check(version, where)
    for step in STEPS[version:]:
        step(connection)
    connection.execute(schema.update().values(version=len(STEPS)))
