"""Runs of the simulator, and its power: faults that are planted into the ledger are found within some hundreds of runs.

A failure says the number of its run, which `simulator.py` replays.
"""

import random
from unittest.mock import patch

import pytest
from simulator import Violation, simulate

from osgt.api import charge
from osgt.ledger import LostAnswerError, account, snapshot
from osgt.ledger.account import Account
from osgt.ledger.accounts import Accounts
from osgt.ledger.reservation import Reservation
from osgt.ledger.snapshot import Restored
from osgt.ledger.store import checkpoint

RUNS, BATCHES = 50, 4


def simulate_many(numbers):
    for number in numbers:
        simulate(number)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_the_ledger_keeps_its_promise(batch):
    simulate_many(range(batch * RUNS, (batch + 1) * RUNS))


#: Runs in which something was wrong once, and what: 513186611784 asked that a charge be known of which nobody was told,
#: since the process that made it was killed at once.
FOUND = [513186611784]


def test_it_keeps_it_in_runs_that_found_something():
    simulate_many(FOUND)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(20))
def test_it_does_so_in_thousands_of_other_runs(batch):
    simulate_many(random.sample(range(10**12), 500))


class LateCharge:
    """A reservation that is made only when the release is out."""

    sequence = 0

    def __init__(self, *arguments):
        self._arguments = arguments

    def settle(self, digest, **places):
        charge.charge(*self._arguments).settle(digest, **places)


def hoping(self, name, decide, find, *, lost=None, needs=None):
    """Take a commit for done whose answer was lost."""
    try:
        return self.append(name, decide, needs=needs)
    except LostAnswerError:
        return self._known[name].sequence + 1


def insisting(self, name, decide, find, *, lost=None, needs=None):
    """Write again, without a look at what stands."""
    try:
        return self.append(name, decide, needs=needs)
    except LostAnswerError:
        return self.append(name, decide, needs=needs)


def remembering(self, connection, head, *, needs=None):
    """Decide with the account as this process knows it."""
    return self._known[head.name]


def ignoring_losses(self, new):
    """Charge as if no charge had been lost."""
    return self.current.try_charge(new)


BELIEVING = {"plausible": lambda *_: True, "follows": lambda *_: True}

#: Faults: the number of the run that found each when it was last looked for, and what takes the place of what.
PLANTED = {
    "charged after the data were read": (0, patch, "osgt.api.publish.charge", LateCharge),
    "settled before it is committed": (4, patch.object, Accounts, "append_once", hoping),
    "written again without a look": (7, patch.object, Accounts, "append_once", insisting),
    "the second writer does not look again": (6, patch.object, Accounts, "bring_up", remembering),
    "stored state is believed": (
        1,
        patch.multiple,
        account.union,
        {"plausible": lambda *_: True, "follows": lambda *_: True},
    ),
    "a restored copy forgets": (40, patch.object, snapshot, "_compare", lambda *_: Restored({}, ())),
    "lost charges are ignored": (40, patch.object, Account, "state_with", ignoring_losses),
    "an older copy is taken": (74, patch.object, checkpoint, "last_seen", lambda *_: None),
    "cancelled after the data were read": (4, patch.object, Reservation, "reading", lambda _: None),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_what_is_planted_is_found(fault):
    """The run that found it before finds it again; when the simulator changes, another one has to."""
    run, plant, *arguments = PLANTED[fault]
    named = arguments.pop() if isinstance(arguments[-1], dict) else {}
    with plant(*arguments, **named), pytest.raises(Violation):
        simulate_many([run, *range(300)])
