"""A budget: what the releases of a data set may add up to, and how they are added up.

The shares of its δ among the filters are set once and for all when the budget is opened. Budgets that promise little
are allowed, but said in so many words.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from osgt.privacy.filters.costs import best_order
from osgt.privacy.profile import float_below
from osgt.support.errors import ArgumentError
from osgt.support.numeric import real_number

#: Share of δ that is set aside for the choice of groups, unless said otherwise.
SELECTION_SHARE = 0.2

#: δ₁ : δ₂, Gaussian residue against Rényi.
_GAUSSIAN_SHARE = 0.8

#: Of the rest, share of the filter for the first few releases.
_FEW_SHARE = 0.05

#: Share of δ for largest losses whose decimals add up to ε and whose floats to a little more.
_ROUNDING_SHARE = 1e-5

#: The quota of selection δ is larger than its share by this, relative, for the same reason.
_SELECTION_MARGIN = 1e-9


@dataclass(frozen=True)
class Shares:
    """A budget (ε, δ) and how δ is divided, fixed when the budget is opened. The five shares add up to at most δ."""

    epsilon: float
    delta: float
    gaussian: float  # δ₁
    renyi: float  # δ₂
    selection: float  # δ_s
    few: float  # δ₀
    basic: float  # by so much largest losses may exceed ε, which is a δ of no more than that
    order: float  # of the Rényi filter: α - 1

    def to_dict(self) -> dict[str, float]:
        """Plain values, for JSON: floats are read back exactly."""
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Shares":
        """The shares that `to_dict` wrote; whether they add up is checked."""
        shares = cls(**{name: real_number(name, plain[name], positive=False) for name in cls.__annotations__})
        divided = (shares.gaussian, shares.renyi, shares.selection, shares.few, shares.basic)
        if sum(map(Fraction, divided)) > Fraction(shares.delta):
            raise ValueError("the shares of δ add up to more than δ")
        return shares


def shares_for(epsilon: float, delta: float, selection_share: float = SELECTION_SHARE) -> Shares:
    """The division of a budget: `selection_share` of δ for the choice of groups (0 where all keys are public).

    Of the rest a twentieth goes to the first few releases, and of what is left then four fifths to the Gaussian residue
    and one fifth to the Rényi filter.
    """
    share = real_number("selection_share", selection_share, positive=False)
    if share > 1:
        raise ArgumentError(
            f"selection_share must be between 0 and 1, got {selection_share!r}", argument="selection_share"
        )
    selection = min(share * delta * (1.0 + _SELECTION_MARGIN), delta)
    noise = max(float_below(Fraction(delta) - Fraction(selection)), 0.0)
    few_share, basic = _FEW_SHARE * noise, _ROUNDING_SHARE * noise
    noise = max(float_below(Fraction(noise) - Fraction(few_share) - Fraction(basic)), 0.0)
    gaussian = _GAUSSIAN_SHARE * noise
    renyi = max(float_below(Fraction(noise) - Fraction(gaussian)), 0.0)
    order = best_order(epsilon, renyi) if renyi > 0 else 1.0
    return Shares(epsilon, delta, gaussian, renyi, selection, few_share, basic, order)


#: A δ as it is in ordinary use: far below one over the number of people.
USUAL_DELTA = 1e-8

#: Intervals that are so many times as wide are worth a word.
_WIDER = 1.02

#: From here on a budget is called large.
LARGE_EPSILON, LARGE_DELTA = 10.0, 1e-3


def budget_warnings(epsilon: float, delta: float) -> tuple[str, ...]:
    """Warn those who rely on the promise (ε, δ); empty for budgets in ordinary use."""
    result = []
    if epsilon > LARGE_EPSILON:
        factor = f"{math.exp(epsilon):,.0f}" if epsilon < 25 else f"e^{epsilon:.15g}"
        result.append(
            f"ε = {epsilon:.15g} is very large: one person can change the probability of a result by a factor of "
            f"{factor}. This protects hardly anybody; use an ε of at most {LARGE_EPSILON:g}, better of about 1."
        )
    if delta > LARGE_DELTA:
        result.append(
            f"δ = {delta:.15g} is very large: for each person the protection may fail with about this probability. "
            "Use a δ far below one over the number of people in the data."
        )
    return tuple(result)


def pure_cautions(times: float) -> tuple[str, ...]:
    """Warn of the cost of δ = 0, if intervals are so many times as wide; empty where that is next to nothing."""
    if times < _WIDER:
        return ()
    return (
        f"δ = 0 makes intervals up to {times:.3g} times as wide as δ = {USUAL_DELTA:g} would. Use it only where no δ "
        "above 0 is allowed.",
    )


#: How releases are added up: by filters, which hold for every analyst, or by exact composition of a fixed plan.
COMPOSITIONS = ("adaptive", "planned")

#: More sums than this make charges slow and entries long.
MOST_SUMS = 2000


@dataclass(frozen=True)
class Partition:
    """The parts in their order, each with the condition on rows that makes it.

    A unit counts in the first `most` parts in which it has rows, for each release alike.
    """

    parts: tuple[tuple[str, str], ...]
    most: int
    neighbours: str

    @classmethod
    def of(cls, parts: Mapping[str, str], most: int, neighbours: str) -> "Partition":
        """The partition with these parts, or an error that says what is wrong with them."""
        if not isinstance(parts, Mapping) or not all(
            isinstance(text, str) and text.strip() for pair in parts.items() for text in pair
        ):
            raise ArgumentError(
                'parts must be a dict from names to conditions on rows, as in {"north": "region = \'north\'"}, got '
                f"{parts!r}",
                argument="parts",
            )
        if len(parts) < 2:
            raise ArgumentError(f"parts: give two or more, got {len(parts)}", argument="parts")
        if type(most) is not int or most < 1:
            raise ArgumentError(f"max_parts must be a whole number of at least 1, got {most!r}", argument="max_parts")
        made = cls(tuple(parts.items()), most, neighbours)
        if made.sums > MOST_SUMS:
            raise ArgumentError(
                f"parts: {len(parts)} parts of which {made.together} add up make {made.sums:,} sums to watch over, and "
                f"at most {MOST_SUMS:,} can be; use fewer parts, a smaller max_parts, or neighbours='add_remove'",
                argument="parts",
            )
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"parts": [list(part) for part in self.parts], "most": self.most, "neighbours": self.neighbours}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Partition":
        """Read what `to_dict` wrote."""
        parts = {str(name): str(condition) for name, condition in plain["parts"]}
        if len(parts) < len(plain["parts"]):
            raise ValueError("two parts of the budget have one name")
        return cls.of(parts, plain["most"], str(plain["neighbours"]))

    @property
    def together(self) -> int:
        """The number of parts by which neighbours can differ: those of one unit, or of the two that are exchanged."""
        return min(self.most * (2 if self.neighbours == "change_one" else 1), len(self.parts))

    @property
    def sums(self) -> int:
        """The number of sets of up to so many parts."""
        return sum(math.comb(len(self.parts), size) for size in range(self.together + 1))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parts."""
        return tuple(name for name, _ in self.parts)

    def place(self, part: str) -> int:
        """The place of a part."""
        if part not in self.names:
            raise ValueError(f"there is no part {part!r}: the budget was opened with {', '.join(self.names)}")
        return self.names.index(part)


@dataclass(frozen=True)
class Budget:
    """(ε, δ), the composition, and for the adaptive one how δ is divided: fixed when the data set is opened.

    So is the partition of the people, if releases about disjoint parts are charged as the largest of them.
    """

    epsilon: float
    delta: float
    composition: str
    selection_share: float | None
    shares: Shares | None
    partition: Partition | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "composition": self.composition,
            "selection_share": self.selection_share,
            "shares": None if self.shares is None else self.shares.to_dict(),
            **({} if self.partition is None else {"partition": self.partition.to_dict()}),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Budget":
        """The budget that `to_dict` wrote, or a ValueError if it is none."""
        try:
            given = plain.get("partition")
            partition = None if given is None else Partition.from_dict(given)
            figures = (plain["epsilon"], plain["delta"], plain["composition"], plain["selection_share"])
            made = new_budget(*figures, partition=partition)
            shares = None if plain["shares"] is None else Shares.from_dict(plain["shares"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a stored budget: {error!r}") from None
        if (shares is None) != (made.shares is None):
            raise ValueError("the shares of δ do not suit the composition")
        if shares is not None and (shares.epsilon, shares.delta) != (made.epsilon, made.delta):
            raise ValueError("the shares of δ are those of another budget")
        return replace(made, shares=shares)


def new_budget(
    epsilon: object,
    delta: object,
    composition: str = "adaptive",
    selection_share: float | None = None,
    *,
    partition: Partition | None = None,
) -> Budget:
    """The budget with these figures, or an error that says what is wrong with them."""
    loss, chance = real_number("epsilon", epsilon, positive=True), real_number("delta", delta, positive=False)
    if chance >= 1:
        raise ArgumentError(f"delta must be at least 0 and below 1, got {delta!r}", argument="delta")
    if not 1e-9 <= loss <= 1e6:
        raise ArgumentError(f"epsilon must be between 1e-9 and 1e6, got {epsilon!r}", argument="epsilon")
    if 0 < chance < 1e-290:
        raise ArgumentError(f"delta must be 0 or at least 1e-290, got {delta!r}", argument="delta")
    if composition not in COMPOSITIONS:
        raise ArgumentError(
            f"composition must be one of {', '.join(COMPOSITIONS)}, got {composition!r}", argument="composition"
        )
    if composition == "planned":
        if selection_share is not None:
            raise ArgumentError(
                'selection_share is for composition="adaptive": planned releases share δ as they come',
                argument="selection_share",
            )
        if partition is not None:
            raise ArgumentError('parts are for composition="adaptive"', argument="parts")
        return Budget(loss, chance, composition, None, None)
    share = (
        SELECTION_SHARE if selection_share is None else real_number("selection_share", selection_share, positive=False)
    )
    return Budget(loss, chance, composition, share, shares_for(loss, chance, share), partition)
