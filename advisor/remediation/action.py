"""Remedy: one thing that can be done, what it saves and costs, and the fields it is done with. Facts."""

from dataclasses import dataclass, replace
from typing import Literal

from advisor.remediation.benefit import Amount

Kind = Literal[
    "cpu.max",
    "cpuset",
    "cache class",
    "bandwidth class",
    "memory.high",
    "io.max",
    "network limit",
    "raise cpu limit",
    "move antagonist",
    "move victim",
    "rearrange",
    "add capacity",
]
MOVES: tuple[Kind, ...] = ("move antagonist", "move victim", "rearrange")
SUFFICES = 0.8
"""Probability from which a remedy is called sufficient."""


@dataclass(frozen=True, slots=True)
class Field:
    """A setting, as the one who sets it calls it.

    Args:
        where: `cgroup` of the container, `resctrl` group of it, field of the `pod`, or of Koordinator's `NodeSLO`.
        name: of the file or field.
        value: what to write.
    """

    where: Literal["cgroup", "resctrl", "pod", "NodeSLO"]
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """What can be done about one victim.

    Args:
        kind: what.
        container: to whom.
        target: node it moves to; None for what is done where it is.
        fields: what is set, none for moves.
        kept: share of its use of a resource that a throttle leaves; 1 for all else.
        gain: expected interference cost saved in an hour, over all containers.
        low: of a 90 % interval of it.
        high: of it.
        there: expected hourly cost of the container and its neighbours on the target, counted in `gain`
            already; 0 for what is done where it is.
        cost: what it costs for as long as it is meant to hold, restarts and slower work.
        sufficient: probability that the victim is then not slower than allowed; None where that is not known.
        why: in words.
    """

    kind: Kind
    container: str
    target: str | None
    fields: tuple[Field, ...]
    kept: float
    gain: float
    low: float
    high: float
    there: float
    cost: float
    sufficient: float | None
    why: str

    @property
    def suffices(self) -> bool:
        """Whether it is likely enough to help."""
        return self.sufficient is not None and self.sufficient >= SUFFICES

    def scaled(self, factor: float) -> "Remedy":
        """The same, with a gain so many times as large."""
        return replace(self, gain=factor * self.gain, low=factor * self.low, high=factor * self.high)

    def pays(self, hours: float) -> bool:
        """Whether it saves more than it costs in so many hours, by the lower end of its interval."""
        return self.low * hours > self.cost


def remedy_of(
    kind: Kind,
    container: str,
    gain: Amount,
    *,
    cost: float,
    sufficient: float | None,
    why: str,
    fields: tuple[Field, ...] = (),
    kept: float = 1.0,
) -> Remedy:
    """A remedy where the container is, from a gain that is not known exactly."""
    return Remedy(kind, container, None, fields, kept, gain.mean, gain.low, gain.high, 0.0, cost, sufficient, why)
