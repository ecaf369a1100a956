"""What people and programs read stays the same, unless a change of it is part of the change.

`pytest tests/golden --rewrite` writes the texts again: the difference is then seen in review.
"""

import getpass
import math
import re
import socket
from fractions import Fraction
from pathlib import Path

import pytest
import runs

EXPECTED = Path(__file__).with_name("expected")


#: Numbers with a fraction or an exponent, and stored fractions.
NUMBER = re.compile(r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)|-?\d+\.\d+|\d{9,}/\d+)")


def alike(one, other):
    """Whether two texts are the same but for the last digits of numbers: processors differ in these."""
    if one is None or other is None:
        return one is other
    parts, others = NUMBER.split(one), NUMBER.split(other)
    if len(parts) != len(others) or parts[::2] != others[::2]:
        return False
    pairs = zip(map(Fraction, parts[1::2]), map(Fraction, others[1::2]), strict=True)
    return all(math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-11) for x, y in pairs)


def test_other_digits_are_told():
    assert alike("std 5.698464659, 3 rows", "std 5.698464660, 3 rows")
    assert not alike("std 5.698", "std 5.699")
    assert alike("1132301922027313/1125899906842624", "4529207688109247/4503599627370496")
    assert not alike("std 5.5, 3 rows", "std 5.5, 4 rows")
    assert not alike("one", None)


@pytest.mark.parametrize("run", runs.RUNS, ids=lambda run: run.__name__)
def test_as_before(run, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    runs.replace_entropy(monkeypatch)
    found = {name: runs.steady(text, tmp_path) for name, text in run(tmp_path)}
    folder = EXPECTED / run.__name__
    expected = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}
    different = {name for name in found.keys() | expected.keys() if not alike(found.get(name), expected.get(name))}
    if request.config.getoption("--rewrite"):  # texts that are alike but for last digits stay
        folder.mkdir(parents=True, exist_ok=True)
        for name in different:
            path = folder / f"{name}.txt"
            if name in found:
                path.write_text(found[name], encoding="utf-8")
            else:
                path.unlink()
        different = set()
    assert different == set()
