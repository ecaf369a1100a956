"""The plan of several tables with one budget: the noise of each, and what all of them take out of a budget."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from osgt.calibration import calibrate_joint
from osgt.calibration.scale import ScaleSearch
from osgt.noise.error import Objective, objective_text
from osgt.plan.choice import LimitChoice
from osgt.plan.plan import Plan, saved
from osgt.privacy import Charge
from osgt.privacy.filters.budget import pure_cautions
from osgt.support.errors import PLANNED, Familiar
from osgt.support.text import DisplayedInText, listed

#: How much wider intervals must be than with an equal part of the budget to be told.
_WIDER = 1.2


@dataclass(frozen=True, eq=False, repr=False)
class PublicationPlan(Familiar, DisplayedInText):
    """The plans of tables that are released together. `plan["by_city"]` is that of one of them.

    `blocks` are the plans of what is measured: tables with the same rows, groups and bounds share one.
    """

    _called, _advice = "a plan", PLANNED
    _for_users = "tables epsilon delta confidence objective choice charge gains weights warnings advice to_dict"

    tables: Mapping[str, Plan]
    blocks: tuple[Plan, ...]
    #: For each table the place of its block.
    block_of: Mapping[str, int]
    #: The weight of each table.
    weights: Mapping[str, float]
    #: The choice of limits that comes first, where some are open.
    choice: LimitChoice | None = None

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
        """The warnings, what δ = 0 costs, and how to weight tables better: for whoever chooses the budget."""
        pure = pure_cautions(max(plan.times_as_wide for plan in self.tables.values()))
        return (*self.warnings, *pure, *self.advice)

    @cached_property
    def advice(self) -> tuple[str, ...]:
        """The advice on weights, where tables have wider intervals than with an equal part of the budget for each.

        Noise goes like one over a weight's third root where its loss is next to its largest, as in a pure budget, and
        like its fourth root where it is like Gaussian noise: the third power mends both.
        """
        wider = {name: self._wider[at] for name, at in self.block_of.items()}
        if max(wider.values()) <= _WIDER:
            return ()
        weights = {name: self.weights[name] * each**3 for name, each in wider.items()}
        least = min(weights.values())
        given = ", ".join(f"{name}={float(f'{weight / least:.2g}'):g}" for name, weight in weights.items())
        part = f"1/{len(self)} of the budget"
        told = [f"{name} {each:.2g} times as wide" for name, each in wider.items() if each > _WIDER]
        return (
            f"Some intervals are wider than they would be if each table had {part} for itself: {listed(told)}. Weights "
            f"change that: about {given} makes none wider (weighted(…) in Python, weight in a query file).",
        )

    @cached_property
    def _wider(self) -> list[float]:
        """The widening of the intervals of each block against an equal part of the budget for each of its tables."""
        return [
            _alone(block, sum(at == i for at in self.block_of.values()) / len(self))
            for i, block in enumerate(self.blocks)
        ]

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
            "choice_of_limits": None if self.choice is None else self.choice.to_dict(),
            "tables": {
                name: {key: value for key, value in plan.to_dict().items() if key not in leave_out}
                for name, plan in self.tables.items()
            },
            "warnings": list(self.cautions),
        }


def _alone(block: Plan, part: float) -> float:
    """Compute how many times as wide the intervals of a block are as with this part of the budget, on average."""
    planning, scheme = block.planning, block.noise.scheme
    search = ScaleSearch(planning.joint(scheme), part * block.epsilon, part * block.noise_delta)
    noise = planning.noise(scheme, calibrate_joint(search, planning.objective, proved=False))
    return math.sqrt(block.noise.error / noise.error) if noise.error else 1.0
