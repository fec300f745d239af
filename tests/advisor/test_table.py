"""Table: the numbers of the scorer to the bit, however it came about, and what changed is found."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clusters import APPS, NOW_US, busier, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.booking import KEPT_US, MOST, Booked, Bookings, crowded, with_bookings
from advisor.changes import same_apps, same_nodes
from advisor.decision import cost, points
from advisor.errors import NoTable
from advisor.replies import Replies, Said, neutral, spell
from advisor.scoring import ModelScorer
from advisor.snapshot import Snapshot
from advisor.table import NewcomerClass, ScoreTable, begun, followed, widened
from advisor.table_file import read_table, write_table

ScorerOf = Callable[[Snapshot], ModelScorer]
CLASSES = (
    NewcomerClass("web", False),
    NewcomerClass("web", True),
    NewcomerClass("db", False),
    NewcomerClass("", False),
    NewcomerClass("", True),
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
        scores = scorer.score(of.newcomer(), nodes, now_us=NOW_US)
        costs = cost(scores, best_effort=of.best_effort, resident_best_effort=view.resident_best_effort)
        expected = points(costs, scores.node_bound, best_effort=of.best_effort)
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


def test_replies_say_what_the_table_says_and_the_median_of_nodes_that_are_not_known(scorer_of: ScorerOf) -> None:
    view = snapshot(1)
    view = replace(view, node_known=np.array([True, True, False, True, True, True]))
    table = begun(scorer_of(view), "b", CLASSES)
    replies = Replies(table, spell(table.nodes))
    web = table.points[0].tolist()
    middle = sorted([web[0], web[1], web[4]])[1]

    points_ = replies.points(CLASSES[0], ["n4", "gone", "n0", "n2", "n1", "n4"])

    assert points_ == [web[4], middle, web[0], middle, web[1], web[4]]
    assert replies.reply(CLASSES[0], ["n4", 'a"b']) == (
        b'[{"Host":"n4","Score":%d},{"Host":"a\\"b","Score":%d}]' % (web[4], web[4])
    )
    assert replies.reply(CLASSES[0], []) == b"[]" == neutral([])
    assert replies.points(CLASSES[0], ["gone"]) == [0]


def test_what_changed_counts_from_then_on_whether_or_not_the_class_was_asked_before(scorer_of: ScorerOf) -> None:
    table = begun(scorer_of(snapshot(1)), "b", CLASSES)
    change = {of: {"n0": Said(0, 9.0), "elsewhere": Said(3, 1.0)} for of in CLASSES[:2]}
    replies = Replies(table, spell(table.nodes))
    replies.points(CLASSES[0], ["n0"])

    replies.put(change)
    fresh = Replies(table, replies.spelled, change)

    for of in CLASSES[:2]:
        assert fresh.points(of, ["n0"]) == [0]
        assert fresh.best(of, ["n0", "n1"]) == "n1"
    assert replies.points(CLASSES[0], ["n0"]) == [0]
    assert replies.best(CLASSES[0], ["n0"]) == "n0"
    assert replies.best(CLASSES[0], ["elsewhere"]) is None


def booked(uid: str, node: str, of: NewcomerClass = CLASSES[0], at_us: int = NOW_US) -> Booked:
    return Booked(uid, node, of, at_us)


def test_a_booking_moves_when_asked_again_and_ends_when_it_arrives_or_is_overdue() -> None:
    bookings = Bookings()

    assert bookings.book(booked("a", "n0")) == {"n0"}
    assert bookings.book(booked("a", "n1")) == {"n0", "n1"}
    bookings.book(booked("b", "n2"))
    bookings.book(booked("c", "n3", at_us=NOW_US - KEPT_US - 1))
    assert bookings.settle({"b"}, NOW_US) == {"n2", "n3"}
    assert bookings.nodes() == {"n1"}


def test_bookings_are_bounded() -> None:
    bookings = Bookings()
    for number in range(MOST + 3):
        bookings.book(booked(str(number), f"n{number}"))

    assert len(bookings) == MOST
    assert "n0" not in bookings.nodes()


def test_a_booked_newcomer_counts_as_a_resident_of_which_nothing_is_measured(scorer_of: ScorerOf) -> None:
    """The same numbers as a snapshot in which it lives there already."""
    view = snapshot(5, residents=(1, 3))
    guests = [booked("x", "n1"), booked("y", "n4", CLASSES[1]), booked("z", "n1", CLASSES[2])]
    bookings = Bookings()
    for guest in guests:
        bookings.book(guest)
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

    said = with_bookings(scorer_of(view), bookings.on({"n1", "n4"}), {"n1", "n4", "gone"}, CLASSES)

    for row, of in enumerate(CLASSES):
        expected = {f"n{i}": Said(int(whole.points[row, i]), float(whole.cost[row, i])) for i in (1, 4)}
        assert said[of] == expected


def test_without_nodes_nothing_is_crowded(scorer_of: ScorerOf) -> None:
    assert crowded(snapshot(1), {"gone"}, []).nodes == ()
    assert with_bookings(scorer_of(snapshot(1)), [], set(), CLASSES[:1]) == {CLASSES[0]: {}}
