"""Offsets by time: where to begin reading topics so that their last minutes are not missed. An edge."""

from collections.abc import Sequence
from contextlib import closing

from kafka import KafkaConsumer, TopicPartition

from ingest.kafka_io.client import connect
from ingest.kafka_io.connection import READ_COMMITTED, Brokers

POLL_MS = 500
POLLS = 20
BACK = 16
"""How many times further back a record is looked for where the last offsets hold none."""


def last_minutes(bootstrap: Brokers | str, topics: Sequence[str], back_ms: int) -> dict[tuple[str, int], int]:
    """Where each partition's messages of the last minutes begin, counted back from the newest message of all.

    Counted from the messages, not from our clock, so that a stream replayed from last month has last minutes too.

    Args:
        bootstrap: brokers, host:port separated by commas.
        topics: what is asked for; topics that do not exist have no entry.
        back_ms: how far back, by the brokers' timestamps.

    Returns:
        The first offset to read, by topic and partition; the end where all messages are older.
    """
    with closing(
        connect(KafkaConsumer, bootstrap, isolation_level=READ_COMMITTED, enable_auto_commit=False)
    ) as consumer:
        places = [TopicPartition(name, p) for name in topics for p in consumer.partitions_for_topic(name) or ()]
        ends = consumer.end_offsets(places) if places else {}
        newest_ms = _newest_ms(consumer, ends)
        found = consumer.offsets_for_times(dict.fromkeys(places, max(newest_ms - back_ms, 0))) if places else {}
        return {(p.topic, p.partition): found[p].offset if found.get(p) else ends[p] for p in places}


def _newest_ms(consumer: KafkaConsumer, ends: dict[TopicPartition, int]) -> int:
    """Time of the newest of the last messages of all partitions; 0 where there are none.

    The last offsets may hold no message but aborted ones and the ends of transactions: then it looks further back.
    """
    begins = consumer.beginning_offsets(list(ends)) if ends else {}
    starts = {place: end - 1 for place, end in ends.items() if end > begins[place]}
    consumer.assign(list(starts))
    for place, start in starts.items():
        consumer.seek(place, start)
    newest_ms = 0
    for _ in range(POLLS):
        if not starts:
            break
        for place, records in consumer.poll(timeout_ms=POLL_MS).items():
            newest_ms = max(newest_ms, *(record.timestamp for record in records))
            starts.pop(place, None)
        for place in [place for place in starts if consumer.position(place) >= ends[place]]:
            start = starts.pop(place)
            if start > begins[place]:
                starts[place] = max(ends[place] - BACK * (ends[place] - start), begins[place])
                consumer.seek(place, starts[place])
    return newest_ms
