"""Names in conditions on PostgreSQL: types and functions."""

from osgt.tables.conditions.names import by_name

#: By what a user may write.
TYPES = by_name(
    {
        "bool": "boolean bool",
        "int2": "smallint int2",
        "int4": "integer int int4",
        "int8": "bigint int8",
        "numeric": "numeric decimal",
        "float4": "real float4",
        "float8": "float8",
        "text": "text",
        "varchar": "varchar",
        "date": "date",
        "timestamp": "timestamp",
        "timestamptz": "timestamptz",
    }
) | {
    "double precision": "float8",
    "character varying": "varchar",
    "timestamp without time zone": "timestamp",
    "timestamp with time zone": "timestamptz",
}

#: Kinds of types, by their names in the catalogue.
KINDS = by_name(
    {
        "boolean": "bool",
        "integer": "int2 int4 int8",
        "decimal": "numeric",
        "float": "float4 float8",
        "text": "text varchar bpchar name",
        "date": "date",
        "timestamp": "timestamp timestamptz",
        "clock": "time",
        "interval": "interval",
        "uuid": "uuid",
    }
)

#: The functions that see nothing but their arguments.
FUNCTIONS = by_name(
    {
        "n": "abs ceil ceiling floor sign sqrt ln log log10 exp",
        "n?N": "round trunc",
        "nn": "mod",
        "==*": "greatest least coalesce",
        "==": "nullif",
        "t": "lower upper initcap length char_length character_length octet_length reverse md5 ascii",
        "t?t": "trim btrim ltrim rtrim",
        "tn": "left right",
        "tn?N": "substring substr",
        "tt": "starts_with strpos position",
        "ttt": "replace translate",
        "aa*": "concat",
        "taa*": "concat_ws",
        "tN?t": "lpad rpad",
        "tN": "repeat",
        "ttZ": "split_part",
        "tPT?T": "regexp_replace",
        "Fd": "date_trunc date_part",
        "dT": "to_char",
        "d": "date",
        "WWW": "make_date",
        "": "now",
    }
)
