"""Training rows: each label with what was known when the decision it belongs to was taken. Kernel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.arrow import Floats, Ints, micros, table
from features.asof import key_codes, row_of
from features.catalog import EXPECTED, RAW_NAMES, expected_name
from features.grouping import group_codes
from features.kin import expected_of_new
from features.node_state import capacities, is_best_effort, known_by
from features.placement import node_matrix, raw_features
from features.pressure import PRESSURE_COLUMNS, Members, pressures
from features.residents import Sources, described, resident_use, residents
from features.tables import TRAINING


def training_rows(labels: pa.Table, sources: Sources) -> pa.Table:
    """Features as of the decision, and the label that came true afterwards.

    The decision belonging to a label is taken at the start of the label's window. The newcomer is described by its
    profile, and by what is expected of its kin, only; residents may show their own signals of the last minutes.

    Args:
        labels: rows of `labels`; those not modelled are left out.
        sources: see features.residents.

    Returns:
        Table `training`, sorted by its key. Missing features are null.

    Source: ours; a decision may use only what had arrived, docs/decisions/0007-point-in-time.md.
    """
    modelled = labels.filter(pc.is_valid(labels["log_slowdown"]))
    if not modelled.num_rows:
        return TRAINING.schema.empty_table()
    rows = modelled.sort_by([(c, "ascending") for c in TRAINING.key]).combine_chunks()
    decisions, decision = _decisions(rows)
    pressure = newcomer_pressure(rows, decisions, decision, sources)
    time_us = micros(rows["window_start"])
    node = known_by(rows, time_us, sources.nodes, ["cluster", "node"])
    keys = rows.select(["cluster", "app", "team"]).append_column("platform", node["platform"])
    raw = raw_features(pressure, described(keys, time_us, sources.profiles), node_matrix(node))
    new = expected_of_new(keys, time_us, sources.profiles)
    columns: dict[str, object] = {c: rows[c] for c in rows.column_names}
    columns |= {**dict(zip(RAW_NAMES, raw.T, strict=True)), "as_of": rows["window_start"]}
    columns |= dict(zip(map(expected_name, EXPECTED), new.T, strict=True))
    return table(columns, TRAINING.schema)


def newcomer_pressure(rows: pa.Table, decisions: pa.Table, decision: Ints, sources: Sources) -> Floats:
    """What the residents at each row's decision press on the row's container, itself left out.

    Args:
        rows: label rows, (n,).
        decisions: unique cluster, node, time.
        decision: (n,) which decision each row belongs to.
        sources: see features.residents.

    Returns:
        (n, pressure columns).
    """
    found = residents(decisions, sources).sort_by([("decision", "ascending"), ("container", "ascending")])
    use, capacity = resident_use(found, decisions, sources)
    home = Members(
        group=np.asarray(found["decision"], np.int64),
        use=use,
        capacity=capacity,
        best_effort=is_best_effort(found["qos"]),
        cpuset=found["cpuset"].to_pylist(),
    )
    seat = _seat(rows, decision, found)
    newcomers = np.flatnonzero(seat < 0)
    own = known_by(
        rows.take(pa.array(newcomers)), micros(rows["window_start"])[newcomers], sources.nodes, ["cluster", "node"]
    )
    result = np.empty((rows.num_rows, len(PRESSURE_COLUMNS)))
    result[seat >= 0] = pressures(home)[seat[seat >= 0]]
    result[newcomers] = joining_pressure(home, decision[newcomers], capacities(own))
    return result


def joining_pressure(home: Members, group: Ints, capacity: Floats) -> Floats:
    """What the members of a group would press on a container that is not among them yet.

    Args:
        home: members sorted by group.
        group: (n,) which group each newcomer would join; a group without members is an empty node.
        capacity: (n, resources) of the node each would join.

    Returns:
        (n, pressure columns), one row a newcomer, each taken alone and free to use every core.

    Source: ours; the same kernel over the members and the newcomer.
    """
    first = np.searchsorted(home.group, group, side="left")
    counts = np.searchsorted(home.group, group, side="right") - first
    which = np.repeat(np.arange(len(group)), counts)
    rows = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    joined = Members(
        group=np.concatenate([which, np.arange(len(group))]),
        use=np.concatenate([home.use[rows], np.full((len(group), home.use.shape[1]), np.nan)]),
        capacity=np.concatenate([home.capacity[rows], capacity]),
        best_effort=np.concatenate([home.best_effort[rows], np.zeros(len(group), np.bool_)]),
        cpuset=[*(home.cpuset[row] for row in rows), *([None] * len(group))],
    )
    return pressures(joined)[len(rows) :]


def _decisions(rows: pa.Table) -> tuple[pa.Table, Ints]:
    """Unique (cluster, node, time) of the rows' decisions, and which each row belongs to."""
    at = pa.table({"cluster": rows["cluster"], "node": rows["node"], "time": rows["window_start"]})
    _, first, inverse = np.unique(group_codes(at, at.column_names), return_index=True, return_inverse=True)
    return at.take(pa.array(first)), inverse.astype(np.int64)


def _seat(rows: pa.Table, decision: Ints, found: pa.Table) -> Ints:
    """(n,) row of `found` that is the label's own container, -1 where it was not there yet."""
    keys = pa.table({"decision": pa.array(decision), "container": rows["container"]})
    left, right = key_codes(keys, found, ["decision", "container"])
    return row_of(left, right)
