"""Prioritizing: the table answers wherever it can, somebody else at once where it cannot, and a herd is spread."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from starlette.testclient import TestClient

from advisor.api.app import create_app
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.placement import exact_source
from advisor.placement.encoded_scores import singled_out
from advisor.placement.model_state import Answer
from advisor.placement.offer import Offer, Reply
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.score_table import begun
from cohabit.server.score_table_process import FIRST, KEPT_S, MAX_CLASSES, Tabling
from tests.advisor.clusters import NOW_US, snapshot
from tests.advisor.processes import Process

T = TypeVar("T")
Ints = NDArray[np.int64]
WEB = PodClass("web", False)
NODES = tuple(f"n{i}" for i in range(6))


@pytest.fixture
def process(process: Process) -> Process:
    process.promote("first")
    process.publish(snapshot(11, version=1))
    process.serving.reload()
    return process


@pytest.fixture
def tabling(process: Process, tmp_path: Path) -> Tabling:
    return Tabling(process.serving, tmp_path / "table")


class Wanted(list[tuple[PodClass, bool]]):
    """Whoever listens to what is asked for."""

    def __call__(self, of: PodClass, *, missing: bool) -> None:
        self.append((of, missing))


@pytest.fixture
def prioritizer(process: Process, tabling: Tabling) -> Prioritizer:
    """With a table of the classes of unknown apps and of `web`."""
    tabling.ask(WEB, 0.0)
    tabling.step(0.0)
    made = Prioritizer(process.serving, tabling.path, Wanted())
    made.take(made.newer())
    return made


def points(prioritizer: Prioritizer, app: str = "web", uid: str = "", names: tuple[str, ...] = NODES) -> list[int]:
    reply = json.loads(asyncio.run(prioritizer.answer(Offer(PendingPod(app), uid, names))).body)
    assert [entry["Host"] for entry in reply] == list(names)
    return [entry["Score"] for entry in reply]


def exactly(process: Process, app: str = "web") -> list[int]:
    scorer = process.serving.scorer
    assert scorer is not None
    return list(process.serving.answer(PendingPod(app), NODES).points)


def test_the_table_says_what_scoring_anew_says(prioritizer: Prioritizer, process: Process) -> None:
    assert points(prioritizer) == exactly(process)
    assert points(prioritizer, "never-heard-of") == exactly(process, "never-heard-of")
    assert process.counted("cohabit_score_requests_total", source="table", reason="") == 2


def test_version_and_age_stand_in_headers(prioritizer: Prioritizer, process: Process) -> None:
    process.now_us = NOW_US + 1_500_000

    assert prioritizer.headers() == [(b"cohabit-version", b"1"), (b"cohabit-age-ms", b"1500")]


def test_without_a_table_headers_tell_of_the_snapshot(process: Process) -> None:
    assert Prioritizer(process.serving).headers() == [(b"cohabit-version", b"1"), (b"cohabit-age-ms", b"0")]


def test_metrics_tell_of_the_wait_the_table_and_who_is_on_the_way(prioritizer: Prioritizer, process: Process) -> None:
    points(prioritizer, uid="pod-1")

    assert process.counted("cohabit_prioritize_duration_seconds_count") == 1
    assert process.counted("cohabit_assumed_pods") == 1
    assert process.counted("cohabit_score_table_pod_classes") == 3


def test_a_class_that_is_not_in_the_table_is_wanted_and_scored_at_once(
    prioritizer: Prioritizer, process: Process
) -> None:
    assert points(prioritizer, "db") == exactly(process, "db")
    assert points(prioritizer) == exactly(process)
    assert isinstance(prioritizer.want, Wanted)
    assert list(prioritizer.want) == [(PodClass("db", False), True), (WEB, False)]


def test_where_many_would_have_to_be_scored_the_class_of_unknown_apps_answers(
    prioritizer: Prioritizer, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_source, "MAX_EXACT", 0)

    assert points(prioritizer, "db") == exactly(process, "never-heard-of")
    assert process.counted("cohabit_score_requests_total", source="nearest", reason="new_class") == 1


def test_nobody_waits_for_what_takes_too_long_nor_behind_it(
    prioritizer: Prioritizer, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = Event()
    answer = process.serving.answer_anyway

    def slow(pending_pod: PendingPod, names: tuple[str, ...]) -> Answer:
        release.wait(10)
        return answer(pending_pod, names)

    monkeypatch.setattr(process.serving, "answer_anyway", slow)

    async def ask() -> tuple[bytes, bytes, bytes]:
        late = (await prioritizer.answer(Offer(PendingPod("db"), "", NODES))).body
        behind = (await prioritizer.answer(Offer(PendingPod("cache"), "", NODES))).body
        table = (await prioritizer.answer(Offer(PendingPod("web"), "", NODES))).body
        release.set()
        return late, behind, table

    late, behind, table = (json.loads(reply) for reply in asyncio.run(ask()))
    assert process.counted("cohabit_score_requests_total", source="model", reason="") == 0, "nobody got that answer"

    unknown = exactly(process, "never-heard-of")
    assert [entry["Score"] for entry in late] == [entry["Score"] for entry in behind] == unknown
    assert [entry["Score"] for entry in table] == exactly(process)
    assert process.counted("cohabit_score_requests_total", source="nearest", reason="late") == 1


def test_what_came_too_late_answers_the_next_request_of_its_class_until_the_table_does(
    process: Process, tabling: Tabling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No flapping between zeros and scores in the first seconds, before the table's process has begun."""
    starting = Prioritizer(process.serving, tabling.path)
    answer = process.serving.answer_anyway
    began, release = Event(), Event()

    def slow(pending_pod: PendingPod, names: tuple[str, ...]) -> Answer:
        began.set()
        release.wait(10)
        return answer(pending_pod, names)

    monkeypatch.setattr(process.serving, "answer_anyway", slow)

    async def ask() -> list[Reply]:
        offer = Offer(PendingPod("web"), "", NODES)
        late = await starting.answer(offer)
        release.set()
        await asyncio.to_thread(starting.exact.thread.submit(began.wait).result)  # the one thread has ended what it had
        return [late, *[await starting.answer(offer) for _ in range(3)]]

    replies = asyncio.run(ask())
    late, *later = ([entry["Score"] for entry in json.loads(reply.body)] for reply in replies)

    assert late == [0] * 6
    assert later == [exactly(process)] * 3
    assert replies[-1].headers[2:] == [(b"cohabit-source", b"model"), (b"cohabit-reason", b"kept")]
    tabling.ask(WEB, 0.0)
    tabling.step(0.0)
    starting.take(starting.newer())
    assert points(starting) == later[0]
    assert process.counted("cohabit_score_requests_total", source="table", reason="") == 1


def test_what_another_model_said_or_is_a_minute_old_is_not_kept(process: Process, tmp_path: Path) -> None:
    starting = Prioritizer(process.serving, tmp_path / "none")
    points(starting)
    points(starting)
    assert process.counted("cohabit_score_requests_total", source="model", reason="kept") == 1

    process.promote("second")
    process.serving.reload()
    points(starting)
    process.now_us += exact_source.KEEP_US + 1
    points(starting)

    assert process.counted("cohabit_score_requests_total", source="model", reason="kept") == 1
    assert process.counted("cohabit_score_requests_total", source="model", reason="") == 3


def test_before_the_first_table_small_requests_are_scored_and_large_ones_neutral(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = Prioritizer(process.serving, tmp_path / "none")

    assert waiting.newer() is None
    assert points(waiting) == exactly(process)
    monkeypatch.setattr(exact_source, "MAX_EXACT", 0)
    assert points(waiting, "db") == [0] * 6
    assert points(waiting) == exactly(process), "what was said a moment ago stands"
    assert process.counted("cohabit_score_requests_total", source="neutral", reason="no_table") == 1


def test_before_the_first_table_it_is_not_ready(process: Process, tabling: Tabling) -> None:
    waiting = Prioritizer(process.serving, tabling.path)
    client = TestClient(create_app(process.serving, problem=waiting.problem))
    cold = client.get("/readyz")

    tabling.step(0.0)
    waiting.take(waiting.newer())

    assert (cold.status_code, cold.json()["reason"]) == (503, "no_table")
    assert client.get("/readyz").status_code == 200
    process.now_us = NOW_US + 10**9
    assert client.get("/readyz").json()["reason"] == "stale"


def test_a_stale_snapshot_is_not_believed_though_the_table_is_there(prioritizer: Prioritizer, process: Process) -> None:
    process.now_us = NOW_US + 10**9

    assert points(prioritizer) == [0] * 6


def test_a_table_that_its_process_left_behind_is_not_believed_though_the_snapshot_is_fresh(
    prioritizer: Prioritizer, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    process.now_us = NOW_US + 10**9
    process.publish(replace(snapshot(12, version=2), as_of_us=process.now_us))
    process.serving.reload()

    assert points(prioritizer) == exactly(process)
    monkeypatch.setattr(exact_source, "MAX_EXACT", 0)
    assert points(prioritizer, "db") == [0] * 6
    assert process.counted("cohabit_score_requests_total", source="neutral", reason="no_table") == 1


def test_a_table_that_cannot_be_read_leaves_the_old_one(prioritizer: Prioritizer, tabling: Tabling) -> None:
    before = points(prioritizer)
    tabling.path.write_bytes(b"nonsense")

    prioritizer.take(prioritizer.newer())

    assert points(prioritizer) == before


def test_whatever_fails_a_scheduler_is_answered(
    prioritizer: Prioritizer, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prioritizer.replies, "rows", None)

    assert points(prioritizer) == [0] * 6
    assert process.counted("cohabit_score_requests_total", source="neutral", reason="error") == 1


def test_identical_pods_within_one_interval_are_spread_and_a_retry_counts_once(prioritizer: Prioritizer) -> None:
    first = points(prioritizer, uid="pod-0")
    for _ in range(50):
        points(prioritizer, uid="pod-0")
    assert len(prioritizer.assumed.bookings) == 1
    for number in range(200):
        points(prioritizer, uid=f"pod-{number}")

    booked = [one.node for one in prioritizer.assumed.bookings]
    assert len(booked) == 200
    assert len(set(booked)) > 1
    assert points(prioritizer)[int(np.argmax(first))] < max(first)


def test_while_pods_alike_are_on_the_way_one_node_has_the_most_points(prioritizer: Prioritizer) -> None:
    """A scheduler draws among equal scores, and the next pod is advised by where the last one was told to go."""
    assert prioritizer.replies is not None
    prioritizer.replies._points[:] = 7
    prioritizer.replies._cost[:] = np.arange(6) / 100

    first = points(prioritizer, uid="pod-0")
    retried = points(prioritizer, uid="pod-0")
    second = points(prioritizer, uid="pod-1")
    unnamed = points(prioritizer)

    assert first == [7] * 6, "nobody is on the way yet, and the scheduler may choose"
    assert len(set(retried)) <= 2
    assert sorted(second)[-1] > sorted(second)[-2]
    booked = {one.uid: one.node for one in prioritizer.assumed.bookings}
    assert NODES[int(np.argmax(second))] == booked["pod-1"]
    assert max(unnamed) == 7


@given(arrays(np.int64, 8, elements=st.integers(0, 10)), st.integers(0, 7))
def test_singling_out_takes_a_point_from_the_equals_of_the_best_and_none_falls_to_0(said: Ints, at: int) -> None:
    at = int(said.argmax()) if said[at] < said.max() else at
    after = singled_out(said, np.arange(8) == at)

    assert after[at] == said[at]
    assert (said - after <= (said == said.max())).all()
    assert (after <= said).all()
    assert ((after == 0) == (said == 0)).all()
    if said[at] > 1:
        assert (np.delete(after, at) < said[at]).all()


def test_a_booking_ends_when_the_pod_is_seen_and_a_newer_table_counts_those_that_stay(
    prioritizer: Prioritizer, process: Process, tabling: Tabling
) -> None:
    for number in range(40):
        points(prioritizer, uid=f"pod-{number}")
    crowded = points(prioritizer)
    view = snapshot(11, version=2)
    process.publish(replace(view, containers=("pod-7", *view.containers[1:])))
    tabling.step(1.0)

    prioritizer.take(prioritizer.newer(), prioritizer.arrived())

    assert prioritizer.arrived() == {}, "nobody is looked for twice in one snapshot"
    assert {one.uid for one in prioritizer.assumed.bookings} == {f"pod-{n}" for n in range(40) if n != 7}
    assert sum(points(prioritizer)) >= sum(crowded)
    process.now_us = NOW_US + 119_000_000
    prioritizer.take(None)
    assert len(prioritizer.assumed.bookings) == 39
    process.now_us = NOW_US + 121_000_000
    prioritizer.take(None)
    assert len(prioritizer.assumed.bookings) == 0


def test_tabling_follows_snapshots_bundles_and_what_is_asked_for(tabling: Tabling, process: Process) -> None:
    assert tabling.step(0.0)
    assert not tabling.step(0.1)
    tabling.ask(PodClass("db", True), 0.2)
    tabling.ask(PodClass("not-in-the-snapshot", False), 0.2)
    tabling.ask(PodClass("", False, "red"), 0.2)
    tabling.ask(PodClass("", False, "no-team-of-the-snapshot"), 0.2)
    assert tabling.step(0.3)
    assert tabling.table is not None
    assert tabling.behind
    tabling.step(0.35)
    assert tabling.table.classes == (*FIRST, PodClass("db", True), PodClass("", False, "red"))
    process.publish(snapshot(12, version=2))
    assert tabling.step(0.4)
    assert process.serving.scorer is not None
    fresh = begun(process.serving.scorer, "first", tabling.table.classes)
    assert tabling.table.points.tolist() == fresh.points.tolist()
    process.promote("second")
    assert tabling.step(0.5)
    assert tabling.table.bundle == "second"
    assert tabling.step(1.0 + KEPT_S)
    assert len(tabling.table.classes) == len(FIRST)


def test_tabling_keeps_the_classes_that_were_asked_for_last(tabling: Tabling) -> None:
    for number in range(MAX_CLASSES + 5):
        tabling.ask(PodClass(f"app-{number}", False), float(number))

    assert len(tabling._asked) == MAX_CLASSES
    assert PodClass("app-4", False) not in tabling._asked


def test_without_snapshot_or_bundle_there_is_no_table(tmp_path: Path, bundle: Path) -> None:
    from tests.advisor.processes import new_process

    empty = Tabling(new_process(bundle, tmp_path).serving, tmp_path / "table")

    assert not empty.step(0.0)
    assert not empty.path.exists()
