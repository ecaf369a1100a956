"""The house: a room imports only from rooms above it, and the package's front door holds the public names alone."""

import ast
from pathlib import Path

import pytest

import osgt

ROOT = Path(osgt.__file__).parent
ROOMS = [
    "limits",
    "locations",
    "shown_text",
    "files",
    "noise",
    "sampling",
    "privacy",
    "calibrate",
    "mechanism",
    "tables",
    "ledger",
    "audit",
    "paper",
    "cli",
]


def room_of(module):
    """The room of `osgt.room.…`; None for the front door itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imported_modules(path):
    """Modules of the package imported at the top level of a file (a function may look down the house when called)."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_go_up_only(path):
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in ROOMS, f"{room} is not in the list of rooms"
    for module in imported_modules(path):
        if module.split(".")[0] == "osgt":
            other = room_of(module)
            assert other is not None, f"{path} imports from the front door"
            assert ROOMS.index(other) <= ROOMS.index(room), f"{room} imports from {other}"


def test_public_names():
    assert set(osgt.__all__) <= {
        "OSGT",
        "DiscreteOSGT",
        "PrivacyProfile",
        "calibrate",
        "compare",
        "Mechanism",
        "Dataset",
        "Ledger",
    }
    assert all(hasattr(osgt, name) for name in osgt.__all__)
