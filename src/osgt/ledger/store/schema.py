"""The tables of a ledger, and the triggers with which the database itself keeps them from being changed."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

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

#: All that can be added.
KINDS = (*OWNERS_KINDS, "charge", "settle", "cancel", "note")

_STAY = "entries of a ledger are never changed"
_FOLLOW = "an entry of a ledger follows the last one"
_HEAD = "the head of a data set only ever moves on to its next entry"
_AGREE = "the columns of an entry of a ledger are those of its content, and its kind is known"
_WITH_HEAD = "an entry of a ledger is added together with the head of its data set"


def _quote(texts: tuple[str, ...]) -> str:
    return ", ".join(f"'{text}'" for text in texts)


def _abort(event: str, text: str) -> str:
    return f"BEFORE {event} BEGIN SELECT RAISE(ABORT, '{text}'); END"


_SQLITE_GUARDS = {
    "osgt_entries_no_update": _abort("UPDATE ON osgt_entries", _STAY),
    "osgt_entries_no_delete": _abort("DELETE ON osgt_entries", _STAY),
    "osgt_entries_follow": _abort(
        "INSERT ON osgt_entries WHEN NOT EXISTS (SELECT 1 FROM osgt_datasets WHERE number = NEW.dataset AND "
        "head_sequence = NEW.sequence - 1 AND head_hash = NEW.previous_hash)",
        _FOLLOW,
    ),
    "osgt_datasets_move_on": _abort(
        "UPDATE ON osgt_datasets WHEN NEW.number <> OLD.number OR NEW.name <> OLD.name OR NEW.head_sequence <> "
        "OLD.head_sequence + 1 OR NOT EXISTS (SELECT 1 FROM osgt_entries WHERE dataset = OLD.number AND "
        "sequence = NEW.head_sequence AND hash = NEW.head_hash)",
        _HEAD,
    ),
    "osgt_datasets_no_delete": _abort("DELETE ON osgt_datasets", _HEAD),
}

#: The longest content of an entry, in bytes: far more than a release needs, and what every client can still fetch.
_LONGEST = 1 << 24

#: The bodies of functions; a trigger of each name calls the function before the name's act, for each row of its table.
#: `@` is the schema of the tables, quoted. They see the names of pg_catalog alone: every other name is qualified.
_POSTGRESQL_BODIES = {
    "osgt_entries_stay": f" BEGIN RAISE EXCEPTION '{_STAY}'; END ",
    "osgt_entries_follow": f"""
DECLARE
  head @.osgt_datasets%ROWTYPE;
  told pg_catalog.json;
BEGIN
  IF pg_catalog.octet_length(NEW.content) > {_LONGEST} THEN
    RAISE EXCEPTION 'an entry of a ledger holds at most {_LONGEST} bytes';
  END IF;
  told := NEW.content::pg_catalog.json;
  SELECT * INTO head FROM @.osgt_datasets WHERE number = NEW.dataset;
  IF NEW.sequence IS DISTINCT FROM head.head_sequence + 1 OR NEW.previous_hash IS DISTINCT FROM head.head_hash
      OR NEW.hash IS DISTINCT FROM pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
        NEW.previous_hash || pg_catalog.chr(10) || NEW.content, 'UTF8')), 'hex') THEN
    RAISE EXCEPTION '{_FOLLOW}';
  END IF;
  IF told->>'kind' IS DISTINCT FROM NEW.kind OR told->>'dataset' IS DISTINCT FROM head.name
      OR (told->'number')::pg_catalog.text IS DISTINCT FROM NEW.dataset::pg_catalog.text
      OR (told->'sequence')::pg_catalog.text IS DISTINCT FROM NEW.sequence::pg_catalog.text
      OR (told->'refers_to')::pg_catalog.text IS DISTINCT FROM coalesce(NEW.refers_to::pg_catalog.text, 'null')
      OR NEW.kind NOT IN ({_quote(KINDS)}) THEN
    RAISE EXCEPTION '{_AGREE}';
  END IF;
  IF told->>'session_user' IS DISTINCT FROM session_user::pg_catalog.text THEN
    RAISE EXCEPTION 'an entry of a ledger names the user who adds it';
  END IF;
  IF NEW.kind IN ({_quote(OWNERS_KINDS)}) AND NOT pg_catalog.pg_has_role(
      session_user, (SELECT relowner FROM pg_catalog.pg_class WHERE oid = TG_RELID), 'MEMBER') THEN
    RAISE EXCEPTION 'permission denied: % may charge releases, but not open data sets or change budgets', session_user;
  END IF;
  RETURN NEW;
END """,
    "osgt_entries_end": f"""
BEGIN
  IF NOT EXISTS (SELECT FROM @.osgt_datasets WHERE number = NEW.dataset AND head_sequence >= NEW.sequence) THEN
    RAISE EXCEPTION '{_WITH_HEAD}';
  END IF;
  RETURN NULL;
END """,
    "osgt_datasets_move_on": f"""
BEGIN
  IF (NEW.number, NEW.name) IS DISTINCT FROM (OLD.number, OLD.name)
      OR NEW.head_sequence IS DISTINCT FROM OLD.head_sequence + 1
      OR NOT EXISTS (SELECT FROM @.osgt_entries WHERE dataset = OLD.number AND sequence = NEW.head_sequence
                     AND hash = NEW.head_hash) THEN
    RAISE EXCEPTION '{_HEAD}';
  END IF;
  RETURN NEW;
END """,
    "osgt_datasets_stay": f" BEGIN RAISE EXCEPTION '{_HEAD}'; END ",
}

#: What the functions see, whoever calls them. A temporary table comes last, and functions and operators never from one.
_SEARCH_PATH = "pg_catalog, pg_temp"


#: The bits by which the catalogue stores when a trigger is called: pg_trigger.tgtype.
_BITS = {"ROW": 1, "BEFORE": 2, "INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}


@dataclass(frozen=True)
class _Trigger:
    """A trigger on a PostgreSQL server, for each row or for each statement. Deferred ones are called at the end."""

    when: str
    table: str
    function: str
    each: str = "ROW"
    deferred: bool = False

    @property
    def kind(self) -> int:
        """The event, as the catalogue stores it."""
        return sum(_BITS.get(word, 0) for word in (*self.when.split(), self.each))

    def statement(self, name: str, place: str) -> str:
        """The statement that makes it."""
        how = "CREATE CONSTRAINT TRIGGER" if self.deferred else "CREATE TRIGGER"
        late = " DEFERRABLE INITIALLY DEFERRED" if self.deferred else ""
        return (
            f"{how} {name} {self.when} ON {place}.{self.table}{late} FOR EACH {self.each} "
            f"EXECUTE FUNCTION {place}.{self.function}()"
        )


_POSTGRESQL_TRIGGERS = {
    "osgt_entries_no_change": _Trigger("BEFORE UPDATE OR DELETE", "osgt_entries", "osgt_entries_stay"),
    "osgt_entries_no_truncation": _Trigger("BEFORE TRUNCATE", "osgt_entries", "osgt_entries_stay", "STATEMENT"),
    "osgt_entries_follow": _Trigger("BEFORE INSERT", "osgt_entries", "osgt_entries_follow"),
    "osgt_entries_end": _Trigger("AFTER INSERT", "osgt_entries", "osgt_entries_end", deferred=True),
    "osgt_datasets_move_on": _Trigger("BEFORE UPDATE", "osgt_datasets", "osgt_datasets_move_on"),
    "osgt_datasets_no_delete": _Trigger("BEFORE DELETE", "osgt_datasets", "osgt_datasets_stay"),
    "osgt_datasets_no_truncation": _Trigger("BEFORE TRUNCATE", "osgt_datasets", "osgt_datasets_stay", "STATEMENT"),
}


def create(connection: sa.Connection) -> None:
    """Make the tables and their guards, inside the caller's transaction, unless another process was quicker."""
    if connection.dialect.name == "postgresql":
        # Two that meet in an empty database would both create the tables.
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(6038274001)")
    if sa.inspect(connection).has_table(schema.name):
        return
    metadata.create_all(connection)
    connection.execute(schema.insert().values(id=1, version=VERSION, ledger=token(16)))
    restore_guards(connection)


def missing_guards(connection: sa.Connection) -> list[str]:
    """The triggers that are not there, are switched off or do something else."""
    expected: dict[str, Any]
    if connection.dialect.name == "sqlite":
        rows = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        expected = {name: (_sqlite_statement(name),) for name in _SQLITE_GUARDS}
    else:
        place = _schema_of(connection)
        rows = connection.exec_driver_sql(_CATALOGUE)
        expected = {name: _as_stored(trigger, place) for name, trigger in _POSTGRESQL_TRIGGERS.items()}
    stored = {row[0]: tuple(row[1:]) for row in rows}
    return [name for name, guard in expected.items() if stored.get(name) != guard]


def restore_guards(connection: sa.Connection) -> None:
    """Put back what `missing_guards` misses."""
    for statement in _guard_statements(connection, missing_guards(connection)):
        connection.exec_driver_sql(statement.replace("%", "%%"))


def mending(connection: sa.Connection, missing: list[str]) -> str:
    """The SQL with which the owner of the tables puts back what `missing_guards` misses; nothing if all is there."""
    lines = ("BEGIN", *_guard_statements(connection, missing), "COMMIT") if missing else ()
    return "".join(f"{line};\n" for line in lines)


def _guard_statements(connection: sa.Connection, names: list[str]) -> list[str]:
    """The statements that make these triggers, and the functions that they call, in the place of what is there."""
    if connection.dialect.name == "sqlite":
        return [line for name in names for line in (f"DROP TRIGGER IF EXISTS {name}", _sqlite_statement(name))]
    place = _schema_of(connection)
    triggers = {name: _POSTGRESQL_TRIGGERS[name] for name in names}
    lines = [f"DROP TRIGGER IF EXISTS {name} ON {place}.{trigger.table}" for name, trigger in triggers.items()]
    for name in dict.fromkeys(trigger.function for trigger in triggers.values()):
        body, mark = _POSTGRESQL_BODIES[name].replace("@", place), "$osgt$"
        while mark in body:  # in the name of the schema
            mark = f"{mark[:-1]}_$"
        head = f"CREATE OR REPLACE FUNCTION {place}.{name}() RETURNS trigger LANGUAGE plpgsql"
        lines.append(f"{head} SET search_path = {_SEARCH_PATH} AS {mark}{body}{mark}")
    return [*lines, *(trigger.statement(name, place) for name, trigger in triggers.items())]


def _sqlite_statement(name: str) -> str:
    return f"CREATE TRIGGER {name} {_SQLITE_GUARDS[name]}"


def owners(connection: sa.Connection) -> frozenset[str] | None:
    """The users of the server that count as the owner of the tables; None where the database knows no users."""
    if connection.dialect.name == "sqlite":
        return None
    rows = connection.exec_driver_sql(
        "SELECT r.rolname FROM pg_catalog.pg_roles r, pg_catalog.pg_class c "
        "WHERE c.oid = 'osgt_entries'::regclass AND pg_catalog.pg_has_role(r.oid, c.relowner, 'MEMBER')"
    )
    return frozenset(str(name) for (name,) in rows)


#: Triggers with all that decides what they do. A function that somebody else owns could be replaced at any time.
_CATALOGUE = """
SELECT t.tgname, c.relname, t.tgtype, t.tgdeferrable AND t.tginitdeferred AND t.tgconstraint <> 0,
  t.tgenabled IN ('O', 'A') AND t.tgqual IS NULL AND t.tgnargs = 0 AND t.tgattr = '', p.proname, p.prosrc,
  p.proconfig, l.lanname, p.prosecdef, p.proowner = c.relowner AND p.pronamespace = c.relnamespace
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid
JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE t.tgrelid IN ('osgt_entries'::regclass, 'osgt_datasets'::regclass) AND NOT t.tgisinternal
"""


def _as_stored(trigger: _Trigger, place: str) -> tuple[object, ...]:
    """The row of `_CATALOGUE` of a trigger that is as it was made."""
    body = _POSTGRESQL_BODIES[trigger.function].replace("@", place)
    settings = [f"search_path={_SEARCH_PATH}"]
    called = trigger.table, trigger.kind, trigger.deferred, True
    return (*called, trigger.function, body, settings, "plpgsql", False, True)


def _schema_of(connection: sa.Connection) -> str:
    """The schema of the tables on a PostgreSQL server, quoted."""
    return str(
        connection.exec_driver_sql(
            "SELECT pg_catalog.quote_ident(n.nspname) FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = 'osgt_entries'::regclass"
        ).scalar_one()
    )


def grants(role: str, *, charge: bool) -> str:
    """The least that a user of a PostgreSQL server needs: to read, or to charge releases as well."""
    name = '"' + role.replace('"', '""') + '"'
    lines = [f"GRANT SELECT ON osgt_schema, osgt_datasets, osgt_entries TO {name};"]
    if charge:
        lines.append(f"GRANT INSERT ON osgt_entries TO {name};")
        lines.append(f"GRANT UPDATE (head_sequence, head_hash) ON osgt_datasets TO {name};")
    return "\n".join(lines)
