"""Landing from Kafka in one process: the lake, metrics and dead letters."""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from time import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from cohabit.config.malloc_trim import give_back_for_good
from cohabit.config.settings import Settings
from cohabit.ingestion.metrics_port import scraped
from ingest.lake.tables import Lake

if TYPE_CHECKING:
    from ingest.pipeline.consumer_loop import Formats, OnLanded
    from ingest.pipeline.kafka_source import ConsumerSettings
    from ingest.pipeline.runner import Until
    from ingest.pipeline.transform import Landing


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for on the command line.

    Args:
        metrics_port: where Prometheus reads.
        dead_letters: also send dead letters to their topic.
        topics: foreign topics to land too, NAME=FORMAT each.
        mapping: file of further metrics.
    """

    metrics_port: int | None = None
    dead_letters: bool = False
    topics: tuple[str, ...] = ()
    mapping: Path | None = None


ALONE = Wishes()


@dataclass(frozen=True, slots=True)
class Job:
    """All that landing must know.

    Args:
        settings: the command's.
        lake: where to.
        formats: how topics are read.
        consumer: how to read from Kafka.
        until: when to end.
        wishes: see Wishes.
    """

    settings: Settings
    lake: Lake
    formats: "Formats"
    consumer: "ConsumerSettings"
    until: "Until"
    wishes: Wishes


def formats_of(settings: Settings, wishes: Wishes) -> "Formats":
    """The format of each topic, our own and foreign ones."""
    from cohabit.config.topic_formats import foreign_topics
    from ingest.pipeline.consumer_loop import NATIVE, Formats

    foreign = foreign_topics(settings, wishes.topics, wishes.mapping)
    return Formats({**NATIVE, **foreign}, cluster=settings.cluster)


def foreign_in(formats: "Formats") -> tuple[str, ...]:
    """Topics in the formats that are not our own."""
    from ingest.pipeline.consumer_loop import NATIVE

    return tuple(name for name in formats.decoders if name not in NATIVE)


def land_from_kafka(job: Job, stop: Event, on_landed: "OnLanded") -> int:
    """Land until `stop` is set or the end is reached; how many messages were landed."""
    from ingest.pipeline.dead_letter_topic import DeadLetterTopic
    from ingest.pipeline.metrics import IngestMetrics
    from ingest.pipeline.runner import ingest_kafka

    give_back_for_good()
    registry = CollectorRegistry()
    metrics = IngestMetrics(registry, time)
    with ExitStack() as open_things:
        open_things.enter_context(scraped(job.settings.kafka, job.wishes.metrics_port, registry))
        hear: list[OnLanded] = [on_landed]
        if job.wishes.dead_letters:
            hear.append(open_things.enter_context(closing(DeadLetterTopic(job.consumer.bootstrap, metrics))))
        return ingest_kafka(
            job.consumer,
            job.lake,
            until=job.until,
            stop=stop,
            metrics=metrics,
            formats=job.formats,
            on_landed=_all(hear),
            commit_every_s=job.settings.kafka.commit_every_s,
        )


def _all(hearers: "Sequence[OnLanded]") -> "OnLanded":
    def report(landing: "Landing") -> None:
        for hear in hearers:
            hear(landing)

    return report
