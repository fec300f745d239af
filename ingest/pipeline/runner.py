"""Ingest a whole stream into a lake, from Kafka or from files: source, sink and what lies between, put together."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from threading import Event
from typing import Literal

from ingest.lake.tables import Lake
from ingest.pipeline.consumer_loop import Formats, Landers, OnLanded, ignore, ingest
from ingest.pipeline.file_source import FileCapacities, FileSource
from ingest.pipeline.kafka_source import ConsumerSettings, KafkaSource
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.node_capacity import KafkaCapacities
from ingest.pipeline.sink import COMMIT_EVERY_S, LakeSink

Until = Literal["end", "stopped"]
"""`end`: what is there now; `stopped`: whatever comes, until stopped."""

NATIVE_FORMATS = Formats()
"""Our own JSON on our own topics."""


def ingest_kafka(
    settings: ConsumerSettings,
    lake: Lake,
    *,
    until: Until,
    stop: Event,
    metrics: IngestMetrics,
    formats: Formats = NATIVE_FORMATS,
    on_landed: OnLanded = ignore,
    commit_every_s: float = COMMIT_EVERY_S,
) -> int:
    """Land topics of Kafka as a member of a consumer group; how many messages were landed.

    Raises:
        IngestError: a topic was deleted and created again, or the broker lost records that are in the lake.
    """
    sink = LakeSink(lake, commit_every_s)
    with (
        closing(KafkaCapacities(settings.bootstrap, formats.nodes_topic, cluster=formats.cluster)) as capacities,
        closing(KafkaSource(settings, sink)) as source,
    ):
        if until == "end":
            source.stop_at_end()
        landers = Landers(formats, capacities, on_landed)
        return ingest(source, sink, landers, metrics, stop)


def ingest_files(
    folder: Path,
    topics: Sequence[str],
    lake: Lake,
    *,
    stop: Event,
    metrics: IngestMetrics,
    formats: Formats = NATIVE_FORMATS,
    on_landed: OnLanded = ignore,
) -> int:
    """Land stream files by the same loop; how many messages were landed.

    Raises:
        IngestError: a file is not in the console consumer's form.
    """
    sink = LakeSink(lake)
    with (
        closing(FileCapacities(folder, formats.nodes_topic, cluster=formats.cluster)) as capacities,
        closing(FileSource(folder, topics, sink.position)) as source,
    ):
        source.stop_at_end()
        landers = Landers(formats, capacities, on_landed)
        return ingest(source, sink, landers, metrics, stop)
