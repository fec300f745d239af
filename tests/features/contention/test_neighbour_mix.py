"""Composition: which neighbours press, how unevenly, and through which part of the node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from features.contention.neighbour_mix import Details, composition, smt_pressure
from features.contention.node_state import Facts, node_state
from features.contention.pressure import Members, pressures
from features.schema.catalog import COMPOSITION, NAMES
from tests.features.rows import nodes, placements, usage

LLC, MEMBW = NAMES.index("llc"), NAMES.index("memory_bandwidth")
R = len(NAMES)


def state_of(*rows: dict[str, object], facts: Facts) -> dict[str, dict[str, object]]:
    return {row["container"]: row for row in node_state(usage(*rows), facts).to_pylist()}


def test_the_busiest_neighbour_and_the_best_effort_part_are_told_apart() -> None:
    state = state_of(
        {"container": "a", "ts": 60, "memory_bytes": 1e9},
        {"container": "b", "ts": 60, "memory_bytes": 2e9, "qos": "BE"},
        {"container": "c", "ts": 60, "memory_bytes": 3e9},
        facts=Facts(nodes({}), placements()),
    )

    assert state["a"]["max_neighbour_memory"] == pytest.approx(3 / 8)
    assert state["a"]["pressure_memory"] == pytest.approx(5 / 8)
    assert state["a"]["pressure_be_memory"] == pytest.approx(2 / 8)
    assert state["b"]["pressure_be_memory"] == 0.0


def test_a_burst_is_what_the_neighbours_peaks_add_to_their_means() -> None:
    state = state_of(
        {"container": "a", "ts": 30, "cpu_cores": 1.0},
        {"container": "a", "ts": 60, "cpu_cores": 1.0},
        {"container": "b", "ts": 30, "cpu_cores": 0.0},
        {"container": "b", "ts": 60, "cpu_cores": 4.0},
        facts=Facts(nodes({}), placements()),
    )

    assert state["a"]["burst_cpu"] == pytest.approx(2 / 8)
    assert state["b"]["burst_cpu"] == 0.0
    assert state["b"]["peak_cpu"] == pytest.approx(4 / 8)


def test_what_was_missing_and_how_old_it_is_stands_beside_the_features() -> None:
    state = state_of(
        {"container": "a", "ts": 50, "cpu_cores": 1.0},
        {"container": "b", "ts": 60, "memory_bytes": 1e9},
        facts=Facts(nodes({}), placements()),
    )
    known = {name for i, name in enumerate(NAMES) if not int(str(state["a"]["missing"])) >> i & 1}

    assert known == {"memory"}
    assert state["a"]["age_s"] == 10.0


def test_a_pinned_container_feels_who_runs_on_the_other_thread_of_its_core() -> None:
    facts = Facts(
        nodes({"cores": 4.0, "smt": 2}),
        placements({"container": "a", "cpuset": "0"}, {"container": "b", "cpuset": "2"}, {"container": "c"}),
    )
    state = state_of(
        {"container": "a", "ts": 60, "cpu_cores": 0.5},
        {"container": "b", "ts": 60, "cpu_cores": 0.8},
        {"container": "c", "ts": 60, "cpu_cores": 0.4},
        facts=facts,
    )

    assert state["a"]["pressure_cpu_smt"] == pytest.approx(0.8 + 0.1)
    assert state["b"]["pressure_cpu_smt"] == pytest.approx(0.5 + 0.1)
    assert state["c"]["pressure_cpu_smt"] is None


def test_a_bound_container_feels_the_traffic_on_its_own_numa_node() -> None:
    described = nodes({"numa_nodes": 2, "memory_bandwidth_bytes_s": 100.0})
    bound = placements(
        {"container": "a", "numa_node": 0}, {"container": "b", "numa_node": 0}, {"container": "c", "numa_node": 1}
    )
    state = state_of(
        *(
            {"container": c, "ts": 60, "memory_bandwidth_bytes_s": use}
            for c, use in zip("abcd", (1.0, 10.0, 20.0, 8.0), strict=True)
        ),
        facts=Facts(described, bound),
    )

    assert state["a"]["pressure_memory_bandwidth_numa"] == pytest.approx((10 + 8 / 2) / 50)
    assert state["c"]["pressure_memory_bandwidth_numa"] == pytest.approx((0 + 8 / 2) / 50)
    assert state["d"]["pressure_memory_bandwidth_numa"] is None


def members(rng: np.random.Generator, count: int, gaps: float) -> tuple[Members, Details]:
    use = rng.gamma(1.0, 1.0, (count, R))
    use[rng.random(use.shape) < gaps] = np.nan
    capacity = np.full((count, R), 16.0)
    group = np.sort(rng.integers(0, 3, count))
    cpusets = [f"{rng.integers(0, 15)}" if rng.random() < 0.3 else None for _ in range(count)]
    nothing = np.full(count, np.nan)
    details = Details(use * rng.uniform(1, 2, use.shape), rng.random(count), np.full(count, 2.0), nothing, nothing)
    return Members(np.unique(group, return_inverse=True)[1], use, capacity, rng.random(count) < 0.5, cpusets), details


@given(seed=st.integers(0, 500), count=st.integers(1, 12), gaps=st.sampled_from([0.0, 0.3]))
def test_parts_never_exceed_the_whole(seed: int, count: int, gaps: float) -> None:
    who, details = members(np.random.default_rng(seed), count, gaps)
    whole = pressures(who)[:, :R]
    found = dict(zip(COMPOSITION, composition(who, whole, details).T, strict=True))

    for i, name in enumerate(NAMES):
        known = np.isfinite(whole[:, i])
        assert (found[f"pressure_be_{name}"][known] <= whole[known, i] + 1e-12).all()
        assert (np.nan_to_num(found[f"burst_{name}"]) >= 0).all()
    largest = found["max_neighbour_llc"]
    known = np.isfinite(largest)
    if not gaps:
        assert (largest[known] <= whole[known, LLC] + 1e-12).all()
    assert (np.nan_to_num(smt_pressure(who, details.smt)) >= 0).all()


@given(seed=st.integers(0, 200), count=st.integers(2, 10))
def test_the_best_effort_part_is_what_a_loop_adds_up(seed: int, count: int) -> None:
    who, details = members(np.random.default_rng(seed), count, 0.0)
    found = composition(who, pressures(who)[:, :R], details)[:, COMPOSITION.index("pressure_be_memory_bandwidth")]
    for i in range(count):
        others = [j for j in range(count) if j != i and who.group[j] == who.group[i] and who.best_effort[j]]
        assert found[i] == pytest.approx(sum(who.use[j, MEMBW] for j in others) / 16.0)
