"""The statement of several tables with one budget: one promise, and what there is to know about each table."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from osgt.pages.numbers import listed
from osgt.tables.left_out import LeftOut
from osgt.tables.statement import (
    Made,
    Statement,
    about_bounds,
    about_groups,
    about_noise,
    closing,
    common_values,
    promise,
    table_values,
)

if TYPE_CHECKING:
    from osgt.tables.publication import Publication
    from osgt.tables.publication_plan import PublicationPlan

#: What a table's own statement has beside what all have in common.
_OWN = ("query", "columns", "left_out", "groups_shown")


@dataclass(frozen=True)
class PublicationStatement(Statement):
    """The promise of tables that are released together. `str` of it is for people, `to_dict` for programs."""

    of_tables: Mapping[str, Mapping[str, Any]]

    def of_table(self, name: str) -> Statement:
        """The statement as the file of a table has it: the same words, the values of the table, and the whole."""
        return Statement(self.words, {**self.of_tables[name], "table": name, "publication": self.to_dict()})


def publication_statement(
    publication: "Publication",
    plan: "PublicationPlan",
    made: Made,
    *,
    left_out: Mapping[str, LeftOut | None],
    groups: Mapping[str, int],
) -> PublicationStatement:
    """The statement of tables with so many groups each."""
    names, dataset = list(publication.tables), publication.dataset
    each = {
        name: table_values(query, plan[name], plan, made, left_out=left_out[name], groups=groups[name])
        for name, query in publication.tables.items()
    }
    common = common_values(publication[names[0]], plan, made)
    lost = {name: [] if told is None else told.warnings for name, told in left_out.items()}
    values = common | {
        "privacy": common["privacy"] | {"selection_delta": plan.selection_delta},
        "tables": {
            name: {key: own[key] for key in _OWN}
            | {
                "weight": publication.weights[name],
                "measured_with": [other for other in _together(plan, name) if other != name],
                "privacy": {key: value for key, value in own["privacy"].items() if key not in common["privacy"]},
            }
            for name, own in each.items()
        },
        "warnings": [*plan.warnings, *(f"Table {name}: {text}" for name, texts in lost.items() for text in texts)],
    }
    subject = f"This publication of {len(names)} tables ({listed(names)}) together"
    paragraphs = [[promise(subject, publication[names[0]], plan), *about_noise(plan.confidence)]]
    for name, query in publication.tables.items():
        paragraphs.append([f"Table {name}:", about_bounds(query), *about_groups(query, plan[name], left_out[name])])
    for block in dict.fromkeys(tuple(_together(plan, name)) for name in names):
        if len(block) > 1:
            paragraphs.append([f"What the tables {listed(block)} have in common is the same number in each of them."])
    paragraphs.append(closing("publication", dataset, made))
    paragraphs += [[f"Warning: {warning}"] for warning in plan.warnings]
    return PublicationStatement("\n".join(" ".join(sentences) for sentences in paragraphs), values, each)


def _together(plan: "PublicationPlan", name: str) -> list[str]:
    """The tables that are measured with one, itself among them."""
    return [other for other in plan if plan.block_of[other] == plan.block_of[name]]
