"""Node state: what each container did in a minute and how hard its neighbours pressed."""

import random

import pyarrow as pa

from features.contention.node_state import Facts, node_state
from tests.features.rows import at, nodes, placements, usage

FACTS = Facts(nodes({}), placements())


def by_container(rows: pa.Table, column: str) -> dict[str, object]:
    return dict(zip(rows["container"].to_pylist(), rows[column].to_pylist(), strict=True))


def test_signals_are_means_over_the_minute_and_missing_stays_missing() -> None:
    state = node_state(
        usage(
            {"container": "a", "ts": 30, "cpu_cores": 1.0},
            {"container": "a", "ts": 60, "cpu_cores": 3.0, "cpi": 2.0},
            {"container": "b", "ts": 60},
        ),
        FACTS,
    )

    assert by_container(state, "cpu_cores") == {"a": 2.0, "b": None}
    assert by_container(state, "cpi") == {"a": 2.0, "b": None}
    assert by_container(state, "samples") == {"a": 2, "b": 1}


def test_pressure_is_the_neighbours_share_of_the_node() -> None:
    state = node_state(
        usage(
            {"container": "a", "ts": 60, "cpu_cores": 2.0}, {"container": "b", "ts": 60, "cpu_cores": 4.0, "qos": "BE"}
        ),
        FACTS,
    )

    assert by_container(state, "pressure_cpu") == {"a": 0.5, "b": 0.25}
    assert by_container(state, "demand_cpu") == {"a": 0.25, "b": 0.5}
    assert by_container(state, "neighbours_be") == {"a": 1.0, "b": 0.0}


def test_a_neighbour_that_requested_no_gpu_uses_none_where_another_is_measured() -> None:
    asked: dict[str, object] = {"a": 1.0, "b": 1.0, "c": 0.0, "d": None}
    placed = placements(*({"container": name, "gpu_request": of} for name, of in asked.items()))
    measured = {"a": 0.5, "b": 1.5}
    rows: list[dict[str, object]] = [{"container": name, "ts": 60, "gpu_sm_frac": measured.get(name)} for name in "abc"]

    state = node_state(usage(*rows), Facts(nodes({"gpus": 2.0}), placed))
    blind = node_state(usage(*({**row, "gpu_sm_frac": None} for row in rows)), Facts(nodes({"gpus": 2.0}), placed))

    assert by_container(state, "pressure_gpu") == {"a": 0.75, "b": 0.25, "c": 1.0}
    assert by_container(state, "gpu_sm_frac") == {"a": 0.5, "b": 1.5, "c": 0.0}
    assert by_container(blind, "pressure_gpu") == dict.fromkeys("abc")


def test_a_sample_on_a_boundary_lies_in_the_minute_it_ends() -> None:
    state = node_state(usage({"container": "a", "ts": 60}, {"container": "a", "ts": 60.001}), FACTS)

    assert state["window_end"].to_pylist() == [at(60), at(120)]


def test_a_sample_that_arrived_too_late_is_left_out() -> None:
    rows = usage(
        {"container": "a", "ts": 30, "cpu_cores": 1.0},
        {"container": "a", "ts": 60, "cpu_cores": 9.0, "arrived_at": at(151)},
    )

    assert by_container(node_state(rows, FACTS), "cpu_cores") == {"a": 1.0}


def test_of_duplicates_the_lowest_offset_counts() -> None:
    rows = usage(
        {"container": "a", "ts": 60, "cpu_cores": 9.0, "offset": 7},
        {"container": "a", "ts": 60, "cpu_cores": 1.0, "offset": 3},
    )

    assert by_container(node_state(rows, FACTS), "cpu_cores") == {"a": 1.0}


def test_containers_of_which_it_is_not_known_where_they_run_are_no_neighbours() -> None:
    state = node_state(
        usage(*({"container": c, "ts": 60, "cpu_cores": 1.0, "node": "unknown"} for c in "ab")),
        Facts(nodes({"node": "unknown"}), placements()),
    )

    for column in ("pressure_cpu", "neighbours", "max_neighbour_cpu", "pressure_be_cpu"):
        assert by_container(state, column) == {"a": None, "b": None}
    assert by_container(state, "cpu_cores") == {"a": 1.0, "b": 1.0}


def test_what_is_not_known_of_a_node_gives_no_pressure() -> None:
    state = node_state(usage({"container": "a", "ts": 60, "cpu_cores": 1.0, "node": "other"}), FACTS)

    assert by_container(state, "pressure_cpu") == {"a": None}
    assert by_container(state, "platform") == {"a": None}


def test_placements_fill_in_who_a_container_is_and_where_it_is_pinned() -> None:
    facts = Facts(
        nodes({"cores": 2.0}),
        placements({"container": "a", "app": "db", "cpuset": "0"}, {"container": "b", "cpuset": "1"}),
    )
    rows = usage(
        {"container": "a", "ts": 60, "cpu_cores": 1.0, "app": None}, {"container": "b", "ts": 60, "cpu_cores": 0.5}
    )

    state = node_state(rows, facts)

    assert by_container(state, "app") == {"a": "db", "b": "web"}
    assert by_container(state, "pressure_cpu") == {"a": 0.0, "b": 0.0}
    assert by_container(state, "pressure_cpu_elsewhere") == {"a": 0.25, "b": 0.5}


def test_facts_learned_later_are_not_used_earlier() -> None:
    facts = Facts(nodes({"cores": 8.0}, {"ts": 90, "cores": 16.0}), placements())
    rows = usage({"container": "a", "ts": 60, "cpu_cores": 4.0}, {"container": "a", "ts": 120, "cpu_cores": 4.0})

    assert node_state(rows, facts)["demand_cpu"].to_pylist() == [0.5, 0.25]


def test_the_order_of_rows_does_not_matter_to_the_last_bit() -> None:
    rng = random.Random(7)
    rows = [
        {"container": f"c{i}", "ts": 60, "cpu_cores": rng.random(), "memory_bytes": rng.random() * 1e9, "offset": i}
        for i in range(40)
    ]
    shuffled = rows[:]
    rng.shuffle(shuffled)

    assert node_state(usage(*rows), FACTS).equals(node_state(usage(*shuffled), FACTS))


def test_no_samples_give_no_rows() -> None:
    assert node_state(usage(), FACTS).num_rows == 0
