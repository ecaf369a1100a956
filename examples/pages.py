"""Run the examples of the pages in `docs/`, and put what they print and draw beside them.

The build of the site does so for every page (MkDocs calls `on_page_markdown`), the tests run the same, and
`python examples/pages.py docs/start.md …` stores the outputs in the pages themselves, for whoever reads them there.

- A block marked `python` runs; blocks of one page share their names. What it prints takes the place of a block marked
  `text` right after it, or is put there. Pictures that it leaves open follow.
- A block marked `console` has commands after `$ `, and what each of them prints after it. `exit=2` beside the mark says
  that the last one is refused.
- A block with `title="query.toml"` is written to a file of that name first.

Everything runs in a folder that is thrown away. Other blocks are left as they are.
"""

import contextlib
import getpass
import io
import os
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(?P<kind>\w*)(?P<more>[^\n]*)\n(?P<text>.*?)^```$", flags=re.DOTALL | re.MULTILINE)

#: A line that is longer is broken, unless it belongs to a table.
WIDTH = 88


@dataclass
class Ran:
    """A page after its examples have run: its text with their outputs, and the pictures by their names."""

    text: str
    pictures: dict[str, bytes]


def run(text, name="page"):
    """Run all examples of a page; what goes wrong is raised."""
    import matplotlib  # noqa: PLC0415 - only where a page is made
    import pandas as pd  # noqa: PLC0415 - only where a page is made

    matplotlib.use("Agg")
    pd.set_option("display.width", WIDTH, "display.max_columns", None)
    names, parts, pictures, end = {"__name__": "__main__"}, [], {}, 0
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in FENCE.finditer(text):
                if block.start() < end:
                    continue
                parts.append(text[end : block.start()])
                end = block.end()
                if title := re.search(r'title="([^"/]+)"', block["more"]):
                    Path(title[1]).write_text(block["text"], encoding="utf-8")
                if block["kind"] == "console":
                    parts.append(f"```console\n{console(block['text'], expected(block['more']))}```")
                    continue
                parts.append(block[0])
                if block["kind"] == "python":
                    printed, drawn = python(block["text"], names, name)
                    end = after(text, end)
                    if printed:
                        parts.append(f"\n\n```text\n{printed}```")
                    for picture in drawn:
                        file = f"{name}-{len(pictures) + 1}.png"
                        pictures[file] = picture
                        parts.append(f"\n\n![What the example draws]({file})")
        finally:
            os.chdir(before)
    return Ran("".join([*parts, text[end:]]), pictures)


def python(source, names, name):
    """What a block prints, and the pictures that it draws."""
    from matplotlib import pyplot  # noqa: PLC0415 - only where a page is made

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(source, f"example of {name}", "exec"), names)
    pictures = []
    for number in pyplot.get_fignums():
        file = io.BytesIO()
        pyplot.figure(number).savefig(file, format="png", dpi=80)
        pictures.append(file.getvalue())
    pyplot.close("all")
    return shown(printed.getvalue()), pictures


def console(text, code):
    """The commands of a block, each with what it prints now."""
    commands = [line.removeprefix("$ ") for line in re.findall(r"^\$ (?:.*\\\n)*.*$", text, flags=re.MULTILINE)]
    environment = os.environ | {"COLUMNS": "86", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    found = []
    for i, command in enumerate(commands):
        done = subprocess.run(
            command, shell=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        output = done.stdout.decode()
        if done.returncode != (code if i == len(commands) - 1 else 0):
            raise RuntimeError(f"{command!r} ended with {done.returncode}:\n{output}")
        found.append(f"$ {command}\n{shown(output)}")
    return "\n".join(found)


def expected(more):
    """The code that the last command ends with."""
    code = re.search(r"exit=(\d+)", more)
    return int(code[1]) if code else 0


def shown(output):
    """An output for readers: the folder and the user of this machine get other names, long sentences are broken."""
    machine = f"{getpass.getuser()}@{socket.gethostname()}"
    for own, other in ((os.path.realpath(os.getcwd()), "/data"), (os.getcwd(), "/data"), (machine, "ann@desk")):
        output = output.replace(own, other)
    lines = []
    for line in output.rstrip().splitlines():
        text, indent = line.strip(), line[: len(line) - len(line.lstrip())]
        is_table = "  " in text or any(sign in text for sign in "│┃━─")
        if len(line) <= WIDTH or is_table:
            lines.append(line.rstrip())
        else:
            lines += textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
    return "".join(f"{line}\n" for line in lines)


def after(text, end):
    """The end of the block of an earlier output and of earlier pictures, if they follow; else the same place."""
    old = re.compile(r"(\s*\n```text\n.*?^```$)?(\s*\n!\[What the example draws\]\([^)]*\))*", re.DOTALL | re.MULTILINE)
    found = old.match(text, end)
    return found.end() if found else end


def on_page_markdown(markdown, page, config, files):
    """MkDocs: the page with outputs of this build."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - only where the site is made

    if page.file.src_uri.startswith("notebooks/"):
        return markdown
    ran = run(markdown, Path(page.file.src_uri).stem)
    for name, content in ran.pictures.items():
        uri = (Path(page.file.src_uri).parent / name).as_posix()
        files.append(File.generated(config, uri, content=content))
    return ran.text


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        ran = run(path.read_text(encoding="utf-8"), path.stem)
        path.write_text(ran.text, encoding="utf-8")
        for picture, content in ran.pictures.items():
            (path.parent / picture).write_bytes(content)
        print(path)
