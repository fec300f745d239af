"""Interference derate: how full nodes may be before the model expects too many residents beyond a limit."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from advisor.capacity.interference_derate import LEVELS, MIN_RESIDENTS, bearable_fullness
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.scorer import ModelScorer
from models.estimator.load_fallback import LoadAware
from tests.advisor.clusters import emptied, snapshot

ScorerOf = Callable[[Snapshot], ModelScorer]


def view() -> Snapshot:
    return snapshot(4, nodes=40, residents=(2, 6), missing=0.0)


def test_fuller_nodes_slow_more_residents_and_a_larger_share_allows_fuller_nodes(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(view())
    strict, loose = (bearable_fullness(scorer, share, limit=1.3) for share in (0.3, 0.9))

    assert [one.platform for one in strict] == [one.platform for one in loose]
    assert strict
    for few, many in zip(strict, loose, strict=True):
        assert (np.diff(few.slowed) >= 0).all()
        assert many.share is not None
        assert few.share is None or few.share <= many.share
        at = many.share + 1e-9 >= LEVELS
        assert (many.slowed[at] <= 0.9).all()
        assert (many.slowed[~at] > 0.9).all()


def test_where_nobody_may_be_slowed_and_all_are_there_is_no_level(scorer_of: ScorerOf) -> None:
    found = bearable_fullness(scorer_of(view()), 0.0, limit=0.5)

    assert found
    assert all(one.share is None and (one.slowed == 1).all() for one in found)


def test_all_nodes_and_latency_sensitive_residents_are_counted(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(view())
    found, seen = bearable_fullness(scorer, 1.0), scorer.snapshot

    assert sum(one.nodes for one in found) == len(seen.nodes)
    assert sum(one.residents for one in found) == int((~seen.resident_best_effort).sum())
    assert all(one.share == 1.0 and one.residents >= MIN_RESIDENTS for one in found)


def test_nothing_is_said_of_empty_nodes_or_by_load_alone(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(view())

    assert bearable_fullness(scorer_of(emptied(view())), 0.5) == []
    assert bearable_fullness(replace(scorer, predictor=LoadAware(scorer.predictor.medians)), 0.5) == []
