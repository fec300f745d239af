"""Snapshot: an immutable, columnar view of a cluster: nodes, residents, profiles. Written whole, read memory-mapped.

A snapshot directory holds one .npy file per array and names.json; `current` beside the directories names the newest.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.errors import NoSnapshot
from ingest.atomic import replace_atomically

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ARRAYS = (
    "node_platform",
    "node_capacity",
    "node_facts",
    "node_seen_us",
    "first",
    "resident_app",
    "resident_best_effort",
    "resident_use",
    "profile",
)
KEPT = 3


@dataclass(frozen=True)
class Snapshot:
    """One cluster at one time.

    Args:
        version: rises with every snapshot of a refresher.
        as_of_us: newest message behind it, microseconds since 1970.
        cluster: its name.
        nodes: (n) names.
        platforms: (p) names.
        apps: (a) names.
        containers: (m) uids of the residents, sorted by node.
        cpusets: (m) pinned cores of each resident, None for the whole node.
        node_platform: (n,) platform of each node, -1 where not known.
        node_capacity: (n, resources) what each node has; NaN where not known.
        node_facts: (n, 4) as features.placement.node_matrix gives them.
        node_seen_us: (n,) end of the newest window of each node, 0 where it was never seen.
        first: (n + 1,) residents of node i are rows first[i] to first[i + 1].
        resident_app: (m,) app of each resident, -1 where not known.
        resident_best_effort: (m,) whether it is BE.
        resident_use: (m, resources) what each uses; NaN where not known.
        profile: (a, p, k) as features.placement.profile_matrix gives them; NaN where there is none.
    """

    version: int
    as_of_us: int
    cluster: str
    nodes: tuple[str, ...]
    platforms: tuple[str, ...]
    apps: tuple[str, ...]
    containers: tuple[str, ...]
    cpusets: tuple[str | None, ...]
    node_platform: Ints
    node_capacity: Floats
    node_facts: Floats
    node_seen_us: Ints
    first: Ints
    resident_app: Ints
    resident_best_effort: NDArray[np.bool_]
    resident_use: Floats
    profile: Floats

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Row of each node by name."""
        return {name: i for i, name in enumerate(self.nodes)}

    @cached_property
    def app_index(self) -> dict[str, int]:
        """Row of each app by name."""
        return {name: i for i, name in enumerate(self.apps)}

    def indices(self, names: Sequence[str]) -> NDArray[np.int32]:
        """(k,) rows of the named nodes, -1 for a node the snapshot does not hold."""
        return np.array([self.node_index.get(name, -1) for name in names], np.int32)


def publish(folder: Path, snapshot: Snapshot) -> Path:
    """Write a snapshot and make it the current one; older ones are removed but for the last few."""
    target = folder / f"{snapshot.version:012d}"
    target.mkdir(parents=True)
    for name in ARRAYS:
        np.save(target / f"{name}.npy", np.ascontiguousarray(getattr(snapshot, name)))
    names = {name: getattr(snapshot, name) for name in Snapshot.__dataclass_fields__ if name not in ARRAYS}
    (target / "names.json").write_text(json.dumps(names))
    replace_atomically(folder / "current", target.name.encode())
    for old in sorted(folder.glob("[0-9]*"))[:-KEPT]:
        _remove(old)
    return target


def current_version(folder: Path) -> str | None:
    """Name of the current snapshot; None where there is none."""
    pointer = folder / "current"
    return pointer.read_text() if pointer.is_file() else None


def load_current(folder: Path) -> Snapshot:
    """The current snapshot, its arrays memory-mapped.

    Raises:
        NoSnapshot: there is none, or it cannot be read.
    """
    name = current_version(folder)
    if name is None:
        raise NoSnapshot(folder, "there is no `current` in it")
    try:
        names = json.loads((folder / name / "names.json").read_bytes())
        arrays = {array: np.load(folder / name / f"{array}.npy", mmap_mode="r") for array in ARRAYS}
    except (OSError, ValueError) as error:
        raise NoSnapshot(folder, f"{name} cannot be read ({error})") from error
    listed: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in names.items()}
    return Snapshot(**listed, **arrays)


def _remove(old: Path) -> None:
    for file in old.iterdir():
        file.unlink()
    old.rmdir()
