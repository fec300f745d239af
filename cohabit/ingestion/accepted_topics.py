"""Accepting a recreated topic, after a look at what the broker has. An edge."""

from contextlib import closing

from cohabit.config.errors import CohabitError
from ingest.kafka_io.connection import Brokers
from ingest.kafka_io.topic_admin import TopicAdmin
from ingest.lake.landing import Positions
from ingest.lake.tables import Lake
from ingest.lake.topic_ids import TopicIds


def accept_topic(lake: Lake, topic: str, brokers: Brokers) -> None:
    """Record the topic's present id, so that ingestion starts at its offset 0.

    Raises:
        CohabitError: there is no such topic, or its records follow those in the lake.
    """
    with closing(TopicAdmin(brokers)) as admin:
        places, found = admin.places([topic]), admin.ids([topic]).get(topic)
        if not places:
            raise _nothing_to_accept(topic, f"{brokers} has no such topic")
        origin, recorded = TopicIds(lake).origin(topic), TopicIds(lake).recorded(topic)
        behind = [
            end < (Positions(lake).position(origin, place.partition) or 0) for place, end in admin.ends(places).items()
        ]
        if found == recorded and not any(behind):
            raise _nothing_to_accept(
                topic, f"its id is {found}, as ingested, and no partition ends before the lake does"
            )
        if not TopicIds(lake).accept(topic, found or ""):
            raise _nothing_to_accept(topic, "another process accepted it meanwhile")


def _nothing_to_accept(topic: str, why: str) -> CohabitError:
    return CohabitError(f"topic {topic} cannot be accepted: {why}; `cohabit doctor ingest` shows each topic")
