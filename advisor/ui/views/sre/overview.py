"""Overview: all nodes of a cluster as a table and a map, made once for each snapshot and each diagnosis."""

from dataclasses import dataclass, field
from threading import Lock

import msgspec
import numpy as np

from advisor.cluster.snapshot import Snapshot
from advisor.diagnosis.coverage import rounded_down
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.ui.site.rendering import resource
from advisor.ui.views.sre.heatmap import NONE, VERDICTS, Heat, heat_of, whole
from features.schema.catalog import NAMES


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
    looked: list[int | None]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node as the table shows it."""

    name: str
    platform: str
    residents: int
    victims: int
    looked: float
    verdict: str
    slowdown: float
    most: float
    by: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All nodes.

    Args:
        rows: the worst first.
        drawn: what the map is drawn from, as JSON.
    """

    rows: tuple[NodeRow, ...]
    drawn: bytes

    def called(self, words: str) -> list[NodeRow]:
        """Nodes whose name or platform contains the words."""
        wanted = words.strip().lower()
        return [row for row in self.rows if wanted in row.name.lower() or wanted in row.platform.lower()]


@dataclass
class Overviews:
    """Keeps the newest one: however many look, what they see is worked out once in a few seconds."""

    _of: tuple[Snapshot, DiagnosisReport | None] | None = field(default=None, init=False)
    _made: Overview | None = field(default=None, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def of(self, snapshot: Snapshot, report: DiagnosisReport | None) -> Overview:
        """The overview of what there is to see."""
        with self._lock:
            if self._made is None or self._of is None or self._of[0] is not snapshot or self._of[1] is not report:
                self._made, self._of = overview_of(snapshot, report), (snapshot, report)
            return self._made


def overview_of(snapshot: Snapshot, report: DiagnosisReport | None) -> Overview:
    """All nodes of a cluster, and the slowed containers there."""
    heat = heat_of(snapshot, report)
    rows = tuple(_row(snapshot, heat, row) for row in heat.worst_first().tolist())
    return Overview(rows, msgspec.json.encode(_map(snapshot, heat)))


def _row(snapshot: Snapshot, heat: Heat, row: int) -> NodeRow:
    platform, verdict = int(snapshot.node_platform[row]), int(heat.verdict[row])
    return NodeRow(
        name=snapshot.nodes[row],
        platform=snapshot.platforms[platform] if platform >= 0 else "",
        residents=int(heat.residents[row]),
        victims=int(heat.victims[row]),
        looked=float(heat.looked[row]),
        verdict=VERDICTS[verdict] if verdict < NONE else "",
        slowdown=float(heat.slowdown[row]),
        most=float(heat.most[row]) / 100,
        by=NAMES[heat.by[row]] if heat.by[row] >= 0 else "",
    )


def _map(snapshot: Snapshot, heat: Heat) -> Map:
    columns = [column for column in range(len(NAMES)) if np.isfinite(heat.used[:, column]).any()]
    at = {column: place for place, column in enumerate(columns)}
    return Map(
        nodes=snapshot.nodes,
        platforms=snapshot.platforms,
        platform=snapshot.node_platform.tolist(),
        resources=[NAMES[column] for column in columns],
        labels=[resource(NAMES[column]) for column in columns],
        used=[whole(heat.used[:, column]) for column in columns],
        most=whole(heat.most),
        by=[at.get(by, -1) for by in heat.by.tolist()],
        residents=heat.residents.tolist(),
        victims=heat.victims.tolist(),
        verdicts=VERDICTS,
        verdict=heat.verdict.tolist(),
        looked=whole(np.array([max(rounded_down(share), 1) if share > 0 else share for share in heat.looked])),
    )
