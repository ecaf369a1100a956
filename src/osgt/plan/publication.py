"""The plan of several tables with one budget: the noise of each, and what all of them take out of a budget."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from osgt.noise.error import Objective, objective_text
from osgt.plan.choice import LimitChoice
from osgt.plan.plan import Plan, saved
from osgt.privacy import Charge
from osgt.privacy.filters.budget import pure_cautions
from osgt.support.errors import PLANNED, Familiar
from osgt.support.text import DisplayedInText


@dataclass(frozen=True, eq=False, repr=False)
class PublicationPlan(Familiar, DisplayedInText):
    """The plans of tables that are released together. `plan["by_city"]` is that of one of them.

    `blocks` are the plans of what is measured: tables with the same rows, groups and bounds share one.
    """

    _called, _advice = "a plan", PLANNED
    _for_users = "tables epsilon delta confidence objective choice charge gains weights agreeing warnings to_dict"

    tables: Mapping[str, Plan]
    blocks: tuple[Plan, ...]
    #: For each table the place of its block.
    block_of: Mapping[str, int]
    #: The weight of each table.
    weights: Mapping[str, float]
    #: The choice of limits that comes first, where some are open.
    choice: LimitChoice | None = None
    #: The places of blocks whose tables agree, each set together.
    sets: tuple[tuple[int, ...], ...] = ()

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
        """The error that was made small."""
        return self.blocks[0].objective

    @property
    def selection_delta(self) -> float:
        """The chance that a group of one unit alone is shown, over all tables."""
        return self.charge.selection_delta

    @property
    def noise_delta(self) -> float:
        """The δ that the noise may use."""
        return self.delta - self.selection_delta

    @cached_property
    def charge(self) -> Charge:
        """The charge to a ledger: the choice of limits, all that is measured, once, and the choice of groups."""
        choice = [] if self.choice is None else [self.choice.charge]
        return Charge.compose([*choice, *(block.charge for block in self.blocks)])

    @property
    def gains(self) -> dict[str, float]:
        """The part of the error of all columns that is saved against each alternative noise."""
        errors = {name: math.fsum(block.ends[name].error for block in self.blocks) for name in self.blocks[0].ends}
        return saved(self.objective, math.fsum(block.noise.error for block in self.blocks), errors)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons why this is worth little, each once; those about one table begin with its name."""
        result = {name: plan.warnings for name, plan in self.tables.items()}
        common = [text for text in self.blocks[0].warnings if all(text in texts for texts in result.values())]
        own = [f"Table {name}: {text}" for name, texts in result.items() for text in texts if text not in common]
        return (*common, *own)

    @property
    def cautions(self) -> tuple[str, ...]:
        """The warnings, and what δ = 0 costs: for whoever chooses the budget."""
        pure = pure_cautions(max(plan.times_as_wide for plan in self.tables.values()))
        return (*self.warnings, *pure)

    @property
    def agreeing(self) -> list[list[str]]:
        """The names of tables that agree, each set together."""
        return [[name for name, block in self.block_of.items() if block in places] for places in self.sets]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        of_all = ("noise_delta", "confidence", "objective", "gains", "charge", "choice_of_limits", "warnings")
        leave_out = ("epsilon", "delta", *of_all)
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "noise_delta": self.noise_delta,
            "selection_delta": self.selection_delta,
            "confidence": self.confidence,
            "objective": objective_text(self.objective),
            "gains": self.gains,
            "charge": self.charge.to_dict(),
            "agreeing": self.agreeing,
            "choice_of_limits": None if self.choice is None else self.choice.to_dict(),
            "tables": {
                name: {key: value for key, value in plan.to_dict().items() if key not in leave_out}
                for name, plan in self.tables.items()
            },
            "warnings": list(self.cautions),
        }
