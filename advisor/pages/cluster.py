"""The page of the cluster: a map of its nodes, and the same as a table."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from fastapi import APIRouter, Query, Request, Response

from advisor.api.roles import allowed
from advisor.api.victims import WHO
from advisor.diagnosis.told import Told
from advisor.pages.heat import NONE, VERDICTS, Heat, counted, heat_of, whole
from advisor.pages.looking import look
from advisor.pages.paging import sheet
from advisor.pages.rendering import Pages, resource
from advisor.serving import Serving
from advisor.snapshot import Snapshot
from features.catalog import NAMES

ROWS = 50
Text = Annotated[str, Query(max_length=253)]
Number = Annotated[int, Query(ge=1, le=1_000_000)]


class Map(msgspec.Struct, frozen=True):
    """What the map is drawn from, column by column."""

    nodes: tuple[str, ...]
    platforms: tuple[str, ...]
    platform: list[int]
    resources: list[str]
    labels: list[str]
    used: list[list[int | None]]
    most: list[int | None]
    by: list[int]
    residents: list[int]
    victims: list[int]
    verdicts: tuple[str, ...]
    verdict: list[int]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the table shows it."""

    name: str
    platform: str
    residents: int
    victims: int
    verdict: str
    slowdown: float
    most: float
    by: str


def cluster_routes(pages: Pages, serving: Serving) -> APIRouter:
    """Routes of the cluster."""
    router = APIRouter()

    @router.get("/ui/cluster")
    @allowed(*WHO)
    def cluster(request: Request, filter: Text = "", page: Number = 1) -> Response:  # noqa: A002
        """All nodes."""
        seen = look(serving)
        rows = _rows(seen.snapshot, seen.told, filter) if seen.snapshot else []
        facts = {
            "seen": seen,
            "filter": filter,
            "sheet": sheet(rows, page, ROWS),
            "counted": counted(seen.told),
            "resources": NAMES,
        }
        partly = "hx-request" in request.headers
        return pages.page(request, "cluster_table.html" if partly else "cluster.html", facts)

    @router.get("/ui/cluster/map")
    @allowed(*WHO)
    def drawn() -> Response:
        """What the map is drawn from."""
        seen = look(serving)
        if seen.snapshot is None:
            return Response(b"{}", media_type="application/json", status_code=404)
        told = msgspec.json.encode(_map(seen.snapshot, heat_of(seen.snapshot, seen.told)))
        return Response(told, media_type="application/json")

    return router


def _rows(snapshot: Snapshot, told: Told | None, words: str) -> list[NodeRow]:
    """Nodes of whose name or platform the words are a part, the worst first."""
    heat, wanted = heat_of(snapshot, told), words.strip().lower()
    rows = (_row(snapshot, heat, row) for row in heat.worst_first().tolist())
    return [row for row in rows if wanted in row.name.lower() or wanted in row.platform.lower()]


def _row(snapshot: Snapshot, heat: Heat, row: int) -> NodeRow:
    platform, verdict = int(snapshot.node_platform[row]), int(heat.verdict[row])
    return NodeRow(
        name=snapshot.nodes[row],
        platform=snapshot.platforms[platform] if platform >= 0 else "",
        residents=int(heat.residents[row]),
        victims=int(heat.victims[row]),
        verdict=VERDICTS[verdict] if verdict < NONE else "",
        slowdown=float(heat.slowdown[row]),
        most=float(heat.most[row]) / 100,
        by=NAMES[heat.by[row]] if heat.by[row] >= 0 else "",
    )


def _map(snapshot: Snapshot, heat: Heat) -> Map:
    told = [column for column in range(len(NAMES)) if np.isfinite(heat.used[:, column]).any()]
    at = {column: place for place, column in enumerate(told)}
    return Map(
        nodes=snapshot.nodes,
        platforms=snapshot.platforms,
        platform=snapshot.node_platform.tolist(),
        resources=[NAMES[column] for column in told],
        labels=[resource(NAMES[column]) for column in told],
        used=[whole(heat.used[:, column]) for column in told],
        most=whole(heat.most),
        by=[at.get(by, -1) for by in heat.by.tolist()],
        residents=heat.residents.tolist(),
        victims=heat.victims.tolist(),
        verdicts=VERDICTS,
        verdict=heat.verdict.tolist(),
    )
