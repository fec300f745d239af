"""Heat: of each node what is used most, and the worst that is wrong there. Kernel."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.cluster.utilisation import utilisation_percent
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.diagnosis.slowdown_causes import Verdict
from features.schema.catalog import NAMES

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
"""The worst first."""
NONE = len(VERDICTS)
"""In the place of a verdict where no container is slowed down."""


@dataclass(frozen=True)
class Heat:
    """Nodes in the order of the snapshot.

    Args:
        used: (n, resources) percent of the node; NaN where it is not known.
        most: (n,) the largest of these; NaN where none is known.
        by: (n,) of which resource that is, -1 where none is known.
        residents: (n,) how many containers live there.
        victims: (n,) how many of them are slowed down.
        verdict: (n,) the worst verdict there, NONE where no container is slowed down.
        looked: (n,) share of running container time that was looked at; NaN where not known.
        slowdown: (n,) of the slowest container; NaN without a victim, or where limits hide it.
    """

    used: Floats
    most: Floats
    by: Ints
    residents: Ints
    victims: Ints
    verdict: Ints
    looked: Floats
    slowdown: Floats

    def worst_first(self) -> Ints:
        """(n,) rows: victims of neighbours first, there the slowest; then by what is used most."""
        most, slowdown = np.nan_to_num(self.most, nan=-1.0), np.nan_to_num(self.slowdown, nan=0.0)
        order: Ints = np.lexsort((-most, -slowdown, self.verdict))
        return order


def heat_of(snapshot: Snapshot, report: DiagnosisReport | None) -> Heat:
    """Pressure and slowed containers, node by node.

    Args:
        snapshot: the cluster.
        report: slowed containers; None where unknown. Nodes that the snapshot does not hold are skipped.
    """
    used = np.stack([utilisation_percent(snapshot, name) for name in NAMES], axis=1)
    filled = np.nan_to_num(used, nan=-1.0)
    by = np.argmax(filled, axis=1)
    most = filled[np.arange(len(used)), by]
    nodes = len(snapshot.nodes)
    victims, verdict = np.zeros(nodes, np.int64), np.full(nodes, NONE)
    slowdown = np.full(nodes, np.nan)
    for one in report.diagnoses if report is not None else ():
        if (row := snapshot.node_index.get(one.node)) is not None:
            victims[row] += 1
            verdict[row] = min(verdict[row], VERDICTS.index(one.verdict))
            slowdown[row] = np.fmax(slowdown[row], one.slowdown)
    return Heat(
        used,
        np.where(most < 0, np.nan, most),
        np.where(most < 0, -1, by),
        np.diff(snapshot.first),
        victims,
        verdict,
        _looked(snapshot, report),
        slowdown,
    )


def _looked(snapshot: Snapshot, report: DiagnosisReport | None) -> Floats:
    known = report.coverage.nodes if report is not None and report.coverage is not None else {}
    return np.array([known[name].share if name in known else np.nan for name in snapshot.nodes])


def counted(report: DiagnosisReport | None) -> list[tuple[Verdict, int]]:
    """Number of containers by verdict, the worst verdict first; verdicts without containers are left out."""
    count = Counter(one.verdict for one in report.diagnoses) if report is not None else Counter[Verdict]()
    return [(verdict, count[verdict]) for verdict in VERDICTS if count[verdict]]


def whole(values: Floats) -> list[int | None]:
    """Numbers rounded; None where one is not known."""
    return [round(value) if math.isfinite(value) else None for value in values.tolist()]
