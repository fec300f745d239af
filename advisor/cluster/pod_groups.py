"""Groups: pods that belong together, and what the places of those already sent say of the next one. Kernel.

Latency-sensitive pods of a group are replicas of something and are spread; best-effort ones work together and are kept
in one rack, where racks are declared. Both only take points off: the scale stays absolute, and nothing is forbidden.
"""

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST = 20_000
"""Members remembered at once; whole groups are forgotten, the least recently joined first."""
KEPT_US = 3_600_000_000
"""A group without a new member for so long is dropped: another group may have its name by now."""
MAX_LOST = 2
"""Points that a node loses at most for siblings on it; a point is worth a tenth of the scale."""
ELSEWHERE = 1
"""Points that a node loses in a rack without siblings."""


@dataclass
class _Group:
    """Nodes by uid, members by node, and the time of the last join."""

    nodes: dict[str, str] = field(default_factory=dict)
    members: Counter[str] = field(default_factory=Counter)
    at_us: int = 0

    def put(self, uid: str, node: str) -> None:
        """A member is on a node, and nowhere else."""
        self.drop(uid)
        self.nodes[uid] = node
        self.members[node] += 1

    def drop(self, uid: str) -> None:
        """Remove a pod from the group."""
        if (before := self.nodes.pop(uid, None)) is not None:
            self.members[before] -= 1
            if not self.members[before]:
                del self.members[before]


@dataclass
class Groups:
    """Where members of groups were sent, or were seen since."""

    _groups: OrderedDict[str, _Group] = field(default_factory=OrderedDict)
    _of: dict[str, str] = field(default_factory=dict)
    """Group by uid."""

    def join(self, group: str, uid: str, node: str, at_us: int) -> None:
        """A member was sent to a node."""
        if (before := self._of.get(uid, group)) != group:
            self._groups[before].drop(uid)
            if not self._groups[before].nodes:
                del self._groups[before]
        known = self._groups.setdefault(group, _Group())
        known.put(uid, node)
        known.at_us = at_us
        self._of[uid] = group
        self._groups.move_to_end(group)
        while len(self._of) > MOST:
            self._forget(next(iter(self._groups)))

    def landed(self, uid: str, node: str) -> None:
        """A member was seen on a node, which may be another one than it was sent to."""
        if (group := self._of.get(uid)) is not None:
            self._groups[group].put(uid, node)

    def left(self, uid: str) -> None:
        """A member will not arrive."""
        if (group := self._of.pop(uid, None)) is not None:
            self._groups[group].drop(uid)
            if not self._groups[group].nodes:
                del self._groups[group]

    def nodes(self, group: str, but: str, now_us: int) -> Counter[str]:
        """How many members of a group are on each node, one of them not counted."""
        known = self._groups.get(group)
        if known is not None and now_us - known.at_us > KEPT_US:
            self._forget(group)
            known = None
        if known is None:
            return Counter()
        found = known.members.copy()
        if (own := known.nodes.get(but)) is not None:
            found[own] -= 1
        return +found

    def _forget(self, group: str) -> None:
        for uid in self._groups.pop(group).nodes:
            del self._of[uid]

    def __len__(self) -> int:
        return len(self._of)


def spread(points: Ints, siblings: Ints) -> Ints:
    """Points of a latency-sensitive member: a node with siblings loses one for each, no more than MAX_LOST.

    Args:
        points: (k,) 0 to 10.
        siblings: (k,) members on each node.

    Returns:
        (k,) points; what was advised stays above 0, what never was stays 0.

    Raises:
        Nothing.

    Source: ours.
    """
    return fewer(points, np.minimum(siblings, MAX_LOST))


def packed(points: Ints, near: Flags) -> Ints:
    """Points of a best-effort member: a node that is not in a rack with siblings loses ELSEWHERE.

    Args:
        points: (k,) 0 to 10.
        near: (k,) whether siblings are in the node's rack; a rack that is not declared holds no sibling.

    Returns:
        (k,) points as in `spread`; as they were where no offered node is near.

    Raises:
        Nothing.

    Source: ours.
    """
    return fewer(points, np.where(near, 0, ELSEWHERE)) if near.any() else points


def fewer(points: Ints, lost: Ints) -> Ints:
    """(k,) points less (k,) others; what was advised stays above 0, what never was stays 0."""
    return np.where(points > 0, np.maximum(points - lost, 1), 0)
