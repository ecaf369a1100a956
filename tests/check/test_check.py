"""The checker of published files: as tight as the accounting, and nothing that is wrong passes."""

import copy
import importlib
import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import osgt.check as checker
from osgt import Dataset, Publication
from osgt.check import NotCheckedError, Part, check
from osgt.cli import app
from osgt.noise import DiscreteOSGT
from osgt.noise.integer import RoundedGaussian
from osgt.plan.selection import select
from osgt.privacy import Charge, PrivacyProfile
from osgt.privacy.profile import NoisyPart
from osgt.query.aggregates import Methods, OfAllRows
from osgt.query.file.aggregates import AGGREGATES

TOWNS = ["Bern", "Oslo", "Rome", "Turin"]


def rows():
    generator = np.random.default_rng(5)
    return pa.table(
        {
            "user": generator.integers(0, 4000, 12_000),
            "town": generator.choice(TOWNS, 12_000),
            "year": generator.integers(2020, 2023, 12_000),
            "cost": generator.integers(0, 900, 12_000),
        }
    )


def data(unit="user", neighbours="add_remove"):
    return Dataset(rows(), unit, neighbours=neighbours)


KEYS = {"town": TOWNS, "year": [2020, 2021, 2022]}
ALONE = {"measure_left_out": False}

#: Releases of every kind, and how they are made: all that is measured is needed for the promise.
RELEASES = {
    "rows": lambda d: d.group_by("town", public_keys=TOWNS, max_rows=5).count().release(1, 1e-6, **ALONE),
    "laplace": lambda d: d.group_by("town", public_keys=TOWNS, max_rows=5).count().release(1, 0, **ALONE),
    "box": lambda d: (
        d.group_by("town", max_groups=3, max_rows_per_group=2, public_keys=TOWNS).count().release(1, 1e-8, **ALONE)
    ),
    "units": lambda d: d.group_by("town", max_groups=3, public_keys=TOWNS).count_units().release(0.5, 1e-6, **ALONE),
    "length": lambda d: (
        d.group_by("town", max_length=4, public_keys=TOWNS).count().sum("cost", (0, 900)).release(1, 1e-6, **ALONE)
    ),
    "chosen by rows": lambda d: d.group_by("town", max_rows=5).count().release(1, 1e-6, **ALONE),
    "chosen by units": lambda d: d.group_by("town", max_groups=3).count_units().release(1, 1e-6, **ALONE),
    "chosen by length": lambda d: d.group_by("town", max_length=4, max_groups=3).count().release(1, 1e-6, **ALONE),
    "totals and quantiles": lambda d: (
        d.group_by("town", "year", public_keys=KEYS, totals="rollup", max_rows=5)
        .count()
        .median("cost", (0, 900), bins=32)
        .mean("cost", (0, 900))
        .release(1, 1e-6, **ALONE)
    ),
    "left out": lambda d: d.group_by("town", public_keys=TOWNS, max_rows=5).count().release(1, 1e-6),
    "chosen limit": lambda d: d.group_by("town", public_keys=TOWNS).count().release(1, 1e-6),
    "total": lambda d: (
        d.group_by("town", public_keys=TOWNS, max_rows=5).sum("cost", max_total=2000).release(1, 1e-6, **ALONE)
    ),
    "different values": lambda d: (
        d.group_by("town", public_keys=TOWNS, max_length=4).count_distinct("cost", 3).count().release(1, 1e-6)
    ),
    "different values, chosen": lambda d: d.group_by("town").count_distinct("year").release(1, 1e-6),
    "no interval": lambda d: (
        d.group_by("town", public_keys=TOWNS, max_rows=5)
        .median("cost", (0, 900), bins=32, interval="none")
        .count()
        .release(1, 1e-6, **ALONE)
    ),
    "two tables": lambda d: Publication(
        towns=d.group_by("town", public_keys=TOWNS, max_rows=5).count(),
        years=d.group_by("year", max_rows=5).count().variance("cost", (0, 900)),
        costs=d.group_by("town", public_keys=TOWNS, max_rows=5).mean("cost", (0, 900)),
    ).release(1, 1e-6, **ALONE),
}


NAMES = [f"{name}, {n}" for name in RELEASES for n in ("add_remove", "change_one")] + ["each row"]


def statement_of(name):
    """The statement of a release of this name, as a file has it."""
    if name == "each row":
        by_row = data("row").group_by("town", public_keys=TOWNS).count().sum("cost", (0, 900)).mean("cost", (0, 900))
        release = by_row.count_distinct("year").release(1, 1e-6, **ALONE)
    else:
        kind, neighbours = name.rsplit(", ", 1)
        release = RELEASES[kind](data(neighbours=neighbours))
    return json.loads(json.dumps(release.statement.to_dict()))


@pytest.fixture(scope="module")
def statements():
    """The statement of each release, once for both kinds of neighbours, and of one where every row is a unit."""
    return {name: statement_of(name) for name in NAMES}


def measures(plain):
    return [m for table in plain.get("tables", {"": plain}).values() for m in table["privacy"]["measures"]]


def refused(plain):
    """Whether the checker says that a promise does not hold, or that it cannot be checked."""
    try:
        return bool(check(plain).problems)
    except NotCheckedError:
        return True


@pytest.mark.parametrize("name", NAMES)
def test_what_holds_is_as_tight_as_the_accounting(statements, name):
    plain = statements[name]
    result, charge = check(plain), Charge.from_dict(plain["privacy"]["charge"])
    assert result.problems == []
    lower, upper = charge.profile.delta_interval(plain["epsilon"])
    if plain["delta"] == 0:
        assert result.delta == 0
    else:
        assert lower <= result.noise_delta <= upper * 1.006
    assert result.selection_delta == pytest.approx(charge.selection_delta, rel=1e-10)


@pytest.mark.parametrize("name", [name for name in NAMES if "left out" not in name and "chosen limit" not in name])
def test_noise_that_is_one_percent_too_small_is_refused(statements, name):
    plain = copy.deepcopy(statements[name])
    for noise in [m["noise"] for m in [*measures(plain), *plain["privacy"]["charge"]["parts"]]]:
        noise["slope"] = noise.get("slope", 0.0) * 1.01
        noise["curvature"] *= 1.01**2
        if noise["family"] == "rounded_gaussian":
            del noise["slope"]
    result = check(plain)
    assert any("at ε = " in problem for problem in result.problems), result
    if plain["delta"]:
        assert result.noise_delta > 1.05 * check(statements[name]).noise_delta


@pytest.mark.parametrize("kind", ["left out", "chosen limit"])
def test_noise_that_was_charged_for_is_the_noise_that_was_added(statements, kind):
    plain = copy.deepcopy(statements[f"{kind}, add_remove"])
    measures(plain)[0]["noise"]["slope"] *= 1.01
    assert refused(plain)


@pytest.mark.parametrize("name", NAMES)
def test_a_sensitivity_below_the_limits_is_refused(statements, name):
    for i, part in itertools.product(range(len(measures(statements[name]))), ("shift", "coordinates")):
        plain = copy.deepcopy(statements[name])
        for move in measures(plain)[i]["moved_by_one_unit"]:
            move[part] -= 1
        problems = []
        try:
            problems = check(plain).problems
        except NotCheckedError as error:
            problems = [str(error)]
        assert any("can move" in each or "no noise" in each or "same measured" in each for each in problems)


@pytest.mark.parametrize("limit", ["max_rows", "max_groups", "max_rows_per_group", "max_length", "public_keys"])
def test_larger_limits_need_more_noise(statements, limit):
    """Limits on groups decide how many numbers move; those on rows what a step means, and with it the threshold."""
    found = 0
    for plain in map(copy.deepcopy, statements.values()):
        for table in plain.get("tables", {"": plain}).values():
            given = table["query"]["groups"]
            if limit in given and given[limit] is not None:
                given[limit] = given[limit] * 2
                found += refused(plain)
    assert found or limit in ("max_rows_per_group",)


@pytest.mark.parametrize("name", [name for name in NAMES if "chosen by" in name or "two tables" in name])
def test_a_threshold_one_step_too_low_is_refused(statements, name):
    for step in (1, 1000):
        plain = copy.deepcopy(statements[name])
        for table in plain.get("tables", {"": plain}).values():
            if table["privacy"]["threshold_in_steps"] is not None:
                table["privacy"]["threshold_in_steps"] -= step
        assert any("one unit alone is shown" in problem for problem in check(plain).problems)


def test_a_hidden_table_is_found(statements):
    plain = copy.deepcopy(statements["two tables, add_remove"])
    del plain["tables"]["years"]
    assert any("charged" in problem for problem in check(plain).problems)
    alone = copy.deepcopy(statements["two tables, add_remove"])
    del alone["tables"]["costs"]  # it is measured with another one
    assert refused(alone)


@pytest.mark.parametrize("key", ["epsilon", "delta"])
def test_another_budget_is_found(statements, key):
    for factor in (0.5, 0.999, 1.5):
        plain = copy.deepcopy(statements["rows, add_remove"])
        plain[key] *= factor
        assert refused(plain)
    plain = copy.deepcopy(statements["rows, add_remove"])
    plain["epsilon"] = 0.9
    plain["statement"] = plain["statement"].replace("ε = 1 ", "ε = 0.9 ")
    assert any("it keeps δ" in problem for problem in check(plain).problems)


def test_the_steps_of_a_sum_reach_from_bound_to_bound(statements):
    plain = copy.deepcopy(statements["each row"])
    for measure in measures(plain):
        if "from" in measure["rule"]:
            measure["rule"]["to"] -= 2
    assert refused(plain)


def test_a_length_takes_a_rounded_gaussian(statements):
    plain = copy.deepcopy(statements["length, add_remove"])
    for noise in [m["noise"] for m in measures(plain)]:
        noise |= {"family": "osgt", "slope": 0.0}
    assert refused(plain)


def set_all(owner, key, value):
    """Set a key of one dict, or of each of several."""
    for one in owner if isinstance(owner, list) else [owner]:
        one[key] = value


def fewer_groups(plain):
    """Say that there is one public group, so that a unit moves one number, with the noise of that."""
    plain["query"]["groups"]["public_keys"] = 1
    for move in [*measures(plain)[0]["moved_by_one_unit"], *plain["privacy"]["charge"]["parts"]]:
        move["coordinates"] = 1


def coarse_steps(plain):
    """Say of whole numbers from 0 to 2 that each adds 1 at most: half of the truth."""
    plain["query"]["aggregates"][1]["bounds"] = [0, 2]
    for measure in measures(plain):
        if "to" in measure["rule"]:
            measure["rule"]["to"] = 1


PARTS = {"north": "town = 'Oslo'", "south": "town = 'Rome'"}

#: Statements that cannot be true, or do not say what they must: a release, and what is changed in it.
FORGERIES = {
    "more groups than are public": ("units, add_remove", fewer_groups),
    "steps of a sum": ("each row", coarse_steps),
    "another unit": ("rows, add_remove", lambda s: set_all(s["privacy"], "unit", "row")),
    "a part of the name of a unit": (
        "units, add_remove",
        lambda s: set_all(s["query"]["data"], "privacy_unit", [s["privacy"]["unit"][:2]]),
    ),
    "another unit in the query": ("units, add_remove", lambda s: set_all(s["query"]["data"], "privacy_unit", "row")),
    "other neighbours": ("rows, change_one", lambda s: set_all(s["privacy"], "neighbours", "add_remove")),
    "unknown neighbours": (
        "rows, add_remove",
        lambda s: [set_all(each, "neighbours", "event") for each in (s["privacy"], s["query"]["data"])],
    ),
    "a choice of limits that is not told": (
        "chosen limit, add_remove",
        lambda s: [
            set_all(s["privacy"], "choice_of_limits", None),
            set_all(s["privacy"]["charge"], "parts", s["privacy"]["charge"]["parts"][:2]),
        ],
    ),
    "a choice of nothing": ("rows, add_remove", lambda s: set_all(s["privacy"], "choice_of_limits", {"limits": []})),
    "a choice with less than nothing": (
        "chosen limit, add_remove",
        lambda s: [
            set_all(s["privacy"]["choice_of_limits"], "epsilon_of_each", -0.15),
            set_all(s["privacy"]["charge"]["parts"][-1]["noise"], "slope", -0.15),
        ],
    ),
    "groups are chosen for nothing": (
        "chosen by rows, add_remove",
        lambda s: set_all(s["privacy"]["charge"], "selection_delta", 0.0),
    ),
    "δ of 0 in values alone": ("rows, add_remove", lambda s: set_all(s, "delta", 0.0)),
    "limits that are no numbers": ("box, add_remove", lambda s: set_all(s["query"]["groups"], "max_groups", 0.5)),
    "fewer groups than none": ("box, add_remove", lambda s: set_all(s["query"]["groups"], "max_groups", -3)),
    "no count of groups": ("rows, add_remove", lambda s: set_all(s, "groups_shown", float("nan"))),
    "noise on neither": ("rows, add_remove", lambda s: set_all(measures(s)[0]["noise"], "discrete", "false")),
    "Laplace noise on a length": (
        "length, add_remove",
        lambda s: [
            each["noise"].update(slope=1e-8, curvature=0.0) for each in [*measures(s), *s["privacy"]["charge"]["parts"]]
        ],
    ),
    "fewer values than none": (
        "different values, add_remove",
        lambda s: [
            set_all([a for a in s["query"]["aggregates"] if "max_distinct" in a], "max_distinct", -5),
            set_all([m["rule"] for m in measures(s) if m["rule"]["kind"] == "distinct"], "limit", -5),
        ],
    ),
    "a limit on values that no number has": (
        "different values, add_remove",
        lambda s: s["query"]["aggregates"].append({"kind": "count_distinct", "column": "cost", "max_distinct": 50}),
    ),
    "a limit on values that is no number": (
        "different values, add_remove",
        lambda s: [
            set_all([a for a in s["query"]["aggregates"] if "max_distinct" in a], "max_distinct", True),
            set_all([m["rule"] for m in measures(s) if m["rule"]["kind"] == "distinct"], "limit", True),
        ],
    ),
    "nobody in any part": ("rows, add_remove", lambda s: s["query"]["data"].update(parts=PARTS, max_parts=0)),
    "half a part": ("rows, add_remove", lambda s: s["query"]["data"].update(parts=PARTS, max_parts=0.5)),
    "no parts at all": ("rows, add_remove", lambda s: s["query"]["data"].update(parts={}, max_parts=1)),
    "a rule without a name": ("rows, add_remove", lambda s: set_all(measures(s)[0]["rule"], "kind", None)),
    "a rule of something else": ("rows, add_remove", lambda s: set_all(measures(s)[0]["rule"], "of", "thing")),
    "totals of units in any group": (
        "totals and quantiles, add_remove",
        lambda s: [
            set_all(m["rule"], "base", {"kind": "centred_on_all", "times": 1, "by": 0, "base": m["rule"]["base"]})
            for m in measures(s)
            if m["rule"]["kind"] == "total"
        ],
    ),
    "half a number": ("rows, add_remove", lambda s: set_all(measures(s)[0]["moved_by_one_unit"], "coordinates", 1.5)),
    "a huge shift": ("rows, add_remove", lambda s: set_all(measures(s)[0]["moved_by_one_unit"][0], "shift", 10**400)),
    "ε of one that is not": ("rows, add_remove", lambda s: set_all(s, "epsilon", float("nan"))),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_statement_is_refused(statements, name):
    of, change = FORGERIES[name]
    plain = copy.deepcopy(statements[of])
    change(plain)
    assert refused(plain)


def test_a_statement_about_a_part_of_the_people_holds(statements):
    """The forged ones are refused for what is wrong in them."""
    plain = copy.deepcopy(statements["rows, add_remove"])
    plain["query"]["data"].update(parts=PARTS, max_parts=1)
    assert not refused(plain)


@pytest.mark.filterwarnings("ignore")
def test_values_of_every_kind_end_in_a_verdict(statements):
    """Put nonsense in every place of a statement: each is judged, refused or told; nothing else is raised."""
    nonsense = [None, True, -1, 0, 1e308, 10**400, float("nan"), "1", [], {}]

    def places(value, path=()):
        yield path
        for key, inner in (
            value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        ):
            yield from places(inner, (*path, key))

    plain = statements["chosen by rows, add_remove"]
    judged = [
        path for path in places(plain) if path and path[0] in ("epsilon", "delta", "privacy", "query", "groups_shown")
    ]
    for path, value in itertools.product(judged, nonsense):
        if path[-1] in ("slope", "curvature") and value in (10**400, True):
            continue  # minutes
        changed = copy.deepcopy(plain)
        owner = changed
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = value
        refused(changed)


def test_files_of_a_publication_say_what_the_publication_says(tmp_path):
    release = RELEASES["two tables"](data())
    plain = json.loads(json.dumps(release["years"].statement.to_dict()))
    assert check(plain).problems == []
    for change in ({"epsilon": 2.0}, {"query": {}}, {"groups_shown": 7}):
        assert refused(plain | change)
    assert refused(plain | {"table": "other"})


@pytest.fixture
def unknown_aggregate():
    """Register an aggregate that the checker does not know, for one test."""
    sys.modules.pop("present", None)
    importlib.import_module("present")
    yield
    del AGGREGATES["present_within"]
    for owner in (Methods, OfAllRows):
        delattr(owner, "present_within")


@pytest.mark.usefixtures("unknown_aggregate")
def test_an_unknown_aggregate_is_taken_on_trust():
    query = data().group_by("town", public_keys=TOWNS, max_rows=5).present_within("cost", (0, 10))
    result = check(json.loads(json.dumps(query.release(1, 1e-6).statement.to_dict())))
    assert result.problems == []
    assert any("a row adds 0 to 1" in each for each in result.trusted)


# The privacy loss


def compositions(number, seed=11):
    """Random compositions: integer noise of any scale, on few and on many coordinates, and rounded Gaussians."""
    generator = np.random.default_rng(seed)
    for _ in range(number):
        parts = []
        for _ in range(int(generator.integers(1, 4))):
            scale, shape = float(10 ** generator.uniform(-0.2, 2.5)), float(generator.choice([0, 0.3, 1, 3, np.inf]))
            shift = int(generator.choice([1, 2, 2**30]))
            sigma = max(scale * shift, 0.3)
            count = int(generator.choice([1, 1, 2, 5, 40]))
            if shape == 0 and generator.random() < 0.5:
                parts.append(NoisyPart(RoundedGaussian(sigma), shift, count))
            else:
                noise = DiscreteOSGT.laplace(sigma) if shape == np.inf else DiscreteOSGT(shape * sigma, sigma)
                parts.append(NoisyPart(noise, shift, count))
        yield PrivacyProfile.of(parts), float(10 ** generator.uniform(-10, -3))


def test_delta_is_never_too_small_and_close():
    """Against the bracket of the accounting, which another method has proved: enumeration, or another grid."""
    worst = 0.0
    for profile, delta in compositions(40):
        epsilon = float(profile.epsilon(delta))
        if not 1e-3 < epsilon < 300:
            continue
        parts = tuple(
            Part(
                p.noise.potential.slope,
                p.noise.potential.curvature,
                int(p.noise.discrete),
                float(p.shift),
                p.coordinates,
            )
            for p in profile.parts
        )
        lower, upper = profile.delta_interval(epsilon)
        found = checker.delta_on_grid(parts, epsilon, delta, 1e-5)
        assert found >= lower * (1 - 1e-9)
        worst = max(worst, found / upper - 1)
    assert worst < 3e-3


@pytest.mark.parametrize("noise", [DiscreteOSGT(9, 7), DiscreteOSGT.laplace(3.3), DiscreteOSGT.gaussian(5e8)])
def test_tails_are_those_of_the_noise(noise):
    scale = float(noise.std())
    for k in (0, 1, 7, int(scale), int(9 * scale)):
        own = checker.log_tail(noise.slope, noise.curvature, False, k)
        assert own == pytest.approx(float(noise.logsf(k)), abs=1e-11)


def test_tails_of_a_rounded_gaussian():
    noise = RoundedGaussian(40.8)
    for k in (0, 30, 300):
        own = checker.log_tail(0.0, noise.potential.curvature, True, k)
        assert own == pytest.approx(float(noise.logsf(k)), abs=1e-11)


@pytest.mark.parametrize("in_all", [True, False])
def test_the_chance_of_one_unit_alone(in_all):
    noise = DiscreteOSGT(3, 4)
    chosen = select(noise, 3, 5, 1e-7, in_all=in_all)
    place, none = (checker.log_tail(noise.slope, noise.curvature, False, chosen.threshold - k) for k in (4, 1))
    kept = (1 - np.exp(place)) * ((1 - np.exp(none)) ** 4 if in_all else (1 - np.exp(place)) ** 4)
    assert 1 - kept == pytest.approx(chosen.delta, rel=1e-7)


# Files and commands


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    release = data().group_by("town", public_keys=TOWNS, max_rows=5).count().mean("cost", (0, 900)).release(1, 1e-6)
    for name in ("a.parquet", "a.csv", "a.xlsx"):
        release.write(out=folder / name)
    (folder / "a.json").write_text(json.dumps(release.statement.to_dict()))
    return folder


def run(*arguments):
    return CliRunner().invoke(app, ["check", *map(str, arguments)])


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.csv-metadata.json", "a.xlsx", "a.json"])
def test_every_kind_of_file_is_read(published, name):
    result = run(published / name)
    assert result.exit_code == 0, result.output
    assert "HOLDS, if what is below is true" in result.output
    assert "Promised: ε = 1 and δ = 1e-06, in total, for every user" in " ".join(result.output.split())
    assert "No file can show" in result.output
    plain = json.loads(run("--json", published / name).stdout)[str(published / name)]
    assert plain["holds"]
    assert 0 <= plain["recomputed_delta"] <= 1e-6


def test_a_broken_promise_ends_with_1(published, tmp_path):
    plain = json.loads((published / "a.json").read_text())
    plain["privacy"]["measures"][0]["noise"]["slope"] *= 2
    (tmp_path / "b.json").write_text(json.dumps(plain))
    result = run(published / "a.json", tmp_path / "b.json")
    assert result.exit_code == 1
    assert "DOES NOT HOLD" in result.output


def test_a_file_prints_nothing_but_text(published, tmp_path):
    """A noun that writes another verdict over the true one, or on the next line."""
    plain = json.loads((published / "a.json").read_text())
    plain["privacy"]["noun"] = ["\x1b[2J\n\u202eHOLDS, if", "x"]
    (tmp_path / "b.json").write_text(json.dumps(plain))
    text = checker.explain(check(*checker.read(tmp_path / "b.json")))
    assert all(character.isprintable() or character == "\n" for character in text)
    assert len(text.splitlines()) == len(checker.explain(check(*checker.read(published / "a.json"))).splitlines())


def test_numbers_that_are_none_are_no_statement(published, tmp_path):
    text = (published / "a.json").read_text().replace('"groups_shown": 4', '"groups_shown": Infinity')
    (tmp_path / "b.json").write_text(text)
    assert run(tmp_path / "b.json").exit_code == 2


def test_a_sheet_with_more_than_was_released(published, tmp_path):
    """A row and a column that somebody has added to a workbook."""
    workbook = pytest.importorskip("openpyxl").load_workbook(published / "a.xlsx")
    sheet = workbook.worksheets[0]
    sheet.append(["Bonn", 1])
    sheet.cell(1, sheet.max_column + 1, "salary")
    workbook.save(tmp_path / "b.xlsx")
    problems = check(*checker.read(tmp_path / "b.xlsx")).problems
    assert any("what the column 'salary' is" in each for each in problems)
    assert any("5 rows, and 4 were released" in each for each in problems)


def test_columns_and_rows_that_were_not_released(published, tmp_path):
    for name, text in (("more", "town,count,salary\nBern,1,2\n"), ("rows", "town,count\n" + "Bern,1\n" * 5)):
        (tmp_path / f"{name}.csv").write_text(text)
        (tmp_path / f"{name}.csv-metadata.json").write_text((published / "a.csv-metadata.json").read_text())
    assert "what the column 'salary' is" in run(tmp_path / "more.csv").output
    assert "5 rows, and 4 were released" in run(tmp_path / "rows.csv").output


@pytest.mark.parametrize(
    "name", ["none.json", "text.json", "list.json", "other.json", "bad.parquet", "bad.xlsx", "a.csv"]
)
def test_other_files_end_with_2(tmp_path, name):
    texts = {"text.json": "no", "list.json": "[1]", "other.json": '{"epsilon": 1}'}
    if name != "none.json":
        (tmp_path / name).write_text(texts.get(name, "x"))
    result = run(tmp_path / name)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert checker.main([str(tmp_path / name)]) == 2


def test_it_runs_as_one_file_without_the_package(published, tmp_path):
    assert run("--script", tmp_path / "c.py", "--page", tmp_path / "p.html").exit_code == 0
    assert run("--script", tmp_path / "c.py").exit_code == 2  # nothing is replaced
    blocked = (
        "import sys; sys.modules['osgt'] = None; sys.modules['scipy'] = None; sys.argv = ['c.py', *sys.argv[1:]]; "
    )
    code = blocked + f"import runpy; runpy.run_path({str(tmp_path / 'c.py')!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, *(str(published / name) for name in ("a.csv", "a.parquet", "a.xlsx"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("HOLDS, if") == 3
    assert "<script src" not in (tmp_path / "p.html").read_text()


def test_it_shares_no_code_with_the_package():
    assert "osgt" not in {
        line.split()[1].split(".")[0]
        for line in Path(checker.__file__).read_text().splitlines()
        if line.lstrip().startswith(("import ", "from "))
    }
