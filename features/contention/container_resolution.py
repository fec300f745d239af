"""Resolution: which pod, on which node, a sample is of, by the placements that stood at its time. Kernel.

Some formats have a pod's name and no uid, and names are reused. Some exporters run in a pod and report their own host
name, or the cluster's, as the node. Placements know both.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Ints, micros
from features.columnar.asof_join import key_codes, newest_known
from features.columnar.composite_keys import ranks, rising
from features.contention.node_state import LANDED_IN, Facts, is_delete
from ingest.schema.tables import UNKNOWN_NODE, WHOLE_NODE

Bools = NDArray[np.bool_]
SECOND_US = 1_000_000
LINGER_US = 300 * SECOND_US
"""Exporters report a container for up to five minutes after its end: Prometheus' look-back, cAdvisor's cache."""
STATIC = r"^[0-9a-f]{32}@"
OWN = ["cluster", "node", "container", "pod"]
MOVED = pa.schema([("cluster", pa.string()), ("node", pa.string()), ("placed_on", pa.string())])


class Resolved(NamedTuple):
    """Samples with the containers and nodes that placements know, and which nodes of samples were another one.

    Args:
        samples: the same rows in the same order.
        moved: as MOVED: each name under which an exporter reported, and the node on which its pods were placed.
    """

    samples: pa.Table
    moved: pa.Table


def resolved(samples: pa.Table, facts: Facts, moved: pa.Table | None = None) -> Resolved:
    """Samples of the pods that placements know, under their ids and on their nodes.

    Args:
        samples: rows of `samples`, any order.
        facts: nodes and placements, any order.
        moved: as MOVED, of all samples, where these are some of them; None where they are all.

    Returns:
        See Resolved. A pod that is called namespace/name has the id of the one that had the name at the sample's time,
        see `owners`; without one the name stays. The node is the placement's. Samples of a node that `nodes` does not
        have, all of whose placed pods are on one other node, are that node's.

    Source: ours; situations 02 and 13 of tests/ingest/cases.
    """
    unclear = _unclear(samples, facts.placements)
    if not unclear.num_rows:
        whole = MOVED.empty_table() if moved is None else moved
        return Resolved(_with_aliases(samples, whole, facts.nodes), MOVED.empty_table())
    own, asked = key_codes(samples, unclear, OWN)
    chosen = np.flatnonzero(np.isin(own, asked))
    rows, us = samples.take(pa.array(chosen)), micros(samples["ts"])[chosen]
    container = _containers(rows, us, facts)
    node = pc.coalesce(_nodes(rows, container, us, facts.placements), rows["node"])
    here = _moved(rows, node)
    samples = _put(_put(samples, "container", chosen, container), "node", chosen, node)
    return Resolved(_with_aliases(samples, here if moved is None else moved, facts.nodes), here)


def newest_reports(samples: pa.Table) -> pa.Table:
    """Columns OWN and the newest ts of samples of an hour, what is reported under each name once; for `moved_in`."""
    seen = samples.group_by(OWN, use_threads=False).aggregate([("ts", "max")])
    return seen.rename_columns({"ts_max": "ts"})


def moved_in(seen: pa.Table, facts: Facts) -> pa.Table:
    """As MOVED: under which names exporters reported pods that were placed on other nodes.

    Args:
        seen: rows of `newest_reports`, of one hour or several.
        facts: nodes and placements, any order.
    """
    return resolved(seen, facts).moved


def owners(cluster: pa.ChunkedArray, called: pa.ChunkedArray, time_us: Ints, placements: pa.Table) -> pa.ChunkedArray:
    """The container that had each name at each time; null where none is known.

    Args:
        cluster: (n,) clusters.
        called: (n,) names, namespace/name.
        time_us: (n,) times.
        placements: rows of `placements`, any order.

    Returns:
        (n,) container ids. The newest event but deletions counts, compared by whole seconds, since that is how the API
        writes its times: a pod that is made anew in the second in which its predecessor ended has the name. Of equal
        seconds the one that ended later, or not at all. A name whose pod ended more than LINGER_US ago has no pod.
        Where only a deletion is left of a pod, it had the name until then.

    Source: Kubernetes: names are unique among the pods that exist; metav1.Time has seconds.
    """
    named = placements.filter(pc.is_valid(placements["name"])).combine_chunks()
    names = pc.binary_join_element_wise(named["namespace"], named["name"], "/")
    left, right = key_codes(
        pa.table({"cluster": cluster, "called": called}),
        pa.table({"cluster": named["cluster"], "called": names}),
        ["cluster", "called"],
    )
    begun_us = micros(named["ts"]) // SECOND_US
    deleted = is_delete(named)
    end_us = _ends(named, deleted)
    order = rising(begun_us, end_us, *(ranks(named[name]) for name in LANDED_IN))
    alive = order[~deleted[order]]
    found = _taken(alive, newest_known(left, time_us // SECOND_US, right[alive], begun_us[alive]))
    gone = np.flatnonzero(deleted & ~_begun(named, deleted))
    until = _taken(gone, newest_known(left, -time_us, right[gone], -micros(named["ts"])[gone]))
    found = np.where(found < 0, until, found)
    over = (found >= 0) & (np.append(end_us, 0)[found] < time_us - LINGER_US)
    return named["container"].take(pa.array(found, mask=(found < 0) | over))


def _begun(named: pa.Table, deleted: Bools) -> Bools:
    """(n,) whether of each row's container it is known when it came."""
    codes = key_codes(named, named.slice(0, 0), ["cluster", "container"])[0]
    return np.isin(codes, codes[~deleted])


def _ends(named: pa.Table, deleted: Bools) -> Ints:
    """(n,) when the run that each row is of ended: its container's next deletion; the end of time where there is none.

    A static pod has one container id for all its runs on a node.
    """
    codes = key_codes(named, named.slice(0, 0), ["cluster", "container"])[0]
    ts = micros(named["ts"])
    order = rising(codes, ts // SECOND_US, *(ranks(named[name]) for name in LANDED_IN))
    places = np.arange(len(order))
    gone = np.where(deleted[order], places, len(order))
    next_gone = np.minimum.accumulate(gone[::-1])[::-1]
    after = np.append(order, -1)[next_gone]
    same = (after >= 0) & (codes[after] == codes[order]) if len(order) else np.zeros(0, np.bool_)
    ends = np.empty(len(order), np.int64)
    ends[order] = np.where(same, ts[after], np.iinfo(np.int64).max) if len(order) else 0
    return ends


def _unclear(samples: pa.Table, placements: pa.Table) -> pa.Table:
    """Columns OWN of what is called by name, or by the hash of its manifest, or is placed elsewhere; each once."""
    if not placements.num_rows:
        return samples.select(OWN).slice(0, 0)
    seen = samples.group_by(OWN, use_threads=False).aggregate([])
    by_name = pc.and_(pc.match_substring(seen["container"], "/"), pc.not_equal(seen["container"], WHOLE_NODE))
    static = pc.and_(pc.match_substring_regex(seen["container"], STATIC), pc.is_valid(seen["pod"]))
    own, placed = key_codes(seen, placements, ["cluster", "container"])
    there, reported = key_codes(seen, placements, ["cluster", "container", "node"])
    known = np.isin(own, placed)
    elsewhere = known & ~np.isin(there, reported)
    unknown_hash = np.asarray(static.to_numpy(zero_copy_only=False), np.bool_) & ~known
    return seen.filter(pa.array(np.asarray(by_name.to_numpy(), np.bool_) | unknown_hash | elsewhere))


def _containers(rows: pa.Table, us: Ints, facts: Facts) -> pa.ChunkedArray:
    """(n,) ids; a name stays where its sample is of a node that `nodes` has and its pod is on another one."""
    own = rows["container"]
    called = pc.if_else(pc.match_substring(own, "/"), own, pc.if_else(_is_hash(own), rows["pod"], None))
    found = owners(rows["cluster"], called, us, facts.placements)
    there, described = key_codes(rows, facts.nodes, ["cluster", "node"])
    elsewhere = pc.not_equal(_nodes(rows, found, us, facts.placements), rows["node"])
    other = pc.and_(pc.fill_null(elsewhere, fill_value=False), pa.array(np.isin(there, described)))
    return pc.if_else(other, own, pc.coalesce(found, own))


def _is_hash(container: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.match_substring_regex(container, STATIC)


def _nodes(rows: pa.Table, container: pa.ChunkedArray, us: Ints, placements: pa.Table) -> pa.ChunkedArray:
    """(n,) node of each container by its newest event by then, else by its first; null where it has none."""
    keys = pa.table({"cluster": rows["cluster"], "container": container})
    left, right = key_codes(keys, placements, ["cluster", "container"])
    ts = micros(placements["ts"])
    order = rising(ts, *(ranks(placements[name]) for name in LANDED_IN))
    newest = _taken(order, newest_known(left, us, right[order], ts[order]))
    first = _taken(order, newest_known(left, -us, right[order], -ts[order]))
    found = np.where(newest < 0, first, newest)
    return placements["node"].combine_chunks().take(pa.array(found, mask=found < 0))


def _taken(rows: Ints, found: Ints) -> Ints:
    """Rows by what was found among them; -1 stays."""
    return np.append(rows, -1)[found]


def _moved(rows: pa.Table, node: pa.ChunkedArray) -> pa.Table:
    pairs = pa.table({"cluster": rows["cluster"], "node": rows["node"], "placed_on": node})
    other = pairs.filter(pc.not_equal(pairs["node"], pairs["placed_on"]))
    return other.group_by(MOVED.names, use_threads=False).aggregate([]).select(MOVED.names).cast(MOVED)


def _put(table: pa.Table, name: str, rows: Ints, values: pa.ChunkedArray) -> pa.Table:
    """The table with a column's values replaced in some rows."""
    mask = np.zeros(table.num_rows, np.bool_)
    mask[rows] = True
    column = table[name].combine_chunks()
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return table.set_column(
        table.schema.get_field_index(name),
        table.schema.field(name),
        pc.replace_with_mask(column, pa.array(mask), values.cast(column.type)),
    )


def _with_aliases(samples: pa.Table, moved: pa.Table, nodes: pa.Table) -> pa.Table:
    """Samples of an exporter's own host name, which is no node, on the one node where its pods were placed."""
    targets = moved.group_by(["cluster", "node"], use_threads=False).aggregate([("placed_on", "distinct")])
    single = pc.equal(pc.list_value_length(targets["placed_on_distinct"]), 1)
    one = targets.filter(pc.and_(single, pc.not_equal(targets["node"], UNKNOWN_NODE)))
    alias, described = key_codes(one, nodes, ["cluster", "node"])
    one = one.filter(pa.array(~np.isin(alias, described)))
    left, right = key_codes(samples, one, ["cluster", "node"])
    rows = np.flatnonzero(np.isin(left, right))
    if not one.num_rows or not len(rows):
        return samples
    place = np.zeros(max(left.max(), right.max()) + 1, np.int64)
    place[right] = np.arange(len(right))
    nodes_by_alias = pc.list_element(one["placed_on_distinct"], 0)
    return _put(samples, "node", rows, nodes_by_alias.take(pa.array(place[left[rows]])))
