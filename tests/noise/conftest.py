"""Fixtures for the distributions."""

import signal
from contextlib import contextmanager

import pytest


@pytest.fixture
def time_limit():
    """Turn a computation that does not end into a failure: `with time_limit(seconds): …`."""

    def expired(signum, frame):
        raise TimeoutError

    @contextmanager
    def limit(seconds):
        previous = signal.signal(signal.SIGALRM, expired)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)

    return limit
