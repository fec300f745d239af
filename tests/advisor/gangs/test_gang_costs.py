"""Gang costs: the arithmetic of the score table, from a server's table as from one that is computed for a gang."""

from collections.abc import Callable

import numpy as np
import pytest

from advisor.admission.node_room import NodeRoom, Rooms
from advisor.cluster.pending_pod import PodClass
from advisor.cluster.snapshot import Snapshot
from advisor.errors import Unavailable
from advisor.gangs.gang_columns import gang_columns
from advisor.gangs.gang_costs import VETO_COST, exact_costs, table_costs
from advisor.gangs.gang_desk import GPU
from advisor.placement.encoded_scores import Replies, spell
from advisor.scoring.score_table import begun
from advisor.scoring.scorer import ModelScorer
from tests.advisor.clusters import snapshot
from tests.advisor.gangs.gang_clusters import gang, workers

WEB, BATCH, UNKNOWN = PodClass("web", False), PodClass("batch", True), PodClass("", False)


@pytest.fixture
def scorer(scorer_of: Callable[[Snapshot], ModelScorer]) -> ModelScorer:
    return scorer_of(snapshot(11, version=1))


@pytest.fixture
def replies(scorer: ModelScorer) -> Replies:
    table = begun(scorer, "b", [UNKNOWN, PodClass("", True), WEB, BATCH])
    return Replies(table, spell(table.nodes))


def test_both_sources_cost_the_same(scorer: ModelScorer, replies: Replies) -> None:
    served, exact = table_costs(lambda: replies, [WEB, BATCH], ()), exact_costs(scorer, [WEB, BATCH], ())

    assert served.nodes == exact.nodes
    assert served.first == pytest.approx(exact.first, nan_ok=True)
    assert served.step == pytest.approx(exact.step)


def test_steps_are_symmetric_and_never_negative(replies: Replies) -> None:
    step = table_costs(lambda: replies, [WEB, BATCH], ()).step

    assert (step >= 0).all()
    assert step == pytest.approx(step.transpose(1, 0, 2))


def test_members_of_other_gangs_cost_a_step_on_their_nodes(replies: Replies) -> None:
    before = table_costs(lambda: replies, [WEB], ())
    after = table_costs(lambda: replies, [WEB], [(WEB, "n1"), (WEB, "n1"), (PodClass("never", False), "gone")])

    assert (after.first - before.first)[0].nonzero()[0].tolist() in ([1], [])
    assert after.first[0, 1] == pytest.approx(before.first[0, 1] + 2 * before.step[0, 0, 1])


def test_a_class_that_the_table_lacks_costs_what_unknown_apps_do(replies: Replies) -> None:
    lacked = table_costs(lambda: replies, [PodClass("never", False)], ())

    assert lacked.first == pytest.approx(table_costs(lambda: replies, [UNKNOWN], ()).first, nan_ok=True)


def test_nodes_without_points_come_last(replies: Replies) -> None:
    before = table_costs(lambda: replies, [WEB], ()).first[0, 2]
    replies._points[replies.row_of[WEB], 2] = 0

    assert table_costs(lambda: replies, [WEB], ()).first[0, 2] == pytest.approx(before + VETO_COST)


def test_without_a_table_or_a_model_there_are_no_costs() -> None:
    with pytest.raises(Unavailable, match="score table"):
        table_costs(lambda: None, [WEB], ())
    with pytest.raises(Unavailable, match="model"):
        exact_costs(None, [WEB], ())


def test_only_candidates_with_known_room_and_residents_are_columns(scorer: ModelScorer) -> None:
    view = scorer.snapshot
    rooms = Rooms(
        view.cluster,
        0,
        (
            NodeRoom("n0", cores=4.0, memory_bytes=1e9, zone="a", pods=7.0, extended={GPU: 2.5}),
            NodeRoom("n1", cores=None, memory_bytes=1e9, zone="a"),
            NodeRoom("n2", cores=4.0, memory_bytes=1e9, extended={GPU: -1.0}),
            NodeRoom("n3", cores=4.0, memory_bytes=1e9, zone="b"),
            NodeRoom("gone", cores=4.0, memory_bytes=1e9, zone="b"),
        ),
    )
    costs = exact_costs(scorer, [WEB], ())

    found = gang_columns(view, rooms, gang(workers(1), level="zone"), costs, GPU)

    known = [name for name in ("n0", "n2", "n3") if view.node_known[view.node_index[name]]]
    assert list(found.names) == known
    domains = {name: found.domains[at] if at >= 0 else None for name, at in zip(found.names, found.domain, strict=True)}
    assert domains == {name: {"n0": "a", "n2": None, "n3": "b"}[name] for name in known}
    assert found.room.sum(axis=1).tolist() == [{"n0": 2000, "n2": 0, "n3": 0}[name] for name in known]
    assert np.isfinite(found.first).all()
