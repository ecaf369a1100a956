"""Keys that are made: values of the stored columns with which a row counts, one for each group.

Where conditions or derived columns stand between a row and its group, the engine says where a row falls: many are put
before it, with values that the expressions name among them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from osgt.auditing.made_rows import Row, constants, key_rows, numbered, ordinary, strange, text_of
from osgt.auditing.stage import Stage
from osgt.tables.dataset import Dataset

#: More groups than this are not tried.
MOST_GROUPS = 600

#: Combinations of values that are tried to meet the conditions, and numbered values of a column that is not the first.
_TRIED, _FEW = 400, 40


def stored_columns(data: Dataset, names: Iterable[str]) -> list[str]:
    """The stored columns that some columns are made of, each once."""
    found: list[str] = []
    for name in names:
        found += stored_columns(data, data.derived[name].columns) if name in data.derived else [name]
    return list(dict.fromkeys(found))


def named_values(stage: Stage, column: str) -> list[str | None]:
    """Values of a stored column that the expressions which look at it name."""
    data = stage.query.dataset
    every = [*data.derived.values(), *data.filters]
    texts = [each.text for each in every if column in stored_columns(data, each.columns)]
    return [value for text in texts for value in constants(stage.columns[column], text)]


@dataclass(frozen=True, eq=False)
class MadeKeys:
    """Keys for a query: those of real rows and public ones, strange ones, and as many more as there can be."""

    stage: Stage
    real: Sequence[Row]
    most: int

    @cached_property
    def key_columns(self) -> list[str]:
        """The stored columns that groups depend on."""
        return self._stored(self.stage.query.groups.by)

    @cached_property
    def condition_columns(self) -> list[str]:
        """The stored columns that conditions depend on."""
        return self._stored(name for each in self.stage.query.dataset.filters for name in each.columns)

    def _stored(self, names: Iterable[str]) -> list[str]:
        data = self.stage.query.dataset
        return [name for name in stored_columns(data, names) if name in self.stage.columns]

    @property
    def found(self) -> list[Row]:
        """The keys, each in a group of its own as far as can be told."""
        free = [name for name in self.key_columns if name not in self.condition_columns]
        combined, meeting = self._combined(free), self._meeting
        if not meeting:
            return combined  # they do not count, and the audit says so
        tried = [key | meeting[i % len(meeting)] for i, key in enumerate(combined)]
        tried += [combined[i % len(combined)] | each for i, each in enumerate(meeting)]
        unique = list({tuple(key.items()): key for key in tried}.values())
        data, groups = self.stage.query.dataset, self.stage.query.groups
        if not data.filters and not set(groups.by) & set(data.derived):
            return unique
        places = self.stage.placed([self._template | key for key in unique])
        by_group: dict[object, Row] = {}
        for key, place in zip(unique, places, strict=True):
            if place is not None:
                by_group.setdefault(place.group, key)
        return list(by_group.values()) or unique

    def _combined(self, names: Sequence[str]) -> list[Row]:
        """Combinations of values of some columns: alternately those that others have as well, and strange ones."""
        public = self.stage.query.groups.public
        known: list[Row] = [{name: row[name] for name in names} for row in self.real]
        if public is not None and set(names) <= set(public.column_names):
            listed = public.select(names).to_pylist()
            known = [{name: text_of(value) for name, value in row.items()} for row in listed] + known
        made = key_rows(self._pools(names, self.most + 8), self.most + 8)
        mixed = [key for both in zip(known, made, strict=False) for key in both] if public is None else known
        every = [*mixed, *known[len(made) :], *made]
        return list({tuple(key.items()): key for key in every}.values())

    def _pools(self, names: Sequence[str], most: int) -> dict[str, list[str | None]]:
        """For each column values that are known, that expressions name, strange ones, and as many more."""
        public, pools = self.stage.query.groups.public, {}
        for i, name in enumerate(names):
            dtype = self.stage.columns[name]
            listed: list[str | None] = [row[name] for row in self.real]
            if public is not None and name in public.column_names:
                listed += [text_of(value) for value in public[name].to_pylist()]
            more = (numbered(dtype, j) for j in range(most if i == 0 else max(_FEW, most // 4)))
            listed += [*named_values(self.stage, name), *strange(dtype), *(key for key in more if key is not None)]
            pools[name] = list(dict.fromkeys(listed))
        return pools

    @cached_property
    def _meeting(self) -> list[Row]:
        """Values with which rows meet the conditions; of nothing, if there are none."""
        names = self.condition_columns
        if not self.stage.query.dataset.filters:
            return [{}]
        tried = [{name: row[name] for name in names} for row in self.real]
        tried += key_rows(self._pools(names, _TRIED), _TRIED)
        unique = list({tuple(each.items()): each for each in tried}.values())
        counting = self.stage.counting([self._template | each for each in unique])
        return [each for each, counts in zip(unique, counting, strict=True) if counts]

    @cached_property
    def _template(self) -> Row:
        return {name: ordinary(dtype) for name, dtype in self.stage.columns.items()}
