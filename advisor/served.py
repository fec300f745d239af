"""Served: some of the feature vectors that scores were made of, kept to be computed again. An edge.

One JSON line each, in a file of this process; two files of MOST_BYTES are kept, the older one is thrown away.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.newcomers import Newcomer
from advisor.scoring import newcomer_features
from advisor.snapshot import Snapshot

MOST_BYTES = 16 << 20
SUFFIX = ".jsonl"


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
    _path: Path = field(init=False)

    def __post_init__(self) -> None:
        self._path = self.folder / f"{os.getpid()}{SUFFIX}"

    def drawn(self) -> bool:
        """Whether the next request is noted."""
        return bool(self.rng.random() < self.share)

    def note(self, snapshot: Snapshot, newcomer: Newcomer, rows: NDArray[np.int32]) -> None:
        """Keep the newcomer's features on one of the nodes it was scored on."""
        if not len(rows):
            return
        row = rows[self.rng.integers(len(rows))]
        features = newcomer_features(snapshot, newcomer, np.array([row], np.int32))[0]
        line = {
            "cluster": snapshot.cluster,
            "as_of_us": snapshot.as_of_us,
            "profiles_us": snapshot.profiles_us,
            "node": snapshot.nodes[row],
            "app": newcomer.app,
            "best_effort": newcomer.best_effort,
            "features": [value if np.isfinite(value) else None for value in features.tolist()],
        }
        self._append(json.dumps(line).encode() + b"\n")

    def _append(self, line: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(line)
            full = file.tell() > MOST_BYTES
        if full:
            self._path.replace(self._path.with_name(f"{os.getpid()}.old{SUFFIX}"))
