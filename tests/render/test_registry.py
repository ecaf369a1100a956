"""An entry for the Differential Privacy Deployments Registry: its required fields, its words, and marked blanks."""

import datetime
import re

import pyarrow as pa
import pytest

from html_pages import HOSTILE
from osgt import Dataset, Ledger
from osgt.facts.statement import Statement
from osgt.query.about import About
from osgt.render.registry import BLANK, entry, registry_yaml
from osgt.support.text import one_line

yaml = pytest.importorskip("yaml")

#: The registry's schema of July 2026: for each table its fields, those that must be there, and the words of some.
REQUIRED = {
    "": {"url_slug", "status", "tier", "deployment"},
    "deployment": {"basic"},
    "basic": {
        "name",
        "data_curators",
        "description",
        "intended_use",
        "data_product_type",
        "data_product_region",
        "publication_date",
    },
    "administrative": {"registry_authors"},
}
FIELDS = {
    "": REQUIRED[""],
    "deployment": {
        "basic",
        "dp_variant",
        "privacy_loss",
        "deployment_model",
        "accounting",
        "implementation",
        "administrative",
    },
    "basic": {*REQUIRED["basic"], "data_product_sector"},
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    "privacy_parameters": {"epsilon", "delta", "rho"},
    "deployment_model": {
        "model_name",
        "model_name_details",
        "actors",
        "release_type",
        "release_type_details",
        "data_source_type",
        "data_source_type_details",
        "access_type",
        "access_type_details",
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    "administrative": {"sources", "notes", "registry_authors"},
}
WORDS = {
    "status": {"Converted", "Draft", "Pending", "Changes Required", "Approved"},
    "tier": {1, 2, 3},
    "data_product_type": {
        "Summary statistics",
        "Machine learning model",
        "Dataset",
        "Synthetic data",
        "Interactive API",
        "SQL queries",
    },
    "data_product_sector": {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"},
    "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
    "release_type": {"One release", "Many releases"},
    "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive", "Non-interactive"},
}
LISTS = {"data_curators", "registry_authors"}
NUMBERS = {"epsilon", "delta", "rho"}


def check(plain, table=""):
    """Raise AssertionError where the schema would be broken."""
    assert isinstance(plain, dict), table
    assert set(plain) <= FIELDS[table], table
    assert set(plain) >= REQUIRED.get(table, set()), table
    for name, value in plain.items():
        if name in FIELDS:
            check(value, name)
        elif name in WORDS:
            assert value in WORDS[name], name
        elif name in LISTS:
            assert value, name
            assert all(isinstance(each, str) for each in value), name
        elif name in NUMBERS:
            assert isinstance(value, float | int), name
        else:
            assert isinstance(value, str), name


ROWS = pa.table({"user": range(900), "town": ["Bern", "Rome", "Oslo"] * 300, "fare": [1.5] * 900})


def made(data, **options):
    query = data.group_by("town", max_groups=1, max_rows_per_group=2, **options).count().mean("fare", (0, 50))
    return query.release(1, 1e-6)


@pytest.fixture(scope="module")
def release():
    return made(Dataset(ROWS, "user", noun="passenger").where("fare > 1"))


def test_a_release(release):
    found = yaml.safe_load(registry_yaml(release.statement, About()))
    check(found)
    assert found == entry(release.statement, About())
    deployment = found["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Approximate DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-6}
    assert deployment["basic"]["publication_date"] == release.statement.to_dict()["date"][:10]
    datetime.date.fromisoformat(deployment["basic"]["publication_date"])
    before = deployment["implementation"]["preprocessing_and_hyperparameter_tuning"]
    assert "A passenger in more than 1 group is counted in one of them, chosen at random." in before
    assert "A passenger counts as at most 2 rows in a group: of one with more, each row counts less." in before
    assert "Values of fare below 0 or above 50 count as the nearer of these." in before
    assert "fare > 1" in before
    threshold = f"at least {release.plan.threshold:,}. A group of {release.plan.shown_size:,} is published 99 %"
    assert threshold in deployment["accounting"]["post_processing"]
    assert "family osgt" in deployment["implementation"]["mechanisms"]
    assert "not charged to a ledger" in deployment["accounting"]["composition"]


def test_blanks_are_marked(release):
    text = registry_yaml(release.statement, About())
    deployment = yaml.safe_load(text)["deployment"]
    for name in ("name", "intended_use", "data_product_region"):
        assert deployment["basic"][name].startswith(BLANK)
    assert deployment["administrative"]["registry_authors"][0].startswith(BLANK)
    assert deployment["implementation"]["justification"].startswith(BLANK)
    chosen = dict(re.findall(rf"^ *# (\w+): {BLANK}: (.+)$", text, re.MULTILINE))
    assert {name: set(re.split(", | or ", words)) for name, words in chosen.items()} == {
        name: WORDS[name] for name in ("data_product_sector", "data_source_type")
    }


def test_what_the_office_has_said_is_there(release):
    about = About(title="Trips: 2013", publisher="Office", source="https://example.org")
    found = yaml.safe_load(registry_yaml(release.statement, about))
    check(found)
    basic = found["deployment"]["basic"]
    assert (basic["name"], basic["data_curators"], found["url_slug"]) == ("Trips: 2013", ["Office"], "trips-2013")
    assert found["deployment"]["privacy_loss"]["privacy_unit"] == "each passenger (column user)"
    assert found["deployment"]["administrative"]["sources"] == "https://example.org"


def test_pure_public_and_charged(tmp_path):
    with Ledger(tmp_path / "budget.db") as ledger:
        ledger.open("trips", epsilon=4, delta=0)
        data = Dataset(ROWS, "user", ledger=ledger, dataset="trips")
        query = data.group_by("town", max_groups=1, max_rows_per_group=1, public_keys=["Rome"])
        release = query.count().release(1, 0, nonnegative=True)
    found = yaml.safe_load(registry_yaml(release.statement, About()))
    check(found)
    deployment = found["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0}
    assert "given beforehand" in deployment["dp_variant"]["unprotected_quantities"]
    assert "was charged to a ledger" in deployment["accounting"]["composition"]
    assert "shown as 0" in deployment["accounting"]["post_processing"]


def on_lines(plain):
    """The same with each text on one line, without control codes."""
    if isinstance(plain, dict):
        return {name: on_lines(value) for name, value in plain.items()}
    if isinstance(plain, list):
        return [on_lines(value) for value in plain]
    return one_line(plain) if isinstance(plain, str) else plain


@pytest.mark.parametrize("text", [*HOSTILE, "a: b", "- x", "#", "'", "\u2028", "\x85", "\ufeff", "null", "1e-8", "|"])
def test_hostile_texts(release, text):
    about = About(title=text, publisher=text)
    found = yaml.safe_load(registry_yaml(release.statement, about))
    check(found)
    assert found == on_lines(entry(release.statement, about))


def test_small_numbers_are_numbers(release):
    values = release.statement.to_dict() | {"epsilon": 1e-5, "delta": 1e-12}
    found = yaml.safe_load(registry_yaml(Statement.from_dict(values), About()))
    assert found["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1e-5, "delta": 1e-12}


def test_the_check_can_fail(release):
    for table, name in (("basic", "intended_use"), ("privacy_loss", "unknown"), ("dp_variant", "variant_name")):
        plain = entry(release.statement, About())
        section = plain["deployment"][table]
        section.pop(name) if name == "intended_use" else section.update({name: "wrong"})
        with pytest.raises(AssertionError):
            check(plain)
