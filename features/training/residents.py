"""Residents: who was on a node when a decision was taken, and what each was known to use. Kernel."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, micros
from features.columnar.asof_join import NEVER, key_codes, row_of
from features.columnar.group_means import group_codes
from features.columnar.windows import STALE_US, WINDOW_US
from features.contention.node_state import capacities, known_at, known_by, resource_use, standing
from features.profiles.cold_start_prior import expected
from features.schema.catalog import DEMANDS, EXPECTED
from features.training.model_input import PROFILE_COLUMNS, profile_matrix

DEMAND = slice(PROFILE_COLUMNS.index("demand_cpu"), PROFILE_COLUMNS.index("cpi"))
EXPECTED_THERE = slice(0, len(EXPECTED))
"""Columns of a profile that are expected of an app of which they are not known."""
IS_DEMAND = np.array([name in DEMANDS for name in EXPECTED], np.bool_)
PLACED = ("container", "app", "team", "qos", "cpuset")


@dataclass(frozen=True, slots=True)
class Sources:
    """Tables a decision may draw on, any row order: node_state, nodes, placements, profiles."""

    state: pa.Table
    nodes: pa.Table
    placements: pa.Table
    profiles: pa.Table


def residents(decisions: pa.Table, sources: Sources) -> pa.Table:
    """Who was on each node at each decision.

    Args:
        decisions: cluster, node, `time`; at most one in each minute of a node.
        sources: see Sources; nothing that arrived after a decision is used for it.

    Returns:
        Columns decision (int64 row of `decisions`), container, app, team, qos, cpuset, and state (int64 row of
        sources.state with the container's newest own window, null where it has none fresh enough). Where a node has
        placements they list its containers; elsewhere those are the containers seen within STALE_US.

    Source: ours; a decision may use only what had arrived, docs/decisions/0007-point-in-time.md.
    """
    seen = _seen(decisions, sources.state)
    placed = _placed(decisions, sources.placements)
    placed_known = _placements_known(decisions, sources.placements)
    seen_only = seen.filter(pa.array(~placed_known[np.asarray(seen["decision"], np.int64)]))
    with_state = _join_state(placed, seen)
    return pa.concat_tables([with_state, seen_only.select(with_state.column_names)])


def resident_use(found: pa.Table, decisions: pa.Table, sources: Sources) -> tuple[Floats, Floats]:
    """What each resident uses, and what its node has.

    Args:
        found: from `residents`.
        decisions: what it was called with.
        sources: what it was called with.

    Returns:
        (n, resources) use in absolute units: its own newest window, else its app's profile, else, of an app that has
        none there, what is expected; NaN where nothing is known. (n, resources) capacity; NaN where not known.
    """
    at = decisions.take(found["decision"])
    time_us = micros(at["time"])
    node = known_by(at, time_us, sources.nodes, ["cluster", "node"])
    capacity = capacities(node)
    keys = pa.table(
        {"cluster": at["cluster"], "app": found["app"], "team": found["team"], "platform": node["platform"]}
    )
    typical = _described(keys, time_us, sources.profiles, IS_DEMAND)[:, DEMAND] * capacity
    own = resource_use(sources.state.take(found["state"]))
    return np.where(np.isfinite(own), own, typical), capacity


def newest_profile(keys: pa.Table, time_us: Ints, profiles: pa.Table) -> pa.Table:
    """The newest profile of each (cluster, app, platform) as of each time; null where there is none."""
    named = profiles.append_column("ts", profiles["as_of"])
    return known_at(keys, time_us, named, ["cluster", "app", "platform"])


def described(keys: pa.Table, time_us: Ints, profiles: pa.Table) -> Floats:
    """What apps are like on platforms, as far as known or to be expected at each time.

    Args:
        keys: cluster, app, team and platform, (n,) rows; see features.profiles.cold_start_prior.
        time_us: (n,) times, microseconds.
        profiles: rows of `profiles`; only those as of then or before count.

    Returns:
        (n, len(PROFILE_COLUMNS)): the newest profile. What is expected stands in for sensitivities that it does not
        have, and for demands where there is none; the other columns stay NaN, windows are the profile's own.

    Source: ours, docs/decisions/0032-kin.md.
    """
    return _described(keys, time_us, profiles, np.ones(len(EXPECTED), np.bool_))


def _described(keys: pa.Table, time_us: Ints, profiles: pa.Table, wanted: NDArray[np.bool_]) -> Floats:
    """As `described`, but only the (len(EXPECTED),) wanted columns are made up for."""
    found = profile_matrix(newest_profile(keys, time_us, profiles))
    values = found[:, EXPECTED_THERE]  # a view
    ever = np.array([profiles[c].null_count < profiles.num_rows for c in EXPECTED], np.bool_)
    lacking = np.isnan(values) & ever & wanted & (~IS_DEMAND | (found[:, -1:] == 0))
    rows = np.flatnonzero(lacking.any(axis=1))
    priors = expected(keys.take(pa.array(rows)), time_us[rows], profiles)
    values[rows] = np.where(lacking[rows], priors, values[rows])
    return found


def _seen(decisions: pa.Table, state: pa.Table) -> pa.Table:
    """Containers with a window that ended at most STALE_US before a decision and had arrived by then; newest only.

    A minute that is still growing counts as far as it has arrived: live scores would else be up to a minute older.
    """
    ends, arrived = micros(state["window_end"]), micros(state["arrived_at"])
    time_us = micros(decisions["time"])
    node, own_node = key_codes(state, decisions, ["cluster", "node"])
    minute, own_minute = ends // WINDOW_US, time_us // WINDOW_US
    low = min(minute.min(initial=0), own_minute.min(initial=0)) - 1
    span = max(minute.max(initial=0), own_minute.max(initial=0)) + STALE_US // WINDOW_US + 2 - low
    codes, first = np.unique(own_node * span + own_minute - low, return_index=True)
    codes, first = np.append(codes, -1), np.append(first, -1)
    parts = []
    for lag_us in range(-WINDOW_US, STALE_US, WINDOW_US):
        at = node * span + minute - low + lag_us // WINDOW_US
        slot = np.searchsorted(codes[:-1], at)
        decision = np.where(codes[slot] == at, first[slot], -1)
        rows = np.flatnonzero(decision >= 0)
        rows = rows[arrived[rows] <= time_us[decision[rows]]]
        parts.append(np.column_stack([decision[rows], np.full(len(rows), lag_us), rows]))
    found = np.concatenate(parts)
    newest = _newest(found, group_codes(state, ["container"]))
    rows = state.take(pa.array(newest[:, 2]))
    return pa.table(
        {
            "decision": pa.array(newest[:, 0], pa.int64()),
            **{c: rows[c] for c in ("container", "app", "team", "qos")},
            "cpuset": pa.nulls(rows.num_rows, pa.string()),
            "state": pa.array(newest[:, 2], pa.int64()),
        }
    )


def _newest(found: Ints, container: Ints) -> Ints:
    """Of rows (decision, lag, state row) the one with the smallest lag for each decision and container."""
    ordered = found[np.lexsort((found[:, 1], container[found[:, 2]], found[:, 0]))]
    who = np.column_stack([ordered[:, 0], container[ordered[:, 2]]])
    first = np.append([True], (np.diff(who, axis=0) != 0).any(axis=1)) if len(ordered) else np.zeros(0, np.bool_)
    return ordered[first]


def _placed(decisions: pa.Table, placements: pa.Table) -> pa.Table:
    """Containers whose placement held at a decision and was known by then."""
    events, start, end = standing(placements, ["cluster", "container"])
    alive = np.asarray(pc.not_equal(events["event"], "delete"))
    left_node, right_node = key_codes(decisions, events, ["cluster", "node"])
    time = micros(decisions["time"])
    pairs = [np.zeros((0, 2), np.int64)]
    for node in np.unique(left_node):
        d, e = np.flatnonzero(left_node == node), np.flatnonzero((right_node == node) & alive)
        inside = (start[e][None, :] <= time[d][:, None]) & (time[d][:, None] < end[e][None, :])
        row, column = np.nonzero(inside)
        pairs.append(np.column_stack([d[row], e[column]]))
    found = np.concatenate(pairs)
    rows = events.take(pa.array(found[:, 1]))
    return pa.table({"decision": pa.array(found[:, 0], pa.int64()), **{c: rows[c] for c in PLACED}})


def _placements_known(decisions: pa.Table, placements: pa.Table) -> NDArray[np.bool_]:
    """(n,) whether any placement on a decision's node was known by then, be it that all have ended."""
    left, right = key_codes(decisions, placements, ["cluster", "node"])
    first = np.full(max(left.max(initial=-1), right.max(initial=-1)) + 1, NEVER)
    np.minimum.at(first, right, np.maximum(micros(placements["ts"]), micros(placements["arrived_at"])))
    return np.asarray(first[left] <= micros(decisions["time"]), np.bool_)


def _join_state(placed: pa.Table, seen: pa.Table) -> pa.Table:
    row = row_of(*key_codes(placed, seen, ["decision", "container"]))
    return placed.append_column("state", seen["state"].take(pa.array(row, mask=row < 0)))
