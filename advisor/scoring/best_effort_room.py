"""Best-effort room: nodes whose headroom does not hold a best-effort pending pod. Kernel."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.candidates import seats_of

Floats = NDArray[np.float64]
CPU = 0


def lacks_room(snapshot: Snapshot, pending_pod: PendingPod, nodes: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Nodes that do not offer what a best-effort pending pod will use.

    Args:
        snapshot: with offers, or without any.
        pending_pod: others than best-effort ones never lack it.
        nodes: (n,) rows of the snapshot.

    Returns:
        (n,) whether a node offers nothing, or fewer cores than the pod's app uses on its platform as far as that is
        known; False where no offer names the node.

    Raises:
        Nothing.

    Source: ours, docs/headroom.md.
    """
    if not pending_pod.best_effort or not snapshot.node_offered.size:
        return np.zeros(len(nodes), np.bool_)
    offered = snapshot.node_offered[nodes]
    return np.asarray((offered <= 0) | (offered < cores_needed(snapshot, pending_pod, nodes)), np.bool_)


def cores_needed(snapshot: Snapshot, pending_pod: PendingPod, nodes: NDArray[np.int32]) -> Floats:
    """(n,) cores that an app is expected to use on each node; 0 where that is not known."""
    return np.nan_to_num(seats_of(snapshot, pending_pod, nodes).members.use[:, CPU])


def after_assumed(snapshot: Snapshot, assumed: Iterable[Booked]) -> Snapshot:
    """The snapshot with offers from which best-effort assumed pods have taken what they will use."""
    taken = [one for one in assumed if one.of.best_effort and one.node in snapshot.node_index]
    if not taken or not snapshot.node_offered.size:
        return snapshot
    left = snapshot.node_offered.copy()
    for one in taken:
        row = snapshot.node_index[one.node]
        left[row] -= cores_needed(snapshot, one.of.pending_pod(), np.array([row], np.int32))[0]
    return replace(snapshot, node_offered=left)
