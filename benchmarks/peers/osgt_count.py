"""Noisy counts by group with osgt on DuckDB: what its user writes.

The others do not tell what their limits leave out; so that all do the same work, osgt is asked not to either.
"""

from osgt import Dataset


def query(path, keys, max_groups, max_rows_per_group):
    data = Dataset(path, privacy_unit="user")
    return data.group_by("grp", max_groups=max_groups, max_rows_per_group=max_rows_per_group, public_keys=keys).count()


def release(epsilon, delta, **question):
    table = query(**question).release(epsilon=epsilon, delta=delta, measure_left_out=False).to_arrow()
    return zip(table["grp"].to_pylist(), table["count"].to_pylist(), strict=True)


def noise_std(epsilon, delta, **question):
    return query(**question).plan(epsilon=epsilon, delta=delta, measure_left_out=False).columns[0].std
