"""Live state: the sink that keeps the last minutes of a cluster in memory, for the refresher. An edge."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.cluster.snapshot import Snapshot
from advisor.cluster.snapshot_builder import Offered, build_snapshot
from features.columnar.arrow_columns import micros
from features.columnar.composite_keys import rising
from features.columnar.group_means import group_codes, group_starts
from features.columnar.windows import LATENESS_US, STALE_US, WINDOW_US
from features.contention.lifetimes import HEARD, NODE_SILENCE_US, heard_in, running_max, times_of, with_ends
from features.contention.node_state import LANDED_IN, Facts, undeleted
from features.contention.series_minutes import LOOK_BACK_US
from features.contention.stream_state import minutes_published
from features.contention.usage_rates import rates
from features.training.online_features import live_view, state_by
from ingest.lake.topic_ids import topic_recreated
from ingest.pipeline.transform import Landing
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import LANDED, LIVE_STATE, TIMESTAMP, WHOLE_NODE

KEEP_US = STALE_US + LATENESS_US + 2 * WINDOW_US
"""Usage older than this cannot matter to a snapshot any more."""

BEGIN_US = KEEP_US + LOOK_BACK_US
"""How far back a refresher that starts must read usage and samples."""

HELD = ("usage", "samples", "nodes", "placements", "live_state")
"""Tables that a snapshot is made from."""

HEARD_OF = ("usage", "samples", "live_state", "node_usage")
"""Tables that say what exporters measured, or which nodes are there, however idle."""
FORGOTTEN_US = 24 * 3600 * 1_000_000
"""What was last heard longer ago, and is described nowhere, is forgotten."""

AHEAD_US = 60 * 1_000_000
"""A producer's clock may be ahead of ours by so much."""


@dataclass
class LiveState:
    """Newest usage, nodes and placements of one cluster, as landed by the loop that also feeds the lake.

    Where a streaming job publishes finished and partial minutes to topic node_state, these are taken, and usage need
    not be read; else they are computed here from usage and samples.

    Args:
        cluster: whose rows are kept.
        now_us: the clock; records dated more than AHEAD_US later are skipped, or they would age all others.
        begin: where to start reading a partition; None reads it whole.
    """

    cluster: str
    now_us: Callable[[], int]
    begin: Callable[[str, int], int | None] = lambda _topic, _partition: None
    as_of_us: int = 0
    others: set[str] = field(default_factory=set)
    """Clusters whose rows were skipped."""
    facts: Facts = field(
        default_factory=lambda: Facts(*(LANDED[name].schema.empty_table() for name in ("nodes", "placements")))
    )
    """Of nodes and placements, behind the last snapshot."""
    _pieces: dict[str, list[pa.Table]] = field(
        default_factory=lambda: {name: [table.schema.empty_table()] for name, table in LANDED.items() if name in HELD}
    )
    """Of each table what the last snapshot left, and what came since, each less than the one before."""
    _heard: dict[str, pa.Table] = field(
        default_factory=lambda: {"measured": HEARD.empty_table(), "beats": HEARD.empty_table()}
    )
    """See last_heard; until the last snapshot."""
    _heard_since: dict[str, list[pa.Table]] = field(default_factory=lambda: {"measured": [], "beats": []})
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)
    _topic_ids: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def position(self, topic: str, partition: int) -> int | None:
        """The next offset to read."""
        return self._ends.get((topic, partition), self.begin(topic, partition))

    def check_topic(self, topic: str, found: str) -> None:
        """Compare a topic's id with the one whose records are held.

        Raises:
            IngestError: it is another; what is held came from the topic of before.
        """
        if (held := self._topic_ids.setdefault(topic, found)) != found:
            raise topic_recreated(topic, held, found, "cohabit refresh")

    every_s = 0.0
    """What is live does not wait for company."""

    def write_all(self, landings: Sequence[Landing]) -> Sequence[OffsetRange]:
        """Take up batches; no other process can."""
        for landing in landings:
            self.write(landing)
        return ()

    def write(self, landing: Landing) -> None:
        """Take up a batch; of a gap only its end."""
        with self._lock:
            self._ends[landing.range.topic, landing.range.partition] = landing.range.end
            latest = pa.scalar(self.now_us() + AHEAD_US, TIMESTAMP)
            dated = landing.rows.filter(pc.less_equal(landing.rows["arrived_at"], latest))
            rows = dated.filter(pc.equal(dated["cluster"], self.cluster))
            self.others |= set(pc.unique(landing.rows["cluster"]).to_pylist()) - {self.cluster}
            if landing.table in HELD:
                add(self._pieces[landing.table], rows)
            if landing.table in HEARD_OF:
                for kind, times in times_of(rows)._asdict().items():
                    add(self._heard_since[kind], heard_in(times))
            heard = rows["heard_at" if landing.table == LIVE_STATE.name else "arrived_at"]
            newest = pc.max(heard.cast(pa.int64())).as_py()
            self.as_of_us = max(self.as_of_us, newest or 0)

    def heard(self) -> dict[str, pa.Table]:
        """What was heard last, see last_heard, by kind; as of the last snapshot."""
        with self._lock:
            return dict(self._heard)

    def recall(self, heard: Mapping[str, pa.Table]) -> None:
        """Take up what was heard before the start."""
        with self._lock:
            self._heard |= {
                kind: last_heard(rows, self._heard[kind]) for kind, rows in heard.items() if kind in self._heard
            }

    def held(self) -> dict[str, int]:
        """How many rows of each table are in memory."""
        with self._lock:
            return {name: sum(piece.num_rows for piece in pieces) for name, pieces in self._pieces.items()}

    def snapshot(self, profiles: pa.Table, version: int, offered: Offered | None = None) -> Snapshot:
        """Everything known by the newest message, packed for the scorer; what nodes offer, as build_snapshot has it."""
        with self._lock:
            for kind, since in self._heard_since.items():
                if since:
                    self._heard[kind] = last_heard(self._heard[kind], pa.concat_tables(since))
                    since.clear()
            tables, as_of_us = self._standing(), self.as_of_us
            self._heard = heard = {kind: self._remembered(rows, tables) for kind, rows in self._heard.items()}
        facts = Facts(undeleted(tables["nodes"]), tables["placements"])
        minutes = minutes_published(tables["live_state"])
        state = minutes if minutes.num_rows else self._own_state(as_of_us, tables, facts)
        there = with_ends(Facts(tables["nodes"], tables["placements"]), heard["measured"], heard["beats"], as_of_us)
        view = live_view(as_of_us, state, there, profiles)
        self.facts = facts
        return build_snapshot(view, profiles, version=version, as_of_us=as_of_us, offered=offered)

    def _remembered(self, heard: pa.Table, tables: Mapping[str, pa.Table]) -> pa.Table:
        """What was heard within a day, or of what is described: forgotten, it would be there again, never measured."""
        recent = pc.greater_equal(heard["last"], pa.scalar(self.as_of_us - FORGOTTEN_US, TIMESTAMP))
        placed = pc.is_in(heard["container"], tables["placements"]["container"].combine_chunks())
        described = pc.is_in(heard["node"], tables["nodes"]["node"].combine_chunks())
        node = pc.and_(pc.equal(heard["container"], WHOLE_NODE), described)
        return heard.filter(pc.or_(pc.or_(recent, placed), node))

    def _own_state(self, as_of_us: int, tables: Mapping[str, pa.Table], facts: Facts) -> pa.Table:
        arrived = pc.field("arrived_at") <= pa.scalar(as_of_us, TIMESTAMP)
        made = rates(tables["samples"].filter(arrived), facts).usage
        return state_by(as_of_us, pa.concat_tables([tables["usage"], made]), facts)

    def _standing(self) -> dict[str, pa.Table]:
        """What is held; usage that is too old, facts that newer ones replaced, and who ended long ago are let go of."""
        now, oldest = pa.scalar(self.as_of_us, TIMESTAMP), pa.scalar(self.as_of_us - KEEP_US, TIMESTAMP)
        leant_on = pa.scalar(self.as_of_us - KEEP_US - LOOK_BACK_US, TIMESTAMP)
        tables = {name: pa.concat_tables(pieces) for name, pieces in self._pieces.items()}
        for name in ("usage", "samples", "live_state"):
            recent = pc.field("ts") >= (leant_on if name == "samples" else oldest)
            tables[name] = tables[name].filter(recent).combine_chunks()
        placed = _in_force(tables["placements"], ["cluster", "container"], now, leant_on)
        since = pc.min(placed["ts"]) if placed.num_rows else now  # what stood on a node ended when that was deleted
        tables["nodes"] = _in_force(tables["nodes"], ["cluster", "node"], now, leant_on, since)
        ended = placed.filter((pc.field("event") == "delete") & (pc.field("ts") < oldest))["container"]
        tables["placements"] = placed.filter(pc.invert(pc.is_in(placed["container"], ended)))
        self._pieces = {name: [table] for name, table in tables.items()}
        return tables


def add(pieces: list[pa.Table], rows: pa.Table) -> None:
    """Put rows behind a table that is held in pieces; of any number of batches few pieces are left.

    Each column of each piece is some objects of a hundred bytes: those of thousands of pieces would hold more than the
    rows, and leave holes everywhere when they go.

    Args:
        pieces: each with more rows than the next; changed.
        rows: of the same schema, of any number.
    """
    if not rows.num_rows:
        return
    while pieces and pieces[-1].num_rows <= rows.num_rows:
        rows = pa.concat_tables([pieces.pop(), rows])
    pieces.append(rows.combine_chunks())


def last_heard(before: pa.Table, heard: pa.Table) -> pa.Table:
    """Of each container, or node, when it was heard last, and since when without a silence as long as a node's end.

    Args:
        before: table HEARD, from here.
        heard: table HEARD, what came since.

    Returns:
        Table HEARD, a row each. Where no silence was seen it is as if it had been heard all the time before: what went
        before does not matter to what is there now; but what stood on a node before a silence ended with it.

    Raises:
        Nothing.

    Source: ours, docs/decisions/0060-lifetimes.md.
    """
    always = pa.array(np.zeros(heard.num_rows, np.int64), TIMESTAMP)
    since = pa.concat_tables([before, heard.set_column(HEARD.get_field_index("first"), "first", always)])
    both = pa.concat_tables([before, heard]).append_column("since", since["first"])
    if not both.num_rows:
        return before
    code, first = group_codes(both, HEARD.names[:3]), micros(both["first"])
    order = rising(code, first)
    key, first, last = code[order], first[order], running_max(code[order], micros(both["last"])[order])
    silent = np.append([False], (np.diff(key) == 0) & (first[1:] - last[:-1] > NODE_SILENCE_US))
    starts = group_starts(key)
    began = np.maximum.reduceat(np.where(silent, first, micros(both["since"])[order]), starts)
    ends = np.maximum.reduceat(last, starts)
    names = both.select(HEARD.names[:3]).take(pa.array(order[starts]))
    return pa.table([*names.columns, pa.array(began, TIMESTAMP), pa.array(ends, TIMESTAMP)], schema=HEARD)


def _in_force(
    facts: pa.Table, keys: list[str], now: pa.Scalar, recent: pa.Scalar, since: pa.Scalar | None = None
) -> pa.Table:
    """The last row of each key by time, recent additions, and those that a clock ahead dated later than now.

    And deletions since a time, where one is given.
    """
    ordered = facts.sort_by([(c, "ascending") for c in (*keys, "ts", *LANDED_IN)]).combine_chunks()
    later = pc.greater(ordered["ts"], now)
    begun = ordered.filter(pc.invert(later))
    numbered = begun.append_column("_row", pa.array(np.arange(begun.num_rows)))
    last = numbered.group_by(keys, use_threads=False).aggregate([("_row", "max")])["_row_max"]
    added = pc.fill_null(pc.and_(pc.equal(begun["event"], "add"), pc.greater_equal(begun["ts"], recent)), False)
    kept = np.union1d(last.to_numpy(), np.flatnonzero(added.to_numpy(zero_copy_only=False)))
    if since is not None:
        gone = pc.and_(pc.equal(begun["event"], "delete"), pc.greater_equal(begun["ts"], since))
        kept = np.union1d(kept, np.flatnonzero(pc.fill_null(gone, fill_value=False).to_numpy(zero_copy_only=False)))
    return pa.concat_tables([begun.take(pa.array(kept)), ordered.filter(later)])
