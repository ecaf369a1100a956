"""Names that people know from other libraries: each is told the word here, and no message quotes data."""

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest

import osgt
from osgt import Dataset, Ledger, Publication
from osgt.query.file.aggregates import AGGREGATES
from osgt.support.errors import ASKING, KEPT, PACKAGE, RELEASED, SEVERAL

#: A number that must be in no message.
SECRET = 987654321


@pytest.fixture(scope="module")
def data():
    rows = {"person": [f"p{i}" for i in range(400)], "ward": ["a", "b"] * 200, "month": [1, 2, 3, 4] * 100}
    return Dataset(pa.table({**rows, "cost": [float(i % 50) for i in range(400)]}), privacy_unit="person")


@pytest.fixture(scope="module")
def query(data):
    return data.group_by("ward", max_rows=1, public_keys=["a", "b"]).count()


@pytest.fixture(scope="module")
def several(query, data):
    return Publication(by_ward=query, by_month=data.group_by("month", max_rows=1, public_keys=[1, 2, 3, 4]).count())


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    with Ledger(tmp_path_factory.mktemp("ledger") / "budget.db") as opened:
        opened.open("visits", epsilon=3, delta=1e-6, unit="person")
        yield opened


@pytest.fixture(scope="module")
def objects(data, query, several, ledger):
    budget = {"epsilon": 1, "delta": 1e-6}
    return {
        "data": data,
        "query": query,
        "open": data.group_by("ward", public_keys=["a", "b"]).count(),
        "several": several,
        "plan": query.plan(**budget),
        "plans": several.plan(**budget),
        "release": query.release(**budget),
        "releases": several.release(**budget),
        "ledger": ledger,
    }


NAMES = [
    ("data", "groupby", 'use group_by, as in data.group_by("department").count()'),
    ("data", "filter", 'use where, as in data.where("cost > 3 AND emergency")'),
    ("data", "agg", "ask for one after the other"),
    ("data", "aggregate", "ask for one after the other"),
    ("data", "avg", 'use mean, as in query.mean("cost", bounds=(0, 5000))'),
    ("data", "std", "use variance"),
    ("data", "nunique", "use count_units, which counts people"),
    ("data", "size", "use count, which counts rows with noise"),
    ("data", "value_counts", 'data.group_by("department").count()'),
    *(("data", name, "rows are private") for name in ("head", "to_frame", "df", "to_pandas", "iloc")),
    ("data", "columns", "print(data) lists the columns"),
    ("data", "release", "say first what is asked for"),
    ("data", "remaining", "ask the ledger: data.ledger.remaining(data.dataset)"),
    ("data", "cost", "write the name of a column in quotes, as in data.group_by('cost')"),
    ("data", "grup_by", "(did you mean 'group_by'?)"),
    ("query", "where", "choose the rows before the groups"),
    ("query", "group_by", "give all columns to one group_by"),
    ("query", "avg", "use mean"),
    ("query", "max", "would be the value of one person"),
    ("query", "to_csv", "release something"),
    ("query", "relaese", "(did you mean 'release'?)"),
    ("several", "count", "ask for it in a table"),
    ("several", "by_ward", "it is a table: publication['by_ward']"),
    ("plan", "cost", "use plan.charge"),
    ("plan", "epsilom", "(did you mean 'epsilon'?)"),
    ("plans", "intervals", "each column has its own"),
    ("release", "df", "use release.to_pandas()"),
    ("release", "count", "it is a column: release['count']"),
    ("release", "head", "release.to_pandas() is an ordinary frame"),
    ("release", "columns", "release.to_pandas() is an ordinary frame"),
    ("release", "mean", "ask for it in the query"),
    ("release", "pivot", 'use release.to_pandas(wide="month")'),
    ("release", "epsilon", "it is in release.plan"),
    ("release", "to_panda", "(did you mean 'to_pandas'?)"),
    ("releases", "to_pandas", "take one of the tables"),
    ("releases", "by_ward", "it is a table: release['by_ward']"),
    ("query", "join", 'join before the groups: data.join("wards.csv", on="ward_id")'),
    ("data", "select", "name columns where they are needed"),
    ("ledger", "show", "use print(ledger)"),
    ("ledger", "left", 'use ledger.remaining("visits")'),
    ("ledger", "remianing", "(did you mean 'remaining'?)"),
]


@pytest.mark.parametrize(("kind", "name", "message"), NAMES)
def test_an_attribute_that_there_is_not(objects, kind, name, message):
    with pytest.raises(AttributeError) as caught:
        getattr(objects[kind], name)
    assert message in str(caught.value)
    assert repr(name) in str(caught.value)
    assert not hasattr(objects[kind], name)


def test_no_advice_is_about_something_that_there_is(objects):
    """What an object has is not explained away; other kinds of objects may share the table."""
    assert not [name for name in ASKING if name in dir(objects["data"]) and name in dir(objects["query"])]
    assert not [name for name in RELEASED if name in dir(objects["release"])]
    assert not [name for name in KEPT if name in dir(objects["ledger"])]
    assert not [name for name in PACKAGE if name in dir(osgt)]
    assert not [name for name in SEVERAL if name in dir(objects["several"]) or name in dir(objects["releases"])]


@pytest.mark.parametrize("kind", ["data", "query", "several", "plan", "plans", "release", "releases", "ledger"])
def test_dir_shows_what_is_for_users(objects, kind):
    shown = dir(objects[kind])
    assert all(hasattr(objects[kind], name) and not name.startswith("_") for name in shown)
    assert not {"rows", "on", "asked", "planning", "renew", "with_aggregate", "identity", "blocks", "laws"} & set(shown)
    if kind in ("data", "query"):
        assert set(AGGREGATES) <= set(shown)
    if kind == "data":
        assert {"where", "derive", "join", "group_by", "sql"} <= set(shown)


def test_a_ledger_prints_its_budgets(ledger, tmp_path):
    assert [line.split()[0] for line in str(ledger).splitlines() if line] == ["Ledger", "Data", "visits"]
    assert "ε = 3, δ = 1e-06" in str(ledger)
    assert "there is no ledger at" in str(Ledger(tmp_path / "none.db"))
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("read_csv", 'use osgt.Dataset("visits.csv", privacy_unit="patient_id")'),
        ("sql", "use data.sql("),
        ("Datset", "(did you mean 'Dataset'?)"),
    ],
)
def test_a_name_that_the_package_has_not(name, message):
    with pytest.raises(AttributeError) as caught:
        getattr(osgt, name)
    assert message in str(caught.value)


def test_dir_of_the_package():
    assert dir(osgt) == sorted(osgt.__all__)


def test_a_property_that_fails_says_why(query):
    class Broken(type(query)):
        @property
        def open_limits(self):
            raise AttributeError("the reason")

    with pytest.raises(AttributeError, match="the reason"):
        _ = Broken(query.dataset, query.groups, query.aggregates).open_limits


ARGUMENTS = [
    ("query", "mean", ("cost",), {"lower": 0, "upper": 5}, "mean has no argument 'lower': write bounds=(0, 5)"),
    ("data", "mean", ("cost",), {"lower": 0, "upper": 5}, "write bounds=(0, 5)"),
    ("query", "sum", ("cost",), {"clip": (0, 5)}, "write bounds=("),
    ("query", "sum", ("cost",), {"bound": (0, 5)}, "write bounds=("),
    ("query", "mean", (), {}, "column must be given: the name of a column in quotes"),
    ("query", "count", ("cost",), {}, "count has too many arguments"),
    ("query", "quantile", ("cost",), {"q": 0.5}, "quantile has no argument 'q' (did you mean 'levels'?)"),
    ("query", "quantile", ("cost",), {}, "levels must be given: shares between 0 and 1"),
    ("query", "release", (1,), {}, "delta must be given"),
    ("query", "release", (), {}, "epsilon must be given"),
    ("query", "release", (), {"eps": 1, "delta": 0}, "release has no argument 'eps' (did you mean 'epsilon'?)"),
    ("query", "release", ("1", 1e-6), {}, "epsilon must be a finite number > 0, got '1' of type str"),
    ("query", "release", (1, "1e-6"), {}, "delta must be"),
    ("open", "plan", ("1", 1e-6), {}, "epsilon must be a finite number > 0, got '1' of type str"),
    ("several", "plan", ("1", 1e-6), {}, "epsilon must be a finite number > 0, got '1' of type str"),
    ("query", "plan", (1,), {}, "delta must be given"),
    ("query", "plan", (1, 1e-6), {"confidense": 0.9}, "(did you mean 'confidence'?)"),
    ("several", "release", (1,), {}, "delta must be given"),
    ("data", "group_by", ("ward",), {"max_partitions": 3}, "(did you mean 'max_groups'?)"),
    ("data", "group_by", ("ward",), {"keys": ["a"]}, "(did you mean 'public_keys'?)"),
    ("data", "group_by", ("wrd",), {}, "there is no column 'wrd' (did you mean 'ward'?)"),
    ("release", "write", (), {"output": "x.csv"}, "(did you mean 'out'?)"),
    ("release", "to_csv", (), {}, "path must be given"),
]


@pytest.mark.parametrize(("kind", "method", "given", "named", "message"), ARGUMENTS)
def test_arguments_that_there_are_not(objects, kind, method, given, named, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(objects[kind], method)(*given, **named)
    assert message in str(caught.value)


def test_arguments_of_a_data_set():
    rows = pa.table({"person": [1], "cost": [2.0]})
    with pytest.raises(TypeError, match="privacy_unit must be given: the column that names the person"):
        Dataset(rows)
    with pytest.raises(TypeError, match=r"no argument 'unit' \(did you mean 'privacy_unit'\?\)"):
        Dataset(rows, unit="person")


def test_a_data_set_is_there_and_has_no_length(data):
    assert data
    with pytest.raises(TypeError, match="the number of rows is private: count them with noise"):
        len(data)


def test_a_derived_column_has_a_name(data):
    with pytest.raises(TypeError, match=r'derive: give each column a name, as in data.derive\(month="month'):
        data.derive("cost * 2")


@pytest.mark.parametrize("several", [lambda q: (q, q), lambda q: ([q, q],), lambda q: (q,), lambda q: ((q,),)])
def test_tables_of_a_publication_have_names(query, several):
    with pytest.raises(TypeError, match=r"name the tables of a publication, as in Publication\(by_city=query_1"):
        Publication(*several(query))


def test_a_table_that_there_is_not(several, objects):
    for tables in (several, objects["releases"]):
        with pytest.raises(KeyError, match=r"there is no table 'by_wrd'.*did you mean 'by_ward'"):
            tables["by_wrd"]


def test_columns_in_a_list(data):
    assert data.group_by(["ward", "month"]).groups.by == ("ward", "month")
    assert data.group_by(("ward", "month")).groups.by == data.group_by("ward", "month").groups.by


HOLDING_DATA = [
    pd.Series([SECRET, 1]),
    pd.Series([SECRET, 1]) > 3,
    pd.DataFrame({"cost": [SECRET]}),
    polars.Series([SECRET]),
    polars.DataFrame({"cost": [SECRET]}),
    polars.lit(SECRET) > 3,
    np.array([SECRET]),
    np.array([str(SECRET)]),
    pa.array([SECRET]),
    pa.table({"cost": [SECRET]}),
    pa.scalar(SECRET),
]
CALLS = [
    lambda data, query, given: data.where(given),
    lambda data, query, given: data.derive(net=given),
    lambda data, query, given: data.derive({"net": given}),
    lambda data, query, given: data.group_by(given),
    lambda data, query, given: data.group_by([given]),
    lambda data, query, given: data.group_by("ward", max_rows=given),
    lambda data, query, given: data.group_by("ward", totals=given),
    lambda data, query, given: data.group_by("ward", public_keys={"ward": pd.DataFrame({"cost": [SECRET]})}),
    lambda data, query, given: data.mean(given),
    lambda data, query, given: query.mean(given, bounds=(0, 5)),
    lambda data, query, given: query.mean("cost", bounds=given),
    lambda data, query, given: query.mean("cost", bounds=(0, given)),
    lambda data, query, given: query.sum(given),
    lambda data, query, given: query.sum("cost", max_total=given),
    lambda data, query, given: query.count(name=given),
    lambda data, query, given: query.count(weight=given),
    lambda data, query, given: query.variance(given),
    lambda data, query, given: query.median(given, bounds=(0, 5)),
    lambda data, query, given: query.quantile("cost", given, bounds=(0, 5)),
    lambda data, query, given: query.histogram(given, edges=[0, 1]),
    lambda data, query, given: query.histogram("cost", edges=given),
    lambda data, query, given: query.proportion(given),
    lambda data, query, given: query.release(given, 1e-6),
    lambda data, query, given: query.plan(1, given),
    lambda data, query, given: Dataset(pa.table({"person": [1]}), privacy_unit=given),
    lambda data, query, given: Dataset(pa.table({"person": [1]}), "person", units=given),
    lambda data, query, given: Publication(by_ward=given),
    lambda data, query, given: Publication(given),
    lambda data, query, given: data[given],
]


@pytest.mark.parametrize("given", HOLDING_DATA, ids=lambda given: f"{type(given).__module__}.{type(given).__name__}")
@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
def test_data_in_place_of_an_argument_are_never_printed(data, query, call, given):
    with pytest.raises((TypeError, ValueError)) as caught:
        call(data, query, given)
    error = caught.value
    while error is not None:
        assert str(SECRET) not in str(error), error
        error = None if error.__suppress_context__ else error.__context__


def test_numbers_of_numpy_are_numbers(query):
    assert query.mean("cost", bounds=(np.float64(0), np.int64(5))).plan(np.float64(1), np.float64(1e-6)).epsilon == 1
