"""Build: a snapshot from the live view of a cluster and its newest profiles. Kernel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.snapshot import Snapshot
from features.arrow import micros
from features.live import LiveView
from features.node_state import is_best_effort
from features.placement import PROFILE_COLUMNS, profile_matrix
from features.residents import newest_profile

Floats = NDArray[np.float64]


def build_snapshot(view: LiveView, profiles: pa.Table, *, version: int, as_of_us: int) -> Snapshot:
    """Pack what is known now.

    Args:
        view: nodes and residents, from features.live.
        profiles: rows of `profiles`; the newest of each app and platform is packed.
        version: version of the snapshot.
        as_of_us: newest message behind the view.

    Returns:
        The snapshot; apps and platforms are sorted by name.
    """
    apps = _names(view.residents["app"], profiles["app"])
    platforms = _names(view.nodes["platform"], profiles["platform"])
    clusters = pc.unique(view.nodes["cluster"]).to_pylist()
    counts = np.bincount(np.asarray(view.residents["decision"], np.int64), minlength=view.nodes.num_rows)
    return Snapshot(
        version=version,
        as_of_us=as_of_us,
        cluster=clusters[0] if clusters else "",
        nodes=tuple(view.nodes["node"].to_pylist()),
        platforms=platforms,
        apps=apps,
        containers=tuple(view.residents["container"].to_pylist()),
        cpusets=tuple(view.residents["cpuset"].to_pylist()),
        node_platform=_index(view.nodes["platform"], platforms),
        node_capacity=view.capacity,
        node_facts=view.facts,
        node_seen_us=view.seen_us,
        node_known=view.known,
        first=np.append(0, np.cumsum(counts)).astype(np.int64),
        resident_app=_index(view.residents["app"], apps),
        resident_best_effort=is_best_effort(view.residents["qos"]),
        resident_use=view.use,
        profile=_profile_cube(profiles, clusters[0] if clusters else "", apps, platforms),
        racks=tuple(view.nodes["rack"].to_pylist()),
        profiles_us=int(micros(profiles["as_of"]).max(initial=0)),
    )


def _names(*columns: pa.ChunkedArray) -> tuple[str, ...]:
    return tuple(sorted({name for column in columns for name in pc.unique(column).to_pylist() if name is not None}))


def _index(column: pa.ChunkedArray, names: tuple[str, ...]) -> NDArray[np.int64]:
    found = pc.index_in(column, pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(found.cast(pa.int64()), -1).to_numpy(), np.int64)


def _profile_cube(profiles: pa.Table, cluster: str, apps: tuple[str, ...], platforms: tuple[str, ...]) -> Floats:
    keys = pa.table(
        {
            "cluster": pa.array([cluster] * (len(apps) * len(platforms)), pa.string()),
            "app": pa.array([app for app in apps for _ in platforms], pa.string()),
            "platform": pa.array(list(platforms) * len(apps), pa.string()),
        }
    )
    latest = int(micros(profiles["as_of"]).max(initial=0))
    matrix = profile_matrix(newest_profile(keys, np.full(keys.num_rows, latest), profiles))
    return matrix.reshape(len(apps), len(platforms), len(PROFILE_COLUMNS))
