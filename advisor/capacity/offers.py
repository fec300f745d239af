"""Offers: how much of each node best-effort containers may use until a horizon, and what limits it. Kernel."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Resource = Literal["cpu", "memory"]
RESOURCES: tuple[Resource, ...] = ("cpu", "memory")
RESERVE = 0.05
"""Share of a node that is never offered: what runs outside containers, and the scheduler's own delay."""


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """What one node offers of one resource until one horizon.

    Args:
        node: its name.
        pool: nodes that are forecast together.
        resource: cpu or memory.
        horizon_s: how far ahead residents' peak was forecast, seconds.
        risk: share of such forecasts that residents may exceed.
        offered: cores or bytes that best-effort containers may request in addition; 0 where nothing is known.
        total: cores or bytes that best-effort containers may request in all, those that are there included.
        peak: cores or bytes that other residents are forecast to use at most; None where that is not known.
        capacity: cores or bytes of the node; None where not described.
        booked: cores or bytes that best-effort containers claim which are there; 0 where that is not known.
        bound_by: `peak`; `interference`: more would slow a resident down too much; `full`; or why nothing is offered.
        reason: the same in a sentence.
    """

    node: str
    pool: str
    resource: Resource
    horizon_s: int
    risk: float
    offered: float
    total: float
    peak: float | None
    capacity: float | None
    booked: float
    bound_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Supply:
    """What n nodes have of one resource, and who claims it.

    Args:
        capacity: (n,) cores or bytes; NaN where not described.
        peak: (n,) share of the node that older residents are forecast to use at most; NaN where not known.
        young: (n,) claims of residents that are too young to be forecast; NaN where that of one is not known.
        booked: (n,) claims of best-effort residents; NaN where that of one is not known.
        cap: (n,) additional best-effort use up to which no resident is slowed down too much; inf where none ever is.
        reserve: share of the node that is never offered.
    """

    capacity: Floats
    peak: Floats
    young: Floats
    booked: Floats
    cap: Floats
    reserve: float = RESERVE


def offered(supply: Supply) -> Floats:
    """How much each node offers.

    Returns:
        (n,) cores or bytes, at least 0 and at most the capacity; 0 where capacity, peak or a claim is not known.

    Raises:
        Nothing.

    Source: Koordinator's batch tier with a forecast in place of use now; the limit by interference is ours.
    """
    most = np.minimum(room(supply), supply.cap)
    return np.where(np.isfinite(most), np.clip(most, 0.0, supply.capacity), 0.0)


def in_all(supply: Supply) -> Floats:
    """(n,) cores or bytes for best-effort containers together, those that are there included; see `offered`."""
    most = np.minimum(room(supply), supply.cap) + supply.booked
    return np.where(np.isfinite(most), np.clip(most, 0.0, supply.capacity), 0.0)


def limited_by_interference(supply: Supply) -> NDArray[np.bool_]:
    """(n,) whether interference, not room, limits each offer."""
    return np.asarray(supply.cap < room(supply), np.bool_)


def room(supply: Supply) -> Floats:
    """(n,) cores or bytes beyond the peak and all requests; negative where these are too much."""
    return supply.capacity * (1.0 - supply.reserve - supply.peak) - supply.young - supply.booked


@dataclass(frozen=True, slots=True)
class Revocable:
    """A best-effort container that may have to give resources back.

    Args:
        container: its name in records.
        node: where it runs.
        amount: cores or bytes that it holds.
        work: core-seconds that would be lost with it.
    """

    container: str
    node: str
    amount: float
    work: float


@dataclass(frozen=True, slots=True)
class Correction:
    """A container that gives resources back first.

    Args:
        container: its name in records.
        node: where it runs.
        resource: cpu or memory.
        action: throttle gives CPU back and keeps the work; memory comes back only by eviction.
        frees: cores or bytes.
        needed: cores or bytes by which the node is over what it can offer.
    """

    container: str
    node: str
    resource: Resource
    action: Literal["throttle", "evict"]
    frees: float
    needed: float


def corrections(resource: Resource, over: dict[str, float], held: list[Revocable]) -> list[Correction]:
    """Which container gives back first on each node that holds more than it can offer.

    Args:
        resource: what is missing.
        over: by node, cores or bytes that are missing; at most 0 where none is.
        held: best-effort containers; others are never asked.

    Returns:
        One container for each node with something missing that has any: that which loses least work for what it frees;
        of equal ones the first by name. One at a time, since what it gives back is seen before the next is asked.

    Raises:
        Nothing.

    Source: Mesos' QoS controller: corrections, one revocable task for each agent and round.
    """
    found = list[Correction]()
    for node in sorted(name for name, missing in over.items() if missing > 0):
        candidates = [one for one in held if one.node == node and one.amount > 0]
        if candidates:
            first = min(candidates, key=lambda one: (one.work / one.amount, one.container))
            action: Literal["throttle", "evict"] = "throttle" if resource == "cpu" else "evict"
            frees = min(first.amount, over[node]) if action == "throttle" else first.amount
            found.append(Correction(first.container, node, resource, action, frees, over[node]))
    return found
