"""Guests: workers and servers that answer in turns know of each other's newcomers, and answer as one would."""

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.cluster.worker_bus import Journal
from advisor.placement.assumed_pod_sync import no_peers
from advisor.placement.model_state import Serving
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from cohabit.server.score_table_process import Tabling
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

WEB = PodClass("web", False)
NODES = tuple(f"n{i}" for i in range(6))
PODS = 120


@pytest.fixture
def process(process: Process) -> Process:
    return process.made_ready()


@pytest.fixture
def table(process: Process, tmp_path: Path) -> Path:
    tabling = Tabling(process.serving, tmp_path / "table")
    for of in (WEB, PodClass("batch", True)):
        tabling.ask(of, 0.0)
    tabling.step(0.0)
    tabling.step(0.1)
    tabling.step(0.2)
    return tabling.path


def started(
    process: Process, table: Path, journal: Journal | None = None, others: Callable[[Booked], None] = no_peers
) -> Prioritizer:
    """A worker with the table; each counts its metrics by itself."""
    own = Serving(process.snapshots, process.registry, 120.0, lambda: process.now_us, CollectorRegistry())
    own.reload()
    made = Prioritizer(own, table, journal=journal, others=others)
    made.take(made.newer())
    return made


async def ask(prioritizer: Prioritizer, uid: str, app: str = "web") -> list[int]:
    reply = json.loads((await prioritizer.answer(Offer(PendingPod(app), uid, NODES))).body)
    await settled(prioritizer)
    return [entry["Score"] for entry in reply]


async def settled(*of: Prioritizer) -> None:
    """Until no node waits to be counted exactly."""
    while any(one.assumed._correcting for one in of):
        await asyncio.sleep(0.001)


def in_turns(prioritizers: Sequence[Prioritizer], pods: int = PODS) -> list[list[int]]:
    """What each pod is told, each asking another one."""

    async def all_of_them() -> list[list[int]]:
        return [await ask(prioritizers[n % len(prioritizers)], f"pod-{n}") for n in range(pods)]

    return asyncio.run(all_of_them())


def nodes_of(prioritizer: Prioritizer) -> dict[str, str]:
    prioritizer.assumed.listen()
    return {booked.uid: booked.node for booked in prioritizer.assumed.bookings}


def workers(process: Process, table: Path, folder: Path, stack: ExitStack, many: int = 3) -> list[Prioritizer]:
    folder.mkdir()
    return [
        started(process, table, stack.enter_context(closing(Journal(folder, number, many)))) for number in range(many)
    ]


def test_workers_that_take_turns_answer_as_one_does(process: Process, table: Path, tmp_path: Path) -> None:
    alone = started(process, table)
    said = in_turns([alone])
    with ExitStack() as stack:
        many = workers(process, table, tmp_path / "journals", stack)
        assert in_turns(many) == said
        assert all(nodes_of(one) == nodes_of(alone) for one in many)
    assert len(set(nodes_of(alone).values())) > 1, "else nothing was spread"


def test_a_retry_that_reaches_another_worker_counts_once(process: Process, table: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        one, other, third = workers(process, table, tmp_path / "journals", stack)
        for _ in range(5):
            asyncio.run(ask(one, "pod"))
            asyncio.run(ask(other, "pod"))
        assert len(nodes_of(one)) == len(nodes_of(other)) == len(nodes_of(third)) == 1


def test_what_a_worker_counted_of_a_newer_table_is_kept_until_that_is_here(
    process: Process, table: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        one, other, _ = workers(process, table, tmp_path / "journals", stack)
        in_turns([one], 30)
        other.assumed.listen()
        process.publish(snapshot(12, version=2))
        tabling = Tabling(process.serving, table)
        tabling.ask(WEB, 0.0)
        tabling.step(1.0)

        async def one_first() -> None:
            one.serving.reload()
            one.take(one.newer())
            one.assumed.book(Booked("pod-x", "n1", WEB, process.now_us))
            await settled(one)
            other.assumed.listen()
            other.serving.reload()
            other.take(other.newer())

        asyncio.run(one_first())
        assert one.replies is not None
        assert other.replies is not None
        rows = one.replies.rows(NODES)
        assert one.replies.points(WEB, rows).tolist() == other.replies.points(WEB, rows).tolist()


def test_a_server_tells_another_one_which_counts_as_if_it_had_been_asked(process: Process, table: Path) -> None:
    told = list[Booked]()
    here, there = started(process, table, others=told.append), started(process, table)
    said = in_turns([here], 40)
    with TestClient(create_scheduler_app(there)) as client:
        for booked in told:
            entry = {"uid": booked.uid, "node": booked.node, "app": "web", "best_effort": False, "age_us": 5}
            assert client.post("/assumed-pods", json=[entry]).status_code == 204

    assert nodes_of(there) == nodes_of(here)
    assert len(said) == len(told) == 40


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        "{}",
        '[{"uid": "", "node": "n0", "app": "web", "best_effort": false}]',
        '[{"uid": "u", "node": "n0", "app": "web"}]',
        '[{"uid": "u", "node": "n0", "app": "web", "best_effort": false, "age_us": -1}]',
        '[{"uid": "u", "node": "n0", "app": "web", "best_effort": false, "more": 1}]',
        json.dumps([{"uid": "u" * 254, "node": "n0", "app": "web", "best_effort": False}]),
        json.dumps([{"uid": f"u{n}", "node": "n0", "app": "web", "best_effort": False} for n in range(1001)]),
    ],
)
def test_what_no_server_of_ours_would_tell_is_refused_whole(process: Process, table: Path, body: str) -> None:
    there = started(process, table)
    with TestClient(create_scheduler_app(there)) as client:
        assert client.post("/assumed-pods", content=body).status_code == 400
    assert nodes_of(there) == {}


def test_apps_and_nodes_that_are_not_known_do_no_harm(process: Process, table: Path) -> None:
    there = started(process, table)
    entry = {"uid": "u", "node": "far-away", "app": "never-heard-of", "best_effort": False}
    with TestClient(create_scheduler_app(there)) as client:
        assert client.post("/assumed-pods", json=[entry, entry | {"uid": "v", "node": "n1"}]).status_code == 204
        before = client.post("/extender/prioritize", json={"Pod": {}, "NodeNames": list(NODES)})
    assert before.status_code == 200
    assert nodes_of(there) == {"u": "far-away", "v": "n1"}


def test_a_uid_beyond_all_measure_is_not_kept(process: Process, table: Path) -> None:
    alone = started(process, table)

    asyncio.run(ask(alone, "u" * 1000))

    assert nodes_of(alone) == {}
