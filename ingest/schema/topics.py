"""Topics: their keys, partitions and retention. Facts; the broker and every client read them from here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic. A key keeps everything about one node (or container) in one partition, hence in order."""

    name: str
    key: tuple[str, ...]
    partitions: int
    compacted: bool = False


USAGE = Topic("usage", ("cluster", "node"), 4)
SAMPLES = Topic("samples", ("cluster", "node"), 4)
NODE_USAGE = Topic("node_usage", ("cluster", "node"), 4)
NODES = Topic("nodes", ("cluster", "node"), 1, compacted=True)
PLACEMENTS = Topic("placements", ("cluster", "container"), 1)
NODE_STATE = Topic("node_state", ("cluster", "node", "slot"), 4, compacted=True)
"""A slot is the minute modulo stream_state.SLOTS, so that the last minutes of a node survive compaction."""
HEADROOM = Topic("headroom", ("cluster", "node", "resource", "horizon_s"), 1, compacted=True)
DEAD_LETTERS = Topic("dead_letters", ("topic", "partition", "offset"), 1)

TOPICS = {t.name: t for t in (USAGE, SAMPLES, NODE_USAGE, NODES, PLACEMENTS, NODE_STATE, HEADROOM, DEAD_LETTERS)}


def message_key(topic: Topic, record: dict[str, object]) -> bytes:
    """Key of a record in its topic: its key columns joined by '/'."""
    return "/".join(str(record[column]) for column in topic.key).encode()
