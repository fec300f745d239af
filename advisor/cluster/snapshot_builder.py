"""Build: a snapshot from the live view of a cluster and its newest profiles. Kernel."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from features.columnar.arrow_columns import micros
from features.contention.node_state import is_best_effort
from features.profiles.cold_start_prior import expected
from features.schema.catalog import EXPECTED
from features.training.model_input import PROFILE_COLUMNS
from features.training.online_features import LiveView
from features.training.residents import described

CPU = 0
Offered = Mapping[str, tuple[float, float]]
"""By node, cores for more best-effort containers, and for all of them."""
UNNAMED = (np.nan, np.nan)


def build_snapshot(
    view: LiveView,
    profiles: pa.Table,
    *,
    version: int,
    as_of_us: int,
    offered: Mapping[str, tuple[float, float]] | None = None,
) -> Snapshot:
    """Pack what is known now.

    Args:
        view: nodes and residents, from features.training.online_features.
        profiles: rows of `profiles`; the newest of each app and platform is packed; missing values are expected ones.
        version: version of the snapshot.
        as_of_us: newest message behind the view.
        offered: what nodes offer, see Snapshot.node_offered; use of best-effort containers that are there now is
            subtracted, since some came after the offer. None where nothing is published.

    Returns:
        The snapshot; apps, teams and platforms are sorted by name.
    """
    clusters = pc.unique(view.nodes["cluster"]).to_pylist()
    cluster = clusters[0] if clusters else ""
    own = profiles.filter(pc.equal(profiles["cluster"], cluster))
    apps, teams = _names(view.residents["app"], own["app"]), _names(own["team"])
    platforms = _names(view.nodes["platform"], own["platform"])
    latest = int(micros(profiles["as_of"]).max(initial=0))
    of_app = _every(cluster, pa.array(apps, pa.string()), _teams_of(view.residents, apps), platforms)
    of_team = _every(cluster, pa.nulls(len(teams) + 1, pa.string()), pa.array([*teams, None], pa.string()), platforms)
    profile = described(of_app, np.full(of_app.num_rows, latest), own)
    prior = expected(of_team, np.full(of_team.num_rows, latest), own)
    counts = np.bincount(np.asarray(view.residents["decision"], np.int64), minlength=view.nodes.num_rows)
    return Snapshot(
        version=version,
        as_of_us=as_of_us,
        cluster=cluster,
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
        profile=profile.reshape(len(apps), len(platforms), len(PROFILE_COLUMNS)),
        racks=tuple(view.nodes["rack"].to_pylist()),
        profiles_us=latest,
        teams=teams,
        cold_start_prior=prior.reshape(len(teams) + 1, len(platforms), len(EXPECTED)),
        kinds=_kinds(own, apps),
        node_offered=_offered(view, counts, offered),
    )


def _offered(view: LiveView, counts: NDArray[np.int64], offered: Offered | None) -> NDArray[np.float64]:
    """(n,) the smaller of what was offered and what is left of all by now; NaN where no offer names a node."""
    if offered is None:
        return np.zeros(0)
    node = np.repeat(np.arange(len(counts)), counts)
    cores = np.where(is_best_effort(view.residents["qos"]), np.nan_to_num(view.use[:, CPU]), 0.0)
    used = np.bincount(node, cores, minlength=len(counts))
    found = np.array([offered.get(name, UNNAMED) for name in view.nodes["node"].to_pylist()]).reshape(-1, 2)
    return np.asarray(np.fmin(found[:, 0], np.maximum(found[:, 1] - used, 0.0)))


def _kinds(profiles: pa.Table, apps: tuple[str, ...]) -> tuple[str | None, ...]:
    """(a,) kind of labels in the newest profile of each app that has any; None without one."""
    known = profiles.filter(pc.is_valid(profiles["kind"])).sort_by("as_of")
    newest = dict(zip(known["app"].to_pylist(), known["kind"].to_pylist(), strict=True))
    return tuple(newest.get(app) for app in apps)


def _names(*columns: pa.ChunkedArray) -> tuple[str, ...]:
    return tuple(sorted({name for column in columns for name in pc.unique(column).to_pylist() if name is not None}))


def _index(column: pa.ChunkedArray, names: tuple[str, ...]) -> NDArray[np.int64]:
    found = pc.index_in(column, pa.array(names, pa.string()))
    return np.asarray(pc.fill_null(found.cast(pa.int64()), -1).to_numpy(), np.int64)


def _every(cluster: str, app: pa.Array, team: pa.Array, platforms: tuple[str, ...]) -> pa.Table:
    """Keys of apps with their teams on every platform, app after app."""
    each = pa.array(np.repeat(np.arange(len(app)), len(platforms)))
    return pa.table(
        {
            "cluster": pa.array([cluster] * len(each), pa.string()),
            "app": app.take(each),
            "team": team.take(each),
            "platform": pa.array(list(platforms) * len(app), pa.string()),
        }
    )


def _teams_of(residents: pa.Table, apps: tuple[str, ...]) -> pa.Array:
    """(a,) a team that is recorded for residents of each app, null without one."""
    with_team = residents.filter(pc.and_(pc.is_valid(residents["app"]), pc.is_valid(residents["team"])))
    first = with_team.group_by("app", use_threads=False).aggregate([("team", "min")])
    return first["team_min"].combine_chunks().take(pc.index_in(pa.array(apps, pa.string()), first["app"]))
