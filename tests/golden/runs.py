"""Runs whose whole output is kept: what people read and what programs read, with the same random bytes every time.

A run is a function of an empty folder that yields named texts. Nothing in the package can be told to repeat its noise:
the byte source is replaced here, inside the tests.
"""

import hashlib
import html
import inspect
import itertools
import json
import re
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv
from typer.testing import CliRunner

import osgt
from osgt import Dataset, Ledger, Publication, cut
from osgt.cli import app
from osgt.sampling import entropy, fast

QUERY = """
[data]
source = "visits.csv"
privacy_unit = "patient"
where = "cost >= 0"
types = { patient = "int64", age = "int64", cost = "float64" }
ledger = "budget.db"
dataset = "visits"

[groups]
by = ["ward"]
max_groups = 2
max_rows_per_group = 2
public_keys = ["Cardiology", "Emergency", "Oncology", "Surgery"]

[[aggregates]]
kind = "count"

[[aggregates]]
kind = "mean"
column = "cost"
bounds = [0, 400]

[budget]
epsilon = 1
delta = 1e-6

[output]
out = "wards.csv"
report = "wards.html"

[report]
title = "Visits by ward"
publisher = "Hospital"
"""

COMMANDS = [
    ["plan"],
    ["release"],
    ["preview"],
    ["limits"],
    ["statement"],
    ["audit"],
    ["web"],
    ["schema"],
    ["noise"],
    ["paper"],
    ["ledger"],
    *(
        ["ledger", name]
        for name in (
            *("open", "show", "remaining", "report", "settle", "note", "budget", "table"),
            *("verify", "export", "backup", "restore", "grants"),
        )
    ),
]


class Counter:
    """Bytes that follow from their number alone."""

    def __init__(self):
        self.blocks = (hashlib.sha256(b"%d" % number).digest() for number in itertools.count())
        self.left = b""

    def read(self, count):
        parts, size = [self.left], len(self.left)
        while size < count:
            parts.append(next(self.blocks))
            size += len(parts[-1])
        chunk = b"".join(parts)
        self.left = chunk[count:]
        return np.frombuffer(chunk[:count], dtype=np.uint8).copy()


def replace_entropy(monkeypatch):
    """The same bytes from here on, also for what was drawn ahead."""
    source = Counter()
    monkeypatch.setattr(entropy.SystemEntropy, "read", lambda self, count: source.read(count))
    fast.sampler_for.cache_clear()


def visits():
    """900 visits of 500 patients to four wards of one site: engines hand out several chosen groups in any order."""
    rows = range(900)
    return pa.table(
        {
            "patient": [row * 7919 % 500 for row in rows],
            "ward": [("Cardiology", "Emergency", "Surgery", "Oncology")[row * 31 % 11 % 4] for row in rows],
            "site": ["Bern"] * 900,
            "age": [row * 17 % 90 for row in rows],
            "cost": [float(row * 37 % 400) for row in rows],
        }
    )


def run(*words, text=None):
    """One command: exit code, standard output and standard error."""
    result = CliRunner().invoke(app, [str(word) for word in words], input=text, env={"COLUMNS": "100", "TERM": "dumb"})
    return f"exit code {result.exit_code}\n--- out\n{result.stdout}\n--- err\n{result.stderr}"


def page_text(path):
    """What a page says, without its files and its style."""
    text = re.sub(r"(?s)<(style|script|svg).*?</\1>", "", Path(path).read_text(encoding="utf-8"))
    text = html.unescape(re.sub(r"<[^>]+>", "\n", re.sub(r'href="data:[^"]*"', "", text)))
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


def helps(folder):
    yield "osgt", run("--help")
    for command in COMMANDS:
        yield "-".join(command), run(*command, "--help")


def from_a_query_file(folder):
    pa.csv.write_csv(visits(), "visits.csv")
    Path("query.toml").write_text(QUERY, encoding="utf-8")
    yield "missing-ledger", run("release", "--query", "query.toml")
    yield "open", run("ledger", "open", "budget.db", "visits", "--epsilon", 3, "--delta", "1e-5", "--unit", "patient")
    yield "plan", run("plan", "--query", "query.toml")
    yield "plan-json", run("plan", "--query", "query.toml", "--json")
    yield "dry-run", run("release", "--query", "query.toml", "--dry-run")
    yield "preview", run("preview", "--query", "query.toml")
    yield "release", run("release", "--query", "query.toml")
    yield "csv", Path("wards.csv").read_text(encoding="utf-8")
    yield "csvw", Path("wards.csv-metadata.json").read_text(encoding="utf-8")
    yield "report", page_text("wards.html")
    yield "statement", run("statement", "wards.csv")
    yield "registry", run("statement", "wards.csv", "--registry", "entry.yaml") + Path("entry.yaml").read_text()
    yield "again", run("release", "--query", "query.toml")
    yield "too-much", run("release", "--query", "query.toml", "--overwrite", "--epsilon", 50)
    yield "remaining", run("ledger", "remaining", "budget.db", "visits", "--delta", "1e-6")
    yield "show-json", run("ledger", "show", "budget.db", "visits", "--json")
    yield "verify", run("ledger", "verify", "budget.db")
    yield "export", run("ledger", "export", "budget.db")
    yield "ledger-report", run("ledger", "report", "budget.db", "--out", "ledger.html") + page_text("ledger.html")
    yield "schema", run("schema")


def with_open_limits(folder):
    pa.csv.write_csv(visits(), "visits.csv")
    query = re.sub(r"(?m)^(max_.*|ledger.*|dataset.*)\n", "", QUERY).replace("epsilon = 1", "epsilon = 5")
    Path("query.toml").write_text(query.replace("[groups]", "units = 500\n\n[groups]", 1), encoding="utf-8")
    yield "plan", run("plan", "--query", "query.toml")
    yield "plan-json", run("plan", "--query", "query.toml", "--json")
    yield "limits", run("limits", "--query", "query.toml", "--epsilon", 1, "--save", "limited.toml")
    yield "query-file", Path("limited.toml").read_text(encoding="utf-8")
    yield "release", run("release", "--query", "query.toml", "--save-query", "chosen.toml")
    yield "chosen", Path("chosen.toml").read_text(encoding="utf-8")
    yield "reopened", run("limits", "--query", "chosen.toml", "--reopen", "--save", "reopened.toml")
    yield "too-few", run("release", "--query", "query.toml", "--units", 20, "--overwrite")


def refusals(folder):
    pa.csv.write_csv(visits(), "visits.csv")
    Path("query.toml").write_text(QUERY.replace("max_groups", "max_group"), encoding="utf-8")
    yield "misspelled-key", run("plan", "--query", "query.toml")
    yield "no-unit", run("plan", "visits.csv", "--by", "ward", "--count", "--epsilon", 1)
    yield "no-file", run("release", "nowhere.csv", "--unit", "patient", "--count", "--epsilon", 1)
    yield (
        "unknown-column",
        run(
            *("plan", "visits.csv", "--unit", "patient", "--by", "wards", "--max-groups", 1),
            *("--max-rows-per-group", 1, "--count", "--epsilon", 1, "--delta", "1e-6"),
        ),
    )
    Path("ages.csv").write_text("age\n30\n41\n52\n", encoding="utf-8")
    yield "noise", run("noise", "ages.csv", "--column", "age", "--epsilon", 1, "--delta", "1e-6", "--coordinates", 2)
    yield "not-a-release", run("statement", "visits.csv")


def bounded(data, *by, **more):
    return data.group_by(*by, max_groups=2, max_rows_per_group=2, **more)


WARDS = ["Cardiology", "Emergency", "Oncology", "Surgery"]


def queries():
    """Queries by name: each kind of aggregate, of keys and of totals."""
    data = Dataset(visits(), privacy_unit="patient")
    banded = data.derive(band=cut("age", [0, 18, 65, 90]))
    public = {"public_keys": WARDS}
    yield "count", bounded(data, "site").count()
    yield "public", bounded(data, "ward", **public).count().count_units().sum("cost", bounds=(0, 400))
    yield "mean-variance", bounded(data, "ward", **public).mean("cost", bounds=(0, 400)).variance("age", bounds=(0, 90))
    yield "quantiles", bounded(data, "ward", **public).median("cost", bounds=(0, 400), bins=64)
    yield "histogram", bounded(data, "ward", **public).histogram("age", edges=[0, 30, 60, 90])
    yield "proportion", bounded(data, "ward", **public).proportion("cost > 100", name="dear")
    keys = {"ward": WARDS, "band": ["0–17", "18–64", "65–90"]}
    yield "totals", bounded(banded, "ward", "band", public_keys=keys, totals="cube").count()
    yield "where", bounded(data.where("age >= 18"), "site").count()
    yield "all-rows", data.group_by(max_rows_per_group=3).count().mean("cost", bounds=(0, 400))
    yield "rows", Dataset(visits(), privacy_unit="row").group_by("ward", **public).count()
    exchanged = Dataset(visits(), privacy_unit="patient", neighbours="change_one")
    yield "exchange", bounded(exchanged, "site").count()


def in_python(folder):
    for name, query in queries():
        plan = query.plan(1, 1e-6)
        release = query.release(1, 1e-6)
        release.to_csv(f"{name}.csv")
        texts = [str(plan), json.dumps(plan.to_dict(), indent=1, ensure_ascii=False), str(release.statement)]
        yield name, "\n\n".join([*texts, Path(f"{name}.csv").read_text(encoding="utf-8"), repr(query), repr(release)])


def publication(folder):
    by_name = dict(queries())
    tables = Publication(wards=by_name["public"], histogram=by_name["histogram"])
    release = tables.release(1, 1e-6)
    release.write(out="{table}.csv", report="report.html")
    yield "plan", str(tables.plan(1, 1e-6))
    yield "statement", str(release.statement)
    yield "report", page_text("report.html")
    yield "tables", "".join(Path(f"{name}.csv").read_text(encoding="utf-8") for name in ("wards", "histogram"))


def other_files(folder):
    release = dict(queries())["totals"].release(1, 1e-6)
    release.write(out="table.xlsx", title="Visits")
    book = openpyxl.load_workbook("table.xlsx")
    cells = [f"{sheet.title}!{cell.coordinate}: {cell.value}" for sheet in book for row in sheet for cell in row]
    shown = [cell for cell in cells if not cell.endswith(": None") and ": osgt statement: " not in cell]
    yield "excel", "\n".join(shown)
    yield "card", html.unescape(re.sub(r"(?s)<style.*?</style>|<[^>]+>", "\n", release._repr_html_()))


def ledger(folder):
    with Ledger("budget.db") as book:
        book.open("visits", epsilon=2, delta=1e-5, unit="patient")
        data = Dataset(visits(), privacy_unit="patient", ledger=book, dataset="visits")
        query = bounded(data, "site").count()
        query.release(0.5, 1e-6)
        query.release(0.5, 1e-6)
        yield "spent", repr(book.spent("visits"))
        yield "history", "\n".join(map(repr, book.history("visits")))
        yield "remaining", repr(book.remaining("visits", delta=1e-6))
        yield "verify", repr(book.verify())


def public_api(folder):
    """Public names with their signatures."""
    lines = []
    for name in sorted(osgt.__all__):
        item = getattr(osgt, name)
        if name == "__version__":
            continue
        if inspect.isclass(item) and issubclass(item, BaseException):
            lines.append(name)
            continue
        lines.append(f"{name}{inspect.signature(item)}")
        if inspect.isclass(item):
            for member in sorted(vars_of(item)):
                value = inspect.getattr_static(item, member)
                value = getattr(value, "__func__", value)
                lines.append(f"  .{member}{inspect.signature(value) if callable(value) else ''}")
    text = "\n".join(lines)
    yield "names", re.sub(r"osgt(\.\w+)+\.(\w+)", r"\2", text)


def vars_of(item):
    return {name for kind in item.__mro__ if kind is not object for name in vars(kind) if not name.startswith("_")}


RUNS = [helps, from_a_query_file, with_open_limits, refusals, in_python, publication, other_files, ledger, public_api]


def steady(text, folder):
    """The text without what differs from run to run: dates, folders, versions, hashes."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(\+00:00|Z| UTC)?", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d|\d{1,2} [A-Z][a-z]+ 20\d\d", "DATE", text)
    text = re.sub(r"DATE, \d\d:\d\d(:\d\d)?( UTC)?", "TIME", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    text = re.sub(r"\(\d+ kB\)", "(SIZE)", text)
    text = re.sub(r"(session_user['\"]?[:=] ?|signed in as )['\"]?\w+['\"]?", r"\1USER", text)
    text = re.sub(r"datetime\.datetime\([^)]*\)", "TIME", text)
    return re.sub(re.escape(osgt.__version__), "VERSION", text)
