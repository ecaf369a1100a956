"""The engines, each started once for a test worker."""

import engines
import pytest


@pytest.fixture(scope="session")
def spark():
    session = engines.spark_session()
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
            if name == "duckdb":
                started[name] = engines.duckdb_engine()
            elif name == "spark":
                started[name] = engines.spark_engine(request.getfixturevalue("spark"))
            else:
                started[name] = engines.postgres_engine(request.getfixturevalue("postgres_tables"))
        return started[name]

    yield find
    for engine in started.values():
        engine.close()


@pytest.fixture(scope="session", params=engines.QUERY_ENGINES)
def engine(request, engine_of):
    """Every engine that runs queries."""
    return engine_of(request.param)


@pytest.fixture(params=engines.SOURCES)
def source(request, tmp_path):
    """Every way to hand data over: a function from an Arrow table to what `Dataset` takes and its other arguments."""
    name = request.param
    session = request.getfixturevalue("spark") if name.startswith("spark") else None
    postgres = request.getfixturevalue("postgres_tables") if name.startswith("postgres") else None
    return lambda table: engines.source(name, table, tmp_path, session, postgres)
