"""Best-effort room: a node that does not offer what a best-effort pod uses gets 0, and no other pod is touched."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from advisor.cluster.assumed_pod_load import Booked
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.cluster.snapshot_diff import same_nodes
from advisor.scoring.best_effort_room import cores_needed, lacks_room
from advisor.scoring.score_table import score_columns, with_assumed
from advisor.scoring.scorer import ModelScorer
from tests.advisor.clusters import snapshot

ScorerOf = Callable[[Snapshot], ModelScorer]
NODES = np.arange(6, dtype=np.int32)
BE, LS = PodClass("web", True), PodClass("web", False)


@pytest.fixture
def view() -> Snapshot:
    return snapshot(3)


def offering(view: Snapshot, *cores: float) -> Snapshot:
    return replace(view, node_offered=np.array(cores))


def test_without_offers_every_score_is_as_before(scorer_of: ScorerOf, view: Snapshot) -> None:
    unknown = offering(view, *[np.nan] * 6)

    plain, named = (score_columns(scorer_of(of), [BE, LS], NODES) for of in (view, unknown))

    np.testing.assert_array_equal(plain.points, named.points)


def test_nodes_without_room_get_0_for_best_effort_pods_alone(scorer_of: ScorerOf, view: Snapshot) -> None:
    need = cores_needed(view, BE.pending_pod(), NODES)
    offers = offering(view, 0.0, need[1] * 0.99, need[2] * 1.01, np.nan, 100.0, 100.0)

    lacking = lacks_room(offers, BE.pending_pod(), NODES)
    plain, found = (score_columns(scorer_of(of), [BE, LS], NODES) for of in (view, offers))

    assert lacking.tolist() == [True, True, False, False, False, False]
    assert found.points[0].tolist() == np.where(lacking, 0, plain.points[0]).tolist()
    np.testing.assert_array_equal(found.points[1], plain.points[1])
    np.testing.assert_array_equal(found.cost, plain.cost)


def test_an_unknown_app_needs_what_is_expected_of_it_and_more_than_nothing(view: Snapshot) -> None:
    assert lacks_room(offering(view, *[0.0] * 6), PendingPod("new", None, best_effort=True), NODES).all()
    assert not lacks_room(offering(view, *[1e9] * 6), PendingPod("new", None, best_effort=True), NODES).any()


def test_assumed_best_effort_pods_take_from_the_offer(scorer_of: ScorerOf, view: Snapshot) -> None:
    need = float(cores_needed(view, BE.pending_pod(), NODES[:1])[0])
    scorer = scorer_of(offering(view, 1.5 * need, *[np.nan] * 5))
    assert score_columns(scorer, [BE], NODES[:1]).points[0, 0] > 0

    one = with_assumed(scorer, [Booked("u", "n0", BE, 0)], ["n0"], [BE])
    other = with_assumed(scorer, [Booked("u", "n0", LS, 0)], ["n0"], [BE])

    assert one["n0"][BE][0] == 0
    assert other["n0"][BE][0] > 0


def test_a_changed_offer_changes_a_node(view: Snapshot) -> None:
    first, second = offering(view, *[1.0] * 6), offering(view, 2.0, *[1.0] * 5)

    assert same_nodes(first, second).tolist() == [False, *[True] * 5]
    assert not same_nodes(view, first).any()
    assert same_nodes(view, view).all()
