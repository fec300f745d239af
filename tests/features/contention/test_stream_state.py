"""Minutes as messages: what refreshers are told is what the kernels say."""

import pyarrow as pa

from features.contention.node_state import Facts, node_state, resource_use
from features.contention.stream_state import MAX_CONTAINERS, SLOTS, messages, minutes_published
from features.schema.catalog import RESOURCES
from ingest.pipeline.consumer_loop import NATIVE
from ingest.pipeline.plausibility import Capacities
from ingest.pipeline.transform import land
from ingest.schema.batch import MessageBatch, message_batch
from ingest.schema.provenance import OffsetRange
from ingest.schema.tables import LIVE_SIGNALS
from tests.features.rows import at, nodes, placements, usage

FACTS = Facts(nodes({}), placements())


def landed(told: pa.Table, *, arrived_s: float = 200.0, start: int = 0) -> pa.Table:
    values = told["value"].to_pylist()
    link = OffsetRange("node_state", 0, start, start + len(values))
    stamps = [round(at(arrived_s).timestamp() * 1000)] * len(values)
    batch: MessageBatch = message_batch(link, list(range(start, start + len(values))), stamps, values)
    landing = land(batch, NATIVE["node_state"], Capacities())
    assert landing.dead_letters.num_rows == 0
    return landing.rows


def test_a_minute_told_is_the_minute_computed_for_all_that_containers_share() -> None:
    state = node_state(
        usage(
            {"container": "a", "ts": 30, "cpu_cores": 1.0, "memory_bytes": 1e9, "disk_read_bytes_s": 5.0},
            {"container": "a", "ts": 60, "cpu_cores": 2.0, "disk_write_bytes_s": 0.1},
            {"container": "b", "ts": 60, "net_rx_bytes_s": 1 / 3, "qos": "BE", "app": None},
        ),
        FACTS,
    )

    told = minutes_published(landed(messages(state)))

    shared = [
        "cluster",
        "node",
        "container",
        "window_end",
        "app",
        "team",
        "qos",
        "samples",
        "arrived_at",
        *LIVE_SIGNALS,
    ]
    assert told.select(shared).equals(state.select(shared).combine_chunks())
    assert resource_use(told).tobytes() == resource_use(state).tobytes()


def test_what_is_told_covers_every_shared_resource() -> None:
    assert set(LIVE_SIGNALS) == {signal for resource in RESOURCES for signal in resource.usage}


def test_of_a_minute_told_twice_the_last_word_counts() -> None:
    half = node_state(usage({"container": "a", "ts": 30, "cpu_cores": 1.0}), FACTS)
    more = usage({"container": "a", "ts": 30, "cpu_cores": 1.0}, {"container": "a", "ts": 60, "cpu_cores": 3.0})
    whole = node_state(more, FACTS)
    first, second = landed(messages(half)), landed(messages(whole), arrived_s=201.0, start=7)

    for rows in (pa.concat_tables([first, second]), pa.concat_tables([second, first])):
        assert minutes_published(rows)["cpu_cores"].to_pylist() == [2.0]


def test_keys_let_compaction_keep_the_last_minutes_of_every_node() -> None:
    rows = [{"container": "a", "ts": 60 * m, "cpu_cores": 1.0} for m in range(1, SLOTS + 2)]

    keys = messages(node_state(usage(*rows), FACTS))["key"].to_pylist()

    assert len(set(keys)) == SLOTS
    assert keys[0] == keys[-1]


def test_a_crowded_node_is_told_in_several_messages() -> None:
    rows = [{"container": f"c{i:04d}", "ts": 60, "cpu_cores": 0.001} for i in range(MAX_CONTAINERS + 1)]
    state = node_state(usage(*rows), FACTS)

    told = messages(state)

    assert told.num_rows == len(set(told["key"].to_pylist())) == 2
    assert minutes_published(landed(told)).num_rows == state.num_rows


def test_nothing_told_is_no_minute() -> None:
    assert minutes_published(landed(messages(node_state(usage(), FACTS)))).num_rows == 0
