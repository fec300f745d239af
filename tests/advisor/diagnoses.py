"""Diagnoses as somebody might have found them, small or many."""

import math
from dataclasses import replace

import numpy as np

from advisor.cluster.snapshot import Snapshot
from advisor.diagnosis.coverage import Coverage, Looked, Unseen
from advisor.diagnosis.report_file import DiagnosisReport
from advisor.diagnosis.slowdown_causes import Diagnosis, Suspect, Verdict

WINDOW_US = 300 * 10**6
WINDOWS = 24
AT_US = 1_772_323_200_000_000
"""2026-03-01T00:00:00Z."""
REASONS: dict[Verdict, str] = {
    "antagonist": "it adds 74% of the slowdown; that it adds most is 97% sure",
    "host": "75% of the others on the node are slower than neighbours explain",
    "self-inflicted": "its own CPU limit held it back in 4 of its last windows",
    "downstream": "its replicas on other nodes are slow at the same time, and no local cause was found",
    "no offender": "the strongest neighbour adds 31% of its slowdown at most, less than 50%",
    "not enough data": "only 2 of its last windows could be compared with its normal",
}


def suspect(
    container: str = "batch-1", added: float = 0.6, surely: float = 0.97, resource: str = "memory_bandwidth"
) -> Suspect:
    used = tuple(0.05 if i < WINDOWS // 2 else 0.4 for i in range(WINDOWS))
    low, high = round(added - 0.08, 2), round(added + 0.08, 2)
    return Suspect(container, "batch", "BE", resource, added, low, high, surely, added, used)


def diagnosis(
    container: str = "web-1",
    node: str = "n0",
    slowdown: float = 1.8,
    verdict: Verdict = "antagonist",
    *,
    app: str | None = "web",
    suspects: tuple[Suspect, ...] = (suspect(), suspect("batch-2", 0.05, 0.02, "cpu")),
    at_us: int = AT_US,
) -> Diagnosis:
    ends = tuple(at_us - (WINDOWS - 1 - i) * WINDOW_US for i in range(WINDOWS))
    slow = slowdown if math.isfinite(slowdown) else 1.0
    slowdowns = tuple(math.nan if i == 3 else 1.02 if i < WINDOWS // 2 else slow for i in range(WINDOWS))
    return Diagnosis("c", node, container, app, at_us, slowdown, verdict, REASONS[verdict], ends, slowdowns, suspects)


COVERED = Coverage(
    Looked(8, 6), 5, 1, (Unseen("idle", 2, 1, 1),), {"c": Looked(8, 6)}, {"n0": Looked(4, 4), "n1": Looked(4, 2)}, {}
)
"""Three quarters of the time of five containers."""


def told(*diagnoses: Diagnosis, at_us: int = AT_US) -> DiagnosisReport:
    return DiagnosisReport("c", at_us, at_us + 10**6, diagnoses, COVERED)


FOUND = told(
    diagnosis("web-1", "n0", 1.8),
    diagnosis("web-2", "n1", 1.5, "host", suspects=()),
    diagnosis("db-1", "n1", 1.4, "no offender", app="db"),
    diagnosis("cache-1", "n2", math.nan, "self-inflicted", app=None),
)
"""Four victims of four verdicts on three nodes."""


def many(of: Snapshot, share: float, seed: int = 1) -> DiagnosisReport:
    """A share of the residents of a cluster suffers, in every way there is."""
    rng, verdicts = np.random.default_rng(seed), tuple(REASONS)
    node = np.repeat(np.arange(len(of.nodes)), np.diff(of.first))
    rows = np.flatnonzero(rng.random(len(of.containers)) < share)
    found = [
        replace(
            diagnosis(
                of.containers[row],
                of.nodes[node[row]],
                round(1.25 + float(rng.gamma(2.0, 0.25)), 2),
                verdicts[rng.choice(len(verdicts), p=[0.4, 0.1, 0.15, 0.1, 0.2, 0.05])],
                app=of.apps[of.resident_app[row]],
                at_us=of.as_of_us,
            ),
            cluster=of.cluster,
        )
        for row in rows.tolist()
    ]
    return DiagnosisReport(of.cluster, of.as_of_us, of.as_of_us, tuple(found))
