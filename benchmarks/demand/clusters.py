"""Simulated clusters that grow until they are full: steadily, by compound growth, at a changing rate, or in steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DAY, WEEK = 24, 7
WEEKS = (13, 53)
"""Known past."""
ROOM = (1.05, 1.6)
"""Capacity over the largest hours of the last four weeks: it is chosen by the past alone, as an owner would."""
AHEAD = 720
LAWS = ("steady", "compound", "changing", "steps")


@dataclass(frozen=True)
class Cluster:
    """A pool's largest hours, its capacity, and when it was full.

    Args:
        law: how it grew.
        largest: (d,) largest hour of each known day.
        capacity: in the same unit.
        days: until an hour first reached it, 1 is tomorrow.
    """

    law: str
    largest: Floats
    capacity: float
    days: int


def cluster(law: str, rng: np.random.Generator) -> Cluster:
    """One that was not full before and is full within AHEAD days; drawn again until it is."""
    while True:
        past = int(rng.integers(*WEEKS)) * WEEK
        largest = _largest(law, past + AHEAD, rng)
        capacity = float(largest[past - 4 * WEEK : past].max() * np.exp(rng.uniform(*np.log(ROOM))))
        full = np.flatnonzero(largest >= capacity)
        if len(full) and full[0] >= past:
            return Cluster(law, largest[:past], capacity, int(full[0]) - past + 1)


def _largest(law: str, days: int, rng: np.random.Generator) -> Floats:
    """(days,) largest hour of each day."""
    level = np.repeat(_course(law, days, rng), DAY)
    at = np.arange(days * DAY)
    season = 1 + rng.uniform(0.05, 0.4) * np.sin(2 * np.pi * at / DAY) - rng.uniform(0, 0.25) * (at // DAY % 7 >= 5)
    kept, spread = rng.uniform(0.8, 0.97), rng.uniform(0.01, 0.05)
    shocks = rng.standard_normal(len(at)) * spread * np.sqrt(1 - kept**2)
    noise = np.zeros(len(at))
    for hour in range(1, len(at)):
        noise[hour] = kept * noise[hour - 1] + shocks[hour]
    return np.asarray((level * season * np.exp(noise)).reshape(days, DAY).max(axis=1))


def _course(law: str, days: int, rng: np.random.Generator) -> Floats:
    """(days,) level by day, 1 at the start."""
    yearly = rng.uniform(0.5, 3.0)
    at = np.arange(days) / 365
    if law == "steady":
        return np.asarray(1 + yearly * at)
    if law == "compound":
        return np.asarray((1 + yearly) ** at)
    if law == "changing":
        rate = yearly * np.exp(_months(days // 30 + 1, rng))
        return np.asarray(1 + np.cumsum(np.repeat(rate, 30)[:days]) / 365)
    arrivals = rng.random(days) < 1 / 4
    return np.asarray(1 + np.cumsum(arrivals * rng.gamma(2.0, yearly / 2 * 4 / 365, days)))


def _months(count: int, rng: np.random.Generator) -> Floats:
    """(count,) logarithm of a rate that keeps 0.7 of its deviation from month to month, with standard deviation 0.4."""
    found = np.zeros(count)
    for month in range(1, count):
        found[month] = 0.7 * found[month - 1] + 0.4 * np.sqrt(1 - 0.7**2) * rng.standard_normal()
    return found
