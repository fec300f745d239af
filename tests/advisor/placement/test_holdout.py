"""Withheld: some pods are told nothing, by their uid and nothing else, and are written down as all would be."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import msgspec
import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.placement.decision_log import Advised, Explorer, read_advised
from advisor.placement.encoded_scores import Replies, spell
from advisor.placement.exploration import ARM, KEPT, lot
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from advisor.placement.rotating_log import KeptLines
from advisor.scoring.score_table_file import read_table
from cohabit.server.score_table_process import Tabling
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

WEB = PodClass("web", False)
NODES = tuple(f"n{i}" for i in range(6))
UIDS = [str(UUID(int=number * 0x9E3779B97F4A7C15, version=4)) for number in range(300)]


def held_out_uid(share: float = 0.5) -> str:
    return next(uid for uid in UIDS if lot(uid, ARM) < share)


def advised_uid(share: float = 0.5) -> str:
    return next(uid for uid in UIDS if lot(uid, ARM) >= share and lot(uid, KEPT) < share)


class Site:
    """A prioritizer with a table of some nodes, that withholds the advice of half of the pods."""

    def __init__(self, process: Process, folder: Path, explore: float = 0.0, held_out: float = 0.5) -> None:
        process.promote("first")
        process.publish(snapshot(11, residents=(0, 0), version=1))
        process.serving.reload()
        self.process, self.folder = process, folder / "advised"
        lines, metrics = KeptLines(self.folder, 1 << 20, 1 << 24), process.serving.metrics
        self.explorer = Explorer(lines, explore, 0.0, np.random.default_rng(5), metrics, held_out)
        process.serving.explorer = self.explorer
        tabling = Tabling(process.serving, folder / "table")
        tabling.ask(WEB, 0.0)
        tabling.step(0.0)
        self.table = tabling.path
        self.prioritizer = Prioritizer(process.serving, self.table)
        self.prioritizer.take(self.prioritizer.newer())

    def ask(self, uid: str) -> list[int]:
        reply = json.loads(asyncio.run(self.prioritizer.answer(Offer(PendingPod("web"), uid, NODES))).body)
        assert [entry["Host"] for entry in reply] == list(NODES)
        return [entry["Score"] for entry in reply]

    def booked(self) -> list[str]:
        return [booked.uid for booked in self.prioritizer.assumed.bookings]

    def written(self) -> list[Advised]:
        self.explorer._thread.shutdown()
        return read_advised(self.folder) if self.folder.exists() else []


@pytest.fixture
def site(process: Process, tmp_path: Path) -> Site:
    return Site(process, tmp_path)


def test_who_is_withheld_the_advice_is_told_nothing_booked_nowhere_and_written_down(site: Site) -> None:
    uid = held_out_uid()
    replies = site.prioritizer.replies
    assert replies is not None
    points = replies.points(WEB, replies.rows(NODES)).tolist()

    assert site.ask(uid) == [0] * len(NODES)

    assert site.booked() == []
    [line] = site.written()
    assert (line.uid, line.held_out, line.holdout_share, line.sampling_rate) == (uid, True, 0.5, 1.0)
    assert (line.candidates, line.points, line.drawn, line.randomised) == (list(NODES), points, None, False)
    assert line.best == NODES[int(np.argmin(line.costs))]
    assert site.process.counted("cohabit_score_requests_total", source="holdout", reason="") == 1


def test_others_are_advised_and_as_many_of_them_are_written_down(site: Site) -> None:
    uid = advised_uid()

    assert max(site.ask(uid)) > 0

    assert site.booked() == [uid]
    [line] = site.written()
    assert (line.uid, line.held_out, line.holdout_share, line.sampling_rate) == (uid, False, 0.5, 0.5)


def test_a_pod_that_is_asked_for_again_stays_in_its_arm_whoever_answers(process: Process, tmp_path: Path) -> None:
    site = Site(process, tmp_path)
    for uid in UIDS[:30]:
        site.ask(uid)
    site.explorer.rng = np.random.default_rng(99)  # another worker draws otherwise
    for uid in UIDS[:30]:
        site.ask(uid)

    arms = {(line.uid, line.held_out) for line in site.written()}
    assert len({uid for uid, _ in arms}) == len(arms)
    assert 5 <= sum(held_out for _, held_out in arms) <= 25


def test_of_who_is_withheld_nothing_is_drawn(process: Process, tmp_path: Path) -> None:
    site = Site(process, tmp_path, explore=1.0)

    assert site.ask(held_out_uid()) == [0] * len(NODES)
    assert max(site.ask(advised_uid())) == 10

    first, second = sorted(site.written(), key=lambda line: line.randomised)
    assert (first.held_out, first.drawn) == (True, None)
    assert (second.held_out, second.sampling_rate) == (False, 1.0)


def test_without_uid_nothing_is_withheld(site: Site) -> None:
    assert max(site.ask("")) > 0
    assert not site.written()


def test_while_lines_cannot_be_written_nothing_is_withheld_and_pods_count_in_no_arm(site: Site) -> None:
    uid = held_out_uid()
    site.folder.write_text("a file where the folder should be")
    assert max(site.ask(uid)) == 0
    site.explorer._thread.submit(int).result()

    assert max(site.ask(uid)) > 0

    site.explorer._thread.submit(int).result()
    site.folder.unlink()
    assert max(site.ask(uid)) > 0
    assert [(line.held_out, line.holdout_share) for line in site.written()] == [(False, 0.0)]


def test_a_filter_goes_on_refusing(site: Site) -> None:
    table = read_table(site.table)
    points = np.where(np.array(table.nodes) == "n3", 0, 7) * np.ones_like(table.points)
    site.prioritizer.take(Replies(replace(table, points=points.astype(np.uint8)), spell(table.nodes)))
    pod = {"metadata": {"uid": held_out_uid(), "labels": {"app": "web"}}}

    with TestClient(create_scheduler_app(site.prioritizer, refusing=True)) as client:
        asked = {"Pod": pod, "NodeNames": NODES}
        passed = client.post("/extender/filter", json=asked).json()["NodeNames"]
        scores = client.post("/extender/prioritize", json=asked).json()

    assert passed == [name for name in NODES if name != "n3"]
    assert {entry["Score"] for entry in scores} == {0}


def test_a_line_of_an_older_form_is_refused_rather_than_read_without_its_arm(tmp_path: Path) -> None:
    line = Advised(1, "c", "u", "web", False, 1, 0, "b", 0.0, False, None, "n0", ["n0"], [10], [0.0], [0.0])
    old = msgspec.to_builtins(line)
    old["withheld"] = old.pop("held_out")
    (tmp_path / "1.jsonl").write_bytes(msgspec.json.encode(old) + b"\n")

    with pytest.raises(msgspec.ValidationError, match="withheld"):
        read_advised(tmp_path)


@given(uid=st.text(st.characters(codec="utf-8"), max_size=60))
def test_lots_are_the_same_every_time_and_in_range(uid: str) -> None:
    assert 0.0 <= lot(uid, ARM) == lot(uid, ARM) < 1.0


def test_lots_are_spread_evenly_and_those_of_one_purpose_tell_nothing_of_another() -> None:
    arm, kept = (np.array([lot(f"pod-{number}", purpose) for number in range(4000)]) for purpose in (ARM, KEPT))

    assert np.histogram(arm, 10, (0, 1))[0] == pytest.approx(400, abs=100)
    assert abs(np.corrcoef(arm, kept)[0, 1]) < 0.06
    assert abs(np.corrcoef(arm[1:], arm[:-1])[0, 1]) < 0.06
