"""What all tests share: the same examples every time in CI, and a PostgreSQL server for those that ask for one."""

import gc
import json
import os
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import ways
from osgt.api import publish
from osgt.check import check
from osgt.facts.statement import statements
from osgt.noise.integer import IntegerDistribution
from stands import STANDS
from stands.spark import spark_session

# No test depends on how fast the machine is.
settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same every time", settings.get_profile("any speed"), derandomize=True)
settings.load_profile("same every time" if os.environ.get("CI") else "any speed")


#: Families of noise whose loss the checker can recompute.
FAMILIES = {"osgt", "rounded_gaussian"}

#: Fixtures that start a server, a cluster or a browser.
STARTED = {"postgres_url", "postgres_database", "postgres_tables", "spark", "spark_server", "chromium"}


def is_for_others(item):
    """Whether a slow engine leaves this case to the other engines: all but those that `on_slow_engines` lists."""
    marker = item.get_closest_marker("on_slow_engines")
    if marker is None or not STANDS[item.callspec.params["engine"]].slow:
        return False
    argument, cases = marker.args
    return item.callspec.params[argument] not in cases


def pytest_collection_modifyitems(items):
    """Mark what starts a server, a cluster or a browser, also by a parameter: `make check` leaves it out."""
    items[:] = [item for item in items if not is_for_others(item)]
    for item in items:
        if "spark" in item.fixturenames and "spark" not in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} needs `spark` in its name: else two workers start a JVM each")
        parameters = getattr(item, "callspec", None)
        named = [] if parameters is None else [value for value in parameters.params.values() if isinstance(value, str)]
        if STARTED & set(item.fixturenames) or any(name.startswith(("postgres", "spark")) for name in named):
            item.add_marker(pytest.mark.server)
    # The longest first, so that workers end at about the same time.
    items.sort(key=lambda item: item.get_closest_marker("server") is None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give workers whole files, and what has Spark in its name to one of them: fixtures are made once, and one JVM."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415 - only where there are workers

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "spark" if "spark" in nodeid else nodeid.partition("::")[0]

    config.option.loadscopereorder = False  # it would put first what has many tests, which are the quick ones
    return ByFile(config, log)


def pytest_collection_finish():
    """Leave the modules and the tests themselves, a million objects that stay, out of every garbage collection."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_unconfigure():
    """Let the interpreter clear them at its end: DuckDB prints a page about its objects that stay."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="session")
def state_of_the_tests(tmp_path_factory):
    """A folder for state of their own: charges leave files in the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True, scope="session")
def every_release_is_checked():
    """Recompute the promise of every release that a test makes, by the checker that shares no code with it."""
    with pytest.MonkeyPatch.context() as patch:

        def checked(*arguments):
            whole, own = statements(*arguments)
            for statement in {id(each): each for each in (whole, *own.values())}.values():
                plain = json.loads(json.dumps(statement.to_dict()))
                if FAMILIES.issuperset(re.findall(r'"family": "(\w+)"', json.dumps(plain))):
                    result = check(plain)
                    assert result.problems == [], result.problems
            return whole, own

        patch.setattr(publish, "statements", checked)
        yield


@pytest.fixture
def without_checker(monkeypatch):
    """Leave planted faults to others: the checker would see them first."""
    monkeypatch.setattr(publish, "statements", statements)


@pytest.fixture
def quiet_noise(monkeypatch):
    """Noise of a twentieth of what is planned and claimed: what is said about it is not left to chance."""
    sample = IntegerDistribution.sample

    def quiet(law, size=None):
        return np.trunc(np.asarray(sample(law, size)) / 20).astype(np.int64)[()]

    monkeypatch.setattr(IntegerDistribution, "sample", quiet)


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
