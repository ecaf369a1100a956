"""What is publicly known of columns: public keys, ranges, labels. And what is refused, before any row is read."""

from fractions import Fraction

import pyarrow as pa
import pytest

from osgt import Dataset, cut, month, weekday
from osgt.data import code_list
from osgt.plan.choice import draws_of, limit_of
from osgt.query.about import About

ROWS = 600
WARDS = ["x", "y", "z"]
VISITS = pa.table(
    {
        "patient": [i // 2 for i in range(ROWS)],
        "ward": [WARDS[i % 3] for i in range(ROWS)],
        "land": [["CH", "DE", None][i % 3] for i in range(ROWS)],
        "code": [i % 4 for i in range(ROWS)],
        "cost": [float(i % 100) for i in range(ROWS)],
        "day": pa.array([i % 700 for i in range(ROWS)], pa.date32()),
    }
)


def data(**columns):
    return Dataset(VISITS, "patient", units=300, columns=columns)


def keys(query):
    return [tuple(row.values()) for row in query.groups.public.to_pylist()]


class TestKeys:
    def test_values_are_the_public_keys(self):
        query = data(ward={"values": ["x", "z", "new"]}).group_by("ward")
        assert keys(query) == [("x",), ("z",), ("new",)]

    def test_all_combinations_of_several(self):
        both = data(ward={"values": WARDS}, code={"values": range(2)}).group_by("ward", "code")
        assert keys(both) == [(ward, code) for ward in WARDS for code in (0, 1)]

    def test_not_if_one_of_them_is_not_known(self):
        assert data(ward={"values": WARDS}).group_by("ward", "code").groups.public is None

    def test_groups_can_be_chosen_by_their_size(self):
        assert data(ward={"values": WARDS}).group_by("ward", public_keys="none").groups.public is None

    def test_others_can_be_given(self):
        assert keys(data(ward={"values": WARDS}).group_by("ward", public_keys=["y"])) == [("y",)]

    @pytest.mark.parametrize("given", [["x", "ward y"], {"ward": ["x", "ward y"]}])
    def test_keys_that_no_row_can_have(self, given):
        known = data(ward={"values": ["x", "ward Y"]})
        with pytest.raises(ValueError, match=r"public_keys: 'ward y' is not among .* \(did you mean 'ward Y'\?\)"):
            known.group_by("ward", public_keys=given)
        with pytest.raises(ValueError, match="public_keys: '13' is not among"):
            known.derive(month=month("day")).group_by("month", public_keys=range(1, 14))
        assert keys(known.group_by("ward", public_keys=["x", None])) == [("x",), (None,)]

    def test_all_of_one_column(self):
        given = {"ward": "all", "code": [3]}
        assert keys(data(ward={"values": ["x"]}).group_by("ward", "code", public_keys=given)) == [("x", 3)]

    def test_derived_columns_with_few_values(self):
        some = data().derive(month=month("day"), band=cut("cost", [0.0, 50, 100]))
        assert len(keys(some.group_by("month", "band"))) == 24

    def test_parts_of_dates_are_derived_first(self):
        with pytest.raises(ValueError, match=r"no column 'month'.*; derive it first, as month = \"month\(day\)\""):
            data().group_by("month")

    def test_too_many_combinations(self):
        many = data(ward={"values": [str(i) for i in range(1000)]}, code={"values": range(1000)})
        with pytest.raises(ValueError, match=r"public_keys must be given: .* make 1,000,000 groups"):
            many.group_by("ward", "code")
        assert many.group_by("ward", "code", public_keys="none").groups.public is None

    def test_a_code_list_in_a_file(self, tmp_path):
        path = tmp_path / "codes.csv"
        path.write_text("code;label\n0;none\n3;three\n", encoding="utf-8")
        known = data(code={"values": path})
        assert keys(known.group_by("code")) == [(0,), (3,)]
        assert known.known_column("code").labels == {"0": "none", "3": "three"}
        assert str(path) in known.files

    def test_countries(self):
        query = data(land={"values": "iso-countries"}).group_by("land").count()
        assert len(keys(query)) == 249
        assert About.of([query], {}).values["land"]["CH"] == "Switzerland"

    def test_the_list_of_countries(self):
        """Codes are two letters of their own, and so are names."""
        countries = code_list("iso-countries")
        assert all(len(code) == 2 and code.isupper() for code in countries)
        assert len(set(countries.values())) == len(countries) == 249


class TestRanges:
    def test_bounds_are_chosen_within_the_range(self):
        query = data(cost={"range": (10, 90)}).group_by(max_rows=2).mean("cost")
        [draw] = draws_of([query])
        around, from_low = [[limit_of(draw.limit, rung) for rung in ladder] for ladder in draw.ladders]
        assert around[-1] == from_low[-1] == (Fraction(10), Fraction(90))
        assert all(low == 10 < high <= 90 for low, high in from_low)
        assert all(low + high == 100 for low, high in around)

    def test_a_release_chooses_such_bounds(self):
        release = data(cost={"range": (-20, 180)}).group_by(max_rows=2).mean("cost").release(epsilon=20, delta=0)
        low, high = release.query.aggregates[0].arguments()["bounds"]
        assert -20 <= low < high <= 180
        assert low == -20 or low + high == pytest.approx(160, abs=0.1)

    def test_fewer_people_are_enough(self):
        few = Dataset(VISITS, "patient", units=250, columns={"cost": {"range": (0, 100)}})
        few.group_by(max_rows=2).mean("cost").plan(epsilon=1, delta=0)
        with pytest.raises(ValueError, match="too little to choose"):
            Dataset(VISITS, "patient", units=250).group_by(max_rows=2).mean("cost").plan(epsilon=1, delta=0)

    def test_totals_of_what_cannot_be_negative(self):
        [draw] = draws_of([data(cost={"range": (0, 100)}).group_by().sum("cost")])
        assert [ladder.kind for ladder in draw.ladders] == ["from 0"]
        [draw] = draws_of([data(cost={"range": (-1, 100)}).group_by().sum("cost")])
        assert len(draw.ladders) == 2

    def test_rows_as_units_take_the_range_itself(self):
        query = Dataset(VISITS, "row", columns={"cost": {"range": (0, 100)}}).mean("cost")
        assert query.open_limits == ()
        assert query.aggregates[0].arguments()["bounds"] == [0, 100]

    def test_quantiles_and_histograms_take_it(self):
        query = data(cost={"range": (0, 100)}).group_by().median("cost").histogram("cost", 4)
        assert query.aggregates[0].arguments()["bounds"] == [0, 100]
        assert query.aggregates[1].arguments()["edges"] == [0, 25, 50, 75, 100]

    def test_without_one_they_are_refused(self):
        with pytest.raises(ValueError, match=r"bounds of 'cost' must be .* range in \[columns.cost\] of a data file"):
            data().group_by().median("cost")
        with pytest.raises(TypeError, match=r"edges of 'cost' must be a list .* whose range is known"):
            data().group_by().histogram("cost", 4)
        with pytest.raises(ValueError, match="must be from 1 to 1,000 bins, got 0"):
            data(cost={"range": (0, 1)}).group_by().histogram("cost", 0)

    def test_bounds_that_are_given_stay(self):
        query = data(cost={"range": (0, 100)}).group_by().median("cost", (0, 10))
        assert query.aggregates[0].arguments()["bounds"] == [0, 10]


class TestWords:
    def test_labels_and_units_stand_in_reports(self):
        known = data(ward={"label": "Ward", "values": {"x": "Surgery", "y": "Y", "z": "Z"}}, cost={"unit": "CHF"})
        about = About.of([known.group_by("ward").count().mean("cost", (0, 1))], {})
        assert about.labels == {"ward": "Ward"}
        assert about.units == {"cost_mean": "CHF", "cost": "CHF"}
        assert about.values == {"ward": {"x": "Surgery", "y": "Y", "z": "Z"}}

    def test_what_is_given_takes_their_place(self):
        known = data(ward={"label": "Ward", "values": {"x": "Surgery", "y": "Y", "z": "Z"}})
        texts = {"labels": {"ward": "Department"}, "values": {"ward": {"y": "Yes"}}}
        about = About.of([known.group_by("ward").count()], texts)
        assert about.labels == {"ward": "Department"}
        assert about.values == {"ward": {"x": "Surgery", "y": "Yes", "z": "Z"}}

    def test_the_label_of_a_column_names_its_aggregates(self):
        query = data(cost={"label": "Total cost"}).group_by().mean("cost", (0, 1)).quantile("cost", [0.25], (0, 9))
        labels = About.of([query], {}).labels
        assert (labels["cost_mean"], labels["cost_q25"]) == ("Total cost, mean", "Total cost, q25")

    def test_months_and_weekdays_have_names(self):
        derived = data().derive(m=month("day"), w=weekday("day"))
        about = About.of([derived.group_by("m", "w").count()], {})
        assert (about.values["m"]["12"], about.values["w"]["1"]) == ("December", "Monday")
        stored = data(code={"values": "weekdays"}).group_by("code").count()
        assert About.of([stored], {}).values["code"]["7"] == "Sunday"

    def test_print_shows_them(self):
        release = data().derive(m=month("day")).group_by("m", max_rows=2).count().release(epsilon=1, delta=0)
        assert "January" in str(release)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"wrd": {}}, "columns: there is no column 'wrd'"),
        ({"ward": {"valeus": []}}, "columns: ward has no 'valeus' .did you mean 'values'"),
        ({"ward": []}, "columns: ward must be a dict"),
        (["ward"], "columns must be a dict"),
        ({"ward": {"values": []}}, "columns: ward: values must hold at least one value"),
        ({"ward": {"values": ["x", "x"]}}, "columns: ward: values must hold each value once, got 'x' again"),
        ({"ward": {"values": ["x", None]}}, "values must not be missing"),
        (
            {"ward": {"values": [1, 2]}},
            "values must hold text, as in the data; got values of type int64",
        ),
        ({"ward": {"values": ["x", 2]}}, "columns: ward: values must be of one type"),
        ({"code": {"values": ["1", "2"]}}, "columns: code: values must hold whole numbers, as in the data"),
        ({"code": {"values": {"one": "1"}}}, "columns: code: values must hold whole numbers"),
        ({"code": {"values": {"1": 1}}}, "the label of '1' must be text, got 1"),
        ({"ward": {"values": {"x": "A", "y": "A"}}}, "must have a label of their own each, got 'A' again"),
        ({"cost": {"values": [1.0]}}, "columns: cost: values are for columns that can be keys, got float64"),
        ({"ward": {"values": "no-such-list"}}, "one of 'iso-countries', 'months' and 'weekdays', got 'no-such-list'"),
        ({"ward": {"values": "iso-country"}}, "did you mean 'iso-countries'"),
        ({"ward": {"values": "nowhere.csv"}}, "columns: ward: values: there is no file 'nowhere.csv'"),
        ({"ward": {"values": 3}}, "columns: ward: values must be a list, .* got int"),
        ({"ward": {"range": (0, 1)}}, "columns: ward: range is for columns of numbers, got string"),
        ({"cost": {"range": (1, 0)}}, "columns: cost: range must be the least and the largest plausible value"),
        ({"cost": {"range": 5}}, "columns: cost: range must be"),
        ({"cost": {"range": (0, float("inf"))}}, "columns: cost: range must be"),
        ({"cost": {"range": "01"}}, "columns: cost: range must be"),
        ({"cost": {"label": 3}}, "columns: cost: label must be text, got 3"),
        ({"cost": {"unit": " "}}, "columns: cost: unit must be text"),
        ({"cost": {"type": "float64"}}, "types"),
    ],
)
def test_what_is_wrong_is_named(columns, message):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=message):
        Dataset(VISITS, "patient", columns=columns)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the first line of .* must be"),
        ("x\ny\n", 'the first line of .* must be "code" or "code,label"'),
        ("code,label\nx,X,extra\n", "each line of .* must be a code, and its label"),
        ("code\nx,X\n", "each line of .* must be a code$"),
        ("code,label\n,X\n", "must be a code"),
        ("code\nx\nx\n", "must hold each value once, got 'x' again"),
    ],
)
def test_what_is_wrong_with_a_code_list_is_named(tmp_path, text, message):
    path = tmp_path / "codes.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        data(ward={"values": str(path)})


def test_a_type_is_declared_once(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("patient,cost\n1,2\n", encoding="utf-8")
    known = Dataset(path, "patient", columns={"cost": {"type": "float64", "range": (0, 9)}})
    assert known.declared_types == {"cost": "float64"}
    with pytest.raises(ValueError, match="columns: cost: the type must be declared once"):
        Dataset(path, "patient", types={"cost": "int64"}, columns={"cost": {"type": "float64"}})
