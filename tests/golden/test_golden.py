"""What people and programs read stays the same, unless a change of it is part of the change.

`pytest tests/golden --rewrite` writes the texts again: the difference is then seen in review.
"""

import getpass
import socket
from pathlib import Path

import pytest
import runs

EXPECTED = Path(__file__).with_name("expected")


@pytest.mark.parametrize("run", runs.RUNS, ids=lambda run: run.__name__)
def test_as_before(run, tmp_path, monkeypatch, request):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    monkeypatch.setattr(socket, "gethostname", lambda: "here")
    runs.replace_entropy(monkeypatch)
    found = {name: runs.steady(text, tmp_path) for name, text in run(tmp_path)}
    folder = EXPECTED / run.__name__
    if request.config.getoption("--rewrite"):
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.txt"):
            path.unlink()
        for name, text in found.items():
            (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    expected = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.txt")}
    assert {name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)} == set()
