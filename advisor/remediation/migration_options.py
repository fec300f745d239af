"""Moves: better nodes for an antagonist or a victim, by measurement here and prediction there. Kernel.

The effect of a diagnosed container on its present node is measured; its effect elsewhere is predicted by the model.
Each has an error, and the model's is the larger one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import erfc, log, sqrt

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.optimizer.assignment_cost import homes, rearranged
from advisor.remediation.action import Remedy, remedy_of
from advisor.remediation.benefit import NOTHING, Amount, Hurt, measured_degradation, relief, sufficient
from advisor.remediation.room import Room
from advisor.scoring.score_scale import LIMIT_SLOWDOWN, cost, cost_of_harm, cost_of_pending
from advisor.scoring.scorer import ModelScorer, Scores

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DOUBT = 0.5
"""Standard deviation of a container's predicted cost on a node, as a share of it."""
LEAST_DOUBT = 0.03
"""The same, at least."""
MAX_HURT = 5
"""Maximum number of named containers that one container slows down."""
ONE_SIDED_90 = 1.2815515655446004


@dataclass(frozen=True, slots=True)
class Scene:
    """A cluster in which moves are looked for.

    Args:
        scorer: over its snapshot.
        room: of its nodes and residents.
        team: of each container, by uid.
        now_us: the time.
        began_us: when each container began, by uid, where that is known.
    """

    scorer: ModelScorer
    room: Room
    team: Mapping[str, str | None]
    now_us: int
    began_us: Mapping[str, int] = field(default_factory=dict)

    @property
    def snapshot(self) -> Snapshot:
        """The cluster."""
        return self.scorer.snapshot

    def home(self, row: int) -> int:
        """Row of a resident's node."""
        return int(np.searchsorted(self.snapshot.first, row, side="right")) - 1

    def lacking(self, row: int) -> str:
        """Why no other node accepts a resident, by number of nodes; empty where one does."""
        return self.room.lacking(row, self.home(row))


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A container where it is and on other nodes, as the model has it.

    Args:
        nodes: (n,) rows of the others.
        home: cost on its present node, of itself and its neighbours, except some.
        hurt: uids of those it costs most there, itself included, but for some; most first.
        there: (n,) what it costs on each of the others.
        slowdown: (n,) its own expected one there.
        upper: (n,) what that stays below nine times in ten.
    """

    nodes: Ints
    home: float
    hurt: tuple[str, ...]
    there: Floats
    slowdown: Floats
    upper: Floats


def elsewhere(scene: Scene, row: int, but: frozenset[str]) -> Elsewhere | None:
    """What a resident would cost on the nodes that have room for it.

    Args:
        scene: the cluster.
        row: of the resident in the snapshot.
        but: uids of neighbours that are counted by measurement instead.

    Returns:
        See Elsewhere; None where there is no room or the model does not say.

    Raises:
        Nothing.

    Source: ours; scores as for a pending pod, docs/decisions/0043-rescheduling.md.
    """
    of = scene.snapshot
    home = scene.home(row)
    nodes = scene.room.nodes_for(row, home)
    nodes = nodes[of.node_known[nodes]]
    if not len(nodes):
        return None
    name = of.apps[of.resident_app[row]] if of.resident_app[row] >= 0 else ""
    calm = bool(of.resident_best_effort[row])
    left = replace(scene.scorer, snapshot=without(of, row))
    pending_pod = PendingPod(name, scene.team.get(of.containers[row]), calm)
    scores = left.score(pending_pod, np.append(home, nodes).astype(np.int32), now_us=scene.now_us)
    total = cost(scores, best_effort=calm, resident_best_effort=left.snapshot.resident_best_effort)
    at_home = _harmed(scores, left.snapshot) | {of.containers[row]: float(cost_of_pending(scores, best_effort=calm)[0])}
    counted = {uid: cost for uid, cost in at_home.items() if uid not in but}
    known = np.isfinite(total[1:])
    if not np.isfinite(sum(counted.values())) or not known.any():
        return None
    return Elsewhere(
        nodes[known],
        sum(counted.values()),
        tuple(sorted(counted, key=lambda uid: -counted[uid])[:MAX_HURT]),
        total[1:][known],
        scores.mean[1:][known],
        scores.upper[1:][known],
    )


def _harmed(scores: Scores, snapshot: Snapshot) -> dict[str, float]:
    """What the model says that each resident of the first candidate is cost, by uid."""
    first = slice(0, int(scores.harm.offsets[1]))
    costs = cost_of_harm(scores.harm, snapshot.resident_best_effort)[first]
    uids = (snapshot.containers[row] for row in scores.harm.resident[first])
    return dict(zip(uids, costs.tolist(), strict=True))


def move_antagonist(scene: Scene, row: int, hurt: Mapping[str, Hurt], restart: float) -> Remedy | None:
    """Move an antagonist to the node with the least total slowdown.

    Args:
        scene: the cluster.
        row: of the antagonist in the snapshot.
        hurt: what it does to those that were diagnosed, by uid, first whom is to be helped.
        restart: what its restart costs.

    Returns:
        The remedy; None where there is no room elsewhere, or the model does not say.

    Raises:
        Nothing.
    """
    found = elsewhere(scene, row, frozenset(hurt))
    if found is None:
        return None
    best = int(np.argmin(found.there))
    measured: Amount = sum((relief(one, 1.0) for one in hurt.values()), NOTHING)
    gain = measured + _with_doubt(found.home) + _with_doubt(float(found.there[best])).scaled(-1.0)
    remedy = remedy_of(
        "move antagonist",
        scene.snapshot.containers[row],
        gain,
        cost=restart,
        sufficient=sufficient(next(iter(hurt.values())), 1.0),
        why=f"its contribution moves with it; on the target it costs {found.there[best]:.2f} an hour",
    )
    return replace(remedy, target=scene.snapshot.nodes[found.nodes[best]], there=float(found.there[best]))


def move_victim(scene: Scene, row: int, slowdown: float, restart: float) -> Remedy | None:
    """Move a victim to the node with the least total slowdown; see move_antagonist."""
    found = elsewhere(scene, row, frozenset({scene.snapshot.containers[row]}))
    if found is None:
        return None
    best = int(np.argmin(found.there))
    own = measured_degradation(slowdown)
    gain = own + _with_doubt(found.home) + _with_doubt(float(found.there[best])).scaled(-1.0)
    remedy = remedy_of(
        "move victim",
        scene.snapshot.containers[row],
        gain,
        cost=restart,
        sufficient=_below_limit(float(found.slowdown[best]), float(found.upper[best])),
        why=f"it is expected to be {found.slowdown[best]:.2f} times its baseline there",
    )
    return replace(remedy, target=scene.snapshot.nodes[found.nodes[best]], there=float(found.there[best]))


def move_anybody(scene: Scene, row: int, restart: float) -> tuple[Remedy, tuple[str, ...]] | None:
    """Move a container to the least total slowdown, by the model alone; and the containers helped, most first."""
    found = elsewhere(scene, row, frozenset())
    if found is None:
        return None
    best = int(np.argmin(found.there))
    there = float(found.there[best])
    remedy = remedy_of(
        "rearrange",
        scene.snapshot.containers[row],
        _with_doubt(found.home) + _with_doubt(there).scaled(-1.0),
        cost=restart,
        sufficient=None,
        why=f"it and its neighbours are expected to cost {found.home:.2f} an hour here, and {there:.2f} there",
    )
    return replace(remedy, target=scene.snapshot.nodes[found.nodes[best]], there=there), found.hurt


def moved(scene: Scene, container: str, target: str) -> Scene:
    """The cluster with a container elsewhere; the room on its old node is not given away yet."""
    of = scene.snapshot
    row, node = of.containers.index(container), of.node_index[target]
    place = homes(of)
    place[row] = node
    order = np.argsort(place, kind="stable")
    return replace(
        scene,
        scorer=replace(scene.scorer, snapshot=rearranged(of, place)),
        room=scene.room.taken(row, node).ordered(order),
    )


def without(snapshot: Snapshot, row: int) -> Snapshot:
    """The snapshot without one resident."""
    home = int(np.searchsorted(snapshot.first, row, side="right")) - 1
    first = snapshot.first.copy()
    first[home + 1 :] -= 1
    return replace(
        snapshot,
        containers=snapshot.containers[:row] + snapshot.containers[row + 1 :],
        cpusets=snapshot.cpusets[:row] + snapshot.cpusets[row + 1 :],
        first=first,
        resident_app=np.delete(snapshot.resident_app, row),
        resident_best_effort=np.delete(snapshot.resident_best_effort, row),
        resident_use=np.delete(snapshot.resident_use, row, axis=0),
    )


def _with_doubt(cost_there: float) -> Amount:
    return Amount(cost_there, max(LEAST_DOUBT, DOUBT * abs(cost_there)) ** 2)


def _below_limit(slowdown: float, upper: float) -> float:
    """Probability that a container is not slower than allowed, by what is expected and its bound."""
    spread = max((log(upper) - log(slowdown)) / ONE_SIDED_90, 1e-3)
    return 0.5 * erfc((log(slowdown) - log(LIMIT_SLOWDOWN)) / spread / sqrt(2.0))
