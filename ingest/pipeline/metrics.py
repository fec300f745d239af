"""What ingestion counts for Prometheus. The registry is passed in; an edge."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow.compute as pc
from prometheus_client import CollectorRegistry, Counter, Gauge

from ingest.pipeline.transform import Landing
from ingest.schema.batch import Backlog, Gap


class IngestMetrics:
    """Counters of landed batches only: what a lost race dropped is counted by the consumer that landed it.

    Args:
        registry: where they are read.
        now_s: the clock for the age of the newest landed record, seconds since 1970; None: no age is reported.
    """

    def __init__(self, registry: CollectorRegistry, now_s: Callable[[], float] | None = None) -> None:
        on: Any = {"registry": registry}
        topic, place = ["topic"], ["topic", "partition"]
        waited, waits = "Time that a partition has waited for an open transaction", [*place, "producer_id"]
        self.messages = Counter("cohabit_ingest_messages", "Messages landed", topic, **on)
        self.rows = Counter("cohabit_ingest_rows", "Rows landed", ["table"], **on)
        self.rejects = Counter("cohabit_ingest_rejects", "Records and values rejected", ["topic", "reason"], **on)
        self.unknown_fields = Counter("cohabit_ingest_unknown_fields", "Values outside the catalogue", topic, **on)
        self.lost_races = Counter("cohabit_ingest_lost_races", "Batches another consumer landed first", topic, **on)
        self.gap_offsets = Counter("cohabit_ingest_gap_offsets", "Offsets the broker dropped unread", place, **on)
        self.gaps = Counter("cohabit_ingest_gaps", "Stretches the broker dropped unread", place, **on)
        self.lag = Gauge("cohabit_ingest_lag", "Messages not landed yet", place, **on)
        self.open_transactions = Gauge("cohabit_ingest_open_transaction_seconds", waited, waits, **on)
        self.newest = Gauge("cohabit_ingest_newest_seconds", "Arrival of the newest record landed", topic, **on)
        self.freshness = Gauge("cohabit_ingest_freshness_seconds", "Now minus that arrival", topic, **on)
        self.letters_sent = Counter("cohabit_ingest_dead_letters_sent", "Dead letters on their topic", **on)
        self.letters_unsent = Counter("cohabit_ingest_dead_letters_unsent", "Dead letters in the lake only", **on)
        self.now_s = now_s

    def landed(self, landing: Landing, messages: int) -> None:
        """Count one landed batch."""
        topic = landing.range.topic
        self.messages.labels(topic).inc(messages)
        self.rows.labels(landing.table).inc(landing.rows.num_rows)
        self.unknown_fields.labels(topic).inc(sum(landing.unknown_fields.values()))
        for count in landing.dead_letters["reason"].value_counts().to_pylist():
            self.rejects.labels(topic, count["values"]).inc(count["counts"])
        if landing.rows.num_rows:
            newest_s = pc.max(landing.rows["arrived_at"]).value / 1e6
            self.newest.labels(topic).set(newest_s)
            if (now_s := self.now_s) is not None:
                self.freshness.labels(topic).set_function(lambda: now_s() - newest_s)

    def behind(self, backlog: Sequence[Backlog]) -> None:
        """Publish what is not landed yet, and which transactions are waited for."""
        self.open_transactions.clear()
        for one in backlog:
            self.lag.labels(one.topic, one.partition).set(one.records)
            if one.producer_id is not None:
                self.open_transactions.labels(one.topic, one.partition, one.producer_id).set(one.waited_s)

    def lost(self, gap: Gap) -> None:
        """Count one gap."""
        self.gaps.labels(gap.range.topic, gap.range.partition).inc()
        self.gap_offsets.labels(gap.range.topic, gap.range.partition).inc(gap.offsets)
