"""Whether the engine's functions are its own: a user's function of the same name could do anything.

Conditions are written with full names where the engine has them. The rest of a release's query is written by Ibis with
bare names, so these must mean what they say.
"""

import re
from typing import Any

#: What may be the name of a function in a query.
_CALLED = re.compile(r'"?([A-Za-z_]\w*)"?\s*\(')

#: Operators that release queries use; % is left out, which extensions have for text.
_OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||"]
_OPERATORS += [f"{no}{like}{case}" for no in ("", "!") for like in ("~", "~~") for case in ("", "*")]


def check_functions(backend: Any, sql: str) -> None:
    """Raise if a function or operator in this query might be another than the engine's own."""
    own = _OWN[backend.name](backend, sorted({name.lower() for name in _CALLED.findall(sql)}))
    if own:
        raise ValueError(
            f"the database has a function, operator or cast of its own in place of a built-in one: {', '.join(own)}; "
            "drop it, or use a connection that does not see it"
        )


def _duckdb(backend: Any, names: list[str]) -> list[str]:
    # Macros among the built-in functions use others, so no name of theirs may be taken.
    functions = "SELECT DISTINCT function_name FROM system.main.duckdb_functions() WHERE"
    if not backend.con.execute(f"{functions} NOT internal").fetchall():
        return []
    both = f"{functions} NOT internal INTERSECT {functions} internal ORDER BY 1"
    return [name for (name,) in backend.con.execute(both).fetchall()]


def _postgres(backend: Any, names: list[str]) -> list[str]:
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
    with backend.con.transaction(), backend.con.cursor() as cursor:
        found = cursor.execute(query, {"names": names, "operators": _OPERATORS}).fetchall()
    return [name for (name,) in found]


def _spark(backend: Any, names: list[str]) -> list[str]:
    own = []
    known = {row[0] for row in backend._session.sql("SHOW FUNCTIONS").collect()}
    for name in known.intersection(names):
        lines = [row[0] for row in backend._session.sql(f"DESCRIBE FUNCTION `{name}`").collect()]
        classes = [line.removeprefix("Class: ") for line in lines if line.startswith("Class: ")]
        if classes and not classes[0].startswith("org.apache.spark.sql.catalyst.expressions."):
            own.append(name)
    return sorted(own)


_OWN = {"duckdb": _duckdb, "postgres": _postgres, "pyspark": _spark}
