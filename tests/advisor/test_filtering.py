"""Filter: all pass unless it is told to refuse, then by measurement alone, and never is nobody left."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import Process

from advisor.api.app import create_scheduler_app
from advisor.newcomers import NewcomerClass
from advisor.prioritizing import Prioritizer
from advisor.replies import Replies, spell
from advisor.table import ScoreTable
from advisor.table_file import read_table
from cohabit.tabling import Tabling
from e2e.volcano.clients import Understood
from e2e.volcano.replies import holds, request
from e2e.volcano.twin import filter_result

NODES = [f"n{i}" for i in range(6)]
CLASSES = (NewcomerClass("web", False), NewcomerClass("web", True))
VETOED = ("n1", "n4")


@pytest.fixture
def table(process: Process, tmp_path: Path) -> ScoreTable:
    """In which `web` has score 0 on two nodes."""
    process.made_ready()
    tabling = Tabling(process.serving, tmp_path / "table")
    for of in CLASSES:
        tabling.ask(of, 0.0)
    for _ in range(4):
        tabling.step(0.0)
    made = read_table(tabling.path)
    points = np.full_like(made.points, 7)
    points[:, [NODES.index(name) for name in VETOED]] = 0
    return replace(made, points=points)


@pytest.fixture
def prioritizer(process: Process, table: ScoreTable, tmp_path: Path) -> Prioritizer:
    made = Prioritizer(process.serving, tmp_path / "table")
    made.take(Replies(table, spell(table.nodes)))
    return made


def asked(
    prioritizer: Prioritizer, names: list[str] | None, *, app: str = "web", qos: str = "LS", refusing: bool = True
) -> dict[str, object]:
    pod = {"metadata": {"labels": {"app": app, "cohabit.io/qos": qos}}}
    with TestClient(create_scheduler_app(prioritizer, refusing=refusing)) as client:
        reply = client.post("/extender/filter", json={"Pod": pod, "Nodes": None, "NodeNames": names})
    assert reply.status_code == 200
    found: dict[str, object] = reply.json()
    assert found["Error"] == ""
    assert found["FailedAndUnresolvableNodes"] == {}, "that would keep preemption away"
    return found


def test_a_latency_sensitive_pod_is_kept_from_nodes_of_score_0(prioritizer: Prioritizer, process: Process) -> None:
    found = asked(prioritizer, NODES)

    assert found["NodeNames"] == ["n0", "n2", "n3", "n5"]
    failed = found["FailedNodes"]
    assert isinstance(failed, dict)
    assert set(failed) == set(VETOED)
    assert found["Nodes"] is None
    assert process.counted("cohabit_filtered_total", outcome="refused") == 1


def test_off_everything_passes(prioritizer: Prioritizer) -> None:
    assert asked(prioritizer, NODES, refusing=False)["NodeNames"] == NODES


@pytest.mark.parametrize("words", [{"qos": "BE"}, {"app": "never-heard-of"}, {"app": "db"}])
def test_best_effort_and_apps_without_scores_of_their_own_pass(prioritizer: Prioritizer, words: dict[str, str]) -> None:
    assert asked(prioritizer, NODES, **words)["NodeNames"] == NODES  # type: ignore[arg-type]


def test_where_nobody_would_be_left_everybody_passes(prioritizer: Prioritizer, process: Process) -> None:
    assert asked(prioritizer, ["n1", "n4", "n1"])["NodeNames"] == ["n1", "n4", "n1"]
    assert process.counted("cohabit_filtered_total", outcome="all_would_fail") == 1


def test_nodes_that_are_not_known_pass(prioritizer: Prioritizer) -> None:
    assert asked(prioritizer, ["n1", "elsewhere"])["NodeNames"] == ["elsewhere"]


def test_stale_data_refuses_nobody(prioritizer: Prioritizer, process: Process) -> None:
    process.now_us += 10**12

    assert asked(prioritizer, NODES)["NodeNames"] == NODES


def test_before_the_first_table_everybody_passes(process: Process, tmp_path: Path) -> None:
    waiting = Prioritizer(process.made_ready().serving, tmp_path / "none")

    assert asked(waiting, NODES)["NodeNames"] == NODES


@given(names=st.lists(st.sampled_from(NODES) | st.text(st.characters(codec="utf-8"), max_size=8), max_size=12))
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # nothing of it changes
)
def test_kube_scheduler_decodes_every_reply_and_every_node_passes_or_has_a_reason(
    prioritizer: Prioritizer, names: list[str]
) -> None:
    asking = TestClient(create_scheduler_app(prioritizer, refusing=True))
    for client, whole in (("filter", False), ("filter-nodes", True)):
        reply = asking.post("/extender/filter", content=request(client, names, "web"))

        said = filter_result(reply.content, names, whole=whole)

        assert holds(client, names, Understood(None, None, failed=False, passed=said))
        assert set(said.refused) <= set(VETOED)


@pytest.mark.parametrize("names", [[], None])
def test_an_offer_of_nobody_stays_one(prioritizer: Prioritizer, names: list[str] | None) -> None:
    assert asked(prioritizer, names)["NodeNames"] == []


def test_whole_nodes_come_back_as_they_were_sent(prioritizer: Prioritizer) -> None:
    nodes = [{"metadata": {"name": name, "labels": {"é": "1"}}, "status": {"big": 1.50}} for name in NODES]
    pod = {"metadata": {"labels": {"app": "web"}}}
    with TestClient(create_scheduler_app(prioritizer, refusing=True)) as client:
        text = json.dumps({"Pod": pod, "Nodes": {"items": nodes}, "NodeNames": None})
        found = client.post("/extender/filter", content=text).json()

    assert found["Nodes"]["items"] == [node for node in nodes if node["metadata"]["name"] not in VETOED]  # type: ignore[index]
    assert found["NodeNames"] is None


@pytest.mark.parametrize("body", ["", "[]", '{"NodeNames": 7}', '{"Nodes": {"items": [7]}}'])
def test_what_is_no_request_is_refused(prioritizer: Prioritizer, body: str) -> None:
    with TestClient(create_scheduler_app(prioritizer, refusing=True)) as client:
        assert client.post("/extender/filter", content=body).status_code == 400
