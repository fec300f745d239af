"""Simulate into stream files: what a cluster would send, and apart from it what was true."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.kafka_io.stream_files import Message, TopicWriter
from ingest.schema.tables import TIMESTAMP
from ingest.simulator.messages import Message as Simulated
from ingest.simulator.simulate import Plan, built_in, simulate
from ingest.simulator.simulated_cluster import Truth

TRUTH = pa.schema([("ts", TIMESTAMP), ("container", pa.string()), ("slowdown_ratio", pa.float64())])

Progress = Callable[[int, int], None]
"""Called with simulated intervals, done and in all."""


def simulate_into(folder: Path, plan: Plan, progress: Progress, *, truth: Path | None = None) -> int:
    """Write a simulated run as stream files.

    Args:
        folder: gets `<topic>.log` for each topic.
        plan: what to simulate.
        progress: called after each interval.
        truth: where true slowdowns go, in parquet; nowhere when None. Keep it away from training.

    Returns:
        How many messages were written.
    """
    count = 0
    true: list[pa.Table] = []
    for number, (messages, happened) in enumerate(simulate(plan, *built_in(plan)), 1):
        write_messages(folder, messages)
        count += len(messages)
        true.append(truth_rows(happened))
        progress(number, plan.steps)
    if truth is not None:
        truth.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(true), truth)
    return count


def write_messages(folder: Path, messages: Iterable[Simulated]) -> None:
    """Append messages to the stream files of their topics, `<topic>.log` in the folder."""
    by_topic: dict[str, list[Message]] = defaultdict(list)
    for message in messages:
        by_topic[message.topic].append(Message(message.arrived_ms, message.key, message.value))
    for topic, sent in by_topic.items():
        TopicWriter(folder, topic).write(sent)


def truth_rows(happened: Truth) -> pa.Table:
    """True slowdowns of an interval, in schema TRUTH."""
    n = len(happened.containers)
    columns = [[round(happened.time_s * 1e6)] * n, [c.uid for c in happened.containers], happened.slowdown.tolist()]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, TRUTH, strict=True)], schema=TRUTH)
