"""Gang requests: what a group of pods asks for together, and the answers it can get."""

from dataclasses import dataclass
from typing import Literal

from advisor.cluster.pending_pod import PodClass

Level = Literal["node", "rack", "zone", "set"]
"""Domains: one node, a declared rack or zone, or all candidate nodes together."""
Mode = Literal["required", "preferred"]
WHOLE_SET = "node set"
"""Name of the only domain of level `set`, also where no node declares the level that was asked for."""
MAX_MEMBERS, MAX_CLASSES = 1024, 8
"""Members of a class, and classes of a gang."""


@dataclass(frozen=True, slots=True)
class MemberClass:
    """Members that are alike.

    Args:
        name: of the class.
        of: app, team and quality of service.
        count: members.
        cores: CPU cores requested by each.
        memory_bytes: memory requested by each.
        devices: whole devices requested by each.
        share: thousandths of one device requested by each, below 1,000; not together with whole devices.
    """

    name: str
    of: PodClass
    count: int
    cores: float = 0.0
    memory_bytes: float = 0.0
    devices: int = 0
    share: int = 0


@dataclass(frozen=True, slots=True)
class GangRequest:
    """A group of pods.

    Args:
        namespace: of the gang.
        gang: name, as its pods carry it.
        members: classes of members.
        min_count: members without which none may start.
        generation: of its specification; a reservation is given once for each.
        level: domain that all members should share.
        mode: `required` is infeasible across domains, `preferred` costs more there.
        priority: higher ones are more important; recorded, no gang is preempted.
        expected_s: expected run time, in seconds; None where unknown.
        nodes: candidate nodes; None for all.
    """

    namespace: str
    gang: str
    members: tuple[MemberClass, ...]
    min_count: int
    generation: int = 0
    level: Level = "set"
    mode: Mode = "required"
    priority: int = 0
    expected_s: float | None = None
    nodes: tuple[str, ...] | None = None

    @property
    def count(self) -> int:
        """All members."""
        return sum(one.count for one in self.members)

    @property
    def group(self) -> str:
        """Namespace and name, as pods of the gang are grouped by."""
        return f"{self.namespace}/{self.gang}"


@dataclass(frozen=True, slots=True)
class Seat:
    """One member's place: its class by number, and its node."""

    member: int
    node: str


@dataclass(frozen=True, slots=True)
class GangPlacement:
    """Where a gang starts: at least its min_count members.

    Args:
        level: of the domain; `set` where none is declared.
        domain: name.
        seats: one per member that is placed.
        cost: interference cost of all members, as advisor.scoring.score_scale counts it.
        among_members: the part of it that members cause each other.
        break_cost: cost of the largest recent gang that no longer fits the domain.
        domains: domains of the asked level that hold members; 1 unless the mode is `preferred`.
    """

    level: Level
    domain: str
    seats: tuple[Seat, ...]
    cost: float
    among_members: float
    break_cost: float
    domains: int


@dataclass(frozen=True, slots=True)
class Infeasible:
    """Why a gang cannot start now.

    Args:
        missing: members without a place by class, in the best domain.
        best: that domain, how many of the members it holds and what runs short, as in "rack r7: 5 of 8; gpu".
        earliest_us: when running gangs with an expected end would have left enough; None where that is unknown.
    """

    missing: dict[str, int]
    best: str
    earliest_us: int | None = None
