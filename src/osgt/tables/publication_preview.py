"""Previews of several tables. For whoever may see the data; never part of a release."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from osgt.pages.cards import Card
from osgt.tables.cards import preview_card
from osgt.tables.preview import WARNING, Preview
from osgt.tables.publication import Publication


@dataclass(frozen=True)
class PublicationPreview:
    """What the bounds of each table drop or change. Not private."""

    tables: Mapping[str, Preview]

    def __getitem__(self, name: str) -> Preview:
        return self.tables[name]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = {name: preview.to_dict() for name, preview in self.tables.items()}
        return {
            "warning": WARNING,
            "tables": {
                name: {key: value for key, value in each.items() if key != "warning"} for name, each in plain.items()
            },
        }

    def __repr__(self) -> str:
        return "PublicationPreview(NOT PRIVATE; print it to see what the bounds cut off)"

    def _repr_html_(self) -> str:
        tables = [
            replace(table, caption=f"{name}: {table.caption}")
            for name, preview in self.tables.items()
            for table in preview_card(preview, WARNING).tables
        ]
        return Card("What the bounds cut off", alarm=WARNING, tables=tables).html()

    def __str__(self) -> str:
        lines = [WARNING]
        for name, preview in self.tables.items():
            lines.append(f"{name}:")
            lines += [f"  {line}" for line in str(preview).splitlines() if line != WARNING]
        return "\n".join(lines)


def make_previews(publication: Publication) -> PublicationPreview:
    """Run the counting queries of all tables."""
    return PublicationPreview({name: query.preview() for name, query in publication.tables.items()})
