"""The example notebooks run, from first cell to last, and what is stored in them is what such a run gives."""

import importlib.util
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
NOTEBOOKS = sorted(path.stem for path in FOLDER.glob("*.ipynb"))

specification = importlib.util.spec_from_file_location("notebooks", FOLDER / "notebooks.py")
notebooks = importlib.util.module_from_spec(specification)
specification.loader.exec_module(notebooks)


def read(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def kinds(notebook):
    """For each cell of code what it leaves behind: texts, tables, pictures."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return [[sorted(output.get("data", {"text": 0})) for output in cell["outputs"]] for cell in cells]


def test_there_are_two():
    assert NOTEBOOKS == ["researcher", "steward"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs(name, tmp_path):
    found = notebooks.run(read(name))
    assert kinds(found) == kinds(read(name))  # `python examples/notebooks.py` stores new outputs
    text = notebooks.page(found, name, tmp_path)
    assert text.startswith("# ")
    shown = [kind for cell in kinds(found) for output in cell for kind in output]
    assert text.count("![") == shown.count("image/png") == len(list(tmp_path.iterdir())) >= 3
    assert text.count('<div class="osgt">') == shown.count("text/html") >= 2
    assert all(picture.stat().st_size < 200_000 for picture in tmp_path.iterdir())
    json.dumps(found)


def test_a_cell_that_fails_is_noticed():
    cell = {"cell_type": "code", "source": ["print(1)\n", "1 / 0"], "outputs": []}
    with pytest.raises(ZeroDivisionError):
        notebooks.run({"cells": [cell]})


def test_stored_outputs_name_no_folder_of_the_machine():
    for name in NOTEBOOKS:
        text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
        assert "/tmp" not in text
        assert len(text) < 1_000_000
