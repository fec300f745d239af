"""Records as messages: those of one key that happened within a minute of each other share one. Kernel."""

from collections.abc import Iterable, Iterator

import orjson

from ingest.kafka_io.stream_files import Message
from ingest.schema.topics import Topic
from ingest.traces.cells import Record

MAX_RECORDS = 500
MAX_SPAN_S = 60.0
"""Records older than their message by more would count as late (features.columnar.windows.LATENESS_US)."""


def messages(records: list[Record], topic: Topic, epoch_s: float) -> list[Message]:
    """Messages in order of time. Each arrives at the time of its newest record, so none was late and none ahead.

    Args:
        records: in any order.
        topic: decides the key; a record without a field of its key has `None` there.
        epoch_s: when a record without a time of its own arrives.
    """
    timed = sorted(((_time_s(record, epoch_s), i) for i, record in enumerate(records)))
    open_groups: dict[bytes, list[tuple[float, Record]]] = {}
    done = []
    for at_s, i in timed:
        key = key_of(topic, records[i])
        group = open_groups.setdefault(key, [])
        if group and (len(group) >= MAX_RECORDS or at_s - group[0][0] > MAX_SPAN_S):
            done.append(_message(key, group))
            group = open_groups[key] = []
        group.append((at_s, records[i]))
    done += [_message(key, group) for key, group in open_groups.items()]
    return sorted(done, key=lambda message: message.arrived_ms)


def broken_lines(lines: Iterable[str], topic: Topic, cluster: str, epoch_s: float) -> Iterator[Message]:
    """Lines that are no row, as messages that ingest rejects for their missing fields."""
    for line in lines:
        yield Message(_ms(epoch_s), key_of(topic, {}), orjson.dumps({"cluster": cluster, "line": line}))


def key_of(topic: Topic, record: Record) -> bytes:
    """Key of a record, be it complete or not; without tab or line feed, which no stream file could hold."""
    named = "/".join(str(record.get(column)) for column in topic.key)
    return named.replace("\t", " ").replace("\n", " ").encode()


def _message(key: bytes, group: list[tuple[float, Record]]) -> Message:
    return Message(_ms(group[-1][0]), key, orjson.dumps([record for _, record in group]))


def _time_s(record: Record, epoch_s: float) -> float:
    ts = record.get("ts")
    return ts if isinstance(ts, float) and 0 <= ts < 4e9 else epoch_s


def _ms(seconds: float) -> int:
    return max(round(seconds * 1000), 0)
