"""The files about the project itself: versions agree, what they name exists, and they can be read."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read_yaml(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version_and_the_paper():
    citation = read_yaml("CITATION.cff")
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]
    assert citation["preferred-citation"]["title"] == "Offset-Symmetric Gaussians for Differential Privacy"


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]


def test_the_hosted_tests_run_targets_that_there_are():
    jobs = read_yaml(".github/workflows/test.yml")["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {run.split()[1] for run in runs} == {"check", "test", "package"} <= targets


@pytest.mark.parametrize("form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]*.yml")), ids=lambda p: p.name)
def test_issue_forms_ask_in_order(form):
    plain = read_yaml(form)
    assert {"name", "description", "body"} <= set(plain)
    ids = [part["id"] for part in plain["body"] if part["type"] != "markdown"]
    assert len(ids) == len(set(ids)) >= 2


def test_privacy_defects_come_first():
    forms = sorted(path.name for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[0-9]*.yml"))
    assert [name[2:-4] for name in forms[:2]] == ["privacy-defect", "wrong-number"]


def test_hooks_before_a_commit_call_what_make_installs():
    entries = [hook["entry"].split()[0] for hook in read_yaml(".pre-commit-config.yaml")["repos"][0]["hooks"]]
    assert set(entries) == {".venv/bin/ruff", ".venv/bin/mypy"}
