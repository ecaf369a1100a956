"""Names that were probably meant."""

import pytest

from osgt.support.text import names_in_words, nearest, unknown


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("usr", ["user", "city"], "user"),
        ("Fare Amount", ["fare_amount"], "fare_amount"),
        ("--maxgroups", ["--max-groups", "--max-rows-per-group"], "--max-groups"),
        ("average", ["count", "mean"], "mean"),
        ("--distinct", ["--count", "--count-units"], "--count-units"),
        ("average", ["average_fare", "average"], "average"),
        ("größe", ["grösse", "fare"], "grösse"),
        ("zzz", ["user", "city"], None),
        ("average", ["user"], None),
        ("x", [], None),
    ],
)
def test_the_nearest(name, known, found):
    assert nearest(name, known) == ("" if found is None else f" (did you mean {found!r}?)")


def test_few_and_many_names():
    assert unknown("column", "x", []) == "there is no column 'x'; the table has none"
    assert names_in_words(["a"]) == "'a'"
    assert names_in_words(["a", "b", "c"]) == "'a', 'b' and 'c'"
    assert names_in_words([str(i) for i in range(1000)]).endswith("'19' and 980 more")
