"""Interference cap: what a node bears by the model's own bounds, and no more."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from advisor.capacity.interference_cap import CPU, STEPS, interference_caps, use_per_core
from advisor.cluster.snapshot import Snapshot
from advisor.scoring.scorer import ModelScorer
from models.estimator.load_fallback import LoadAware
from tests.advisor.clusters import emptied, snapshot

ScorerOf = Callable[[Snapshot], ModelScorer]
NODES = np.arange(6, dtype=np.int32)


def view() -> Snapshot:
    return snapshot(4, residents=(1, 4), missing=0.0)


def test_limits_that_no_bound_comes_to_pass_cap_nothing(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(view())

    assert np.isinf(interference_caps(scorer, NODES, limit=1e9).cores).all()
    assert np.isinf(interference_caps(scorer, NODES, limit=0.0).cores).all(), "all bounds are above it already"


def test_a_cap_names_a_latency_sensitive_resident_of_its_node(scorer_of: ScorerOf) -> None:
    scorer, named = scorer_of(view()), 0

    for limit in (1.2, 1.5, 2.0, 4.0):
        caps = interference_caps(scorer, NODES, limit=limit)
        assert (np.isinf(caps.cores) == (caps.resident < 0)).all()
        for node, resident in enumerate(caps.resident.tolist()):
            if resident >= 0:
                named += 1
                assert scorer.snapshot.first[node] <= resident < scorer.snapshot.first[node + 1]
                assert not scorer.snapshot.resident_best_effort[resident]
                assert caps.names[resident] == f"uid-{resident}"
    assert named


def test_the_cap_is_where_a_bound_passes_the_limit(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(view())
    limits = np.linspace(1.1, 3.0, 12)
    found = [interference_caps(scorer, NODES, limit=limit).cores for limit in limits]
    whole = scorer.snapshot.node_capacity[:, CPU]

    between = [cores for cores in found if ((cores > 0) & np.isfinite(cores)).any()]
    assert between
    for cores in between:
        known = np.isfinite(cores)
        steps = cores[known] / (whole[known] / 2**STEPS)
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)


def test_nothing_is_capped_on_an_empty_node_or_by_load_alone(scorer_of: ScorerOf) -> None:
    scorer = scorer_of(emptied(view()))
    by_load = replace(scorer_of(view()), predictor=LoadAware(scorer.predictor.medians))

    assert np.isinf(interference_caps(scorer, NODES, limit=0.0).cores).all()
    assert np.isinf(interference_caps(by_load, NODES, limit=0.0).cores).all()


def test_what_best_effort_uses_for_a_core_is_that_of_best_effort_where_it_was_measured() -> None:
    use = np.array([[1.0, 10.0, np.nan], [2.0, 40.0, 6.0], [np.nan, 5.0, 5.0], [0.0, 1.0, 1.0]])
    best_effort = np.array([True, False, True, True])

    assert use_per_core(use, best_effort).tolist() == [1.0, 10.0, 3.0]
    assert use_per_core(use[:0], best_effort[:0]).tolist() == [1.0, 0.0, 0.0]
