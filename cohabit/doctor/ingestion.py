"""Ingestion checks: recreated topics, records behind, and open transactions that hold a partition. An edge."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime

from kafka import TopicPartition
from kafka.errors import KafkaError

from cohabit.doctor.finding import Finding, ok, problem, warning
from ingest.kafka_io.connection import Brokers
from ingest.kafka_io.topic_admin import OpenTransaction, TopicAdmin
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds
from ingest.schema.topics import TOPICS

YOUNG_S = 10
"""Transactions that are open for less are how transactional producers work."""
LIMIT_S = 900
"""Kafka's own limit, transaction.max.timeout.ms: an older transaction is not ended by the brokers."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """What is looked at.

    Args:
        brokers: where the topics are.
        lake: into which they are ingested.
        topics: their names.
        now_s: the time, seconds since 1970.
    """

    brokers: Brokers
    lake: Lake
    topics: Sequence[str]
    now_s: float


def examine(what: Ingested) -> Iterator[Finding]:
    """A finding for each topic, and one for each partition that waits for an open transaction; nothing is written."""
    with closing(TopicAdmin(what.brokers)) as admin:
        places: defaultdict[str, list[TopicPartition]] = defaultdict(list)
        for place in admin.places(what.topics):
            places[place.topic].append(place)
        ids = admin.ids(what.topics)
        for topic in what.topics:
            yield _topic(what, admin, topic, ids.get(topic), places[topic])
        yield from _waiting(what, admin, [place for topic in what.topics for place in places[topic]])


def _topic(
    what: Ingested, admin: TopicAdmin, topic: str, found: str | None, places: Sequence[TopicPartition]
) -> Finding:
    subject, recorded = f"topic {topic}", TopicIds(what.lake).recorded(topic)
    if not places:
        said = "it does not exist"
        return ok(subject, said) if topic in TOPICS else warning(subject, f"{said}: create it, or correct --topic")
    if found and recorded and found != recorded:
        said = f"recreated, its id is {found} and the ingested one was {recorded}: nothing of it is ingested"
        return problem(subject, f"{said}; if it is meant, run `cohabit lake accept-topic {topic}`")
    ends = admin.ends(places)
    behind = sum(max(end - _position(what.lake, place), 0) for place, end in ends.items())
    return ok(subject, f"{len(places)} partitions, {behind:,} records behind")


def _waiting(what: Ingested, admin: TopicAdmin, places: Sequence[TopicPartition]) -> Iterator[Finding]:
    try:
        found = admin.open_transactions(places)
    except KafkaError as error:
        yield warning("open transactions", f"the brokers do not list them ({error!r}): Kafka 2.8 and later do")
        return
    ends = admin.ends(found)
    for place, one in sorted(found.items()):
        if (finding := _open(what, admin, place, one, ends)) is not None:
            yield finding


def _open(
    what: Ingested,
    admin: TopicAdmin,
    place: TopicPartition,
    one: OpenTransaction,
    ends: Mapping[TopicPartition, int],
) -> Finding | None:
    named = admin.transaction(one.producer_id)
    since_s = (named.started_ms if named else one.last_write_ms) / 1000
    age_s = what.now_s - since_s
    if age_s < YOUNG_S:
        return None
    name = f" (transactional id {named.transactional_id})" if named else ", which no coordinator knows"
    said = (
        f"{ends[place] - one.first_offset:,} records wait for an open transaction of producer id "
        f"{one.producer_id}{name}, open since {datetime.fromtimestamp(since_s, UTC):%Y-%m-%d %H:%M:%S} UTC "
        f"({age_s:,.0f} s); end that producer, or run `kafka-transactions.sh --bootstrap-server {what.brokers} abort "
        f"--topic {place.topic} --partition {place.partition} --start-offset {one.first_offset}`"
    )
    return (problem if age_s >= LIMIT_S else warning)(f"{place.topic}[{place.partition}]", said)


def _position(lake: Lake, place: TopicPartition) -> int:
    return Positions(lake).position(TopicIds(lake).origin(place.topic), place.partition) or 0
