"""No password is shown, however a location was typed."""

import pytest

from osgt import Dataset, Ledger
from osgt.support.locations import holds_secret, shown, without_secrets

SECRET = "s3cret"

#: Locations that hold a password, right and mistyped, and how they are shown.
HIDDEN = {
    f"postgresql://ann:{SECRET}@localhost:1/town": "postgresql://localhost:1/town",
    f"postgres+psycopg://ann:{SECRET}@localhost:1/town": "postgres+psycopg://localhost:1/town",
    f"jdbc:postgresql://localhost:1/town?user=ann&password={SECRET}": "jdbc:postgresql://localhost:1/town",
    f"jdbc:sqlserver://localhost:1;user=ann;password={SECRET}": "jdbc:sqlserver://localhost:1",
    f"jdbc:postgresql://localhost:1/town?password=a@{SECRET}": "jdbc:postgresql://…",
    f"postgresql:///town?host=/nowhere&password={SECRET}": "postgresql:///town",
    f"postgresql:/ann:{SECRET}@localhost:1/town": "postgresql:/localhost:1/town",
    f"postgresql:ann:{SECRET}@localhost:1/town": "postgresql:localhost:1/town",
    f"postgresql//ann:{SECRET}@localhost:1/town": "…",
    f"ann:{SECRET}@localhost:1/town.db": "ann:localhost:1/town.db",
    f"postgresql://ann:{SECRET}/town": "postgresql://…",
    f"postgresql://ann:{SECRET}@localhost:port/town": "postgresql://…",
    f"postgresql://ann:{SECRET}@[bad/town": "postgresql://…",
    f"postgresql://ann:a@b/{SECRET}@localhost:1/town": "postgresql://localhost:1/town",
    f"postgresql://ann:a?{SECRET}@localhost:1/town": "postgresql://…",
    f"postgresql://ann:a#{SECRET}@localhost:1/town": "postgresql://…",
    f"postgresql://ann:%zz{SECRET}@localhost:1/town": "postgresql://localhost:1/town",
    f"postgresql://localhost:1/town&password={SECRET}": "postgresql://…",
    f"host=localhost port=1 user=ann password={SECRET}": "…",
    f"host=localhost port=1 user=ann password='{SECRET}' dbname=town": "…",
}

SHOWN = [
    "people.parquet", "/data/town/people 2024.csv", "C:\\data\\ann@home\\people.csv", "ann@home/people.csv",
    "/data/user=1/people.parquet", "sqlite:////data/budget.db", "s3a://bucket/people/*.parquet",
    "postgresql://localhost/town", "postgresql://[::1]:5432/town", "postgresql://a:1,b:2/town",
]  # fmt: skip


@pytest.mark.parametrize("location", HIDDEN)
def test_passwords_are_hidden(location):
    assert shown(location) == HIDDEN[location]
    assert SECRET not in shown(location)
    assert holds_secret(location)


@pytest.mark.parametrize("location", SHOWN)
def test_what_holds_no_password_is_shown(location):
    assert shown(location) == location
    assert not holds_secret(location)


@pytest.mark.parametrize("location", HIDDEN)
@pytest.mark.parametrize("options", [{}, {"engine": "postgres"}], ids=["", "postgres"])
def test_no_password_in_the_errors_of_a_source(location, options):
    with pytest.raises((ValueError, OSError)) as caught:
        Dataset(location, "person", table="people", **options)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("location", HIDDEN)
def test_no_password_in_the_errors_of_a_ledger(location):
    with pytest.raises((ValueError, OSError)) as caught:
        Ledger(location).spent("town")
    assert SECRET not in str(caught.value)


def test_drivers_that_quote_a_part():
    location = "postgresql://ann:p%40ss%zz@localhost/town"
    for said in ('invalid percent-encoded token: "p%40ss%zz"', "no user p@ss%zz", f'bad "{location}"'):
        message = without_secrets(said, location)
        assert "ss%zz" not in message, message
