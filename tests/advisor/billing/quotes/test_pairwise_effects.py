"""Beside: slowdowns as candidates are scored, and who adds what to whom."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.billing.quotes.pairwise_effects import IncomingPod, colocation
from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.scorer import ModelScorer
from features.schema.catalog import EXPECTED, NAMES
from tests.advisor.clusters import NOW_US, TEAMS, emptied, snapshot

ScorerOf = Callable[[Snapshot], ModelScorer]
UNTOLD = np.full(len(NAMES), np.nan)
WEB = PendingPod("web", "blue")


@settings(max_examples=25)
@given(seed=st.integers(0, 1000), app=st.sampled_from(["web", "batch", "db", "nobody's"]))
def test_its_slowdown_is_that_of_a_scored_newcomer(scorer_of: ScorerOf, seed: int, app: str) -> None:
    scorer = scorer_of(snapshot(seed, residents=(0, 6)))
    pending_pod = PendingPod(app, "red")

    found = colocation(scorer, IncomingPod(pending_pod, UNTOLD), 0)

    scores = scorer.score(pending_pod, np.array([0], np.int32), now_us=NOW_US)
    assert found is not None
    assert (found.slowdown.mean, found.slowdown.high) == pytest.approx((scores.mean[0], scores.upper[0]))
    assert found.slowdown.low <= found.slowdown.mean <= found.slowdown.high
    of = scorer.snapshot
    assert [one.container for one in found.neighbours] == list(of.containers[of.first[0] : of.first[1]])


def test_on_an_empty_node_there_is_nobody(scorer_of: ScorerOf) -> None:
    found = colocation(scorer_of(emptied(snapshot())), IncomingPod(WEB, UNTOLD), 0)

    assert found is not None
    assert found.neighbours == ()


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), factor=st.floats(1, 5))
def test_who_uses_more_adds_no_less_to_others(scorer_of: ScorerOf, seed: int, factor: float) -> None:
    scorer = scorer_of(snapshot(seed, residents=(2, 5), missing=0.0))
    use = 0.1 * scorer.snapshot.node_capacity[0]

    less, more = (colocation(scorer, IncomingPod(WEB, of), 0) for of in (use, factor * use))

    assert less is not None
    assert more is not None
    assert less.slowdown == more.slowdown  # nobody presses on itself
    for one, other in zip(less.neighbours, more.neighbours, strict=True):
        assert other.slowdown.mean >= one.slowdown.mean - 1e-9


def test_what_a_lone_neighbour_adds_is_the_whole_difference(scorer_of: ScorerOf) -> None:
    drawn = snapshot(4, residents=(1, 1), missing=0.0)
    scorer, alone = scorer_of(drawn), scorer_of(emptied(drawn))

    found, nobody = (colocation(of, IncomingPod(WEB, UNTOLD), 0) for of in (scorer, alone))

    assert found is not None
    assert nobody is not None
    assert found.neighbours[0].adds == pytest.approx(found.slowdown.mean - nobody.slowdown.mean)


def test_each_slowdown_says_whether_its_app_is_judged_by_waiting_alone(scorer_of: ScorerOf) -> None:
    drawn = snapshot(4, residents=(2, 2), missing=0.0)
    web = drawn.apps.index(WEB.app)

    def judged(*kinds: str | None) -> tuple[bool, list[bool]]:
        found = colocation(scorer_of(replace(drawn, kinds=kinds)), IncomingPod(WEB, UNTOLD), 0)
        assert found is not None
        return found.slowdown.by_waiting, [one.slowdown.by_waiting for one in found.neighbours]

    residents = drawn.resident_app[:2].tolist()
    some: list[str | None] = ["latency" if row == web else "waiting" for row in range(len(drawn.apps))]
    assert judged() == (False, [False, False])
    assert judged(*some) == (False, [row != web for row in residents])
    assert judged(*[None if row == web else "waiting" for row in range(len(some))])[0]
    assert not judged(*[None if row == web else ("waiting", "cpi")[row % 2] for row in range(len(some))])[0]


def test_what_nobody_knows_or_expects_of_a_neighbours_use_is_added_by_nobody(scorer_of: ScorerOf) -> None:
    drawn = snapshot(4, residents=(2, 2), missing=0.0)
    use, app = drawn.resident_use.copy(), drawn.resident_app.copy()
    use[0], app[0] = np.nan, -1

    nothing = np.zeros((len(TEAMS) + 1, 0, len(EXPECTED)))
    scorer = scorer_of(replace(drawn, resident_use=use, resident_app=app, cold_start_prior=nothing))
    found = colocation(scorer, IncomingPod(WEB, UNTOLD), 0)

    assert found is not None
    assert found.neighbours[0].adds < found.neighbours[1].adds
