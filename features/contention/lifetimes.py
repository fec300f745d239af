"""Lifetimes: the ends of containers and nodes of which no record says that they ended. Kernel.

A watch is lost, a producer never writes a deletion, a node dies. What was measured and then is silent has ended at the
last time it was heard. Such ends are added to the tables as events, so that everything that reads them sees them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import Ints, micros
from features.columnar.asof_join import NEVER, key_codes, newest_known
from features.columnar.composite_keys import joint, ranks, rising
from features.contention.container_resolution import resolved
from features.contention.node_state import INFERRED, LANDED_IN, Facts, is_delete
from ingest.schema.tables import APP_EXPORTERS, NODE_EXPORTERS, TIMESTAMP, WHOLE_NODE

Bools = NDArray[np.bool_]
NODE_SILENCE_US = 600 * 1_000_000
"""A node of which nothing was heard for longer has ended when it was last heard of."""
CONTAINER_SILENCE_US = 900 * 1_000_000
"""A container that was measured, and for longer was not while its node was, has ended when it was last measured."""
LATE_DELETION_US = 180 * 1_000_000
"""A deletion dated longer after its container was last measured was heard late, by the list after a lost watch."""
TOGETHER_US = 60 * 1_000_000
"""What is heard again within so long of each other was silent together: what measures was down, and nothing ended."""
SLOT_US = 300 * 1_000_000
"""What was heard of something is kept as its first and last time in so long."""
NODE, CONTAINER = ["cluster", "node"], ["cluster", "container"]
TIMES = ["cluster", "node", "container", "ts"]
HEARD = pa.schema(
    [
        ("cluster", pa.string()),
        ("node", pa.string()),
        ("container", pa.string()),
        ("first", TIMESTAMP),
        ("last", TIMESTAMP),
    ]
)
"""When something was measured of a container, or of a node (`/`): times of one slot together."""


def heard_in(rows: pa.Table) -> pa.Table:
    """When containers and nodes were measured.

    Args:
        rows: columns TIMES, any order; of several tables together, any number of them.

    Returns:
        Table HEARD, sorted by its columns.
    """
    slot = pa.array(micros(rows["ts"]) // SLOT_US)
    slotted = rows.append_column("slot", slot).unify_dictionaries()
    found = slotted.group_by([*TIMES[:3], "slot"], use_threads=False).aggregate([("ts", "min"), ("ts", "max")])
    return found.select([*TIMES[:3], "ts_min", "ts_max"]).rename_columns(HEARD.names).cast(HEARD)


_CODED = pa.dictionary(pa.int32(), pa.string())
_TIMES = pa.schema([*((name, _CODED) for name in HEARD.names[:3]), ("ts", TIMESTAMP)])


class Times(NamedTuple):
    """Columns TIMES of what exporters of containers measured, and of what else says that a node is there."""

    measured: pa.Table
    beats: pa.Table


def times_of(rows: pa.Table) -> Times:
    """When rows of a landed table say that something is there; rows of nodes are of WHOLE_NODE.

    What never measures containers, such as node_exporter and `cohabit watch`, shows that a node is there, and cannot
    show that a container is not: what measures those may be down alone. What apps say of themselves shows neither.
    """
    if "exporter" in rows.column_names:
        of_apps = pc.is_in(rows["exporter"], pa.array(APP_EXPORTERS))
        rows = rows.filter(pc.invert(of_apps))
    beats = np.zeros(rows.num_rows, np.bool_)
    if "container" not in rows.column_names:
        beats = ~beats
        rows = rows.append_column("container", pa.array([WHOLE_NODE] * rows.num_rows, pa.string()))
    elif "exporter" in rows.column_names:
        beats = pc.is_in(rows["exporter"], pa.array(NODE_EXPORTERS)).to_numpy()
    rows = rows.select(TIMES).cast(_TIMES)
    return Times(rows.filter(pa.array(~beats)), rows.filter(pa.array(beats)))


def with_ends(facts: Facts, heard: pa.Table, beats: pa.Table, horizon_us: int) -> Facts:
    """The facts, with an event for each end that no record says.

    Args:
        facts: nodes and placements up to the horizon, any order.
        heard: table HEARD: what exporters measured up to the horizon.
        beats: table HEARD of nodes: what else says that a node is there, such as the watcher.
        horizon_us: up to when things were heard, microseconds since 1970.

    Returns:
        Facts with more rows. A container that was measured, then for more than CONTAINER_SILENCE_US was not although
        its node was, is deleted when it was last measured; so is one whose deletion is dated more than LATE_DELETION_US
        later. A node that held containers or was measured, and of which then nothing was heard for more than
        NODE_SILENCE_US while other nodes of its cluster were, is deleted when it was last heard of; containers keep a
        node of which nothing was ever measured. What is on a node when that ends is deleted then. What is heard again,
        on a node that is there again, is there again. The ends arrive once they can be known: when the silence has
        lasted so long.

    Source: ours, docs/decisions/0060-lifetimes.md.
    """
    if not facts.placements.num_rows and not facts.nodes.num_rows:
        return facts
    heard = _placed(heard, facts)
    placements = _with_silent_containers(facts.placements, heard, horizon_us)
    nodes, ended = _with_silent_nodes(facts.nodes, placements, heard, beats, horizon_us)
    return Facts(nodes, _without_nodes(placements, ended, heard))


def _placed(heard: pa.Table, facts: Facts) -> pa.Table:
    """What was heard, of the containers and on the nodes that placements know."""
    nameless = heard.append_column("pod", pa.nulls(heard.num_rows, pa.string())).append_column("ts", heard["last"])
    return resolved(nameless, facts).samples.select(HEARD.names)


class _Ends(NamedTuple):
    """Ends of nodes: their key's columns, when, when that could be known, and since when a node of the name is back."""

    rows: pa.Table
    at_us: Ints
    known_us: Ints
    back_us: Ints


def _with_silent_containers(placements: pa.Table, heard: pa.Table, horizon_us: int) -> pa.Table:
    own = heard.filter(pc.not_equal(heard["container"], WHOLE_NODE)).combine_chunks()
    if not own.num_rows or not placements.num_rows:
        return placements
    events, key, ts = _in_order(placements, CONTAINER)
    left = _codes(own, events, CONTAINER)
    first, last = micros(own["first"]), micros(own["last"])
    order = rising(left, first)
    left, first, last = left[order], first[order], last[order]
    again = np.append(np.where(np.diff(left) == 0, first[1:], NEVER), [NEVER])[: len(left)]
    silent = np.minimum(again, horizon_us) - last > LATE_DELETION_US
    left, last, again = left[silent], last[silent], again[silent]
    stood, gone = newest_known(left, last, key, ts), is_delete(events)
    following = _next_of(key, ts)[stood]
    deleted = np.append(gone[1:], [False])[stood] & (following < NEVER) & (following <= again)
    limit = np.where(deleted, LATE_DELETION_US, CONTAINER_SILENCE_US)
    good = (stood >= 0) & ~gone[stood] & (np.minimum(np.minimum(again, horizon_us), following) - last > limit)
    stood, last, again, deleted = stood[good], last[good], again[good], deleted[good]
    known_us = np.where(deleted, following[good], last + CONTAINER_SILENCE_US)
    there = events.take(pa.array(stood))
    alone = np.where(deleted | (again == NEVER), NEVER, again - TOGETHER_US)
    measured = _heard_within(there, heard, NODE, last + limit[good], alone)
    again = np.where(deleted, NEVER, again)[measured]
    return _with_events(events, stood[measured], last[measured], (known_us - last)[measured], again)


def _heard_within(rows: pa.Table, heard: pa.Table, keys: list[str], since_us: Ints, until_us: Ints) -> Bools:
    """(n,) whether anything of each row's node, or cluster, was heard in [since, until)."""
    left, right = key_codes(rows, heard, keys)
    last = micros(heard["last"])
    order = rising(right, -last)
    right, last = right[order], last[order]
    earliest = -running_max(right, -micros(heard["first"])[order])  # of those that were heard as late, or later
    found = newest_known(left, -since_us, right, -last)
    return (found >= 0) & (np.append(earliest, 0)[found] < until_us)


def _with_silent_nodes(
    nodes: pa.Table, placements: pa.Table, heard: pa.Table, beats: pa.Table, horizon_us: int
) -> tuple[pa.Table, _Ends]:
    """Nodes with the ends of silent ones, and all ends."""
    described, key, ts = _in_order(nodes, NODE)
    gone = is_delete(described)
    described = _with_descriptions(described, key, gone)
    all_heard = pa.concat_tables([heard, beats])
    code, start, end, used = _stretches(described, placements, all_heard, horizon_us)
    order = rising(code, start)
    code, start, end = code[order], start[order], end[order]
    until = running_max(code, end)
    following = np.append(np.where(np.diff(code) == 0, start[1:], NEVER), [NEVER])[: len(code)]
    silent = np.minimum(following, horizon_us) - until > NODE_SILENCE_US
    silent &= np.isin(code, np.unique(code[used[order]]))
    code, until, following = code[silent], until[silent], following[silent]
    stood = newest_known(code, until, key, ts)
    stood = np.where(stood < 0, np.searchsorted(key, code), stood)  # described later, or its description was let go of
    good = ~gone[stood]
    alone = np.where(following < NEVER, following - TOGETHER_US, NEVER)
    good[good] = _heard_within(
        described.take(pa.array(stood[good])), all_heard, NODE[:1], until[good] + NODE_SILENCE_US, alone[good]
    )
    stood, until, following = stood[good], until[good], following[good]
    found = _with_events(described, stood, until, NODE_SILENCE_US, following)
    names = described.select(NODE)
    ends = pa.concat_tables([names.filter(pa.array(gone)), names.take(pa.array(stood))])
    known_us = np.append(micros(described["arrived_at"])[gone], until + NODE_SILENCE_US)
    back_us = np.append(_next_of(key, ts)[gone], until + 1)
    return found, _Ends(ends, np.append(ts[gone], until), known_us, back_us)


def _with_descriptions(nodes: pa.Table, key: Ints, gone: Bools) -> pa.Table:
    """The nodes, of which deletions say what the node was like, so that its last minute has its capacities."""
    before = np.maximum.accumulate(np.where(gone, -1, np.arange(len(gone)))) if len(gone) else np.zeros(0, np.int64)
    rows = np.flatnonzero(gone & (before >= 0))
    rows = rows[key[before[rows]] == key[rows]]
    taken = np.arange(len(gone))
    taken[rows] = before[rows]
    copied = nodes.take(pa.array(taken))
    own = {"event", "ts", *LANDED_IN}
    columns = [nodes[name] if name in own else copied[name] for name in nodes.column_names]
    return pa.table(columns, schema=nodes.schema)


def _stretches(
    nodes: pa.Table, placements: pa.Table, heard: pa.Table, horizon_us: int
) -> tuple[Ints, Ints, Ints, Bools]:
    """Times from when until when something says that a node is there, codes of the nodes, and whether it was in use."""
    events, key, ts = _in_order(placements, CONTAINER)
    code = [_codes(table, nodes, NODE) for table in (nodes, events, heard)]
    known = ~is_delete(events) & ~np.isin(key, _codes(heard, events, CONTAINER)) & ~np.isin(code[1], code[2])
    until = np.where(known, np.minimum(_next_of(key, ts), horizon_us), ts)
    there = micros(nodes["ts"])
    start = np.concatenate([there, ts, micros(heard["first"])])
    end = np.concatenate([there, until, micros(heard["last"])])
    used = np.append(np.zeros(nodes.num_rows, np.bool_), np.ones(len(start) - nodes.num_rows, np.bool_))
    of_node = np.concatenate(code)
    rows = of_node >= 0
    return of_node[rows], start[rows], end[rows], used[rows]


def _without_nodes(placements: pa.Table, ends: _Ends, heard: pa.Table) -> pa.Table:
    """The placements, with the end of what stood on nodes when these ended."""
    if not len(ends.at_us) or not placements.num_rows:
        return placements
    events, key, ts = _in_order(placements, CONTAINER)
    left = _codes(events, ends.rows, NODE)
    right = _codes(ends.rows, ends.rows, NODE)
    found = newest_known(left, -ts, right, -ends.at_us)  # the first end after each event
    at_us, known_us = np.append(ends.at_us, NEVER)[found], np.append(ends.known_us, NEVER)[found]
    rows = np.flatnonzero((found >= 0) & ~is_delete(events) & (at_us < _next_of(key, ts)))
    own, of = key_codes(events.take(pa.array(rows)), heard, CONTAINER)
    first, last, since = micros(heard["first"]), micros(heard["last"]), ends.back_us[found[rows]]
    back = newest_known(own, -since, of, -last)
    again = np.where((back >= 0) & (since < NEVER), np.maximum(np.append(first, NEVER)[back], since), NEVER)
    return _with_events(events, rows, at_us[rows], known_us[rows] - at_us[rows], again)


def _with_events(rows: pa.Table, which: Ints, at_us: Ints, delay_us: int | Ints, again_us: Ints) -> pa.Table:
    """The rows, and of some of them a deletion, and a copy from when each is there again."""
    back = again_us < NEVER
    events = ["delete"] * len(which) + ["add"] * int(back.sum())
    ts = np.append(at_us, again_us[back])
    arrived = ts + np.append(np.broadcast_to(delay_us, at_us.shape), np.zeros(int(back.sum()), np.int64))
    added = rows.take(pa.array(np.append(which, which[back])))
    replaced = {
        "event": pa.array(events, pa.string()),
        "ts": pa.array(ts, TIMESTAMP),
        "arrived_at": pa.array(arrived, TIMESTAMP),
        "topic": pa.array([INFERRED] * len(ts), pa.string()),
    }
    columns = [replaced.get(name, added[name]) for name in rows.column_names]
    return pa.concat_tables([rows, pa.table(columns, schema=rows.schema)])


def _in_order(events: pa.Table, keys: Sequence[str]) -> tuple[pa.Table, Ints, Ints]:
    """The events key by key in the order in which they happened, codes of their keys, and their times."""
    code = key_codes(events, events.slice(0, 0), list(keys))[0]
    ts = micros(events["ts"])
    order = rising(code, ts, *(ranks(events[name]) for name in LANDED_IN))
    return events.take(pa.array(order)).combine_chunks(), code[order], ts[order]


def _codes(rows: pa.Table, events: pa.Table, keys: list[str]) -> Ints:
    """(n,) of each row the code that `_in_order` gives its key; -1 for a key that no event has."""
    left, right = key_codes(rows, events, keys)
    own = key_codes(events, events.slice(0, 0), keys)[0]
    codes = np.full(max(left.max(initial=-1), right.max(initial=-1)) + 1, -1, np.int64)
    codes[right] = own
    return codes[left]


def _next_of(key: Ints, ts: Ints) -> Ints:
    """(n,) time of the next event of the same key; NEVER where there is none."""
    return np.append(np.where(np.diff(key) == 0, ts[1:], NEVER), [NEVER])[: len(key)]


def running_max(code: Ints, value: Ints) -> Ints:
    """(n,) largest value of the same code so far; rows of a code together."""
    if not len(code):
        return value
    kinds, rank = np.unique(value, return_inverse=True)
    largest: Ints = kinds[np.maximum.accumulate(joint([code, rank])) % (int(rank.max()) + 1)]
    return largest
