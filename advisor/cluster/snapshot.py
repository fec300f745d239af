"""Snapshot: an immutable, columnar view of a cluster: nodes, residents, profiles. Written whole, read whole.

A snapshot directory holds one .npy file per array and names.json; `current` next to the directories names the newest.
"""

import io
import os
import shutil
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tokenize import TokenError
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from advisor.errors import AdvisorError, NotFound
from features.labels.slowdown import WAITING
from features.schema.catalog import EXPECTED, RESOURCES
from features.training.model_input import NODE_COLUMNS, PROFILE_COLUMNS
from ingest.schema.atomic_file import replace_atomically

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ARRAYS = {
    "node_platform": "int64",
    "node_capacity": "float64",
    "node_facts": "float64",
    "node_seen_us": "int64",
    "node_known": "bool",
    "first": "int64",
    "resident_app": "int64",
    "resident_best_effort": "bool",
    "resident_use": "float64",
    "profile": "float64",
    "cold_start_prior": "float64",
    "node_offered": "float64",
}
"""Each array and its type."""
ADDED = frozenset({"node_offered"})
"""Arrays that snapshots of an older Cohabit lack; their defaults say so."""
NAMES_FILE = "names.json"
BUILDING = ".building."
"""Prefix of a directory that is still being written."""
DAMAGED = (
    OSError,
    ValueError,
    EOFError,
    SyntaxError,
    TokenError,
    TypeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""What numpy and msgspec raise where bytes are not what was written: headers of arrays are read as Python."""
KEPT = 3
"""Snapshots left on disk, so that a reader that has just looked up a name still finds it."""


def nothing_expected() -> Floats:
    """What is expected of unknown apps where nothing is."""
    return np.zeros((1, 0, len(EXPECTED)))


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
        node_facts: (n, 4) as features.training.model_input.node_matrix gives them.
        node_seen_us: (n,) end of the newest window of each node, 0 where it was never seen.
        node_known: (n,) whether it is known who lives there; a silent node is not taken for an empty one.
        first: (n + 1,) residents of node i are rows first[i] to first[i + 1].
        resident_app: (m,) app of each resident, -1 where not known.
        resident_best_effort: (m,) whether it is BE.
        resident_use: (m, resources) what each uses; NaN where not known.
        profile: (a, p, k) as features.training.residents.described gives them; NaN where nothing is known nor expected.
        profiles_us: as-of time of the newest profile, microseconds since 1970; 0 without profiles.
        racks: (n) rack of each node, None where none is declared; empty where racks are unknown.
        teams: (t) names.
        cold_start_prior: (t + 1, p, len(EXPECTED)) what is expected of an app that is not among `apps`, by team, the
            last being that
            of teams that are not known, and platform; without teams and platforms where nothing is expected.
        node_offered: (n,) cores that each node offers to best-effort containers for an hour, see advisor.capacity; NaN
            where no offer names it; empty where none were published.
        kinds: (a) kind of the labels that each app is known by, None without any; empty where kinds are unknown.
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
    node_known: NDArray[np.bool_]
    first: Ints
    resident_app: Ints
    resident_best_effort: NDArray[np.bool_]
    resident_use: Floats
    profile: Floats
    profiles_us: int = 0
    racks: tuple[str | None, ...] = ()
    teams: tuple[str, ...] = ()
    cold_start_prior: Floats = field(default_factory=nothing_expected)
    node_offered: Floats = field(default_factory=lambda: np.zeros(0))
    kinds: tuple[str | None, ...] = ()

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Row of each node by name."""
        return {name: i for i, name in enumerate(self.nodes)}

    @cached_property
    def app_index(self) -> dict[str, int]:
        """Row of each app by name."""
        return {name: i for i, name in enumerate(self.apps)}

    @cached_property
    def team_index(self) -> dict[str, int]:
        """Row of each team by name."""
        return {name: i for i, name in enumerate(self.teams)}

    def expected(self, team: Ints, platform: Ints) -> Floats:
        """(n, len(EXPECTED)) what is expected of unknown apps by team and platform, -1 where one is not known."""
        if not self.cold_start_prior.size:
            return np.full((len(team), len(EXPECTED)), np.nan)
        return np.where((platform >= 0)[:, None], self.cold_start_prior[team, platform], np.nan)

    def by_waiting(self, app: Ints) -> NDArray[np.bool_]:
        """(n,) whether apps, -1 where unknown, are known by waiting alone: so is one without labels where all are."""
        known = {kind for kind in self.kinds if kind is not None}
        kinds = [None if row < 0 or not self.kinds else self.kinds[row] for row in app.tolist()]
        return np.array([kind == WAITING or (kind is None and known == {WAITING}) for kind in kinds], np.bool_)

    @cached_property
    def rack_of(self) -> dict[str, str]:
        """Rack of each node by name, where it is declared."""
        return {node: rack for node, rack in zip(self.nodes, self.racks, strict=False) if rack is not None}

    def nodes_of(self, containers: Collection[str]) -> dict[str, str]:
        """Node of each of the containers that are here, by uid."""
        at = [row for row, uid in enumerate(self.containers) if uid in containers] if containers else []
        nodes = np.searchsorted(self.first, at, side="right") - 1
        return {self.containers[row]: self.nodes[node] for row, node in zip(at, nodes.tolist(), strict=True)}

    def indices(self, names: Sequence[str]) -> NDArray[np.int32]:
        """(k,) rows of the named nodes, -1 for a node that the snapshot does not hold or knows no resident of."""
        rows = np.array([self.node_index.get(name, -1) for name in names], np.int32)
        return np.where((rows >= 0) & self.node_known[rows], rows, -1).astype(np.int32) if len(self.nodes) else rows


def publish(folder: Path, snapshot: Snapshot) -> Path:
    """Write a snapshot and make it the current one; older ones are removed but for the last few.

    Raises:
        AdvisorError: a snapshot of that version was published before; `next_version` gives a free one.
    """
    target = folder / directory_name(snapshot.version)
    if target.exists():
        raise AdvisorError(
            f"snapshot version {snapshot.version} already exists in {folder}: publish under next_version(folder)"
        )
    building = folder / f"{BUILDING}{target.name}.{uuid.uuid4().hex}"
    building.mkdir(parents=True)
    for name in ARRAYS:
        _write_synced(building / f"{name}.npy", _npy(getattr(snapshot, name)))
    names = _Names(**{name: getattr(snapshot, name) for name in _Names.__struct_fields__})
    _write_synced(building / NAMES_FILE, msgspec.json.encode(names))
    building.rename(target)
    replace_atomically(folder / "current", target.name.encode())
    _prune(folder, target.name)
    return target


def next_version(folder: Path) -> int:
    """A version above every snapshot in the folder, also those of a refresher that died."""
    return 1 + max((int(d.name) for d in _published(folder)), default=0)


def directory_name(version: int) -> str:
    """Directory of a version; names sort as versions do."""
    return f"{version:018d}"


def current_version(folder: Path) -> str | None:
    """Name of the current snapshot; None where there is none."""
    try:
        return (folder / "current").read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return None


def load_current(folder: Path) -> Snapshot:
    """The current snapshot, read into memory: a file that is cut off later cannot end this process.

    Raises:
        AdvisorError: there is none, or it cannot be read.
    """
    name = current_version(folder)
    while True:
        if name is None:
            raise _no_snapshot(folder, "it has no file `current`")
        try:
            return _load(folder / name)
        except DAMAGED as error:
            tried, name = name, current_version(folder)
            if name == tried:
                raise _no_snapshot(folder, f"{name!r} cannot be read ({error})") from error


def _load(directory: Path) -> Snapshot:
    names = _decode((directory / NAMES_FILE).read_bytes())
    there = (array for array in ARRAYS if array not in ADDED or (directory / f"{array}.npy").exists())
    arrays: dict[str, Any] = {array: _array(directory / f"{array}.npy") for array in there}
    for array in arrays.values():
        array.flags.writeable = False
    snapshot = Snapshot(**msgspec.structs.asdict(names), **arrays)
    _refuse_contradictions(snapshot, directory.name)
    return snapshot


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything of a snapshot that is not an array, as names.json holds it."""

    version: int
    as_of_us: int
    cluster: str
    nodes: tuple[str, ...]
    platforms: tuple[str, ...]
    apps: tuple[str, ...]
    containers: tuple[str, ...]
    cpusets: tuple[str | None, ...]
    profiles_us: int = 0
    racks: tuple[str | None, ...] = ()
    teams: tuple[str, ...] = ()
    kinds: tuple[str | None, ...] = ()


_decode = msgspec.json.Decoder(_Names).decode


def _refuse_contradictions(snapshot: Snapshot, name: str) -> None:
    """Raise ValueError where arrays and names do not belong together: scoring would fail on them later."""
    n, m = len(snapshot.nodes), len(snapshot.containers)
    a, p, r = len(snapshot.apps), len(snapshot.platforms), len(RESOURCES)
    shapes = {
        "node_platform": (n,),
        "node_capacity": (n, r),
        "node_facts": (n, len(NODE_COLUMNS)),
        "node_seen_us": (n,),
        "node_known": (n,),
        "first": (n + 1,),
        "resident_app": (m,),
        "resident_best_effort": (m,),
        "resident_use": (m, r),
        "profile": (a, p, len(PROFILE_COLUMNS)),
        "node_offered": (n if snapshot.node_offered.size else 0,),
        "cold_start_prior": (len(snapshot.teams) + 1, p if snapshot.cold_start_prior.size else 0, len(EXPECTED)),
    }
    for array, kind in ARRAYS.items():
        found, shape = getattr(snapshot, array), shapes[array]
        if (found.shape, found.dtype) != (shape, np.dtype(kind)):
            raise ValueError(f"{array} is {found.dtype}{found.shape}, not {kind}{shape}")
    first, codes = snapshot.first, {"resident_app": a, "node_platform": p}
    if first[0] != 0 or first[-1] != m or (np.diff(first) < 0).any():
        raise ValueError("first does not divide the residents")
    for array, size in codes.items():
        code = getattr(snapshot, array)
        if ((code < -1) | (code >= size)).any():
            raise ValueError(f"{array} points outside its names")
    if len(snapshot.racks) not in {0, n}:
        raise ValueError(f"names.json has {len(snapshot.racks)} racks for {n} nodes")
    if len(snapshot.kinds) not in {0, a}:
        raise ValueError(f"names.json has {len(snapshot.kinds)} kinds for {a} apps")
    if len(snapshot.cpusets) != m or directory_name(snapshot.version) != name:
        raise ValueError(f"names.json describes version {snapshot.version} with {len(snapshot.cpusets)} cpusets")


def _array(path: Path) -> NDArray[Any]:
    """One array and nothing else: np.load would open archives too."""
    with path.open("rb") as file:
        return np.asarray(np.lib.format.read_array(file, allow_pickle=False))


def _npy(array: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array))
    return buffer.getvalue()


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _published(folder: Path) -> list[Path]:
    """Snapshots on disk, oldest first."""
    return sorted((d for d in folder.glob("[0-9]*") if d.name.isdecimal()), key=lambda d: int(d.name))


def _prune(folder: Path, current: str) -> None:
    others = [d for d in _published(folder) if d.name != current]
    for old in [*others[: 1 - KEPT], *(d for d in folder.glob(f"{BUILDING}*") if d.is_dir())]:
        shutil.rmtree(old, ignore_errors=True)


def _no_snapshot(folder: Path, reason: str) -> AdvisorError:
    return AdvisorError(f"no usable snapshot in {folder}: {reason}; check that `cohabit refresh` writes there")


def unknown_node(node: str) -> NotFound:
    """A node that the snapshot does not hold."""
    return NotFound(f"node {node!r} is not in the snapshot: check its messages on topic nodes")
