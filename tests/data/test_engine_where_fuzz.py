"""Random conditions: the rows that a release keeps are those that the engine selects with the user's own text.

Where the engine fails for a row, that row alone may differ: the value counts as missing, and nothing may fail.
"""

import logging

import pytest

from engines import rows_of
from made_conditions import TABLE

#: Conditions that go into one query.
BATCH = 20

IDS = TABLE["id"].to_pylist()


class Compared:
    """The engine's own answer beside that of a data set's `where`."""

    def __init__(self, engine):
        self.engine = engine
        self.dataset = engine.put(TABLE)
        self.name = self.dataset.table.text
        self.accepted, self.refused, self.failing = 0, [], 0

    def answers(self, texts, only=None):
        """For each row the answers to all conditions, as a string of 0 and 1; None if the engine fails."""
        columns = ", ".join(f"CASE WHEN ({text}) THEN 1 ELSE 0 END" for text in texts)
        where = "" if only is None else f" WHERE id = {only}"
        try:
            found = self.engine.raw(self.dataset, f"SELECT id, {columns} FROM {self.name}{where}")
        except Exception:  # each engine has errors of its own
            return None
        return {row[0]: "".join(str(bit) for bit in row[1:]) for row in found}

    def kept(self, condition):
        rows = self.dataset.where(condition).rows()
        return set(rows_of(rows, "id")["id"].to_pylist())

    def check(self, texts):
        answers = self.answers(texts)
        if answers is None:
            if len(texts) > 1:
                self.halves(texts)
            else:
                self.check_failing(texts[0])
            return
        together = "concat(" + ", ".join(f"CASE WHEN ({text}) THEN '1' ELSE '0' END" for text in texts) + ", '')"
        expected = " ".join(f"WHEN {row} THEN '{bits}'" for row, bits in answers.items())
        try:
            kept = self.kept(f"{together} = CASE id {expected} END")
        except (ValueError, TypeError) as error:
            if len(texts) > 1:
                self.halves(texts)
            else:
                self.refused.append((texts[0], str(error)))
            return
        if kept == set(IDS):
            self.accepted += len(texts)
        else:
            assert len(texts) > 1, (
                f"{texts[0]!r} differs in rows {set(IDS) - kept}: {self.dataset.where(texts[0]).filters}"
            )
            self.halves(texts)

    def halves(self, texts):
        middle = len(texts) // 2
        self.check(texts[:middle])
        self.check(texts[middle:])

    def check_failing(self, text):
        """Rows for which the engine itself has an answer get that; for none of them anything fails."""
        try:
            kept = self.kept(text)
        except (ValueError, TypeError) as error:
            self.refused.append((text, str(error)))
            return
        self.failing += 1
        for row in IDS[:: 8 if self.engine.slow else 1]:
            answer = self.answers([text], only=row)
            if answer is not None:
                assert (row in kept) == (answer[row] == "1"), (text, row)


def compare(engine, seed, counts):
    compared = Compared(engine)
    ordinary, risky = counts
    maker = engine.maker(seed, risky=False)
    texts = [maker.condition() for _ in range(ordinary)]
    for at in range(0, ordinary, BATCH):
        compared.check(texts[at : at + BATCH])
    # All but a few are accepted, and the engine itself fails for none.
    assert compared.accepted > 0.97 * ordinary, compared.refused[:5]
    assert compared.failing == 0
    maker = engine.maker(seed, risky=True)
    for _ in range(risky):
        compared.check([maker.condition()])
    # The table has values that fail; with few conditions, on a slow engine, none need meet them.
    assert compared.failing > 0.01 * risky or engine.slow
    assert len(compared.refused) < 0.03 * ordinary + 0.1 * risky, compared.refused[-5:]


@pytest.fixture
def quiet():
    """Spark tells its log about each query that fails."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_random_conditions(engine, quiet):
    compare(engine, 20_240_601, engine.conditions)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_many_random_conditions(engine, quiet, seed):
    compare(engine, seed, tuple((10 if engine.slow else 40) * count for count in engine.conditions))
