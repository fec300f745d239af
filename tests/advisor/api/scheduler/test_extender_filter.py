"""Filter: all pass unless it is told to refuse, then by measurement alone, and never is nobody left."""

import json
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from advisor.api.scheduler.peers import booking_message
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.worker_bus import Journal
from advisor.placement.assumed_pod_sync import KEPT_US
from advisor.placement.encoded_scores import Replies, spell
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.score_table import ScoreTable
from advisor.scoring.score_table_file import read_table
from cohabit.server.score_table_process import Tabling
from e2e.volcano.clients import Understood
from e2e.volcano.replies import holds, request
from e2e.volcano.twin import filter_result
from tests.advisor.processes import Process
from tests.advisor.steered import reservation

NODES = [f"n{i}" for i in range(6)]
CLASSES = (PodClass("web", False), PodClass("web", True))
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
    prioritizer: Prioritizer,
    names: list[str] | None,
    *,
    app: str = "web",
    qos: str = "LS",
    refusing: bool = True,
    uid: str = "",
) -> dict[str, object]:
    pod = {"metadata": {"uid": uid, "namespace": "shop", "labels": {"app": app, "cohabit.io/qos": qos}}}
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
    assert process.counted("cohabit_filter_requests_total", outcome="refused") == 1


def test_off_everything_passes(prioritizer: Prioritizer) -> None:
    assert asked(prioritizer, NODES, refusing=False)["NodeNames"] == NODES


@pytest.mark.parametrize("words", [{"qos": "BE"}, {"app": "never-heard-of"}, {"app": "db"}])
def test_best_effort_and_apps_without_scores_of_their_own_pass(prioritizer: Prioritizer, words: dict[str, str]) -> None:
    assert asked(prioritizer, NODES, **words)["NodeNames"] == NODES  # type: ignore[arg-type]


def test_where_nobody_would_be_left_everybody_passes(prioritizer: Prioritizer, process: Process) -> None:
    assert asked(prioritizer, ["n1", "n4", "n1"])["NodeNames"] == ["n1", "n4", "n1"]
    assert process.counted("cohabit_filter_requests_total", outcome="all_would_fail") == 1


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


def scored(prioritizer: Prioritizer, names: list[str], uid: str) -> list[int]:
    pod = {"metadata": {"uid": uid, "namespace": "shop", "labels": {"app": "web"}}}
    with TestClient(create_scheduler_app(prioritizer)) as client:
        reply = client.post("/extender/prioritize", json={"Pod": pod, "NodeNames": names}).json()
    assert [entry["Host"] for entry in reply] == names
    assert all(type(entry["Score"]) is int for entry in reply)
    return [entry["Score"] for entry in reply]


def outcomes(process: Process, outcome: str) -> float:
    return process.counted("cohabit_pinned_pods_total", outcome=outcome)


@pytest.mark.parametrize("refusing", [True, False])
def test_a_pod_with_a_reservation_passes_on_its_node_alone_also_when_refusing_is_off(
    prioritizer: Prioritizer, process: Process, *, refusing: bool
) -> None:
    prioritizer.reservations.take([reservation("p-1", "n4")])

    found = asked(prioritizer, NODES, uid="pod-1", refusing=refusing)

    assert found["NodeNames"] == ["n4"], "though its score is 0: people have approved of it"
    failed = found["FailedNodes"]
    assert isinstance(failed, dict)
    assert set(failed) == set(NODES) - {"n4"}
    assert all("reservation p-1" in why for why in failed.values())
    assert outcomes(process, "pinned") == 1
    assert process.counted("cohabit_assumed_pods") == 1, "it counts on that node from now on"


def test_a_pod_with_a_reservation_passes_everywhere_where_its_node_is_not_offered(
    prioritizer: Prioritizer, process: Process
) -> None:
    prioritizer.reservations.take([reservation("p-1", "n5")])

    found = asked(prioritizer, NODES[:5], uid="pod-1")

    assert (found["NodeNames"], found["FailedNodes"]) == (NODES[:5], {})
    assert outcomes(process, "target_not_offered") == 1


def test_one_reservation_serves_one_pod_which_may_ask_again(prioritizer: Prioritizer) -> None:
    prioritizer.reservations.take([reservation("p-1", "n0")])

    for _ in range(2):
        assert asked(prioritizer, NODES, uid="pod-1")["NodeNames"] == ["n0"]
        assert asked(prioritizer, NODES, uid="pod-2", refusing=False)["NodeNames"] == NODES


def test_a_pod_without_uid_takes_no_reservation(prioritizer: Prioritizer) -> None:
    prioritizer.reservations.take([reservation("p-1", "n0")])

    assert asked(prioritizer, NODES, refusing=False)["NodeNames"] == NODES


def test_a_reservation_that_nobody_came_for_is_told_again_after_the_time_of_a_booking(
    prioritizer: Prioritizer, process: Process
) -> None:
    prioritizer.reservations.take([reservation("p-1", "n0")])
    asked(prioritizer, NODES, uid="pod-1")
    process.now_us += KEPT_US + 1
    prioritizer.take(None)

    assert asked(prioritizer, NODES, uid="pod-2")["NodeNames"] == ["n0"]


@pytest.mark.parametrize(("seen_on", "outcome"), [("n0", "scheduled"), ("n1", "elsewhere")])
def test_where_a_steered_pod_is_seen_is_counted(
    prioritizer: Prioritizer, process: Process, seen_on: str, outcome: str
) -> None:
    prioritizer.reservations.take([reservation("p-1", "n0")])
    asked(prioritizer, NODES, uid="pod-1")

    prioritizer.take(None, {"pod-1": seen_on})

    assert outcomes(process, outcome) == 1
    again = asked(prioritizer, NODES, uid="pod-2", refusing=False)["NodeNames"]
    assert again == (NODES if outcome == "scheduled" else ["n0"])


def test_whole_nodes_are_steered_too(prioritizer: Prioritizer) -> None:
    prioritizer.reservations.take([reservation("p-1", "n2")])
    nodes = [{"metadata": {"name": name}} for name in NODES]
    pod = {"metadata": {"uid": "pod-1", "namespace": "shop", "labels": {"app": "web"}}}
    with TestClient(create_scheduler_app(prioritizer)) as client:
        found = client.post("/extender/filter", json={"Pod": pod, "Nodes": {"items": nodes}}).json()

    assert found["Nodes"]["items"] == [{"metadata": {"name": "n2"}}]
    assert len(found["FailedNodes"]) == len(NODES) - 1


def test_prioritize_alone_gives_ten_to_the_node_of_the_reservation_and_nothing_to_others(
    prioritizer: Prioritizer, process: Process
) -> None:
    prioritizer.reservations.take([reservation("p-1", "n4")])

    assert scored(prioritizer, NODES, "pod-1") == [0, 0, 0, 0, 10, 0]
    assert process.counted("cohabit_score_requests_total", source="reservation", reason="") == 1
    assert max(scored(prioritizer, NODES, "pod-2")) <= 7, "as without reservations"


def test_filter_and_prioritize_tell_a_pod_the_same(prioritizer: Prioritizer, process: Process) -> None:
    prioritizer.reservations.take([reservation("p-1", "n0"), reservation("p-2", "n3", step=2)])

    for uid, node in (("pod-1", "n0"), ("pod-2", "n3")):
        assert asked(prioritizer, NODES, uid=uid)["NodeNames"] == [node]
        assert scored(prioritizer, NODES, uid)[NODES.index(node)] == 10
    assert outcomes(process, "pinned") == 2


def test_reservations_steer_while_answers_are_neutral(process: Process) -> None:
    waiting = Prioritizer(process.serving)
    assert process.serving.problem()
    waiting.reservations.take([reservation("p-1", "n0")])

    assert asked(waiting, NODES, uid="pod-1", refusing=False)["NodeNames"] == ["n0"]
    assert scored(waiting, NODES, "pod-1")[0] == 10


def test_the_reservation_of_a_template_is_for_pods_with_its_hash(prioritizer: Prioritizer) -> None:
    prioritizer.reservations.take([reservation("p-1", "n0", template_hash="abc")])
    for value, passed in (("abc", ["n0"]), ("def", NODES)):
        labels = {"app": "web", "pod-template-hash": value}
        pod = {"metadata": {"uid": f"pod-{value}", "namespace": "shop", "labels": labels}}
        with TestClient(create_scheduler_app(prioritizer)) as client:
            found = client.post("/extender/filter", json={"Pod": pod, "NodeNames": NODES}).json()
        assert found["NodeNames"] == passed


def test_workers_of_a_server_know_who_holds_a_reservation(process: Process, tmp_path: Path) -> None:
    with ExitStack() as ends:
        workers = []
        for number in range(2):
            journal = ends.enter_context(closing(Journal(tmp_path, number, 2)))
            own = Serving(process.snapshots, process.registry, 120.0, lambda: process.now_us, CollectorRegistry())
            workers.append(Prioritizer(own, journal=journal))
            workers[-1].reservations.take([reservation("p-1", "n0"), reservation("p-2", "n1", step=2)])

        for one, uid, node in ((0, "pod-1", "n0"), (1, "pod-2", "n1"), (1, "pod-1", "n0"), (0, "pod-2", "n1")):
            assert asked(workers[one], NODES, uid=uid)["NodeNames"] == [node]


def test_other_servers_are_told_who_holds_a_reservation(process: Process) -> None:
    told = list[Booked]()
    one = Prioritizer(process.made_ready().serving, others=told.append)
    one.reservations.take([reservation("p-1", "n0")])
    asked(one, NODES, uid="pod-1")
    body = msgspec.json.encode([booking_message(booked, process.now_us) for booked in told])

    own = Serving(process.snapshots, process.registry, 120.0, lambda: process.now_us, CollectorRegistry())
    other = Prioritizer(own)
    other.reservations.take([reservation("p-1", "n0")])
    with TestClient(create_scheduler_app(other)) as client:
        assert client.post("/assumed-pods", content=body).status_code == 204

    assert asked(other, NODES, uid="pod-2", refusing=False)["NodeNames"] == NODES
    assert asked(other, NODES, uid="pod-1")["NodeNames"] == ["n0"]
