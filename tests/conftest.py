"""What all tests share: the same examples every time in CI, and a PostgreSQL server for those that ask for one."""

import os

import pytest
from hypothesis import settings

# No test depends on how fast the machine is.
settings.register_profile("any speed", deadline=None)
settings.register_profile("same every time", settings.get_profile("any speed"), derandomize=True)
settings.load_profile("same every time" if os.environ.get("CI") else "any speed")


@pytest.fixture(scope="session")
def postgres_url():
    """URL of a PostgreSQL server, started once for each worker; an error, not a skip, where there is none."""
    from postgres_server import postgres_server  # noqa: PLC0415 - most tests need neither the server nor its driver

    with postgres_server() as url:
        yield url


@pytest.fixture
def postgres_database(postgres_url):
    """URL of a new, empty database on that server."""
    from postgres_server import new_database  # noqa: PLC0415

    with new_database(postgres_url) as url:
        yield url
