"""Run the notebooks of this folder: `python examples/notebooks.py` stores what they print and draw in them.

With a folder (`python examples/notebooks.py docs/notebooks`), they are written there as pages in Markdown instead.
Cells run in this process, one after the other, in a folder that is thrown away; no kernel is needed.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

import matplotlib
from matplotlib import pyplot

FOLDER = Path(__file__).parent


def outputs_of(source, names):
    """What a cell prints, draws and ends with, as a notebook stores it."""
    tree, printed, value = ast.parse(source), io.StringIO(), None
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found = []
    if printed.getvalue():
        found.append({"output_type": "stream", "name": "stdout", "text": lines(printed.getvalue())})
    drawn = [pyplot.figure(number) for number in pyplot.get_fignums()]
    if value is not None and not drawn:
        data = {"text/plain": lines(repr(value).replace(f"{os.getcwd()}{os.sep}", ""))}
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        if html is not None:
            data["text/html"] = lines(html)
        found.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": None})
    for figure in drawn:
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=80)
        data = {"image/png": base64.b64encode(picture.getvalue()).decode()}
        found.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return found


def lines(text):
    """A text as notebooks store it: line by line."""
    return text.splitlines(keepends=True)


def run(notebook):
    """The notebook with fresh outputs."""
    matplotlib.use("Agg")
    pyplot.close("all")
    names, before, number = {"__name__": "__main__"}, os.getcwd(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    number += 1
                    cell["outputs"], cell["execution_count"] = outputs_of("".join(cell["source"]), names), number
                    for output in cell["outputs"]:
                        if "execution_count" in output:
                            output["execution_count"] = number
        finally:
            os.chdir(before)
    return notebook


def page(notebook, name, folder):
    """The notebook as Markdown; its pictures are written into the folder."""
    parts = []
    for i, cell in enumerate(notebook["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```py\n{source}\n```")
        for j, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{i}-{j}.png"
                (folder / picture).write_bytes(base64.b64decode(data["image/png"]))
                parts.append(f"![The picture that the cell above draws]({picture})")
            elif "text/html" in data:
                parts.append("".join(line for line in data["text/html"] if line.strip()))
            else:
                text = "".join(output.get("text") or data["text/plain"])
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def main(folder=None):
    for path in sorted(FOLDER.glob("*.ipynb")):
        notebook = run(json.loads(path.read_text(encoding="utf-8")))
        if folder is None:
            path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(path)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            out = folder / f"{path.stem}.md"
            out.write_text(page(notebook, path.stem, folder), encoding="utf-8")
            print(out)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
