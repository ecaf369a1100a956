"""The reference of the API names what there is, and every aggregate."""

import importlib
import re
from pathlib import Path

import pytest

import osgt
from osgt.query.file.aggregates import AGGREGATES

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SHOWN = [
    (name, [member.strip() for member in members.split(",")])
    for page in sorted(REFERENCE.glob("*.md"))
    for name, members in re.findall(
        r"^::: (\S+)\n    options:\n      members: \[(.*)\]$", page.read_text(encoding="utf-8"), re.M
    )
]


def test_some_members_are_chosen():
    assert len(SHOWN) >= 8


@pytest.mark.parametrize(("name", "members"), SHOWN, ids=[name for name, _ in SHOWN])
def test_every_member_is_there_and_documented(name, members):
    try:
        place = importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, inner = name.rpartition(".")
        place = getattr(importlib.import_module(module), inner)
    for member in members:
        assert getattr(place, member).__doc__, member


@pytest.mark.parametrize(("name", "members"), SHOWN, ids=[name for name, _ in SHOWN])
def test_every_method_for_users_is_shown(name, members):
    module, _, inner = name.rpartition(".")
    place = getattr(importlib.import_module(module), inner)
    own = getattr(place, "_for_users", "").split()
    assert {member for member in own if callable(getattr(place, member, None))} <= set(members)


def test_every_public_name_is_shown():
    text = (REFERENCE / "python.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^::: \S*\b(\w+)$", text, re.M)) | set(dict(SHOWN)["osgt.data.derived"])
    assert set(osgt.__all__) - {"OsgtWarning", "__version__"} <= shown


def test_every_aggregate_is_shown():
    members = dict(SHOWN)["osgt.api.query.Query"]
    assert {kind.name for kind in AGGREGATES.values()} <= set(members)
