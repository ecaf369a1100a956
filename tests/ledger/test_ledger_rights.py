"""PostgreSQL: who may only charge tries to raise a budget, or to end it, with all that the server lets any user do."""

import hashlib
import json

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from typer.testing import CliRunner

from charges import laplace
from osgt import Ledger
from osgt.cli import app
from osgt.ledger import DamagedLedgerError, LedgerError
from osgt.ledger.store import schema

#: The functions as they were once made: with the search path of whoever made them, and names that it resolves.
OLD_FOLLOW = """
CREATE OR REPLACE FUNCTION osgt_entries_follow() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  head osgt_datasets%ROWTYPE;
  told json := NEW.content::json;
BEGIN
  SELECT * INTO head FROM osgt_datasets WHERE number = NEW.dataset;
  IF NEW.sequence IS DISTINCT FROM head.head_sequence + 1 OR NEW.previous_hash IS DISTINCT FROM head.head_hash
      OR NEW.hash <> encode(sha256(convert_to(NEW.previous_hash || chr(10) || NEW.content, 'UTF8')), 'hex')
      OR told->>'kind' IS DISTINCT FROM NEW.kind THEN
    RAISE EXCEPTION 'an entry of a ledger follows the last one';
  END IF;
  IF NEW.kind IN ('open', 'budget', 'tables', 'restore')
      AND NOT pg_has_role(session_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'MEMBER') THEN
    RAISE EXCEPTION 'permission denied: % may charge releases, but not open data sets or change budgets', session_user;
  END IF;
  RETURN NEW;
END $$
"""

PG_CLASS = "CREATE TEMP TABLE pg_class AS SELECT 'osgt_entries'::regclass::oid AS oid, 'ann'::regrole::oid AS relowner"

#: What an analyst does in the session in which the budget is to be raised.
ATTACKS = {
    "nothing": [],
    "a temporary pg_class": [PG_CLASS],
    "a temporary pg_class, first": [PG_CLASS, "SET search_path = pg_temp, public"],
    "a temporary function": [
        "CREATE FUNCTION pg_temp.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE FUNCTION pg_temp.pg_has_role(name, oid, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "SET search_path = pg_temp, public, pg_catalog",
    ],
    "functions in the schema of the ledger": [
        "CREATE FUNCTION public.pg_has_role(name, oid, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE FUNCTION public.pg_has_role(name, oid, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "SET search_path = public, pg_catalog",
    ],
    "operators in the schema of the ledger": [
        "CREATE FUNCTION public.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "CREATE FUNCTION public.no(text, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = text, FUNCTION = public.no)",
        "CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = public.no)",
        "SET search_path = public, pg_catalog",
    ],
    "a temporary type": ["CREATE DOMAIN pg_temp.json AS text", "SET search_path = pg_temp, public, pg_catalog"],
    "settings": [
        "SET standard_conforming_strings = off",
        "SET transform_null_equals = on",
        "SET check_function_bodies = off",
        "SET row_security = off",
        "SET constraint_exclusion = on",
    ],
}

#: What is refused by itself.
REFUSED = (
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "SET session_replication_role = replica",
    "ALTER TABLE osgt_entries DISABLE TRIGGER osgt_entries_follow",
    "CREATE TRIGGER mine BEFORE INSERT ON osgt_entries FOR EACH ROW EXECUTE FUNCTION osgt_entries_stay()",
    "CREATE RULE mine AS ON INSERT TO osgt_entries DO INSTEAD NOTHING",
    "CREATE TEMP TABLE mine () INHERITS (osgt_entries)",
    "CREATE OR REPLACE FUNCTION osgt_entries_follow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "ALTER FUNCTION osgt_entries_follow() RESET search_path",
    "ALTER FUNCTION osgt_entries_follow() SECURITY DEFINER",
    "CREATE CAST (text AS json) WITHOUT FUNCTION AS IMPLICIT",
)


@pytest.fixture
def opened(postgres_database):
    with Ledger(postgres_database) as ledger:
        ledger.open("flights", epsilon=3, delta=1e-6)
        yield ledger


@pytest.fixture
def ann(opened, postgres_database):
    """The URL of a user who may charge, and as on older servers make things in the schema public."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE ROLE ann LOGIN PASSWORD 'analyst'; GRANT CREATE ON SCHEMA public TO PUBLIC")
        connection.execute(Ledger.grants("ann"))
    yield f"postgresql://ann:analyst@{postgres_database.split('@')[1]}"
    opened.close()
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("DROP OWNED BY ann CASCADE; DROP ROLE ann")


def session(url, statements):
    """A ledger of which every connection begins with some statements."""
    ledger = Ledger(url)

    @sa.event.listens_for(ledger._database.engine(), "connect")
    def begin(connection, _record):
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.commit()

    return ledger


def entry(connection, **values):
    """The columns of one more entry of the first data set, whatever its content says."""
    sequence, previous, name = connection.execute(
        "SELECT head_sequence, head_hash, name FROM public.osgt_datasets"
    ).fetchone()
    plain = {
        "number": 1,
        "dataset": name,
        "sequence": sequence + 1,
        "kind": "note",
        "refers_to": None,
        "text": "",
        "time": "",
        "actor": "",
        "software": "",
        "session_user": "ann",
        **values,
    }
    content = json.dumps(plain)
    digest = hashlib.sha256(f"{previous}\n{content}".encode()).hexdigest()
    return 1, plain["sequence"], plain["kind"], plain["refers_to"], content, previous, digest


def insert(connection, columns, *, head=True):
    """Add an entry, and move the head."""
    connection.execute("INSERT INTO public.osgt_entries VALUES (%s, %s, %s, %s, %s, %s, %s)", columns)
    if head:
        moved = "UPDATE public.osgt_datasets SET head_sequence = %s, head_hash = %s WHERE number = 1"
        connection.execute(moved, (columns[1], columns[6]))


class TestRaising:
    @pytest.mark.parametrize("kind", ["budget", "tables", "restore"])
    @pytest.mark.parametrize("attack", ATTACKS)
    def test_what_only_the_owner_adds(self, opened, ann, attack, kind):
        with psycopg.connect(ann) as connection:
            for statement in ATTACKS[attack]:
                connection.execute(statement)
            with pytest.raises(psycopg.Error, match="permission denied: ann may charge releases, but not"):
                insert(connection, entry(connection, kind=kind))
        assert opened.spent("flights").budget_epsilon == 3
        assert opened.verify().ok

    def test_what_is_refused_by_itself(self, opened, ann):
        with psycopg.connect(ann, autocommit=True) as connection:
            for statement in REFUSED:
                with pytest.raises(psycopg.Error):
                    connection.execute(statement)
        assert opened.verify().ok

    def test_a_temporary_table_in_the_place_of_the_heads(self, opened, ann):
        with psycopg.connect(ann) as connection:
            connection.execute(
                "CREATE TEMP TABLE osgt_datasets AS SELECT number, name, 100 AS head_sequence, head_hash "
                "FROM public.osgt_datasets"
            )
            with pytest.raises(psycopg.Error, match="follows the last one"):
                insert(connection, entry(connection, sequence=101), head=False)
        assert opened.verify().ok

    def test_a_temporary_table_in_the_place_of_the_entries(self, opened, ann):
        with psycopg.connect(ann) as connection:
            connection.execute(
                "CREATE TEMP TABLE osgt_entries AS SELECT dataset, sequence + 1 AS sequence, 'x' AS hash "
                "FROM public.osgt_entries"
            )
            with pytest.raises(psycopg.Error, match="moves on to its next entry"):
                connection.execute("UPDATE public.osgt_datasets SET head_sequence = head_sequence + 1, head_hash = 'x'")
        assert opened.verify().ok


class TestVerify:
    def test_a_budget_that_was_raised_is_told_and_the_lines_mend_it(self, opened, ann, postgres_database):
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(OLD_FOLLOW)
        with session(ann, [PG_CLASS]) as ledger:
            ledger.change_budget("flights", epsilon=100, delta=1e-6, reason="more")
            found = ledger.verify()
        assert not found.ok
        assert [line.partition(" (")[0] for line in found.problems] == [
            "data set 'flights': entry 2",
            "the trigger osgt_entries_follow that keeps entries from being changed is missing or was altered",
        ]
        assert "made by 'ann', who is not the owner" in found.problems[0]
        told = CliRunner().invoke(app, ["ledger", "verify", postgres_database])
        assert (told.exit_code, told.stdout) == (1, found.mending)
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(told.stdout)
        assert len(opened.verify().problems) == 1
        with session(ann, [PG_CLASS]) as ledger, pytest.raises(LedgerError, match="permission denied"):
            ledger.change_budget("flights", epsilon=200, delta=1e-6, reason="more")
        opened.change_budget("flights", epsilon=3, delta=1e-6, reason="as it was")
        assert opened.verify().ok

    @pytest.mark.parametrize(
        "change",
        [
            "ALTER FUNCTION osgt_entries_follow() SET search_path = public",
            "ALTER FUNCTION osgt_entries_follow() RESET ALL",
            "ALTER FUNCTION osgt_entries_follow() SECURITY DEFINER",
            "ALTER FUNCTION osgt_entries_follow() OWNER TO ann",
            "ALTER TABLE osgt_entries DISABLE TRIGGER osgt_entries_follow",
            "ALTER TABLE osgt_entries ENABLE REPLICA TRIGGER osgt_entries_follow",
            "DROP TRIGGER osgt_entries_follow ON osgt_entries",
            "DROP TRIGGER osgt_entries_follow ON osgt_entries; CREATE TRIGGER osgt_entries_follow BEFORE INSERT ON "
            "osgt_entries FOR EACH ROW WHEN (false) EXECUTE FUNCTION osgt_entries_follow()",
            "DROP TRIGGER osgt_entries_follow ON osgt_entries; CREATE TRIGGER osgt_entries_follow BEFORE DELETE ON "
            "osgt_entries FOR EACH ROW EXECUTE FUNCTION osgt_entries_follow()",
            "DROP TRIGGER osgt_entries_follow ON osgt_entries; CREATE TRIGGER osgt_entries_follow BEFORE INSERT ON "
            "osgt_datasets FOR EACH ROW EXECUTE FUNCTION osgt_entries_follow()",
        ],
    )
    def test_a_trigger_that_is_not_as_it_was_made(self, opened, ann, postgres_database, change):
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(change)
            assert opened.verify().problems == (
                "the trigger osgt_entries_follow that keeps entries from being changed is missing or was altered",
            )
            connection.execute("ALTER FUNCTION osgt_entries_follow() OWNER TO postgres")
            connection.execute(opened.verify().mending)
        assert opened.verify().ok

    @pytest.mark.parametrize("name", ["plain", 'O\'Neil "x"', "with % and $osgt$ and \\ and @"])
    def test_a_ledger_in_a_schema_with_any_name(self, postgres_database, name):
        with psycopg.connect(postgres_database, autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
            path = sql.SQL("ALTER DATABASE {} SET search_path = {}")
            database = connection.info.dbname
            connection.execute(path.format(sql.Identifier(database), sql.Identifier(name)))
        with Ledger(postgres_database) as ledger:
            ledger.open("flights", epsilon=3, delta=1e-6)
            ledger.reserve("flights", laplace(0.1), query="q")
            assert ledger.verify().ok
            with psycopg.connect(postgres_database, autocommit=True) as connection:
                for trigger in schema._POSTGRESQL_TRIGGERS.items():
                    connection.execute(f"DROP TRIGGER {trigger[0]} ON {trigger[1].table}")
                assert len(ledger.verify().problems) == len(schema._POSTGRESQL_TRIGGERS)
                connection.execute(ledger.verify().mending)
            assert ledger.verify().ok


class TestEnding:
    """One INSERT that would end a data set is refused where the server can tell; the rest the owner declares void."""

    @pytest.mark.parametrize(
        "wrong",
        [
            {"kind": "what"},
            {"number": 2},
            {"number": "1"},
            {"sequence": "2"},
            {"sequence": 2.0},
            {"refers_to": "1"},
            {"dataset": "trains"},
            {"session_user": "postgres"},
        ],
        ids=str,
    )
    def test_columns_that_are_not_those_of_the_content(self, opened, ann, wrong):
        with psycopg.connect(ann) as connection:
            columns = entry(connection, **wrong)
            columns = (1, 2, *columns[2:3], None, *columns[4:])
            with pytest.raises(psycopg.Error, match=r"those of its content|names the user"):
                insert(connection, columns)
        assert opened.verify().ok

    def test_an_entry_without_the_head(self, opened, ann):
        with psycopg.connect(ann) as connection:
            for late in ("", "SET CONSTRAINTS ALL DEFERRED", "SET CONSTRAINTS ALL IMMEDIATE"):
                if late:
                    connection.execute(late)
                with pytest.raises(psycopg.Error, match="together with the head"):  # noqa: PT012
                    insert(connection, entry(connection), head=False)
                    connection.commit()
                connection.rollback()
        assert opened.verify().ok

    def test_an_entry_that_nobody_could_fetch(self, opened, ann):
        with psycopg.connect(ann) as connection, pytest.raises(psycopg.Error, match="at most 16777216 bytes"):
            insert(connection, entry(connection, text="x" * (1 << 24)))
        assert opened.verify().ok

    def test_only_the_owner_declares_entries_void(self, opened, ann):
        opened.reserve("flights", laplace(2.9), query="q")
        with Ledger(ann) as ledger:
            with pytest.raises(LedgerError, match="permission denied"):
                ledger.void("flights", [2], reason="more for me")
            opened.void("flights", [2], reason="nothing came of it")
            ledger.reserve("flights", laplace(2.9), query="q")
            assert ledger.verify().ok

    def test_what_a_charge_only_user_adds_is_void_on_the_word_of_the_owner(self, opened, ann):
        with psycopg.connect(ann) as connection:
            insert(connection, entry(connection, kind="charge"))
        with Ledger(ann) as ledger, pytest.raises(DamagedLedgerError, match="entry 2 cannot be read"):
            ledger.reserve("flights", laplace(0.1), query="q")
        opened.void("flights", [2], reason="it was ann")
        with Ledger(ann) as ledger:
            ledger.reserve("flights", laplace(0.1), query="q")
            assert ledger.verify().ok
