"""Exploring: a drawn node is as good as the best, told first, and written down with the chance that it had."""

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from threading import Event

import msgspec
import numpy as np
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from structlog.testing import capture_logs

from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.placement.decision_log import MAX_WAITING, Advised, Explorer, read_advised
from advisor.placement.exploration import BAND, LEAST_POINTS, OTHERS, Floats, Ints, drawn, propensities, put_first
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from advisor.placement.rotating_log import KeptLines
from cohabit.server.score_table_process import Tabling
from tests.advisor.clusters import NOW_US, snapshot
from tests.advisor.processes import Process

SIZES = st.integers(1, 12)
COSTS = SIZES.flatmap(lambda k: arrays(np.float64, k, elements=st.floats(0, 3) | st.just(np.nan)))


def points_of(costs: Floats, vetoed: Ints | None = None) -> Ints:
    points = np.where(np.isnan(costs), 5, np.rint(10 * np.exp(-np.nan_to_num(costs)))).astype(np.int64)
    return points if vetoed is None else np.where(vetoed > 0, 0, points)


def test_nodes_that_cost_a_little_more_than_the_best_have_the_same_chance() -> None:
    costs = np.array([0.05, 0.15, 0.16, 0.02 + BAND, 0.02, np.nan, 3.0])

    assert propensities(points_of(costs), costs).tolist() == [1 / 3, 0, 0, 1 / 3, 1 / 3, 0, 0]


@pytest.mark.parametrize(
    ("points", "costs"),
    [
        ([], []),
        ([10], [0.0]),
        ([10, 10], [0.0, np.nan]),
        ([10, 0], [0.0, 0.0]),
        ([0, 0], [0.0, 0.0]),
        ([6, 6], [0.5, 0.5]),
        ([10, 7], [0.0, 0.3]),
    ],
    ids=["none", "one", "one known", "one without veto", "all vetoed", "none that is good", "none as good"],
)
def test_where_there_is_no_second_one_nothing_is_drawn(points: list[int], costs: list[float]) -> None:
    propensity = propensities(np.array(points, np.int64), np.array(costs, np.float64))

    assert not propensity.any()
    assert drawn(propensity, np.random.default_rng(0)) == -1


@given(costs=COSTS, data=st.data())
def test_chances_add_up_and_the_band_is_safe(costs: Floats, data: st.DataObject) -> None:
    points = points_of(costs, data.draw(arrays(np.int64, len(costs), elements=st.integers(0, 1))))

    propensity = propensities(points, costs)

    band = propensity > 0
    assert propensity.sum() == pytest.approx(1.0) or not band.any()
    assert len(set(propensity[band])) <= 1
    assert (points[band] >= LEAST_POINTS).all()
    assert not np.isnan(costs[band]).any()
    if band.any():
        safe = costs[(points >= LEAST_POINTS) & ~np.isnan(costs)]
        assert costs[band].max() <= safe.min() + BAND
        assert safe.min() in costs[band]


@given(costs=COSTS, order=st.randoms(use_true_random=False))
def test_the_order_of_candidates_does_not_matter(costs: Floats, order: object) -> None:
    shuffled = np.array(range(len(costs)))
    order.shuffle(shuffled)  # type: ignore[attr-defined]

    straight, other = propensities(points_of(costs), costs), propensities(points_of(costs)[shuffled], costs[shuffled])

    assert straight[shuffled].tolist() == other.tolist()


@given(points=arrays(np.int64, st.integers(1, 12), elements=st.integers(0, 10)), at=st.integers(0, 11))
def test_one_node_is_first_and_the_others_keep_their_order_below(points: Ints, at: int) -> None:
    at %= len(points)

    told = put_first(points, np.arange(len(points)) == at)

    others = np.delete(told, at)
    assert told[at] == 10
    assert (others <= OTHERS).all()
    assert (np.diff(others[np.argsort(np.delete(points, at), kind="stable")]) >= 0).all()
    assert (others <= np.delete(points, at)).all()


@given(costs=COSTS)
def test_a_node_is_drawn_as_often_as_its_chance_says(costs: Floats) -> None:
    propensity, rng, times = propensities(points_of(costs), costs), np.random.default_rng(3), 2000

    found = Counter(drawn(propensity, rng) for _ in range(times))

    if not propensity.any():
        assert set(found) == {-1}
        return
    for at, chance in enumerate(propensity):
        assert found[at] == pytest.approx(times * chance, abs=6 * (times * chance * (1 - chance)) ** 0.5)


WEB = PodClass("web", False)
NODES = tuple(f"n{i}" for i in range(6))


class Site:
    """A prioritizer with a table of some nodes that are alike, and what it wrote down."""

    def __init__(self, process: Process, folder: Path, explore: float, logged: float) -> None:
        process.promote("first")
        process.publish(snapshot(11, residents=(0, 0), version=1))
        process.serving.reload()
        self.process, self.folder = process, folder / "advised"
        lines = KeptLines(self.folder, 1 << 20, 1 << 24)
        self.explorer = Explorer(lines, explore, logged, np.random.default_rng(5), process.serving.metrics)
        process.serving.explorer = self.explorer
        tabling = Tabling(process.serving, folder / "table")
        tabling.ask(WEB, 0.0)
        tabling.step(0.0)
        self.prioritizer = Prioritizer(process.serving, tabling.path)
        self.prioritizer.take(self.prioritizer.newer())

    def ask(self, uid: str = "pod", names: tuple[str, ...] = NODES, app: str = "web") -> list[int]:
        reply = json.loads(asyncio.run(self.prioritizer.answer(Offer(PendingPod(app), uid, names))).body)
        assert [entry["Host"] for entry in reply] == list(names)
        return [entry["Score"] for entry in reply]

    def alone(self, uid: str) -> list[int]:
        """Ask, and let it arrive before the next one: everything is as before then."""
        told = self.ask(uid)
        self.prioritizer.take(None, {uid: "anywhere"})
        return told

    def booked(self) -> dict[str, str]:
        return {booked.uid: booked.node for booked in self.prioritizer.assumed.bookings}

    def written(self) -> list[Advised]:
        self.explorer._thread.shutdown()
        return read_advised(self.folder) if self.folder.exists() else []

    def counted(self, name: str, **labels: str) -> float:
        return self.process.counted(name, **labels)


NewSite = Callable[[float, float], Site]


@pytest.fixture
def site(process: Process, tmp_path: Path) -> NewSite:
    return lambda explore, logged: Site(process, tmp_path, explore, logged)


def test_what_is_drawn_is_told_booked_and_written_down(site: NewSite) -> None:
    one = site(1.0, 0.0)
    plain = one.prioritizer.replies
    assert plain is not None
    computed = plain.points(WEB, plain.rows(NODES)).tolist()
    costs = plain.costs(WEB, plain.rows(NODES)).tolist()

    told = one.ask("pod-1")

    [line] = one.written()
    assert line.drawn is not None
    assert told == [10 if name == line.drawn else min(was, OTHERS) for name, was in zip(NODES, computed, strict=True)]
    assert one.booked() == {"pod-1": line.drawn}
    assert (line.uid, line.app, line.best_effort, line.cluster) == ("pod-1", "web", False, "c")
    assert (line.at_us, line.version, line.as_of_us, line.bundle) == (NOW_US, 1, NOW_US, "first")
    assert (line.randomised, line.share) == (True, 1.0)
    assert (line.candidates, line.points) == (list(NODES), computed)
    assert line.costs == pytest.approx(costs, abs=1e-5)
    assert line.best == NODES[int(np.argmin(costs))]
    assert line.propensity == propensities(np.array(computed), np.array(costs)).tolist()
    assert line.propensity[NODES.index(line.drawn)] > 0
    assert one.counted("cohabit_score_requests_total", source="table", reason="explored") == 1
    assert one.counted("cohabit_decision_log_written_total", randomised="true") == 1


def test_drawn_nodes_are_those_of_the_band_and_all_of_them(site: NewSite) -> None:
    one = site(1.0, 0.0)
    for number in range(60):
        one.alone(f"pod-{number}")

    lines = one.written()

    assert len(lines) == 60
    for line in lines:
        assert line.propensity[line.candidates.index(str(line.drawn))] > 0
    assert len({line.drawn for line in lines}) == sum(chance > 0 for chance in lines[0].propensity) > 1


def test_without_a_share_nothing_is_drawn_and_nothing_written(site: NewSite) -> None:
    one = site(0.0, 0.0)

    assert one.alone("one") == one.alone("other") == one.ask("")
    assert not one.written()
    assert not one.folder.exists()


def test_plain_decisions_are_kept_with_the_chances_that_a_draw_would_have_had(site: NewSite) -> None:
    one = site(0.0, 1.0)
    told = one.ask()

    [line] = one.written()

    assert (line.randomised, line.drawn, line.share) == (False, None, 0.0)
    assert line.points == told
    assert sum(line.propensity) == pytest.approx(1.0)
    assert one.counted("cohabit_score_requests_total", source="table", reason="") == 1


def test_who_has_no_uid_is_placed_by_nobody_and_not_drawn_for(site: NewSite) -> None:
    one = site(1.0, 1.0)

    assert OTHERS not in one.ask("")
    assert not one.written()


def test_shares_are_kept_to(site: NewSite) -> None:
    one = site(0.1, 0.3)
    for number in range(400):
        one.alone(f"pod-{number}")

    lines = one.written()

    assert 20 <= sum(line.randomised for line in lines) <= 62
    assert 80 <= sum(not line.randomised for line in lines) <= 145


def test_a_node_that_is_offered_twice_is_one_candidate_and_one_that_is_not_known_none(site: NewSite) -> None:
    one = site(1.0, 0.0)
    names = ("n1", "n0", "n1", "elsewhere", "n0")

    told = one.ask("pod", names)

    [line] = one.written()
    assert line.candidates == ["n0", "n1"]
    assert told == [10 if name == line.drawn else OTHERS for name in names]


def test_while_something_newer_was_refused_nothing_is_drawn(site: NewSite) -> None:
    one = site(1.0, 1.0)
    one.process.serving.refused = {"no_snapshot": "damaged"}

    one.ask()

    assert not one.written()


def test_through_the_protocol_scores_are_integers_of_every_node(site: NewSite) -> None:
    one = site(1.0, 0.0)
    client = TestClient(create_scheduler_app(one.prioritizer))
    pod = {"metadata": {"uid": "u1", "labels": {"app": "web"}}}

    reply = client.post("/extender/prioritize", json={"Pod": pod, "NodeNames": NODES}).json()
    volcano = {"task": {"Name": "web", "UID": "u2", "Pod": pod}, "nodes": [{"Name": name} for name in NODES]}
    scored = client.post("/volcano/prioritize", json=volcano).json()["nodeScore"]

    assert [type(entry["Score"]) for entry in reply] == [int] * len(NODES)
    assert sorted(entry["Score"] for entry in reply)[-2:] == [OTHERS, 10]
    assert sorted(scored.values())[-2:] == [10.0 * OTHERS, 100.0]
    assert [line.uid for line in one.written()] == ["u1", "u1"]


def test_a_disk_that_fails_loses_lines_not_answers_and_nothing_is_drawn_until_it_works(
    site: NewSite, tmp_path: Path
) -> None:
    one = site(1.0, 0.0)
    (tmp_path / "advised").write_text("a file where the folder should be")
    plain = one.prioritizer.replies
    assert plain is not None

    with capture_logs() as logs:
        drawn_once = one.alone("a")
        one.explorer._thread.submit(int).result()
        assert one.alone("b") == plain.points(WEB, plain.rows(NODES)).tolist() != drawn_once
        one.explorer._thread.submit(int).result()
    assert len(logs) == 1
    assert one.counted("cohabit_decision_log_dropped_total", reason="disk") == 2
    (tmp_path / "advised").unlink()
    one.alone("c")  # written down, not drawn
    one.explorer._thread.submit(int).result()
    one.alone("d")
    assert [(line.uid, line.randomised) for line in one.written()] == [("c", False), ("d", True)]


def test_lines_that_cannot_wait_are_lost_and_counted(site: NewSite) -> None:
    one, go = site(1.0, 0.0), Event()
    one.explorer._thread.submit(go.wait, 20)
    for number in range(MAX_WAITING + 7):
        one.alone(f"pod-{number}")
    go.set()

    assert len(one.written()) == MAX_WAITING
    assert one.counted("cohabit_decision_log_dropped_total", reason="queue") == 7


def test_whatever_goes_wrong_the_answer_is_the_usual_one(site: NewSite) -> None:
    one = site(1.0, 1.0)
    plain = one.prioritizer.replies
    assert plain is not None
    usual = plain.points(WEB, plain.rows(NODES)).tolist()
    one.explorer._thread.shutdown()  # nothing can be handed to it any more

    with capture_logs() as logs:
        assert one.ask() == usual

    assert [each["event"] for each in logs] == ["exploration of a decision failed"]
    assert one.counted("cohabit_decision_log_dropped_total", reason="error") == 1


def test_vetoed_nodes_are_never_drawn(site: NewSite) -> None:
    one = site(1.0, 0.0)
    replies = one.prioritizer.replies
    assert replies is not None
    row = replies.spelled.row["n3"]
    replies._points[:, row], replies._cost[:, row] = 0, replies._cost[:, row] + 1e9

    for number in range(40):
        assert one.alone(f"pod-{number}")[3] == 0

    lines = one.written()
    assert all(line.drawn != "n3" and line.propensity[3] == 0 and line.points[3] == 0 for line in lines)
    assert all(0 <= cost < 100 for line in lines for cost in line.costs)


def test_files_are_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    lines = KeptLines(tmp_path / "kept", 1000, 5000)
    for number in range(1000):
        lines.append(b"%098d" % number)
        assert sum(path.stat().st_size for path in lines.folder.iterdir()) <= 5000 + 100

    kept = sorted(int(line) for path in lines.folder.iterdir() for line in path.read_bytes().split())
    assert kept == list(range(1000 - len(kept), 1000))
    assert len(kept) >= 35


def test_files_of_processes_before_count_too_and_go_first(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"{10**7 + number}.jsonl").write_bytes(b"x" * 1000)
        os.utime(tmp_path / f"{10**7 + number}.jsonl", (number, number))
    (tmp_path / "mine.txt").write_text("of somebody else")
    lines = KeptLines(tmp_path, 1000, 5000)
    for number in range(11):
        lines.append(b"%0100d" % number)

    assert sum(path.stat().st_size for path in tmp_path.glob("*.jsonl")) <= 5000
    assert (tmp_path / f"{10**7 + 7}.jsonl").exists()
    assert not (tmp_path / f"{10**7}.jsonl").exists()
    assert (tmp_path / "mine.txt").exists()


def test_containers_whose_processes_have_one_number_write_files_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for host in ("advisor-0", "advisor-1.example"):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        lines = KeptLines(tmp_path, 1000, 5000)
        for _ in range(3):
            lines.append(b"x" * 600)

    written = {path.name.partition(".")[0] for path in tmp_path.iterdir()}
    assert written == {f"advisor-0-{os.getpid()}", f"advisor-1-example-{os.getpid()}"}
    assert len(list(tmp_path.iterdir())) == 4


def test_of_a_file_that_is_being_written_whole_lines_are_read(tmp_path: Path) -> None:
    line = Advised(1, "c", "u", "web", False, 1, 0, "b", 0.0, False, None, "n0", ["n0"], [10], [0.0], [0.0])
    text = msgspec.json.encode(line)
    (tmp_path / "1.jsonl").write_bytes(text + b"\n" + text[:40])

    assert read_advised(tmp_path) == [line]


def test_of_a_line_that_had_no_room_nothing_is_left(tmp_path: Path) -> None:
    lines, before = KeptLines(tmp_path, 1000, 5000), getrlimit(RLIMIT_FSIZE)
    lines.append(b"first")
    setrlimit(RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(OSError, match="No space left"):
            lines.append(b"second")
    finally:
        setrlimit(RLIMIT_FSIZE, before)
    lines.append(b"third")

    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"first\nthird\n"]
