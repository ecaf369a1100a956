"""The word for a privacy unit: given, or taken from the name of its column; and in all sentences."""

import pyarrow as pa
import pytest

from osgt import Dataset
from osgt.data.unit import Noun
from osgt.query.file.reading import query_file_of

ROWS = pa.table({"patient_id": range(90), "ward": ["x", "y", "z"] * 30})


@pytest.mark.parametrize(
    ("columns", "one", "many"),
    [
        (["patient_id"], "patient", "patients"),
        (["PATIENT_ID"], "patient", "patients"),
        (["patientId"], "patient", "patients"),
        (["TaxPayerID"], "tax payer", "tax payers"),
        (["user"], "user", "users"),
        (["household_number"], "household", "households"),
        (["company"], "company", "companies"),
        (["person_id"], "person", "people"),
        (["box"], "box", "boxes"),
        (["covid"], "covid", "covids"),  # the ending is part of the word
        (["id"], "unit", "units"),
        (["_id"], "unit", "units"),
        (["household", "person"], "unit", "units"),
        (["x\x1b[31m"], "unit", "units"),
        (["long" * 20], "unit", "units"),
        ([], "row", "rows"),
    ],
)
def test_the_noun_of_columns(columns, one, many):
    assert Noun.from_columns(columns) == Noun(one, many)


def test_a_given_noun():
    assert Noun.of("patient") == Noun("patient", "patients")
    assert Noun.of(["aircraft", "aircraft"]) == Noun.of(("aircraft", "aircraft")) == Noun("aircraft", "aircraft")
    assert Noun.of("nursing home") == Noun("nursing home", "nursing homes")
    assert [Noun.of("child").counted(number) for number in (1, 2000)] == ["1 child", "2,000 children"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "at most 40 characters on one line"),
        (" ", "at most 40 characters"),
        ("a\nb", "on one line, got"),
        ("\x1b[31m", "on one line, got"),
        ("p" * 41, "at most 40 characters"),
        (["a", "b", "c"], "singular and plural"),
        ([], "singular and plural"),
        ([1], "one word"),
        (3, "one word"),
    ],
)
def test_a_noun_that_is_none(given, words):
    with pytest.raises((ValueError, TypeError), match=f"noun must be .*{words}"):
        Dataset(ROWS, "patient_id", noun=given)


def test_it_is_in_all_sentences():
    query = Dataset(ROWS, "patient_id", noun="inpatient").group_by("ward", max_rows=2, max_groups=2).count_units()
    plan = query.plan(epsilon=1, delta=1e-6)
    assert "noisy number of inpatients" in str(plan)
    release = query.release(epsilon=1, delta=1e-6)
    words = release.statement.words
    assert "for every inpatient (column patient_id)" in words
    assert "Adding or removing all rows of one inpatient" in words
    assert "An inpatient in more than 2 groups" in words
    assert "patient_id" not in words.replace("(column patient_id)", "")
    assert release.statement.to_dict()["privacy"]["noun"] == ["inpatient", "inpatients"]


def test_it_is_a_key_of_query_files():
    data = {"source": "v.csv", "privacy_unit": "id"}
    assert query_file_of({"data": {**data, "noun": ["aircraft", "aircraft"]}}).data.noun == ["aircraft", "aircraft"]
    with pytest.raises(ValueError, match=r"data\.noun must be text in quotes, or a list of texts"):
        query_file_of({"data": {**data, "noun": 3}})
