"""PostgreSQL's catalogue: what a user has made in place of what is built in."""

from typing import Any

#: Operators that release queries use; % is left out, which extensions have for text.
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||"]
_OPERATORS += [f"{no}{like}{case}" for no in ("", "!") for like in ("~", "~~") for case in ("", "*")]


def replaced(connection: Any, names: list[str]) -> list[str]:
    """The functions, operators and casts in place of built-in ones, of those that have these names."""
    # Objects with numbers from 16384 on were made after the database was. What an extension does for its own types is
    # its affair; but anybody can make text(mood) for an enumeration, or = for a domain.
    query = """
        WITH extended AS (SELECT classid, objid FROM pg_catalog.pg_depend WHERE deptype = 'e')
        SELECT proname::pg_catalog.text FROM pg_catalog.pg_proc
        WHERE oid >= 16384 AND proname = ANY (%(names)s) AND NOT (EXISTS (
            SELECT 1 FROM pg_catalog.unnest(proargtypes) AS argument(type) WHERE argument.type >= 16384
        ) AND EXISTS (
            SELECT 1 FROM extended WHERE objid = oid AND classid = 'pg_catalog.pg_proc'::pg_catalog.regclass
        )) AND pronamespace IN (
            SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY (pg_catalog.current_schemas(true))
        ) AND EXISTS (
            SELECT 1 FROM pg_catalog.pg_proc AS other WHERE other.oid < 16384 AND other.proname = pg_proc.proname
        )
        UNION SELECT oprname::pg_catalog.text FROM pg_catalog.pg_operator
        WHERE oid >= 16384 AND oprname = ANY (%(operators)s) AND NOT (
            (oprleft >= 16384 OR oprright >= 16384) AND EXISTS (
            SELECT 1 FROM extended WHERE objid = oid AND classid = 'pg_catalog.pg_operator'::pg_catalog.regclass
        )) AND oprnamespace IN (
            SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = ANY (pg_catalog.current_schemas(true))
        )
        UNION SELECT pg_catalog.format_type(castsource, NULL) || ' AS ' || pg_catalog.format_type(casttarget, NULL)
        FROM pg_catalog.pg_cast WHERE oid >= 16384 AND (castsource < 16384 AND casttarget < 16384 OR (
            castmethod = 'f' AND (castsource < 16384 OR casttarget < 16384) AND NOT EXISTS (
            SELECT 1 FROM extended WHERE objid = oid AND classid = 'pg_catalog.pg_cast'::pg_catalog.regclass
        )))
        ORDER BY 1
    """
    with connection.transaction(), connection.cursor() as cursor:
        found = cursor.execute(query, {"names": names, "operators": _OPERATORS}).fetchall()
    return [name for (name,) in found]
