"""The engines, each started once for a test worker."""

import pytest
import ways
from stands import STANDS
from stands.spark import spark_session


@pytest.fixture(scope="session")
def spark():
    session = spark_session()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def postgres_tables(postgres_url):
    """URL of a database whose tables no test shares."""
    from postgres_server import new_database  # noqa: PLC0415

    with new_database(postgres_url) as url:
        yield url


@pytest.fixture(scope="session")
def engine_of(request):
    """Engines by name, started when first asked for."""
    started = {}

    def find(name):
        if name not in started:
            started[name] = STANDS[name](request)
        return started[name]

    yield find
    for engine in started.values():
        engine.close()


@pytest.fixture(scope="session", params=STANDS)
def engine(request, engine_of):
    """Every engine that is registered."""
    return engine_of(request.param)


@pytest.fixture(params=ways.SOURCES)
def source(request, tmp_path):
    """Every way to hand data over: a function from an Arrow table to what `Dataset` takes and its other arguments."""
    name = request.param
    session = request.getfixturevalue("spark") if name.startswith("spark") else None
    postgres = request.getfixturevalue("postgres_tables") if name.startswith("postgres") else None
    return lambda table: ways.source(name, table, tmp_path, session, postgres)
