"""A lower bound on ε beside the upper one: an ε at which δ is proved to be larger than allowed is not enough."""

import math
from collections.abc import Callable

#: How often the place between an ε that is too small and one of which nothing is proved is halved.
_BISECTIONS = 4


def epsilon_below(delta_below: Callable[[float], float], delta: float, upper: float, distance: float) -> float:
    """The largest ε found, from 0 to `upper`, at which a lower bound on δ exceeds the δ given; 0 if there is none.

    The true ε is larger than that: δ falls with ε, and is at most the one given there. `distance` is how far below
    `upper` the search begins.
    """
    close = upper
    while distance < upper and delta_below(upper - distance) <= delta:
        close, distance = upper - distance, 8.0 * distance
    far = upper - distance if distance < upper else 0.0
    if far == 0.0 and delta_below(0.0) <= delta:
        return 0.0
    for _ in range(_BISECTIONS):
        middle = upper - math.sqrt((upper - far) * (upper - close)) if close < upper else 0.5 * (far + upper)
        if not far < middle < close:
            break
        far, close = (middle, close) if delta_below(middle) > delta else (far, middle)
    return far
