"""Types of PostgreSQL that cannot be keys: refused before anything is charged."""

import psycopg
import pytest

from osgt import Dataset


def test_uuid_keys_are_refused(postgres_database):
    with psycopg.connect(postgres_database) as connection:
        connection.execute("create table visits (person int, place uuid)")
    data = Dataset(postgres_database, "person", table="visits")
    with pytest.raises(TypeError, match="group_by: column 'place' of type uuid"):
        data.group_by("place", max_groups=1, max_rows_per_group=1)
    data.close()
