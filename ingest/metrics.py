"""What ingestion counts for Prometheus. The registry is passed in; an edge."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from ingest.batch import Gap
from ingest.landing import Landing


@dataclass(frozen=True, slots=True)
class IngestMetrics:
    """Counters of landed batches only: what a lost race dropped is counted by whoever landed it."""

    messages: Counter
    rows: Counter
    rejects: Counter
    unknown_fields: Counter
    lost_races: Counter
    gap_offsets: Counter
    lag: Gauge

    @staticmethod
    def on(registry: CollectorRegistry) -> "IngestMetrics":
        """Make the counters on a registry."""
        place = ["topic", "partition"]
        return IngestMetrics(
            Counter("cohabit_ingest_messages", "Messages landed", ["topic"], registry=registry),
            Counter("cohabit_ingest_rows", "Rows landed", ["table"], registry=registry),
            Counter("cohabit_ingest_rejects", "Records and values set aside", ["topic", "reason"], registry=registry),
            Counter("cohabit_ingest_unknown_fields", "Values outside the catalogue", ["topic"], registry=registry),
            Counter("cohabit_ingest_lost_races", "Batches another consumer landed first", ["topic"], registry=registry),
            Counter("cohabit_ingest_gap_offsets", "Offsets the broker dropped unread", place, registry=registry),
            Gauge("cohabit_ingest_lag", "Messages not landed yet", place, registry=registry),
        )

    def landed(self, landing: Landing, messages: int) -> None:
        """Count one landed batch."""
        topic = landing.link.topic
        self.messages.labels(topic).inc(messages)
        self.rows.labels(landing.table).inc(landing.rows.num_rows)
        self.unknown_fields.labels(topic).inc(sum(landing.unknown_fields.values()))
        for count in landing.dead_letters["reason"].value_counts().to_pylist():
            self.rejects.labels(topic, count["values"]).inc(count["counts"])

    def lost(self, gap: Gap) -> None:
        """Count one gap."""
        self.gap_offsets.labels(gap.link.topic, gap.link.partition).inc(gap.offsets)
