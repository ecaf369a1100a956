"""The layers: each imports only from those above it."""

import ast
from pathlib import Path

import pytest

import osgt

ROOT = Path(osgt.__file__).parent
LAYERS = [
    "limits",
    "extras",
    "locations",
    "shown_text",
    "near_names",
    "files",
    "noise",
    "sampling",
    "privacy",
    "calibration",
    "mechanism",
    "pages",
    "tables",
    "ledger",
    "auditing",
    "paper",
    "web",
    "cli",
]


def layer_of(module):
    """The layer of `osgt.layer.…`; None for the package itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imported_modules(path):
    """Modules of the package imported at the top level of a file; functions may import others when called."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield node.module


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_go_up_only(path):
    layer = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if layer in ("__init__", "__main__"):
        return
    assert layer in LAYERS, f"{layer} is not in the list of layers"
    for module in imported_modules(path):
        if module.split(".")[0] == "osgt":
            other = layer_of(module)
            assert other is not None, f"{path} imports from the package itself"
            assert LAYERS.index(other) <= LAYERS.index(layer), f"{layer} imports from {other}"
