"""The functions that see nothing but their arguments, on each engine.

Each letter stands for what an argument must be (`checks.ARGUMENTS`); behind ? it may be left out, * repeats the last.
Any function that is not here might look at the whole table, at a row's place in it, or at the world outside.
"""

from collections.abc import Mapping


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """From what names have in common to the names, the other way round."""
    return {name: common for common, listed in names.items() for name in listed.split()}


DUCKDB = by_name(
    {
        "n": "abs ceil ceiling floor sign sqrt cbrt ln log10 log2 exp isnan isinf isfinite",
        "n?N": "round trunc",
        "n?n": "log",
        "nn": "power pow mod",
        "==*": "greatest least coalesce",
        "==": "nullif ifnull",
        "b==": "if",
        "t": "lower upper lcase ucase length strlen char_length character_length reverse md5 ascii unicode ord",
        "t?t": "trim btrim ltrim rtrim",
        "tn": "left right",
        "tn?n": "substring substr",
        "tnn": "array_slice",
        "tt": "contains starts_with ends_with prefix suffix strpos instr position",
        "ttt": "replace translate",
        "aa*": "concat",
        "taa*": "concat_ws",
        "tNt": "lpad rpad",
        "tN": "repeat",
        "ttZ": "split_part",
        "tP?T": "regexp_matches regexp_full_match",
        "tPT?T": "regexp_replace",
        "tP?N": "regexp_extract",
        "d": "year quarter month week day hour minute second dayofweek isodow weekday dayofyear weekofyear isoyear "
        "last_day monthname dayname epoch",
        "Fd": "date_trunc date_part datepart datetrunc",
        "Fdd": "date_diff datediff date_sub datesub",
        "dT": "strftime",
        "tT": "strptime try_strptime",
        "nnn": "make_date",
        "nnnnnn": "make_timestamp",
        "": "now today",
    }
)

POSTGRES = by_name(
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

SPARK = by_name(
    {
        "n": "abs ceil ceiling floor sign signum sqrt cbrt ln log10 log2 exp isnan",
        "n?N": "round",
        "n?n": "log",
        "nn": "power pow mod",
        "==*": "greatest least coalesce",
        "==": "nullif ifnull nvl",
        "b==": "if",
        "a": "isnull isnotnull",
        "t": "lower upper lcase ucase initcap length char_length character_length trim ltrim rtrim reverse ascii md5 "
        "to_date to_timestamp try_to_timestamp",
        "t?t": "btrim",
        "tn": "left right",
        "tn?n": "substring substr",
        "tt": "contains startswith endswith instr locate position",
        "ttt": "replace translate",
        "aa*": "concat",
        "taa*": "concat_ws",
        "tN?t": "lpad rpad",
        "tN": "repeat",
        "tP": "regexp_like rlike regexp",
        "tPT": "regexp_replace",
        "tP?N": "regexp_extract",
        "d": "year quarter month day dayofmonth dayofweek weekday dayofyear weekofyear last_day",
        "s": "hour minute second",
        "Fd": "date_trunc",
        "dN": "date_add date_sub dateadd",
        "dd": "datediff date_diff",
        "dT": "date_format",
        "WWW": "make_date",
        "": "now",
    }
)
