"""Live: the newest state of every node, by the kernels that also build training rows. Kernel."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints
from features.columnar.group_means import group_codes
from features.contention.expired_node_metrics import known_nodes
from features.contention.node_state import Facts, capacities, is_delete, known_at, node_state
from features.training.model_input import node_matrix
from features.training.residents import Sources, resident_use, residents
from ingest.schema.tables import TIMESTAMP


@dataclass(frozen=True, slots=True)
class LiveView:
    """Every node of a cluster as known at one time; arrays in the order of `nodes`, residents sorted by node.

    Args:
        nodes: cluster, node, platform and rack, one row a node.
        capacity: (n, resources).
        facts: (n, 4) from features.training.model_input.node_matrix.
        seen_us: (n,) newest window end, 0 where there is none.
        known: (n,) whether it is known who lives there: placements say so, or the node was seen of late.
        residents: decision (row of `nodes`), container, app, qos, cpuset; sorted.
        use: (m, resources) of the residents.
    """

    nodes: pa.Table
    capacity: Floats
    facts: Floats
    seen_us: Ints
    known: NDArray[np.bool_]
    residents: pa.Table
    use: Floats


def state_by(now_us: int, usage: pa.Table, facts: Facts) -> pa.Table:
    """Table `node_state` of the usage that had arrived by a time."""
    return node_state(usage.filter(pc.less_equal(usage["arrived_at"], pa.scalar(now_us, TIMESTAMP))), facts)


def live_view(now_us: int, state: pa.Table, facts: Facts, profiles: pa.Table) -> LiveView:
    """What is known of every node now.

    Args:
        now_us: the time; nothing that arrived later is used.
        state: rows of `node_state` of the last minutes.
        facts: all nodes and placements.
        profiles: newest profiles.

    Returns:
        See LiveView; one entry for each node that was described and has not ended.

    Source: ours; the rule for training rows, taken at the present.
    """
    known = facts.nodes.sort_by([(c, "ascending") for c in ("cluster", "node", "ts")]).combine_chunks()
    _, first = np.unique(group_codes(known, ["cluster", "node"]), return_index=True)
    names = known.take(pa.array(np.sort(first))).select(["cluster", "node"])
    newest = known_at(names, np.full(names.num_rows, now_us), facts.nodes, ["cluster", "node"])
    there = pa.array(~is_delete(newest))
    names, newest = names.filter(there).combine_chunks(), newest.filter(there)
    at = names.append_column("time", pa.array(np.full(names.num_rows, now_us), TIMESTAMP))
    sources = Sources(state, facts.nodes, facts.placements, profiles)
    found = residents(at, sources).sort_by([("decision", "ascending"), ("container", "ascending")])
    use, _ = resident_use(found, at, sources)
    seen_us = _newest_window(names, state)
    return LiveView(
        nodes=names.append_column("platform", newest["platform"]).append_column("rack", newest["rack"]),
        capacity=capacities(newest),
        facts=node_matrix(newest),
        seen_us=seen_us,
        known=known_nodes(seen_us, now_us, placements=bool(facts.placements.num_rows)),
        residents=found,
        use=use,
    )


def _newest_window(names: pa.Table, state: pa.Table) -> Ints:
    ends = state.select(["cluster", "node"]).append_column("ts", state["window_end"])
    forever = np.full(names.num_rows, np.iinfo(np.int64).max // 2)
    newest = known_at(names, forever, ends, ["cluster", "node"])["ts"]
    return np.asarray(pc.fill_null(newest.cast(pa.int64()), 0).to_numpy(), np.int64)
