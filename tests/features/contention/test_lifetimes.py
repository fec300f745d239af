"""Lifetimes: what was measured and then is silent ended when it was last heard, and what is heard again is there."""

from collections.abc import Iterable

import pyarrow as pa

from features.contention.lifetimes import CONTAINER_SILENCE_US, HEARD, NODE_SILENCE_US, heard_in, times_of, with_ends
from features.contention.node_state import Facts
from ingest.schema.tables import SAMPLES
from tests.features.rows import T0, at, nodes, placements, rows_of

MINUTE = 60
NOTHING = HEARD.empty_table()


def heard(**minutes: tuple[str, Iterable[int]]) -> pa.Table:
    """When containers were measured: each its node and minutes; `whole` stands for the node itself."""
    rows = [
        {"cluster": "c", "node": node, "container": "/" if name == "whole" else name, "ts": at(minute * MINUTE)}
        for name, (node, when) in minutes.items()
        for minute in when
    ]
    schema = pa.schema([("cluster", pa.string()), ("node", pa.string()), ("container", pa.string()), HEARD.field(3)])
    return heard_in(pa.Table.from_pylist(rows, pa.schema([*list(schema)[:3], schema.field(3).with_name("ts")])))


def events(rows: pa.Table, key: str, name: str) -> list[tuple[str, float]]:
    """Minute and event of a container or node."""
    found = [row for row in rows.to_pylist() if row[key] == name]
    minutes = [((row["ts"] - T0).total_seconds() / MINUTE, row["event"] or "add") for row in found]
    return [(event, minute) for minute, event in sorted(minutes)]


def test_a_container_that_is_silent_while_its_node_is_measured_ended_when_it_was_last_measured() -> None:
    facts = Facts(nodes(), placements({"container": "a"}, {"container": "b"}))
    seen = heard(a=("n", range(1, 11)), b=("n", range(1, 60)))

    found = with_ends(facts, seen, NOTHING, round(at(3600).timestamp() * 1e6)).placements

    assert events(found, "container", "a") == [("add", -1), ("delete", 10)]
    assert events(found, "container", "b") == [("add", -1)]
    (end,) = [row for row in found.to_pylist() if row["event"] == "delete"]
    assert (end["arrived_at"] - end["ts"]).total_seconds() * 1e6 == CONTAINER_SILENCE_US


def test_a_container_that_is_measured_again_is_there_again() -> None:
    facts = Facts(nodes(), placements({"container": "a", "app": "web"}))
    seen = heard(a=("n", range(1, 11)), later=("n", range(1, 60)))
    again = pa.concat_tables([seen, heard(a=("n", range(40, 60)))])

    found = with_ends(facts, again, NOTHING, round(at(3600).timestamp() * 1e6)).placements

    assert events(found, "container", "a") == [("add", -1), ("delete", 10), ("add", 40)]
    assert found["app"].to_pylist() == ["web"] * 3


def test_silence_of_a_whole_node_ends_no_container_before_the_node() -> None:
    facts = Facts(nodes(), placements({"container": "a"}))

    found = with_ends(facts, heard(a=("n", range(1, 11))), NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.placements, "container", "a") == [("add", -1)]


def test_an_outage_of_what_measures_ends_no_container_though_one_is_heard_again_first() -> None:
    facts = Facts(nodes(), placements({"container": "a"}, {"container": "b"}))
    seen = [heard(a=("n", range(1, 11)), b=("n", range(1, 11))), heard(a=("n", range(40, 60)), b=("n", range(41, 60)))]

    found = with_ends(facts, pa.concat_tables(seen), NOTHING, round(at(3600).timestamp() * 1e6)).placements

    assert events(found, "container", "a") == events(found, "container", "b") == [("add", -1)]


def test_a_container_that_was_never_measured_does_not_keep_a_node_that_was() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "a"}, {"container": "never"}))
    seen = heard(a=("n", range(1, 11)), b=("m", range(1, 60)))

    found = with_ends(facts, seen, NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.nodes, "node", "n") == [("add", -60), ("delete", 10)]
    assert events(found.placements, "container", "never") == [("add", -1), ("delete", 10)]


def test_a_container_goes_on_where_its_node_was_only_registered_again() -> None:
    gone = {"node": "n", "ts": 10 * MINUTE, "event": "delete", "cores": None, "memory_bytes": None, "platform": None}
    again = {"node": "n", "ts": 10 * MINUTE + 5}
    facts = Facts(nodes({"node": "n"}, gone, again, {"node": "m"}), placements({"container": "a"}))

    found = with_ends(
        facts, heard(a=("n", range(1, 60)), b=("m", range(1, 60))), NOTHING, round(at(3600).timestamp() * 1e6)
    )

    assert events(found.placements, "container", "a") == [("add", -1), ("delete", 10), ("add", 10 + 5 / MINUTE)]


def test_a_container_that_was_never_measured_stays_and_keeps_its_node() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "a"}))

    found = with_ends(facts, heard(b=("m", range(1, 60))), NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.placements, "container", "a") == [("add", -1)]
    assert events(found.nodes, "node", "n") == [("add", -60)]


def test_a_node_ends_when_it_was_last_heard_of_and_what_is_on_it_ends_too() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "a"}))
    seen = heard(a=("n", range(1, 11)), b=("m", range(1, 60)))

    found = with_ends(facts, seen, NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.nodes, "node", "n") == [("add", -60), ("delete", 10)]
    assert events(found.nodes, "node", "m") == [("add", -60)]
    assert events(found.placements, "container", "a") == [("add", -1), ("delete", 10)]
    (end,) = [row for row in found.nodes.to_pylist() if row["event"] == "delete"]
    assert (end["arrived_at"] - end["ts"]).total_seconds() * 1e6 == NODE_SILENCE_US
    assert end["cores"] == 8.0


def test_a_node_whose_containers_have_all_been_deleted_ends_then() -> None:
    gone = {"container": "a", "ts": 20 * MINUTE, "event": "delete"}
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "a", "ts": 0}, gone))

    found = with_ends(facts, heard(b=("m", range(1, 60))), NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.nodes, "node", "n") == [("add", -60), ("delete", 20)]


def test_an_idle_node_that_something_says_is_there_stays() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements())
    seen, beats = heard(a=("n", range(1, 11)), b=("m", range(1, 60))), heard(whole=("n", range(0, 60, 5)))

    assert events(with_ends(facts, seen, beats, round(at(3600).timestamp() * 1e6)).nodes, "node", "n") == [("add", -60)]


def test_a_node_that_held_nothing_yet_stays() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements())

    found = with_ends(facts, heard(b=("m", range(1, 60))), NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.nodes, "node", "n") == [("add", -60)]


def test_where_a_whole_cluster_was_silent_nothing_ended() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "a"}, {"container": "b", "node": "m"}))
    seen = heard(a=("n", range(1, 11)), b=("m", range(1, 11)))
    again = pa.concat_tables([seen, heard(a=("n", range(50, 60)), b=("m", range(50, 60)))])

    found = with_ends(facts, again, NOTHING, round(at(3600).timestamp() * 1e6))

    assert found.nodes.num_rows == 2
    assert found.placements.num_rows == 2


def test_a_node_that_comes_back_under_its_name_is_there_again_with_its_containers() -> None:
    facts = Facts(nodes({"node": "n"}, {"node": "m"}), placements({"container": "a"}))
    seen = heard(a=("n", range(1, 11)), b=("m", range(1, 60)))
    again = pa.concat_tables([seen, heard(a=("n", range(22, 60)))])

    found = with_ends(facts, again, NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.nodes, "node", "n") == [("add", -60), ("delete", 10), ("add", 22)]
    assert events(found.placements, "container", "a") == [("add", -1), ("delete", 10), ("add", 22)]


def test_a_recorded_end_of_a_node_ends_its_containers_and_late_samples_do_not_bring_them_back() -> None:
    gone = {"node": "n", "ts": 10 * MINUTE, "event": "delete", "cores": None, "memory_bytes": None, "platform": None}
    facts = Facts(nodes({"node": "n"}, gone, {"node": "m"}), placements({"container": "a"}))
    seen = heard(a=("n", range(1, 12)), b=("m", range(1, 60)))

    found = with_ends(facts, seen, NOTHING, round(at(3600).timestamp() * 1e6))

    assert events(found.nodes, "node", "n")[:2] == [("add", -60), ("delete", 10)]
    assert events(found.placements, "container", "a") == [("add", -1), ("delete", 10)]
    assert {row["cores"] for row in found.nodes.to_pylist()} == {8.0}


def test_the_same_name_on_other_hardware_is_described_by_its_own_time() -> None:
    facts = Facts(
        nodes(
            {"node": "n", "ts": 0, "cores": 64.0},
            {"node": "n", "ts": 10 * MINUTE, "event": "delete", "cores": None},
            {"node": "n", "ts": 20 * MINUTE, "cores": 4.0},
        ),
        placements({"container": "a", "ts": 0}, {"container": "b", "ts": 20 * MINUTE}),
    )

    found = with_ends(facts, heard(b=("n", range(20, 60))), NOTHING, round(at(3600).timestamp() * 1e6))

    cores = {(row["ts"] - T0).total_seconds() / MINUTE: (row["event"], row["cores"]) for row in found.nodes.to_pylist()}
    assert cores == {0: (None, 64.0), 10: ("delete", 64.0), 20: (None, 4.0)}
    assert events(found.placements, "container", "a") == [("add", 0), ("delete", 10)]
    assert events(found.placements, "container", "b") == [("add", 20)]


def test_a_deletion_that_was_heard_late_is_dated_back_to_the_last_measurement() -> None:
    late = {"container": "a", "ts": 20 * MINUTE, "event": "delete"}
    facts = Facts(nodes(), placements({"container": "a"}, late, {"container": "b"}))
    seen = heard(a=("n", range(1, 11)), b=("n", range(1, 60)))

    found = with_ends(facts, seen, NOTHING, round(at(3600).timestamp() * 1e6)).placements

    assert events(found, "container", "a") == [("add", -1), ("delete", 10), ("delete", 20)]
    (end,) = [row for row in found.to_pylist() if row["event"] == "delete" and row["ts"] == at(10 * MINUTE)]
    assert end["arrived_at"] == at(20 * MINUTE)


def test_what_never_measures_containers_shows_that_a_node_is_there_and_not_that_a_container_is_gone() -> None:
    facts = Facts(nodes(), placements({"container": "a"}))
    of_node: list[dict[str, object]] = [
        {"container": "/", "exporter": "node_exporter", "metric": "cpu_cores", "ts": minute * MINUTE}
        for minute in range(1, 60)
    ]
    times = times_of(rows_of(SAMPLES, *of_node, {"container": "a", "exporter": "kubelet", "metric": "m", "ts": MINUTE}))

    found = with_ends(
        facts, heard_in(times.measured), heard_in(times.beats), round(at(3600).timestamp() * 1e6)
    ).placements

    assert events(found, "container", "a") == [("add", -1)]
