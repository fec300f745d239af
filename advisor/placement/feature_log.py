"""Served: some of the feature vectors that scores were made of, kept to be computed again. An edge.

One JSON line each, in files of MAX_BYTES; of all files in the folder two full ones are kept, the oldest go first.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import structlog
from numpy.typing import NDArray

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.placement.rotating_log import KeptLines
from advisor.scoring.scorer import pending_features

log = structlog.get_logger(__name__)

MAX_BYTES = 16 << 20


@dataclass
class ServedLog:
    """Keeps one vector of some requests.

    Args:
        folder: where the files go.
        share: of requests that are noted, 0 to 1.
        rng: draws them, and the node.
    """

    folder: Path
    share: float
    rng: np.random.Generator
    _fails: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._lines = KeptLines(self.folder, MAX_BYTES, 3 * MAX_BYTES)

    def drawn(self) -> bool:
        """Whether the next request is noted."""
        return bool(self.rng.random() < self.share)

    def note(self, snapshot: Snapshot, pending_pod: PendingPod, rows: NDArray[np.int32]) -> None:
        """Keep the pending pod's features on one of the nodes it was scored on."""
        if not len(rows):
            return
        row = rows[self.rng.integers(len(rows))]
        features = pending_features(snapshot, pending_pod, np.array([row], np.int32))[0]
        line = {
            "cluster": snapshot.cluster,
            "as_of_us": snapshot.as_of_us,
            "profiles_us": snapshot.profiles_us,
            "node": snapshot.nodes[row],
            "app": pending_pod.app,
            "team": pending_pod.team,
            "best_effort": pending_pod.best_effort,
            "features": [value if np.isfinite(value) else None for value in features.tolist()],
        }
        self._append(json.dumps(line).encode())

    def _append(self, line: bytes) -> None:
        """Keep a line; where that fails, as on a full disk, no answer fails for it."""
        try:
            self._lines.append(line)
        except OSError as error:
            if not self._fails:
                log.warning("cannot write to the feature log", folder=str(self.folder), error=str(error))
            self._fails = True
        else:
            self._fails = False
