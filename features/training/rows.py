"""Training rows: each label with what was known when the decision it belongs to was taken. Kernel."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from features.columnar.arrow_columns import Floats, Ints, floats, micros, table
from features.columnar.asof_join import key_codes, row_of
from features.columnar.group_means import group_codes
from features.contention.co_runner_effects import Company, Victims, apart, company_of, power_sums, roots
from features.contention.node_state import capacities, is_best_effort, known_by
from features.contention.pressure import PRESSURE_COLUMNS, Members, pressures
from features.labels.slowdown import trust
from features.profiles.cold_start_prior import expected_of_new
from features.schema.catalog import EXPECTED, NAMES, RAW_NAMES, TOGETHER, expected_name
from features.schema.tables import TRAINING
from features.training.model_input import node_matrix, raw_features
from features.training.residents import Sources, described, resident_use, residents


def training_rows(labels: pa.Table, sources: Sources) -> pa.Table:
    """Features as of the decision, and the label that came true afterwards.

    The decision belonging to a label is taken at the start of the label's window. The pending pod is described by its
    profile and its cold-start prior only; residents may show their own signals of the last minutes.

    Args:
        labels: rows of `labels`; those not modelled are left out.
        sources: see features.training.residents.

    Returns:
        Table `training`, sorted by its key. Missing features are null.

    Source: ours; a decision may use only what had arrived, docs/decisions/0007-point-in-time.md.
    """
    modelled = labels.filter(pc.is_valid(labels["log_slowdown"]))
    if not modelled.num_rows:
        return TRAINING.schema.empty_table()
    rows = modelled.sort_by([(c, "ascending") for c in TRAINING.key]).combine_chunks()
    decisions, decision = _decisions(rows)
    home = _home(rows, decisions, decision, sources)
    pressure = pending_pressure(rows, decision, home, sources)
    time_us = micros(rows["window_start"])
    node = known_by(rows, time_us, sources.nodes, ["cluster", "node"])
    keys = rows.select(["cluster", "app", "team"]).append_column("platform", node["platform"])
    profile, new = described(keys, time_us, sources.profiles), expected_of_new(keys, time_us, sources.profiles)
    raw = raw_features(pressure, profile, node_matrix(node))
    felt, felt_new = (roots(power_sums(home.victims(decision, source), home.company)) for source in (profile, new))
    columns: dict[str, object] = {c: rows[c] for c in rows.column_names}
    columns |= {**dict(zip(RAW_NAMES, raw.T, strict=True)), "as_of": rows["window_start"]}
    columns["weight"] = floats(rows["weight"]) * trust(rows["kind"])
    columns |= dict(zip(map(expected_name, EXPECTED), new.T, strict=True))
    columns |= dict(zip(TOGETHER, felt.T, strict=True)) | dict(
        zip(map(expected_name, TOGETHER), felt_new.T, strict=True)
    )
    return table(columns, TRAINING.schema)


@dataclass(frozen=True, slots=True)
class Home:
    """Who was there at the decisions that n label rows belong to.

    Args:
        members: the residents, sorted by decision.
        company: the same app by app.
        app: (residents,) codes of their apps.
        row_app: (n,) codes of the rows' apps.
        seat: (n,) resident that is the row's own container, -1 where it was not there yet.
    """

    members: Members
    company: Company
    app: Ints
    row_app: Ints
    seat: Ints

    def victims(self, decision: Ints, described: Floats) -> Victims:
        """The rows' containers, of which the first columns of (n, k) are the sensitivities."""
        there = self.seat >= 0
        own = np.zeros((len(there), len(NAMES)))
        own[there] = (self.members.use / self.members.capacity)[self.seat[there]]
        app = np.where(there, self.app[self.seat], self.row_app) if len(self.app) else self.row_app
        return Victims(decision, app, described[:, : len(NAMES)], own)


def _home(rows: pa.Table, decisions: pa.Table, decision: Ints, sources: Sources) -> Home:
    """Who was there at each decision, as far as was known by then."""
    found = residents(decisions, sources).sort_by([("decision", "ascending"), ("container", "ascending")])
    use, capacity = resident_use(found, decisions, sources)
    members = Members(
        group=np.asarray(found["decision"], np.int64),
        use=use,
        capacity=capacity,
        best_effort=is_best_effort(found["qos"]),
        cpuset=found["cpuset"].to_pylist(),
    )
    row_app, app = key_codes(rows, found, ["app"])
    app = apart(np.where(np.asarray(pc.is_valid(found["app"])), app, -1), app.max(initial=-1) + 1)
    company = company_of(use / capacity, members.group, app, decisions.num_rows)
    return Home(members, company, app, row_app, _seat(rows, decision, found))


def pending_pressure(rows: pa.Table, decision: Ints, home: Home, sources: Sources) -> Floats:
    """What the residents at each row's decision press on the row's container, itself left out.

    Args:
        rows: label rows, (n,).
        decision: which decision each row belongs to.
        home: who was there.
        sources: see features.training.residents.

    Returns:
        (n, pressure columns).
    """
    pending = np.flatnonzero(home.seat < 0)
    own = known_by(
        rows.take(pa.array(pending)), micros(rows["window_start"])[pending], sources.nodes, ["cluster", "node"]
    )
    result = np.empty((rows.num_rows, len(PRESSURE_COLUMNS)))
    result[home.seat >= 0] = pressures(home.members)[home.seat[home.seat >= 0]]
    result[pending] = joining_pressure(home.members, decision[pending], capacities(own))
    return result


def joining_pressure(home: Members, group: Ints, capacity: Floats) -> Floats:
    """What the members of a group would press on a container that is not among them yet.

    Args:
        home: members sorted by group.
        group: (n,) which group each pending pod would join; a group without members is an empty node.
        capacity: (n, resources) of the node each would join.

    Returns:
        (n, pressure columns), one row a pending pod, each taken alone and free to use every core.

    Source: ours; the same kernel over the members and the pending pod.
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
