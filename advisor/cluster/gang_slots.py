"""Gang slots: nodes that are reserved for members of gangs, and what that means for a pending pod. Kernel.

A member gets the full points on the node of its slot; others lose points where slots of gangs are open. Nothing is
forbidden: a scheduler that does not offer a reserved node still gets an answer.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PodClass
from advisor.cluster.pod_groups import MAX_LOST, fewer

Ints = NDArray[np.int64]
OWN, SAME_CLASS, ELSEWHERE = 10, 9, 5
"""Points of a member's reserved node, of other open slots of its class, and at most of all other nodes."""


@dataclass(frozen=True, slots=True)
class GangSlot:
    """An open slot.

    Args:
        group: namespace and name of the gang.
        node: where.
        of: class of the member.
        until_us: when the slot is given back.
    """

    group: str
    node: str
    of: PodClass
    until_us: int


@dataclass
class GangSlots:
    """Open slots of all gangs; replaced at once by a thread, read on the event loop."""

    by_group: Mapping[str, tuple[GangSlot, ...]] = field(default_factory=dict)

    def take(self, slots: Iterable[GangSlot]) -> None:
        """From now on these are open, and no others."""
        by_group: defaultdict[str, list[GangSlot]] = defaultdict(list)
        for slot in slots:
            by_group[slot.group].append(slot)
        self.by_group = {group: tuple(each) for group, each in by_group.items()}

    def points(
        self,
        points: Ints,
        names: Sequence[str],
        group: str,
        of: PodClass,
        *,
        assumed: Mapping[str, int],
        now_us: int,
    ) -> Ints:
        """Points of offered nodes by what is reserved.

        Args:
            points: (k,) 0 to 10.
            names: (k,) offered nodes.
            group: of the pending pod; empty for none.
            of: its class.
            assumed: pods of the group that are assumed or seen on each node, the pending one not counted.
            now_us: the time.

        Returns:
            (k,) points. A gang's member: OWN on its node, SAME_CLASS on other nodes with an open slot of its class, and
            at most ELSEWHERE on the rest. Its node is the offered one with most points, the first of equal ones.
            Others lose a point for each open slot, MAX_LOST at most, and none falls to 0.

        Raises:
            Nothing.

        Source: ours, docs/decisions/0077-gangs.md.
        """
        own = Counter(slot.node for slot in self.by_group.get(group, ()) if slot.of == of and slot.until_us > now_us)
        own = own - Counter(assumed)
        if any(own[name] for name in names):
            mine = np.array([own[name] > 0 for name in names], np.bool_)
            best = int(np.where(mine, points, -1).argmax())
            found = np.where(mine, SAME_CLASS, np.minimum(points, ELSEWHERE))
            return np.where(np.arange(len(names)) == best, OWN, found)
        open_ones = (slot for each in self.by_group.values() for slot in each if slot.until_us > now_us)
        others = Counter(slot.node for slot in open_ones if slot.group != group)
        return fewer(points, np.array([min(others[name], MAX_LOST) for name in names], np.int64))
