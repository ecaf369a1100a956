"""Fixtures for the distributions."""

import signal
from contextlib import contextmanager

import pytest


@pytest.fixture
def time_limit():
    """Turn a computation that does not end into a failure: `with time_limit(seconds): …`, of this process alone."""

    def expired(signum, frame):
        raise TimeoutError

    @contextmanager
    def limit(seconds):
        previous = signal.signal(signal.SIGVTALRM, expired)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, previous)

    return limit
