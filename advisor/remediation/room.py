"""Room: nodes that a container may move to, and why the others cannot take it. Kernel."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.remediation.fits import APART, FITS, HOME, LACKS, NEEDS_UNKNOWN, UNKNOWN, WHY, Codes, may_go, node_codes
from advisor.remediation.pod_neighbours import Occupancy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MAX_TRIED = 256
"""Nodes that are scored for one move."""


@dataclass(frozen=True, slots=True)
class Room:
    """What containers are promised, and what nodes have left of it: cores, bytes of memory, and where known GPUs, pods.

    Args:
        free: (n, c) of each node; -inf where it is not known, inf where it has no limit.
        needs: (m, c) of each resident; inf where unknown.
        uids: (m) of each resident; empty without rules.
        occupancy: rules of pods and nodes; None where only capacity is known.
        extended: names of extended resources in the columns after those.
    """

    free: Floats
    needs: Floats
    uids: tuple[str, ...] = ()
    occupancy: Occupancy | None = None
    extended: tuple[str, ...] = ()

    def codes(self, row: int, home: int) -> Codes:
        """(n,) why each node does or does not accept a resident, codes of advisor.remediation.fits.WHY.

        Codes after those are of the extended resource that the node lacks.
        """
        left = self.free - self.needs[row]
        found, plain = np.zeros(len(self.free), np.uint16), left.shape[1] - len(self.extended)
        if self.occupancy is not None:
            uid = self.uids[row]
            found = node_codes(self.occupancy.pods[uid], self.occupancy.nodes, home).astype(np.uint16)
            found[self.occupancy.kept_away(uid) & (found == FITS)] = APART
        for column in range(left.shape[1]):
            if self.needs[row, column] != 0:  # the scheduler does not ask for what a pod does not need
                found[(found == FITS) & ~(left[:, column] >= 0)] = (
                    LACKS + column if column < plain else len(WHY) + column - plain
                )
        if not np.isfinite(self.needs[row]).all():
            found[found >= LACKS] = NEEDS_UNKNOWN
        found[np.isneginf(self.free).any(axis=1)] = UNKNOWN
        found[home] = HOME
        return found

    def nodes_for(self, row: int, home: int) -> Ints:
        """Nodes but the own one that accept a resident, those with the most room left first.

        Nodes that the autoscaler may remove are left out where others accept it.
        """
        fits = np.flatnonzero(self.codes(row, home) == FITS)
        if self.occupancy is not None:
            lasting = fits[~may_go([self.occupancy.nodes[node] for node in fits])]
            fits = lasting if len(lasting) else fits
        best = np.argsort(-self.free[fits, :2].min(axis=1, initial=np.inf), kind="stable")
        return np.asarray(fits[best[:MAX_TRIED]])

    def lacking(self, row: int, home: int) -> str:
        """Why no node accepts a resident, by number of nodes; empty where one does."""
        found = self.codes(row, home)
        return "" if (found == FITS).any() else counted(found, self.extended)

    def taken(self, row: int, target: int) -> "Room":
        """Capacity left once a resident comes to a node; its old place counts as used until it has left."""
        free = self.free.copy()
        free[target] -= self.needs[row]
        occupancy = None if self.occupancy is None else self.occupancy.moved(self.uids[row], target)
        return replace(self, free=free, occupancy=occupancy)

    def ordered(self, order: Ints) -> "Room":
        """The same with residents in another order."""
        uids = tuple(self.uids[row] for row in order) if self.uids else ()
        return replace(self, needs=self.needs[order], uids=uids)


def counted(codes: Codes, extended: Sequence[str] = ()) -> str:
    """Nodes that do not accept a container by reason, the most frequent first: "12 lack CPU, 5 are tainted"."""
    counts = Counter(code for code in codes.tolist() if code not in {FITS, HOME})
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return ", ".join(f"{number} {(_many if number > 1 else reason)(code, extended)}" for code, number in most)


def reason(code: int, extended: Sequence[str] = ()) -> str:
    """Why one node does not accept a container: "lacks CPU"."""
    verb, _, rest = _many(code, extended).partition(" ")
    return f"{ {'are': 'is', 'do': 'does', 'may': 'may', 'have': 'has'}.get(verb, f'{verb}s') } {rest}"


def _many(code: int, extended: Sequence[str]) -> str:
    return WHY[code] if code < len(WHY) else f"lack {extended[code - len(WHY)]}"
