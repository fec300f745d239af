"""Planner's inputs: growth and dated events that no past shows, each with who said so and why. Kernel.

They multiply demand, and stay apart from the forecast: events of the past are taken off a series before it is
forecast, and those to come are put on afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

YEAR_HOURS = 8760.0
ANY = ""
NEVER = 2**62


@dataclass(frozen=True)
class Event:
    """Something that multiplies demand for a time.

    Args:
        start_us: first hour that it counts for, microseconds since 1970.
        end_us: hours from here on are without it; NEVER where it stays.
        app_class: class of apps, or ANY.
        pool: pool, or ANY.
        factor: > 0, 1.5 is half as much again.
        who: said so.
        why: in the planner's words.
    """

    start_us: int
    end_us: int
    app_class: str
    pool: str
    factor: float
    who: str
    why: str

    def concerns(self, app_class: str, pool: str) -> bool:
        """Whether it multiplies demand of this class in this pool."""
        return self.app_class in {ANY, app_class} and self.pool in {ANY, pool}


def event_factors(hours_us: Ints, keys: Sequence[tuple[str, str]], events: Sequence[Event]) -> Floats:
    """What events multiply demand by.

    Args:
        hours_us: (t,) starts of hours, microseconds since 1970.
        keys: (n,) class and pool of each series.
        events: any order; those of one hour multiply each other.

    Returns:
        (n, t) factors, 1 where there is no event.

    Raises:
        Nothing.

    Source: ours, docs/demand.md.
    """
    found = np.ones((len(keys), len(hours_us)))
    for event in events:
        during = (hours_us >= event.start_us) & (hours_us < event.end_us)
        concerned = np.array([event.concerns(*key) for key in keys], np.bool_)
        found[np.ix_(concerned, during)] *= event.factor
    return found


def growth_factors(horizon: int, yearly: float) -> Floats:
    """(horizon,) what growth beyond the past multiplies the hours ahead by; 0.2 is a fifth more in a year."""
    return np.asarray((1.0 + yearly) ** (np.arange(1, horizon + 1) / YEAR_HOURS))
