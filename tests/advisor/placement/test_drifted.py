"""Drifted: a model that labels do not bear out is served with wider bounds, then not, until another one is there."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from advisor.api.app import create_app
from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from advisor.scoring.scorer import Scores
from cohabit.server.score_table_process import Tabling
from features.schema.catalog import FEATURE_NAMES, PRESSURES
from models.drift.drift_status import STATUS, DriftStatus, State, write_status
from models.errors import ModelsError
from models.estimator.load_fallback import HARM, LoadAware
from tests.advisor.clusters import snapshot
from tests.advisor.processes import Process

NODES = tuple(f"n{i}" for i in range(6))
WEB = PendingPod("web")


@pytest.fixture
def process(process: Process) -> Process:
    process.promote("first")
    process.publish(snapshot(11, version=1))
    process.serving.reload()
    return process


def told(process: Process, state: State, widening: float = 1.0, bundle: str = "first") -> None:
    status = DriftStatus(bundle=bundle, state=state, widening=widening, checked_at=datetime(2026, 3, 1, tzinfo=UTC))
    write_status(process.registry, status)
    process.serving.reload()


def scores(process: Process) -> Scores:
    answer = process.serving.answer(WEB, NODES)
    assert answer.scored is not None
    return answer.scored.scores


def test_widened_bounds_are_wider_and_expectations_stay(process: Process) -> None:
    before = scores(process)
    told(process, "widened", 2.0)
    after = scores(process)
    margin = np.log(before.upper / before.mean)
    assert after.mean.tolist() == before.mean.tolist()
    assert np.log(after.upper / after.mean) == pytest.approx(2.0 * margin)
    assert (after.node_bound > before.node_bound).all()
    assert process.serving.bundle == "first, margins x 2"


def test_a_model_that_is_not_believed_leaves_the_choice_to_the_load(process: Process) -> None:
    told(process, "fallen_back")
    found = scores(process)
    assert (found.source, process.serving.bundle) == ("heuristic", "first, by load")
    assert process.serving.problem() == ""
    assert process.counted("cohabit_score_requests_total", source="heuristic", reason="") == 1
    scorer = process.serving.scorer
    assert scorer is not None
    raw = scorer.pending_features(WEB, scorer.snapshot.indices(NODES))
    pressed = np.nansum(raw[:, : len(PRESSURES)], axis=1)
    known = ~np.isnan(raw[:, : len(PRESSURES)]).any(axis=1)
    assert found.mean[known] == pytest.approx(1 + HARM * pressed[known])


def test_readiness_says_that_nodes_are_compared_by_load(process: Process) -> None:
    told(process, "fallen_back")
    reply = TestClient(create_app(process.serving)).get("/readyz")
    assert (reply.status_code, reply.json()) == (
        200,
        {"status": "by_load", "reason": "fallen_back", "looked_at": "unknown"},
    )


def test_gauges_tell_how_far_the_model_is_believed(process: Process) -> None:
    gauges = ("cohabit_drift_state", "cohabit_drift_margin_factor", "cohabit_drift_checked_timestamp_seconds")
    assert [process.counted(name) for name in gauges] == [0, 1, 0]
    told(process, "widened", 1.5)
    assert [process.counted(name) for name in gauges] == [1, 1.5, datetime(2026, 3, 1, tzinfo=UTC).timestamp()]
    told(process, "fallen_back", 1.5)
    assert process.counted("cohabit_drift_state") == 2


def test_what_is_known_against_one_model_is_not_held_against_another(process: Process) -> None:
    told(process, "fallen_back")
    process.promote("second")
    process.serving.reload()
    assert (scores(process).source, process.serving.bundle) == ("model", "second")
    process.registry.rollback()
    process.serving.reload()
    assert scores(process).source == "heuristic"


def test_following_labels_does_not_make_a_model_believed(process: Process) -> None:
    told(process, "fallen_back")
    process.promote("first-until-20260301T000000")
    process.serving.reload()
    assert scores(process).source == "heuristic"


def test_a_damaged_status_keeps_what_is_served_and_is_told(process: Process) -> None:
    told(process, "widened", 2.0)
    (process.registry.root / STATUS).write_text("{")
    process.serving.reload()
    assert process.serving.bundle == "first, margins x 2"
    assert "is no status of drift" in process.serving.refused["no_drift"]
    assert scores(process).source == "last_good"


def test_where_it_cannot_be_told_how_far_a_bundle_is_believed(process: Process) -> None:
    (process.registry.root / STATUS).write_text("{")
    process.promote("second")
    process.serving.reload()
    assert process.serving.bundle == "second"


def test_the_table_follows_and_schedulers_are_told_by_load(process: Process, tmp_path: Path) -> None:
    tabling = Tabling(process.serving, tmp_path / "table")
    tabling.ask(PodClass("web", False), 0.0)
    tabling.step(0.0)
    prioritizer = Prioritizer(process.serving, tabling.path)
    prioritizer.take(prioritizer.newer())
    offer = Offer(WEB, "uid", NODES)
    asyncio.run(prioritizer.answer(offer))

    told(process, "fallen_back")
    assert tabling.step(1.0)
    prioritizer.take(prioritizer.newer())
    asyncio.run(prioritizer.answer(offer))

    assert process.counted("cohabit_score_requests_total", source="table", reason="") == 1
    assert process.counted("cohabit_score_requests_total", source="heuristic", reason="") == 1
    assert prioritizer.from_table.refused(offer) == frozenset()
    assert prioritizer.replies is not None
    assert prioritizer.replies.table.bundle == "first, by load"


def test_load_says_more_where_more_is_pressed_and_refuses_other_columns() -> None:
    plain = LoadAware(np.full(len(FEATURE_NAMES), 0.2))
    rows = np.zeros((3, len(FEATURE_NAMES)))
    at = FEATURE_NAMES.index(PRESSURES[0])
    rows[1, at], rows[2, at] = 0.5, np.nan
    said = plain.predict(rows)
    assert said.log_mean.tolist() == np.log1p(HARM * np.array([0.0, 0.5, 0.2])).tolist()
    assert not said.spread.any()
    with pytest.raises(ModelsError, match="features have shape"):
        plain.predict(rows[:, 1:])
