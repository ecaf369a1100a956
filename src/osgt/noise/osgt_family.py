"""The OSGT family: the default, from the Gaussian (u = 0) to the Laplace (u = 1), with m/σ = u/(1 - u) between them."""

import math
from functools import lru_cache

from osgt.noise.continuous import OSGT
from osgt.noise.discrete import DiscreteOSGT
from osgt.noise.family import End, Family, register
from osgt.noise.offset import OffsetPotential


@lru_cache(maxsize=4096)
def _unit(u: float) -> OffsetPotential:
    if u == 1:
        return OffsetPotential(math.sqrt(2.0), 0.0)
    shape = u / (1.0 - u)
    variance = OSGT(shape, 1.0).var()
    return OffsetPotential(shape * math.sqrt(variance), variance)


OSGT_FAMILY = register(
    Family(
        name="osgt",
        potential=OffsetPotential,
        unit=_unit,
        ends=(
            End(
                "gaussian", "many coordinates for this δ: their losses add up to a bell curve, which suits the Gaussian"
            ),
            End("laplace", "few coordinates for this δ: the bounded privacy loss of the Laplace pays"),
        ),
        real=OSGT.of,
        integer=DiscreteOSGT.of,
    )
)
