"""load-watcher's interface: its exact keys, our utilisation, and nothing for what is not known."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.api.scheduler.load_watcher import metrics_of
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.utilisation import utilisation_percent
from advisor.placement.prioritizer import Prioritizer
from features.schema.catalog import NAMES
from tests.advisor.clusters import NOW_US, emptied, snapshot
from tests.advisor.processes import STATES, Process

GOLDEN = Path(__file__).parents[3] / "golden"


def go_decodes(body: bytes) -> dict[str, dict[str, float]]:
    """Read WatcherMetrics as strictly as load-watcher's client, and more; percent by node and type."""
    reply = json.loads(body, parse_constant=pytest.fail)
    assert reply.keys() == {"timestamp", "window", "source", "data"}
    assert reply["window"].keys() == {"duration", "start", "end"}
    times = [reply["timestamp"], reply["window"]["start"], reply["window"]["end"]]
    assert all(type(time) is int for time in times)
    assert type(reply["source"]) is type(reply["window"]["duration"]) is str
    assert reply["data"].keys() == {"NodeMetricsMap"}
    return {node: percents(metrics) for node, metrics in reply["data"]["NodeMetricsMap"].items()}


def percents(node: dict[str, Any]) -> dict[str, float]:
    assert node.keys() == {"metrics", "tags", "metadata"}
    assert node["tags"] == node["metadata"] == {}
    for metric in node["metrics"]:
        assert metric.keys() == {"name", "type", "operator", "rollup", "value"}
        assert metric["operator"] in {"AVG", "STD", "Latest"}
        assert "e" not in json.dumps(metric["value"])
    return {metric["type"]: metric["value"] for metric in node["metrics"]}


def watcher(process: Process) -> TestClient:
    return TestClient(create_scheduler_app(Prioritizer(process.serving)))


def known(**of: Any) -> Snapshot:
    return snapshot(5, missing=0.0, **of)


def test_golden_reply(process: Process) -> None:
    expected = GOLDEN / "watcher.reply.json"

    reply = watcher(process.made_ready()).get("/watcher")

    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    assert reply.content == expected.read_bytes(), f"load-watcher's client reads these bytes; see {expected}"


def test_a_node_is_used_as_much_as_its_residents_use_together() -> None:
    of = known()
    cpu, memory = NAMES.index("cpu"), NAMES.index("memory")

    told = metrics_of(of)

    for i, node in enumerate(of.nodes):
        used = of.resident_use[of.first[i] : of.first[i + 1]].sum(axis=0)
        by_type = {metric.type: metric.value for metric in told[node].metrics}
        assert by_type["CPU"] == pytest.approx(100 * used[cpu] / of.node_capacity[i, cpu], abs=0.001)
        assert by_type["Memory"] == pytest.approx(100 * used[memory] / of.node_capacity[i, memory], abs=0.001)


def test_one_resident_of_whom_nothing_is_known_leaves_the_value_out_and_not_lower() -> None:
    of = known(residents=(2, 3))
    use = of.resident_use.copy()
    use[of.first[1], NAMES.index("cpu")] = np.nan

    told = metrics_of(replace(of, resident_use=use))

    assert [metric.type for metric in told["n1"].metrics] == ["Memory"]
    assert [metric.type for metric in told["n2"].metrics] == ["CPU", "Memory"]


def test_an_empty_node_is_idle_and_one_of_which_nothing_is_known_is_not_told() -> None:
    of = emptied(known())
    capacity = of.node_capacity.copy()
    capacity[2], capacity[3] = np.nan, 0.0
    silent = np.array([True, False, True, True, True, True])

    told = metrics_of(replace(of, node_known=silent, node_capacity=capacity))

    assert told.keys() == {"n0", "n4", "n5"}
    assert {metric.value for node in told.values() for metric in node.metrics} == {0.0}


@given(seed=st.integers(0, 1000), missing=st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_a_resident_more_never_lowers_utilisation(seed: int, missing: float) -> None:
    of = snapshot(seed, missing=missing, residents=(1, 4))
    fewer = replace(of, resident_use=np.where(np.arange(len(of.containers))[:, None] == 0, 0.0, of.resident_use))

    for resource in NAMES:
        more, less = utilisation_percent(of, resource), utilisation_percent(fewer, resource)
        assert not (more < less).any()


@pytest.mark.parametrize("state", STATES)
def test_what_may_not_be_believed_is_told_as_no_nodes(states: dict[str, TestClient], state: str) -> None:
    told = go_decodes(states[state].get("/watcher").content)

    assert bool(told) == (state in {"model", "last_good"})


def test_one_node_can_be_asked_for_and_one_of_which_nothing_is_known_is_not_found(process: Process) -> None:
    client = watcher(process.made_ready())
    every = go_decodes(client.get("/watcher").content)
    node = next(iter(every))

    assert go_decodes(client.get("/watcher", params={"host": node}).content) == {node: every[node]}
    missing = client.get("/watcher", params={"host": "elsewhere"})
    assert (missing.status_code, missing.json()["error"]) == (404, "node 'elsewhere' is unknown")
    process.now_us += 10**12
    assert client.get("/watcher", params={"host": node}).status_code == 404


def test_a_newer_snapshot_is_told_at_once(process: Process) -> None:
    client = watcher(process.made_ready())
    before = go_decodes(client.get("/watcher").content)

    process.publish(replace(known(version=2), as_of_us=NOW_US + 5_000_000))
    process.serving.reload()
    reply = client.get("/watcher")

    assert go_decodes(reply.content) != before
    assert reply.json()["timestamp"] == reply.json()["window"]["end"] == NOW_US // 1_000_000 + 5
