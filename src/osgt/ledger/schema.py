"""The tables of a ledger, and the triggers with which the database itself keeps them from being changed."""

import sqlalchemy as sa

from osgt.ledger.errors import LedgerError
from osgt.sampling.entropy import token

#: The form of the tables and of the entries in them.
VERSION = 1

metadata = sa.MetaData()

#: One row: the version, and a name of the ledger's own. Whoever opens a data set locks it: openings have an order.
schema = sa.Table(
    "osgt_schema",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("ledger", sa.Text, nullable=False),
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
)

#: What only the owner of the tables may add, where the database knows users (PostgreSQL).
OWNERS_KINDS = ("open", "budget", "tables", "restore")

_STAY = "entries of a ledger are never changed"
_FOLLOW = "an entry of a ledger follows the last one"
_HEAD = "the head of a data set only ever moves on to its next entry"

_SQLITE_GUARDS = {
    "osgt_entries_no_update": f"BEFORE UPDATE ON osgt_entries BEGIN SELECT RAISE(ABORT, '{_STAY}'); END",
    "osgt_entries_no_delete": f"BEFORE DELETE ON osgt_entries BEGIN SELECT RAISE(ABORT, '{_STAY}'); END",
    "osgt_entries_follow": (
        "BEFORE INSERT ON osgt_entries WHEN NOT EXISTS (SELECT 1 FROM osgt_datasets WHERE number = NEW.dataset AND "
        "head_sequence = NEW.sequence - 1 AND head_hash = NEW.previous_hash) "
        f"BEGIN SELECT RAISE(ABORT, '{_FOLLOW}'); END"
    ),
    "osgt_datasets_move_on": (
        "BEFORE UPDATE ON osgt_datasets WHEN NEW.number <> OLD.number OR NEW.name <> OLD.name OR NEW.head_sequence <> "
        "OLD.head_sequence + 1 OR NOT EXISTS (SELECT 1 FROM osgt_entries WHERE dataset = OLD.number AND "
        "sequence = NEW.head_sequence AND hash = NEW.head_hash) "
        f"BEGIN SELECT RAISE(ABORT, '{_HEAD}'); END"
    ),
    "osgt_datasets_no_delete": f"BEFORE DELETE ON osgt_datasets BEGIN SELECT RAISE(ABORT, '{_HEAD}'); END",
}

#: The bodies of functions; a trigger of each name calls the function before the name's act, for each row of its table.
_POSTGRESQL_BODIES = {
    "osgt_entries_stay": f" BEGIN RAISE EXCEPTION '{_STAY}'; END ",
    "osgt_entries_follow": f"""
DECLARE
  head osgt_datasets%ROWTYPE;
  told json := NEW.content::json;
BEGIN
  SELECT * INTO head FROM osgt_datasets WHERE number = NEW.dataset;
  IF NEW.sequence IS DISTINCT FROM head.head_sequence + 1 OR NEW.previous_hash IS DISTINCT FROM head.head_hash
      OR NEW.hash <> encode(sha256(convert_to(NEW.previous_hash || chr(10) || NEW.content, 'UTF8')), 'hex')
      OR told->>'kind' IS DISTINCT FROM NEW.kind THEN
    RAISE EXCEPTION '{_FOLLOW}';
  END IF;
  IF told->>'session_user' IS DISTINCT FROM session_user::text THEN
    RAISE EXCEPTION 'an entry of a ledger names the user who adds it';
  END IF;
  IF NEW.kind IN ({", ".join(f"'{kind}'" for kind in OWNERS_KINDS)})
      AND NOT pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'MEMBER') THEN
    RAISE EXCEPTION 'permission denied: % may charge releases, but not open data sets or change budgets', session_user;
  END IF;
  RETURN NEW;
END """,
    "osgt_datasets_move_on": f"""
BEGIN
  IF (NEW.number, NEW.name) IS DISTINCT FROM (OLD.number, OLD.name) OR NEW.head_sequence <> OLD.head_sequence + 1
      OR NOT EXISTS (SELECT FROM osgt_entries WHERE dataset = OLD.number AND sequence = NEW.head_sequence
                     AND hash = NEW.head_hash) THEN
    RAISE EXCEPTION '{_HEAD}';
  END IF;
  RETURN NEW;
END """,
    "osgt_datasets_stay": f" BEGIN RAISE EXCEPTION '{_HEAD}'; END ",
}

_POSTGRESQL_TRIGGERS = {
    "osgt_entries_no_change": (
        "BEFORE UPDATE OR DELETE ON osgt_entries FOR EACH ROW EXECUTE FUNCTION osgt_entries_stay()"
    ),
    "osgt_entries_no_truncation": (
        "BEFORE TRUNCATE ON osgt_entries FOR EACH STATEMENT EXECUTE FUNCTION osgt_entries_stay()"
    ),
    "osgt_entries_follow": "BEFORE INSERT ON osgt_entries FOR EACH ROW EXECUTE FUNCTION osgt_entries_follow()",
    "osgt_datasets_move_on": "BEFORE UPDATE ON osgt_datasets FOR EACH ROW EXECUTE FUNCTION osgt_datasets_move_on()",
    "osgt_datasets_no_delete": "BEFORE DELETE ON osgt_datasets FOR EACH ROW EXECUTE FUNCTION osgt_datasets_stay()",
    "osgt_datasets_no_truncation": (
        "BEFORE TRUNCATE ON osgt_datasets FOR EACH STATEMENT EXECUTE FUNCTION osgt_datasets_stay()"
    ),
}


def version_of(connection: sa.Connection, *, known_to_exist: bool = False) -> int:
    """The version of the ledger; 0 where there is none."""
    if not known_to_exist and not sa.inspect(connection).has_table(schema.name):
        return 0
    return int(connection.execute(sa.select(schema.c.version)).scalar_one())


def check(version: int, where: str) -> None:
    """Refuse what another version of this software wrote."""
    if version != VERSION:
        raise LedgerError(
            f"the ledger {where} has schema version {version}, and this version of osgt knows version {VERSION}: "
            f"{'a newer' if version > VERSION else 'an older'} osgt wrote it. Install that one; nothing was changed"
        )


def create(connection: sa.Connection) -> None:
    """Make the tables and their guards, inside the caller's transaction, unless another process was quicker."""
    if connection.dialect.name == "postgresql":
        # Two that meet in an empty database would both create the tables.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(6038274001)")
    if version_of(connection):
        return
    metadata.create_all(connection)
    connection.execute(schema.insert().values(id=1, version=VERSION, ledger=token(16)))
    if connection.dialect.name == "sqlite":
        for name, body in _SQLITE_GUARDS.items():
            connection.exec_driver_sql(f"CREATE TRIGGER {name} {body}")
        return
    for name, body in _POSTGRESQL_BODIES.items():
        # The tables are those of the schema that the ledger was made in, whatever a later user's search path says.
        head = f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS"
        connection.exec_driver_sql(f"{head} $${body}$$".replace("%", "%%"))
    for name, body in _POSTGRESQL_TRIGGERS.items():
        connection.exec_driver_sql(f"CREATE TRIGGER {name} {body}")


def missing_guards(connection: sa.Connection) -> list[str]:
    """The triggers that are not there, are switched off or do something else."""
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        found = {row[0]: row[1] for row in rows}
        return [name for name, body in _SQLITE_GUARDS.items() if found.get(name) != f"CREATE TRIGGER {name} {body}"]
    rows = connection.exec_driver_sql(
        "SELECT t.tgname, t.tgenabled, p.proname, p.prosrc FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        "WHERE t.tgrelid IN ('osgt_entries'::regclass, 'osgt_datasets'::regclass) AND NOT t.tgisinternal"
    )
    sound = {name for name, enabled, function, source in rows if enabled in ("O", "A") and _sound(function, source)}
    return [name for name in _POSTGRESQL_TRIGGERS if name not in sound]


def restore_guards(connection: sa.Connection) -> None:
    """Put back what `missing_guards` misses, in a file."""
    for name in missing_guards(connection):
        connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS {name}")
        connection.exec_driver_sql(f"CREATE TRIGGER {name} {_SQLITE_GUARDS[name]}")


def _sound(function: str, source: str) -> bool:
    return _POSTGRESQL_BODIES.get(function) == source


def grants(role: str, *, charge: bool) -> str:
    """The least that a user of a PostgreSQL server needs: to read, or to charge releases as well."""
    name = '"' + role.replace('"', '""') + '"'
    lines = [f"GRANT SELECT ON osgt_schema, osgt_datasets, osgt_entries TO {name};"]
    if charge:
        lines.append(f"GRANT INSERT ON osgt_entries TO {name};")
        lines.append(f"GRANT UPDATE (head_sequence, head_hash) ON osgt_datasets TO {name};")
    return "\n".join(lines)
