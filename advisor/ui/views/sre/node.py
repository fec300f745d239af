"""The page of a node: its residents, the use of each, and those that are slowed down."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from advisor.api.http.roles import allowed
from advisor.api.v1.victims import WHO
from advisor.cluster.snapshot import Snapshot, unknown_node
from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.placement.model_state import Serving
from advisor.ui.site.data_source import Seen, look
from advisor.ui.site.rendering import Pages
from features.schema.catalog import NAMES


@dataclass(frozen=True, slots=True)
class Resident:
    """A container on the node.

    Args:
        container: it.
        app: its app; empty where it is not known.
        qos: its class, BE or LS.
        used: share of the node that it uses of each resource shown; NaN where it is not known.
        wrong: what is wrong with it; None where nothing is known to be.
        slows: diagnoses that name it as antagonist.
    """

    container: str
    app: str
    qos: str
    used: tuple[float, ...]
    wrong: Diagnosis | None
    slows: tuple[Diagnosis, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A resource in use on the node, and the total use; NaN where that is not known."""

    name: str
    used: float


def node_routes(pages: Pages, serving: Serving) -> APIRouter:
    """The route of a node."""
    router = APIRouter()

    @router.get("/ui/nodes/{node}")
    @allowed(*WHO)
    def node(request: Request, node: str) -> Response:
        """One node."""
        seen = look(serving)
        snapshot = seen.snapshot
        if snapshot is None or (row := snapshot.node_index.get(node)) is None:
            raise unknown_node(node)
        columns = _columns(snapshot, row)
        used = used_by_all(snapshot, row)
        platform = int(snapshot.node_platform[row])
        facts = {
            "seen": seen,
            "node": node,
            "platform": snapshot.platforms[platform] if platform >= 0 else "",
            "rack": snapshot.rack_of.get(node, ""),
            "resources": [Shown(NAMES[column], float(used[column])) for column in columns],
            "looked": _looked(seen, node),
            "residents": residents(seen, snapshot, row, columns),
        }
        return pages.page(request, "node.html", facts)

    return router


def _looked(seen: Seen, node: str) -> float:
    """Share of running container time on the node that was looked at; NaN where not known."""
    covered = seen.report.coverage if seen.report else None
    return covered.nodes[node].share if covered is not None and node in covered.nodes else float("nan")


def used_by_all(snapshot: Snapshot, row: int) -> NDArray[np.float64]:
    """(resources) shares of a node that its residents use; NaN where one of them or the node is not known."""
    use = snapshot.resident_use[snapshot.first[row] : snapshot.first[row + 1]].sum(axis=0)
    known = snapshot.node_known[row] & (snapshot.node_capacity[row] > 0)
    share: NDArray[np.float64] = np.divide(use, snapshot.node_capacity[row], out=np.full(len(use), np.nan), where=known)
    return share


def residents(seen: Seen, snapshot: Snapshot, row: int, columns: list[int]) -> list[Resident]:
    """Residents of a node: slowed containers first, the slowest before all; then antagonists; then by use."""
    here = [one for one in (seen.report.diagnoses if seen.report else ()) if one.node == snapshot.nodes[row]]
    wrong = {one.container: one for one in here}
    slows = _slows(here)
    capacity = np.where(snapshot.node_capacity[row] > 0, snapshot.node_capacity[row], np.nan)
    found = [
        Resident(
            container=snapshot.containers[at],
            app=snapshot.apps[app] if (app := int(snapshot.resident_app[at])) >= 0 else "",
            qos="BE" if snapshot.resident_best_effort[at] else "LS",
            used=tuple((snapshot.resident_use[at] / capacity)[columns].tolist()),
            wrong=wrong.get(snapshot.containers[at]),
            slows=tuple(slows[snapshot.containers[at]]),
        )
        for at in range(int(snapshot.first[row]), int(snapshot.first[row + 1]))
    ]
    return sorted(found, key=_worst)


def _slows(here: Iterable[Diagnosis]) -> dict[str, list[Diagnosis]]:
    """The victims of each antagonist."""
    found = defaultdict[str, list[Diagnosis]](list)
    for one in here:
        if one.verdict == "antagonist" and one.suspects:
            found[one.suspects[0].container].append(one)
    return found


def _worst(of: Resident) -> tuple[bool, float, int, float]:
    slowdown = np.nan_to_num(of.wrong.slowdown, nan=1.0) if of.wrong else 0.0
    used = float(np.nan_to_num(of.used[0], nan=-1.0)) if of.used else 0.0
    return of.wrong is None, -float(slowdown), -len(of.slows), -used


def _columns(snapshot: Snapshot, row: int) -> list[int]:
    """Resources of which the node has some, and something is known."""
    use = snapshot.resident_use[snapshot.first[row] : snapshot.first[row + 1]]
    usable = (snapshot.node_capacity[row] > 0) & (np.isfinite(use) & (use > 0)).any(axis=0)
    return [int(column) for column in np.flatnonzero(usable)]
