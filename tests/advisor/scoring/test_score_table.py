"""Table: the numbers of the scorer to the bit, however it came about, and what changed is found."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.cluster.assumed_pod_load import Booked, crowded
from advisor.cluster.pending_pod import PendingPod, PodClass, class_of
from advisor.cluster.snapshot import Snapshot, nothing_expected
from advisor.cluster.snapshot_diff import same_apps, same_nodes, same_prior
from advisor.errors import NoTable
from advisor.placement.assumed_pod_sync import KEPT_US, MAX_BOOKED, Bookings
from advisor.placement.encoded_scores import Replies, spell
from advisor.scoring.score_scale import VETO_SLOWDOWN, cost, points
from advisor.scoring.score_table import ScoreTable, begun, followed, score_columns, widened
from advisor.scoring.score_table_file import read_table, write_table
from advisor.scoring.scorer import ModelScorer
from features.schema.catalog import DEMANDS
from tests.advisor.clusters import APPS, NOW_US, TEAMS, busier, snapshot

ScorerOf = Callable[[Snapshot], ModelScorer]
CLASSES = (
    PodClass("web", False),
    PodClass("web", True),
    PodClass("db", False),
    PodClass("", False),
    PodClass("", True),
    PodClass("", False, "red"),
)


def same(table: ScoreTable, other: ScoreTable) -> bool:
    """Whether both say the same of every class, in any order of classes."""
    where = [other.classes.index(name) for name in table.classes]
    known = table.known
    return (
        (table.nodes, table.version, len(table.classes)) == (other.nodes, other.version, len(other.classes))
        and (table.points == other.points[where])[:, known].all()
        and (table.cost == other.cost[where])[:, known].all()
    )


def test_points_are_those_of_the_scorer_for_each_newcomer_alone(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(3, nodes=9))
    view, nodes = scorer.snapshot, np.arange(9, dtype=np.int32)

    table = begun(scorer, "b", CLASSES)

    for row, of in enumerate(CLASSES):
        scores = scorer.score(of.pending_pod(), nodes, now_us=NOW_US)
        costs = cost(scores, best_effort=of.best_effort, resident_best_effort=view.resident_best_effort)
        expected = points(costs, scores.node_bound > VETO_SLOWDOWN, best_effort=of.best_effort)
        assert table.points[row].tolist() == expected.tolist()
        assert table.cost[row].tolist() == costs.astype(np.float32).tolist()


def changed(view: Snapshot, seed: int) -> Snapshot:
    """A later snapshot: some residents use more, one node is new, one is gone, one changes its place in the order."""
    rng = np.random.default_rng(seed)
    later = replace(view, version=view.version + 1)
    for resident in rng.integers(0, max(1, len(view.containers)), 2) if view.containers else ():
        later = busier(later, int(resident), int(rng.integers(0, 3)), float(rng.uniform(0.5, 2.0)))
    return later


@given(seed=st.integers(0, 30), other=st.integers(0, 30), steps=st.integers(1, 3))
@settings(max_examples=25, deadline=None)
def test_a_followed_table_is_the_table_made_anew(scorer_of: ScorerOf, seed: int, other: int, steps: int) -> None:
    old = scorer_of(snapshot(seed))
    table = begun(old, "b", CLASSES)
    for step in range(steps):
        new = scorer_of(changed(old.snapshot, other + step))
        table, _ = followed(table, old, new)
        old = new

    assert same(table, begun(old, "b", CLASSES))


@given(seed=st.integers(0, 30), other=st.integers(31, 60))
@settings(max_examples=15, deadline=None)
def test_a_table_follows_to_a_wholly_different_cluster(scorer_of: ScorerOf, seed: int, other: int) -> None:
    old, new = scorer_of(snapshot(seed, nodes=5)), scorer_of(snapshot(other, nodes=8, version=2))

    table, _ = followed(begun(old, "b", CLASSES), old, new)

    assert same(table, begun(new, "b", CLASSES))


def test_only_nodes_that_changed_are_computed_again(scorer_of: ScorerOf) -> None:
    old = snapshot(2, residents=(2, 3), missing=0.0)
    new = replace(busier(old, 0, 0, 1.5), version=2)

    assert same_nodes(old, new).tolist() == [False, True, True, True, True, True]
    assert same_nodes(old, replace(old, version=2)).all()
    assert followed(begun(scorer_of(old), "b", CLASSES), scorer_of(old), scorer_of(new))[1] == 1


def test_a_new_app_does_not_make_all_nodes_new() -> None:
    """Codes of apps are places in a sorted list: a new name moves those behind it."""
    old = snapshot(2)
    app = np.where(old.resident_app < 0, -1, old.resident_app + 1)
    profile = np.concatenate([np.full((1, *old.profile.shape[1:]), np.nan), old.profile])
    new = replace(old, version=2, apps=("aaa", *APPS), resident_app=app, profile=profile)

    assert same_nodes(old, new).all()
    assert same_apps(old, new).tolist() == [False, True, True, True, True]


def test_an_app_with_another_profile_changes_its_class_and_the_nodes_it_lives_on(scorer_of: ScorerOf) -> None:
    old = snapshot(4, residents=(1, 3))
    profile = old.profile.copy()
    profile[APPS.index("web")] *= 1.5
    new = replace(old, version=2, profile=profile)
    lives = np.array([APPS.index("web") in new.resident_app[new.first[i] : new.first[i + 1]] for i in range(6)])

    assert (same_nodes(old, new) == ~lives).all()
    table, _ = followed(begun(scorer_of(old), "b", CLASSES), scorer_of(old), scorer_of(new))
    assert same(table, begun(scorer_of(new), "b", CLASSES))


def test_where_more_is_expected_of_a_team_its_class_changes_and_no_node_does(scorer_of: ScorerOf) -> None:
    old = snapshot(4, residents=(1, 3))
    prior = old.cold_start_prior.copy()
    prior[TEAMS.index("red")] *= 1.5
    new = replace(old, version=2, cold_start_prior=prior)

    assert same_nodes(old, new).all()
    assert same_prior(old, new) == {"blue": True, "red": False, "": True}
    table, _ = followed(begun(scorer_of(old), "b", CLASSES), scorer_of(old), scorer_of(new))
    assert same(table, begun(scorer_of(new), "b", CLASSES))


def test_where_more_is_expected_of_anybody_nodes_with_unknown_residents_change(scorer_of: ScorerOf) -> None:
    old = snapshot(4, residents=(1, 3))
    prior = old.cold_start_prior.copy()
    prior[-1] *= 1.5
    new = replace(old, version=2, cold_start_prior=prior)
    unknown = np.array([-1 in new.resident_app[new.first[i] : new.first[i + 1]] for i in range(6)])

    assert (same_nodes(old, new) == ~unknown).all()
    assert unknown.any()
    table, _ = followed(begun(scorer_of(old), "b", CLASSES), scorer_of(old), scorer_of(new))
    assert same(table, begun(scorer_of(new), "b", CLASSES))


def test_teams_and_platforms_are_the_same_by_name() -> None:
    old = snapshot(4)
    new = replace(
        old,
        teams=("amber", *TEAMS),
        cold_start_prior=np.concatenate([old.cold_start_prior[:1] * 2, old.cold_start_prior]),
    )
    turned = replace(old, platforms=old.platforms[::-1], cold_start_prior=old.cold_start_prior[:, ::-1])

    assert same_prior(old, new) == {"amber": False, "blue": True, "red": True, "": True}
    assert all(same_prior(old, turned).values())
    assert not any(same_prior(replace(old, teams=(), cold_start_prior=nothing_expected()), new).values())


def test_a_class_of_a_team_that_is_gone_is_dropped(scorer_of: ScorerOf) -> None:
    old = snapshot(4)
    new = replace(old, version=2, teams=("blue",), cold_start_prior=old.cold_start_prior[[0, 2]])

    table, _ = followed(begun(scorer_of(old), "b", CLASSES), scorer_of(old), scorer_of(new))

    assert set(table.classes) == set(CLASSES) - {PodClass("", False, "red")}


def test_an_unknown_app_is_of_the_class_of_its_team_and_an_unknown_team_of_nobodys() -> None:
    def found(app: str, team: str | None) -> PodClass:
        return class_of(PendingPod(app, team), APPS, TEAMS)

    assert found("web", "red") == PodClass("web", False)
    assert found("new", "red") == PodClass("", False, "red")
    assert found("new", "new") == found("new", None) == found("", "") == PodClass("", False)


def test_classes_of_before_teams_are_still_read() -> None:
    assert msgspec.json.decode(b'["", true]', type=PodClass) == PodClass("", True)


def test_guests_of_an_unknown_app_use_what_is_expected_of_their_team() -> None:
    view = snapshot(2, nodes=1, residents=(1, 1))
    assumed = [booked("x", "n0", PodClass("", False, "red")), booked("y", "n0", PodClass("", False))]

    use = crowded(view, ["n0"], assumed).resident_use

    expected = view.cold_start_prior[TEAMS.index("red"), view.node_platform[0], -len(DEMANDS) :] * view.node_capacity[0]
    assert use[1].tolist() == expected.tolist()
    assert np.isnan(use[2]).all()


def test_classes_come_and_go(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(snapshot(1))
    some = begun(scorer, "b", CLASSES[:2])

    assert same(widened(some, scorer, CLASSES), begun(scorer, "b", CLASSES))
    assert same(widened(some, scorer, CLASSES).only(CLASSES[2:]), begun(scorer, "b", CLASSES[2:]))


def test_a_table_is_mapped_as_it_was_written(scorer_of: ScorerOf, tmp_path: Path) -> None:
    table = begun(scorer_of(snapshot(1)), "b", CLASSES)
    write_table(tmp_path / "table", table)

    again = read_table(tmp_path / "table")

    assert same(table, again)
    assert (again.bundle, again.as_of_us, again.known.tolist()) == ("b", NOW_US, table.known.tolist())


@pytest.mark.parametrize("cut", [0, 5, 20, 200, -1])
def test_a_file_that_is_not_whole_is_refused(scorer_of: ScorerOf, tmp_path: Path, cut: int) -> None:
    path = tmp_path / "table"
    write_table(path, begun(scorer_of(snapshot(1)), "b", CLASSES))
    path.write_bytes(path.read_bytes()[:cut])

    with pytest.raises(NoTable, match="no score table"):
        read_table(path)


def said(replies: Replies, of: PodClass, names: Sequence[str]) -> list[int]:
    rows = replies.rows(names)
    reply = json.loads(replies.reply(names, rows, replies.points(of, rows)))
    assert [entry["Host"] for entry in reply] == list(names)
    assert [entry["Score"] for entry in reply] == replies.points(of, rows).tolist()
    return [entry["Score"] for entry in reply]


def test_replies_say_what_the_table_says_and_the_median_of_nodes_that_are_not_known(scorer_of: ScorerOf) -> None:
    view = snapshot(1)
    view = replace(view, node_known=np.array([True, True, False, True, True, True]))
    table = begun(scorer_of(view), "b", CLASSES)
    replies = Replies(table, spell(table.nodes))
    web = table.points[0].tolist()
    middle = sorted([web[0], web[1], web[4]])[1]

    assert said(replies, CLASSES[0], ["n4", "gone", "n0", "n2", "n1", "n4"]) == [
        web[4],
        middle,
        web[0],
        middle,
        web[1],
        web[4],
    ]
    assert said(replies, CLASSES[0], ["n4", "n0"]) == [web[4], web[0]]
    assert said(replies, CLASSES[0], ["gone", 'a"b']) == [0, 0]
    assert said(replies, CLASSES[0], []) == []


@given(names=st.lists(st.text(max_size=8), unique=True, min_size=1, max_size=6), data=st.data())
@settings(max_examples=50, deadline=None)
def test_any_name_is_spelled_as_json(scorer_of: ScorerOf, names: list[str], data: st.DataObject) -> None:
    view = replace(snapshot(1, nodes=len(names)), nodes=tuple(names))
    replies = Replies(begun(scorer_of(view), "b", CLASSES), spell(view.nodes))

    said(replies, CLASSES[1], data.draw(st.lists(st.sampled_from(names), max_size=10)))


def booked(uid: str, node: str, of: PodClass = CLASSES[0], at_us: int = NOW_US) -> Booked:
    return Booked(uid, node, of, at_us)


def test_a_booking_moves_when_asked_again_and_ends_when_it_arrives_or_is_overdue() -> None:
    bookings = Bookings()
    first, again = booked("a", "n0"), booked("a", "n1")
    b, c = booked("b", "n2"), booked("c", "n3", at_us=NOW_US - KEPT_US - 1)

    assert bookings.book(first) == []
    assert bookings.book(again) == [first]
    assert bookings.book(b) == bookings.book(c) == []
    assert bookings.settle({"b"}, NOW_US) == [b, c]
    assert list(bookings) == [again]


def test_bookings_are_bounded() -> None:
    bookings = Bookings()
    ended = [one for number in range(MAX_BOOKED + 3) for one in bookings.book(booked(str(number), "n"))]

    assert len(bookings) == MAX_BOOKED
    assert [one.uid for one in ended] == ["0", "1", "2"]


def test_a_booked_newcomer_counts_as_a_resident_of_which_nothing_is_measured(scorer_of: ScorerOf) -> None:
    """The same numbers as a snapshot in which it lives there already."""
    view = snapshot(5, residents=(1, 3))
    assumed = [booked("x", "n1"), booked("y", "n4", CLASSES[1]), booked("z", "n1", CLASSES[2])]
    at = [int(view.first[2]), int(view.first[2]), int(view.first[5])]
    moved = replace(
        view,
        containers=tuple(np.insert(np.array(view.containers, object), at, ["x", "z", "y"])),
        cpusets=tuple([None] * (len(view.containers) + 3)),
        first=view.first + np.array([0, 0, 2, 2, 2, 3, 3]),
        resident_app=np.insert(view.resident_app, at, [APPS.index("web"), APPS.index("db"), APPS.index("web")]),
        resident_best_effort=np.insert(view.resident_best_effort, at, [False, False, True]),
        resident_use=np.insert(view.resident_use, at, np.nan, axis=0),
    )
    whole = begun(scorer_of(moved), "b", CLASSES)

    found = crowded(view, ["n1", "n4", "gone"], assumed)
    scores = score_columns(scorer_of(found), CLASSES, np.arange(2, dtype=np.int32))

    assert found.nodes == ("n1", "n4")
    assert sorted(found.containers) == sorted(
        [
            "x",
            "y",
            "z",
            *view.containers[view.first[1] : view.first[2]],
            *view.containers[view.first[4] : view.first[5]],
        ]
    )
    assert scores.points.tolist() == whole.points[:, [1, 4]].tolist()
    assert scores.cost.tolist() == whole.cost[:, [1, 4]].tolist()


def test_without_nodes_nothing_is_crowded() -> None:
    assert crowded(snapshot(1), {"gone"}, []).nodes == ()


def told(replies: Replies, nodes: tuple[str, ...]) -> list[list[int]]:
    return [said(replies, of, nodes) for of in CLASSES]


@given(seed=st.integers(0, 20), assumed=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(CLASSES)), max_size=8))
@settings(max_examples=30, deadline=None)
def test_who_is_on_the_way_makes_a_node_no_better_and_who_left_again_leaves_no_trace(
    scorer_of: ScorerOf, seed: int, assumed: list[tuple[int, PodClass]]
) -> None:
    table = begun(scorer_of(snapshot(seed, residents=(1, 4))), "b", CLASSES)
    replies = Replies(table, spell(table.nodes))
    before, coming = told(replies, table.nodes), [booked("x", f"n{node}", pod_class) for node, pod_class in assumed]
    for one in coming:
        replies.arrive(one)

    crowd = told(replies, table.nodes)

    assert all(now <= then for row, old in zip(crowd, before, strict=True) for now, then in zip(row, old, strict=True))
    for one in coming:
        replies.leave(one)
    assert told(replies, table.nodes) == before


def test_a_guest_on_a_node_or_of_a_class_that_is_not_there_changes_nothing(scorer_of: ScorerOf) -> None:
    table = begun(scorer_of(snapshot(1)), "b", CLASSES)
    replies = Replies(table, spell(table.nodes))
    before = told(replies, table.nodes)

    replies.arrive(booked("x", "gone"))
    replies.arrive(booked("x", "n0", PodClass("batch", True)))

    assert told(replies, table.nodes) == before


def test_many_at_once_count_as_one_after_the_other(scorer_of: ScorerOf) -> None:
    table = begun(scorer_of(snapshot(3, nodes=12, residents=(0, 3))), "b", CLASSES)
    one_by_one, at_once = (Replies(table, spell(table.nodes)) for _ in range(2))
    rng = np.random.default_rng(1)
    assumed = [
        booked(f"pod-{n}", f"n{rng.integers(14)}", CLASSES[rng.integers(len(CLASSES))]) for n in range(200)
    ]  # some on nodes that are not there

    for pod_class in assumed:
        one_by_one.arrive(pod_class)
    at_once.arrive_all(assumed)
    at_once.leave(assumed[0])
    one_by_one.leave(assumed[0])

    assert np.allclose(at_once._cost, one_by_one._cost)
    assert (at_once._points == one_by_one._points).mean() > 0.99


def test_a_herd_spreads(scorer_of: ScorerOf) -> None:
    """A hundred newcomers of one class, each sent to the best node: without counting them, all go to one."""
    table = begun(scorer_of(snapshot(3, nodes=12, residents=(0, 3))), "b", CLASSES)
    replies, rows = Replies(table, spell(table.nodes)), np.arange(12)
    blind = replies.best(CLASSES[0], rows, replies.points(CLASSES[0], rows))
    gone = np.zeros(12, np.int64)
    for _ in range(100):
        best = replies.best(CLASSES[0], rows, replies.points(CLASSES[0], rows))
        gone[best] += 1
        replies.arrive(booked("x", table.nodes[best]))

    assert gone[blind] > 0
    assert (gone > 0).sum() > 1
    assert gone.max() < 50


def test_steps_are_those_of_the_scorer_on_the_same_nodes(scorer_of: ScorerOf) -> None:
    """With one node a platform the step of a class beside itself is exact."""
    view = replace(snapshot(3, nodes=2, residents=(2, 3)), node_platform=np.array([0, 1]))
    scorer = scorer_of(view)
    table = begun(scorer, "b", CLASSES)
    assumed = [booked("x", "n0", CLASSES[3]), booked("y", "n1", CLASSES[3])]
    co_located = score_columns(scorer_of(crowded(view, view.nodes, assumed)), CLASSES, np.arange(2, dtype=np.int32))

    row = CLASSES.index(PodClass("", False))

    for node in range(2):
        exact = max(float(co_located.cost[row, node]) - float(table.cost[row, node]), 0.0)
        assert table.steps_added_by(row, node)[row] == pytest.approx(exact, abs=1e-5)
