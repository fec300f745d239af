"""Guests: workers and servers that answer in turns know of each other's newcomers, and answer as one would."""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from prometheus_client import CollectorRegistry

from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.cluster.worker_bus import Counted, Journal
from advisor.placement.assumed_pod_sync import KEPT_US, Bookings, no_peers
from advisor.placement.encoded_scores import Replies, spell
from advisor.placement.exact_counts import NODES_AT_ONCE, CpuBudget, ExactCounts
from advisor.placement.model_state import Serving
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.score_table import with_assumed
from cohabit.server.score_table_process import Tabling
from tests.advisor.admission.reviews import advice
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

WEB = PodClass("web", False)
NODES = tuple(f"n{i}" for i in range(6))
PODS = 120


@pytest.fixture
def process(process: Process) -> Process:
    return process.made_ready()


@pytest.fixture
def table(process: Process, tmp_path: Path) -> Tabling:
    tabling = Tabling(process.serving, tmp_path / "table")
    for of in (WEB, PodClass("batch", True)):
        tabling.ask(of, 0.0)
    tabling.step(0.0)
    tabling.step(0.1)
    tabling.step(0.2)
    return tabling


@dataclass
class Site:
    """Workers of one server, and the counts of the process that keeps their table."""

    workers: list[Prioritizer]
    counts: ExactCounts

    def settle(self, over: Tabling) -> None:
        """Count until no node waits, and let all workers hear it."""
        assert over.written is not None
        self.counts.follow(*over.written)
        while self.counts.listen():
            self.counts.count(*over.written)
        for worker in self.workers:
            worker.assumed.listen()


def started(
    process: Process, table: Tabling, journal: Journal | None = None, others: Callable[[Booked], None] = no_peers
) -> Prioritizer:
    """A worker with the table; each counts its metrics by itself."""
    own = Serving(process.snapshots, process.registry, 120.0, lambda: process.now_us, CollectorRegistry())
    own.reload()
    made = Prioritizer(own, table.path, journal=journal, others=others)
    made.take(made.newer())
    return made


@contextmanager
def site(
    process: Process, table: Tabling, folder: Path, workers: int, others: Callable[[Booked], None] = no_peers
) -> Iterator[Site]:
    folder.mkdir()
    with ExitStack() as stack:
        journals = [stack.enter_context(closing(Journal(folder, n, workers + 1))) for n in range(workers + 1)]
        made = [started(process, table, journal, others) for journal in journals[:-1]]
        yield Site(made, ExactCounts(journals[-1], lambda: process.now_us))


async def ask(prioritizer: Prioritizer, uid: str, app: str = "web") -> list[int]:
    reply = json.loads((await prioritizer.answer(Offer(PendingPod(app), uid, NODES))).body)
    return [entry["Score"] for entry in reply]


def in_turns(of: Site, table: Tabling, pods: int = PODS) -> list[list[int]]:
    """The scores of each pod, each asking another worker; nodes are counted exactly in between."""
    said = []
    for number in range(pods):
        said.append(asyncio.run(ask(of.workers[number % len(of.workers)], f"pod-{number}")))
        of.settle(table)
    return said


def nodes_of(prioritizer: Prioritizer) -> dict[str, str]:
    prioritizer.assumed.listen()
    return {booked.uid: booked.node for booked in prioritizer.assumed.bookings}


def test_workers_that_take_turns_answer_as_one_does(process: Process, table: Tabling, tmp_path: Path) -> None:
    with site(process, table, tmp_path / "one", 1) as alone, site(process, table, tmp_path / "three", 3) as many:
        assert in_turns(many, table) == in_turns(alone, table)
        assert all(nodes_of(one) == nodes_of(alone.workers[0]) for one in many.workers)
        assert len(set(nodes_of(alone.workers[0]).values())) > 1, "else nothing was spread"


def test_a_retry_that_reaches_another_worker_counts_once(process: Process, table: Tabling, tmp_path: Path) -> None:
    with site(process, table, tmp_path / "journals", 3) as of:
        one, other, third = of.workers
        for _ in range(5):
            asyncio.run(ask(one, "pod"))
            asyncio.run(ask(other, "pod"))
        assert len(nodes_of(one)) == len(nodes_of(other)) == len(nodes_of(third)) == 1


def exactly(process: Process, table: Tabling, of: Site, node: str) -> tuple[int, float]:
    """Points and cost of web on a node, its assumed pods scored as residents."""
    assert table.written is not None
    there = of.counts.bookings.on([node])
    return with_assumed(table.written[1], there, [node], [WEB])[node][WEB]


def test_every_worker_says_what_the_model_says_of_assumed_pods(
    process: Process, table: Tabling, tmp_path: Path
) -> None:
    with site(process, table, tmp_path / "journals", 2) as of:
        in_turns(of, table, 20)
        for worker in of.workers:
            assert worker.replies is not None
            rows = worker.replies.rows(NODES)
            said = zip(worker.replies.points(WEB, rows).tolist(), worker.replies.costs(WEB, rows), strict=True)
            assert [(p, float(np.float32(c))) for p, c in said] == [exactly(process, table, of, n) for n in NODES]


def test_costs_counted_for_a_newer_table_are_kept_until_that_is_here(
    process: Process, table: Tabling, tmp_path: Path
) -> None:
    with site(process, table, tmp_path / "journals", 2) as of:
        in_turns(of, table, 30)
        process.publish(snapshot(12, version=2))
        table.step(1.0)
        of.settle(table)
        one, other = of.workers
        assert one.is_behind(), "so that it loads the table at once"

        for worker in of.workers:
            worker.serving.reload()
            worker.take(worker.newer())

        assert not one.is_behind()
        assert one.replies is not None
        rows = one.replies.rows(NODES)
        assert one.replies.points(WEB, rows).tolist() == [exactly(process, table, of, node)[0] for node in NODES]
        assert other.replies is not None
        assert one.replies.points(WEB, rows).tolist() == other.replies.points(WEB, rows).tolist()


def test_a_class_more_in_the_table_leaves_exact_costs_as_they_were(
    process: Process, table: Tabling, tmp_path: Path
) -> None:
    with site(process, table, tmp_path / "journals", 1) as of:
        in_turns(of, table, 20)
        [one] = of.workers
        assert one.replies is not None
        before = one.replies.points(WEB, one.replies.rows(NODES)).tolist()

        table.ask(PodClass("web", True), 2.0)
        assert table.step(2.0)
        one.take(one.newer())

        assert one.replies.points(WEB, one.replies.rows(NODES)).tolist() == before


def test_costs_of_other_pods_in_the_same_number_are_not_taken(process: Process, table: Tabling, tmp_path: Path) -> None:
    with site(process, table, tmp_path / "journals", 1) as of:
        [one] = of.workers
        assert table.written is not None
        assert one.replies is not None
        one.assumed.book(Booked("a", "n1", WEB, process.now_us))
        of.counts.listen()
        one.assumed.bookings.settle({"a"}, process.now_us)
        one.assumed.bookings.book(Booked("b", "n1", WEB, process.now_us))
        before = one.replies.costs(WEB, one.replies.rows(["n1"]))

        of.counts.count(*table.written)
        one.assumed.listen()

        assert one.replies.costs(WEB, one.replies.rows(["n1"])) == before


def test_a_pod_that_one_process_recognises_by_its_advice_ends_in_all(
    process: Process, table: Tabling, tmp_path: Path
) -> None:
    with site(process, table, tmp_path / "journals", 2) as of:
        one, other = of.workers
        for number in range(2):
            one.assumed.book(Booked(f"advice-{number}", "n1", WEB, process.now_us))
        other.assumed.listen()
        of.counts.listen()

        one.take(None, {"advice-0": "n1"})
        other.assumed.listen()

        assert of.counts.listen(), "the node is counted again"
        every = (one.assumed.bookings, other.assumed.bookings, of.counts.bookings)
        assert [[booked.uid for booked in bookings] for bookings in every] == [["advice-1"]] * 3


def test_a_worker_is_behind_once_for_counts_that_it_cannot_use(
    process: Process, table: Tabling, tmp_path: Path
) -> None:
    with site(process, table, tmp_path / "journals", 1) as of:
        [one] = of.workers
        assert of.counts.journal is not None
        for version, bundle in ((1, "another"), (99, "another")):
            of.counts.journal.publish(Counted(version, bundle, "n1", 0, ((WEB, 3, 1.0),)))
            one.assumed.listen()
            assert one.is_behind()
            one.take(None)
            assert not one.is_behind()
        one.take(Replies(table.table, spell(table.table.nodes)) if table.table else None)
        assert not one.is_behind(), "nor are kept counts a reason"


def test_observed_and_overdue_pods_are_no_longer_counted(process: Process, table: Tabling, tmp_path: Path) -> None:
    with site(process, table, tmp_path / "journals", 1) as of:
        in_turns(of, table, 5)
        assert len(of.counts.bookings) == 5
        process.now_us += KEPT_US + 1
        process.publish(snapshot(12, version=2))
        table.step(1.0)
        of.settle(table)
        assert len(of.counts.bookings) == 0


def test_nodes_with_several_assumed_pods_are_counted_first(process: Process, table: Tabling, tmp_path: Path) -> None:
    with site(process, table, tmp_path / "journals", 1) as of:
        assert table.written is not None
        [one] = of.workers
        for number, node in enumerate(["n0", "n0", *(f"n{number}" for number in range(1, NODES_AT_ONCE + 3))]):
            one.assumed.book(Booked(f"pod-{number}", node, WEB, process.now_us))
        assert one.journal is not None
        assert of.counts.listen()

        assert of.counts.count(*table.written) == NODES_AT_ONCE

        assert "n0" in {news.node for news in one.journal.heard()}, "the oldest, and the only one of two"


def test_the_budget_is_a_share_of_elapsed_time_and_a_burst() -> None:
    budget = CpuBudget(share=0.25, most_s=1.0)
    assert budget.allows(0.0)
    budget.spend(1.5)
    assert not budget.allows(1.9), "0.5 s too much are earned in 2 s"
    assert budget.allows(2.1)
    budget.spend(0.1)
    assert budget.allows(1e6)
    budget.spend(1.0)
    assert not budget.allows(1e6), "no more than a burst is saved"


def test_a_server_publishes_to_another_one_which_counts_as_if_it_had_been_asked(
    process: Process, table: Tabling, tmp_path: Path
) -> None:
    published, there = list[Booked](), started(process, table)
    with site(process, table, tmp_path / "journals", 1, others=published.append) as here:
        said = in_turns(here, table, 40)
        with TestClient(create_scheduler_app(there)) as client:
            for booked in published:
                entry = {"uid": booked.uid, "node": booked.node, "app": "web", "best_effort": False, "age_us": 5}
                assert client.post("/assumed-pods", json=[entry]).status_code == 204
        assert nodes_of(there) == nodes_of(here.workers[0])
        assert len(said) == len(published) == 40


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
def test_what_no_server_of_ours_would_tell_is_refused_whole(process: Process, table: Tabling, body: str) -> None:
    there = started(process, table)
    with TestClient(create_scheduler_app(there)) as client:
        assert client.post("/assumed-pods", content=body).status_code == 400
    assert nodes_of(there) == {}


def sent(uid: str, node: str, **more: object) -> dict[str, object]:
    return {"uid": uid, "node": node, "app": "web", "best_effort": False, **more}


def test_a_pod_that_left_is_taken_back_by_every_worker(process: Process, table: Tabling, tmp_path: Path) -> None:
    with site(process, table, tmp_path / "journals", 2) as of:
        one, other = of.workers
        assert one.replies is not None
        before = one.replies.costs(WEB, one.replies.rows(NODES)).tolist()
        with TestClient(create_scheduler_app(one)) as client:
            assert client.post("/assumed-pods", json=[sent("a", "n0", group="g"), sent("b", "n1")]).status_code == 204
            of.settle(table)
            left = [sent("a", "n0", left=True), sent("never-here", "n2", left=True)]
            assert client.post("/assumed-pods", json=left).status_code == 204
            again = [sent("b", "n1", left=True), sent("b", "n3")]
            assert client.post("/assumed-pods", json=again).status_code == 204
        of.settle(table)
        assert nodes_of(one) == nodes_of(other) == {"b": "n3"}
        assert {booked.uid for booked in of.counts.bookings} == {"b"}
        assert one.assumed.groups.nodes("g", "", process.now_us) == {}
        after = one.replies.costs(WEB, one.replies.rows(NODES))
        assert np.delete(after, 3).tolist() == pytest.approx(np.delete(before, 3).tolist())


def test_a_scheduler_gets_the_columns_of_nodes_with_assumed_pods(process: Process, table: Tabling) -> None:
    there = started(process, table)
    with TestClient(create_scheduler_app(there)) as client:
        assert client.post("/assumed-pods", json=[sent("a", "n0"), sent("b", "gone")]).status_code == 204
        whole, some = (client.post("/assumed-pods/query", json=names).json() for names in ([], ["n1", "gone"]))
        assert client.post("/assumed-pods/query", json=["n"] * 1001).status_code == 400
    replies = there.replies
    assert replies is not None
    assert [one["node"] for one in whole["nodes"]] == ["n0"]
    assert [one["node"] for one in some["nodes"]] == ["n1"]
    assert (whole["version"], whole["bundle"]) == (replies.table.version, replies.table.bundle)
    web = replies.row_of[WEB]
    assert (whole["classes"][web], whole["assumed"][web]) == (["web", False, ""], 2)
    rows, column = replies.rows(["n0"]), whole["nodes"][0]
    assert base64.b64decode(column["points"])[web] == replies.points(WEB, rows)[0]
    assert np.frombuffer(base64.b64decode(column["cost"]), "<f8")[web] == replies.costs(WEB, rows)[0]
    assert column["fix"] == 1.0


def test_before_the_first_table_a_scheduler_gets_no_columns(process: Process) -> None:
    with TestClient(create_scheduler_app(Prioritizer(process.serving))) as client:
        assert client.post("/assumed-pods/query", json=[]).json()["version"] == -1


def test_apps_and_nodes_that_are_not_known_do_no_harm(process: Process, table: Tabling) -> None:
    there = started(process, table)
    entry = {"uid": "u", "node": "far-away", "app": "never-heard-of", "best_effort": False}
    with TestClient(create_scheduler_app(there)) as client:
        assert client.post("/assumed-pods", json=[entry, entry | {"uid": "v", "node": "n1"}]).status_code == 204
        before = client.post("/extender/prioritize", json={"Pod": {}, "NodeNames": list(NODES)})
    assert before.status_code == 200
    assert nodes_of(there) == {"u": "far-away", "v": "n1"}


def test_a_uid_beyond_all_measure_is_not_kept(process: Process, table: Tabling) -> None:
    alone = started(process, table)

    asyncio.run(ask(alone, "u" * 1000))

    assert nodes_of(alone) == {}


def test_advice_to_pods_that_never_come_ends_no_other_booking() -> None:
    bookings = Bookings(most_placed=5, most_advised=3)
    for i in range(4):
        assert bookings.book(Booked(f"pod-{i}", "n0", WEB, i)) == []

    ended = [one.uid for i in range(9) for one in bookings.book(Booked(advice(i), "n1", WEB, i))]

    assert ended == [advice(i) for i in range(6)]
    assert [bookings.count(node) for node in ("n0", "n1")] == [4, 3]
    assert [one.uid for i in range(4, 8) for one in bookings.book(Booked(f"pod-{i}", "n0", WEB, i))] == [
        *("pod-0", "pod-1", "pod-2"),
    ]
    bookings.settle({advice(7), "pod-5"}, 9)
    assert {one.uid for one in bookings} == {advice(6), advice(8), "pod-3", "pod-4", "pod-6", "pod-7"}
    assert bookings.holds(advice(6), WEB)
    assert not bookings.holds(advice(6), PodClass("other", False))
    assert not bookings.holds(advice(7), WEB)
