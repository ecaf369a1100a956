"""The plan of several tables with one budget: the noise of each, and what all of them take out of a budget."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from osgt.noise.error import Objective, objective_text
from osgt.privacy import Charge
from osgt.tables.plan import Plan, gains_in_words, saved

if TYPE_CHECKING:
    from osgt.tables.publication import Publication


@dataclass(frozen=True, eq=False)
class PublicationPlan:
    """The plans of tables that are released together. `plan["by_city"]` is that of one of them.

    `blocks` are the plans of what is measured: tables with the same rows, groups and bounds share one.
    """

    tables: Mapping[str, Plan]
    blocks: tuple[Plan, ...]
    #: For each table the place of its block.
    block_of: Mapping[str, int]

    @classmethod
    def of(cls, publication: "Publication", plans: Sequence[Plan]) -> "PublicationPlan":
        """The plans of blocks, in order, as plans of tables."""
        block_of = {name: i for i, block in enumerate(publication.blocks) for name in block.names}
        tables = {
            name: replace(plans[block_of[name]], aggregates=query.aggregates, cuts=tuple(query.cuts()))
            for name, query in publication.tables.items()
        }
        return cls(tables, tuple(plans), block_of)

    def __getitem__(self, name: str) -> Plan:
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    @property
    def epsilon(self) -> float:
        """ε, in total."""
        return self.blocks[0].epsilon

    @property
    def delta(self) -> float:
        """δ, in total."""
        return self.blocks[0].delta

    @property
    def confidence(self) -> float:
        """The probability of each interval."""
        return self.blocks[0].confidence

    @property
    def objective(self) -> Objective:
        """What was made small."""
        return self.blocks[0].objective

    @property
    def selection_delta(self) -> float:
        """The chance that a group of one unit alone is shown, over all tables."""
        return self.charge.selection_delta

    @property
    def noise_delta(self) -> float:
        """The δ that the noise may use."""
        apart = any(block.selection is not None and block.selection.apart for block in self.blocks)
        return self.delta - (self.selection_delta if apart else 0.0)

    @cached_property
    def charge(self) -> Charge:
        """What a ledger takes out of a budget: all that is measured, once, and the choice of groups."""
        return Charge.compose(block.charge for block in self.blocks)

    @property
    def gains(self) -> dict[str, float]:
        """The part of the error of all columns that is saved against each alternative noise."""
        errors = {name: math.fsum(block.ends[name].error for block in self.blocks) for name in self.blocks[0].ends}
        return saved(self.objective, math.fsum(block.noise.error for block in self.blocks), errors)

    def gains_in_words(self) -> str:
        """How much smaller the error is than with the other noises."""
        over = "root mean square over the tables, of each over its columns in units of their shifts"
        return gains_in_words(self.objective, self.gains, over)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes this worth little, each once; what is about one table begins with its name."""
        found = {name: plan.warnings for name, plan in self.tables.items()}
        common = [text for text in self.blocks[0].warnings if all(text in texts for texts in found.values())]
        own = [f"Table {name}: {text}" for name, texts in found.items() for text in texts if text not in common]
        return (*common, *own)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        leave_out = ("epsilon", "delta", "noise_delta", "confidence", "objective", "gains", "charge", "warnings")
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise_delta": self.noise_delta,
            "selection_delta": self.selection_delta,
            "confidence": self.confidence,
            "objective": objective_text(self.objective),
            "gains": self.gains,
            "charge": self.charge.to_dict(),
            "tables": {
                name: {key: value for key, value in plan.to_dict().items() if key not in leave_out}
                for name, plan in self.tables.items()
            },
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        from osgt.tables.publication_cards import several_plan_line  # noqa: PLC0415 - it uses this class

        return several_plan_line(self)

    def _repr_html_(self) -> str:
        from osgt.tables.publication_cards import several_plan_card  # noqa: PLC0415 - it uses this class

        return several_plan_card(self).html()

    def __str__(self) -> str:
        lines = [
            f"ε = {self.epsilon:.15g}, δ = {self.delta:.15g} would be charged, in all, for {len(self)} tables "
            "together. No data were read."
        ]
        for name, plan in self.tables.items():
            lines.append(f"{name}:")
            lines += [f"  {line}" for line in (*plan.noise_in_words(), *plan.bounds_in_words())]
        lines.append(self.gains_in_words())
        lines += [f"Warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)
