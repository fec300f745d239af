"""Diagnosis: explains better what is there than the placement model foresees it, which may not read its columns."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cohabit.training.train_model import Effort, train_bundle
from features.schema.catalog import RAW_NAMES, catalogue_hash
from features.training.diagnosis_rows import AFTER_DECISION, DIAGNOSIS_NAMES
from features.training.five_minute import contention
from ingest.schema.tables import SIGNALS
from models.bundle.bundle import Bundle, load_bundle, read_bundle, write_bundle
from models.bundle.leakage_guard import DIAGNOSIS, PLACEMENT
from models.data.dataset import Dataset
from models.errors import ModelsError
from models.estimator.feature_matrix import Rows
from models.estimator.fitted_model import Placement
from models.estimator.predictor import open_predictor
from models.explain.explainer import open_explainer
from models.registry.registry import Registry
from models.training.diagnosis_model import (
    DiagnosisRows,
    by_cause,
    compared_to_placement,
    fit_diagnosis,
    judge_diagnosis,
    read_diagnosis,
)
from models.training.fit import TrainConfig
from models.training.trainer import OURS, Metrics, Trainer, fit, open_fitted, standard_questions
from tests.models.simulated import PLAN, Simulated, simulated

Floats = NDArray[np.float64]
CONFIG = TrainConfig(rounds=60, learning_rate=0.1, spread_rounds=20, folds=3)
NOW = datetime(2026, 3, 2, 4, tzinfo=UTC)


@pytest.fixture(scope="module")
def measured(learnt: Simulated) -> DiagnosisRows:
    """What was measured in the windows of the simulated cluster's training rows."""
    return measured_in(learnt)


def measured_in(world: Simulated) -> DiagnosisRows:
    beside = contention(world.sources.state, world.sources.profiles)
    return read_diagnosis(world.training, beside, world.sources.state)


@pytest.fixture(scope="module")
def explaining(measured: DiagnosisRows) -> tuple[Placement, Floats]:
    return fit_diagnosis(measured, CONFIG)


@pytest.fixture(scope="module")
def bundle(learnt: Simulated, measured: DiagnosisRows, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    registry = Registry(tmp_path_factory.mktemp("registry"))
    train_bundle(learnt.training, registry, NOW, {}, Effort(config=CONFIG), diagnosis=measured)
    current = registry.current()
    assert current is not None
    return load_bundle(current, catalogue_hash())


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Metrics]:
    """Both models on the same rows, which neither saw, of a cluster whose loads move and whose delays multiply."""
    world = simulated(tmp_path_factory.mktemp("queueing"), replace(PLAN, law="queueing"))
    questions, trainer = standard_questions(world.rows, folds=3, origins=1), Trainer(world.rows, CONFIG)
    found = {}
    for name in ("time_forward", "leave_app_out"):
        explained = judge_diagnosis(measured_in(world), questions[name].splits, CONFIG, lambda _: None)
        placed = trainer.judge(questions[name], lambda _: None)
        found[name] = compared_to_placement(explained, placed, np.random.default_rng(0))
    return found


@pytest.mark.parametrize("question", ["time_forward", "leave_app_out"])
@pytest.mark.parametrize("other", ["constant", "group_mean", "sum_of_pressure"])
def test_what_was_measured_in_the_window_explains_it_better_than(
    report: dict[str, Metrics], question: str, other: str
) -> None:
    ours, theirs = report[question][OURS]["mae_log"], report[question][other]["mae_log"]

    assert ours.value < theirs.value
    assert report[question][other]["above_ours"].value == pytest.approx(theirs.value - ours.value)


def test_what_is_there_is_explained_better_than_it_was_foreseen(report: dict[str, Metrics]) -> None:
    """Of apps never seen; of apps learnt from the placement model has trees of their own, the diagnosis has none."""
    assert report["leave_app_out"]["placement"]["above_ours"].low > 0


@pytest.mark.parametrize("question", ["time_forward", "leave_app_out"])
def test_the_bound_holds_at_least_as_often_as_it_says(report: dict[str, Metrics], question: str) -> None:
    assert 0.88 <= report[question][OURS]["coverage90"].value <= 0.999


def test_rows_are_those_of_the_placement_model_in_the_same_order(learnt: Simulated, measured: DiagnosisRows) -> None:
    np.testing.assert_array_equal(measured.rows.log_slowdown, learnt.rows.log_slowdown)
    np.testing.assert_array_equal(measured.rows.group, learnt.rows.group)
    profile = [i for i, name in enumerate(RAW_NAMES) if name.startswith("profile_")]
    np.testing.assert_array_equal(measured.rows.raw[:, profile], learnt.rows.raw[:, profile])
    cpu = RAW_NAMES.index("pressure_cpu")
    assert (measured.rows.raw[:, cpu] != learnt.rows.raw[:, cpu]).mean() > 0.9


def test_a_bundle_holds_both_models_and_each_predicts_and_explains_as_it_was_trained(
    bundle: Bundle, measured: DiagnosisRows, explaining: tuple[Placement, Floats]
) -> None:
    trained, fills = explaining
    rows = measured.dataset(fills).features[:50]

    said = open_predictor(bundle, DIAGNOSIS).predict(rows).log_mean
    explained = open_explainer(bundle, DIAGNOSIS).explain(rows)

    assert set(bundle.manifest.models) == {PLACEMENT, DIAGNOSIS}
    np.testing.assert_array_equal(said, open_fitted(trained).predict(rows).log_mean)
    assert bundle.manifest.models[DIAGNOSIS].features == DIAGNOSIS_NAMES
    np.testing.assert_allclose(explained.expected + explained.by_feature.sum(axis=1), said, rtol=0, atol=1e-9)
    causes = by_cause(explained, DIAGNOSIS_NAMES)
    np.testing.assert_allclose(sum(causes.values()), said - explained.expected, rtol=0, atol=1e-9)


def test_the_placement_model_is_the_same_beside_a_diagnosis_and_alone(
    bundle: Bundle, learnt: Simulated, tmp_path: Path
) -> None:
    train_bundle(learnt.training, Registry(tmp_path), NOW, {}, Effort(config=CONFIG))

    alone = read_bundle(tmp_path / f"{NOW:%Y%m%dT%H%M%S}")

    for role in ("mean", "spread", "trees"):
        assert alone.file_of(PLACEMENT, role) == bundle.file_of(PLACEMENT, role)


@pytest.mark.parametrize("resource", ["cpu", "llc", "memory_bandwidth"])
def test_a_container_pressed_on_through_one_resource_is_explained_by_it(
    bundle: Bundle, measured: DiagnosisRows, resource: str
) -> None:
    raw = measured.rows.raw[:40].copy()
    raw[:, : RAW_NAMES.index("max_neighbour_cpu") + 1] = 0.0
    raw[:, RAW_NAMES.index(f"sensitivity_{resource}")] = 1.0
    raw[:, RAW_NAMES.index(f"pressure_{resource}")] = 0.6
    pressed = DiagnosisRows(
        replace(measured.rows.take(np.arange(len(measured.signs)) < 40), raw=raw), measured.signs[:40]
    )

    explained = open_explainer(bundle, DIAGNOSIS).explain(pressed.dataset(measured.fills()).features)

    causes = by_cause(explained, DIAGNOSIS_NAMES)
    named = {cause: added.mean() for cause, added in causes.items() if cause not in {"app", "node"}}
    assert max(named, key=lambda cause: named[cause]) == resource


@pytest.mark.parametrize("seed", range(3))
def test_more_pressure_and_more_waiting_never_lower_what_is_said(
    bundle: Bundle, measured: DiagnosisRows, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    predictor, rows = open_predictor(bundle, DIAGNOSIS), measured.dataset(measured.fills())
    calm = rows.features[rng.integers(len(rows.features), size=2000)]
    more = rng.exponential(0.3, calm.shape) * (rng.random(calm.shape) < 0.3) * (rows.signs > 0)

    before, after = predictor.predict(calm), predictor.predict(calm + more)

    assert (after.log_mean < before.log_mean).sum() == 0
    assert (after.upper(2.0) < before.upper(2.0)).sum() == 0


def with_column(data: Dataset, name: str) -> Dataset:
    """The same rows with one more free column."""
    return replace(
        data,
        features=np.column_stack([data.features, np.arange(len(data.weight), dtype=np.float64)]),
        names=(*data.names, name),
        signs=np.append(data.signs, np.int8(0)),
        base=np.append(data.base, [False]),
    )


@dataclass(frozen=True)
class Hindsighted(Rows):
    """Rows that a catalogue with one more column would make."""

    name: str = ""

    def dataset(self, fills: Floats) -> Dataset:
        return with_column(Rows.dataset(self, fills), self.name)


@pytest.mark.parametrize("name", sorted(AFTER_DECISION))
def test_a_placement_model_that_reads_what_is_known_too_late_is_not_trained(learnt: Simulated, name: str) -> None:
    with pytest.raises(ModelsError, match=name):
        fit(Hindsighted(**vars(learnt.rows), name=name), CONFIG)


@pytest.mark.parametrize("name", [c.name for c in SIGNALS])
def test_a_placement_bundle_that_reads_an_own_signal_is_neither_written_nor_loaded(
    bundle: Bundle, tmp_path: Path, name: str
) -> None:
    entry = bundle.manifest.models[PLACEMENT]
    late = entry.model_copy(update={"features": (*entry.features[:-1], f"own_{name}")})
    told = bundle.manifest.model_copy(update={"models": {PLACEMENT: late}})

    with pytest.raises(ModelsError, match=f"own_{name}"):
        write_bundle(tmp_path / "new", told, bundle.files)

    assert list(tmp_path.iterdir()) == []
    by_hand = copied_with(bundle, tmp_path / "by-hand", json.loads(told.model_dump_json()))
    with pytest.raises(ModelsError, match=f"own_{name}"):
        load_bundle(by_hand, catalogue_hash())


def test_a_diagnosis_may_read_them(bundle: Bundle, tmp_path: Path) -> None:
    assert AFTER_DECISION & set(bundle.manifest.models[DIAGNOSIS].features)

    write_bundle(tmp_path / "again", bundle.manifest, bundle.files)


def copied_with(bundle: Bundle, folder: Path, manifest: object) -> Path:
    """The same files beside another manifest, sealed as it should be."""
    folder.mkdir()
    for name, content in bundle.files.items():
        (folder / name).write_bytes(content)
    text = json.dumps(manifest).encode()
    (folder / "manifest.json").write_bytes(text)
    (folder / "manifest.sha256").write_bytes(sha256(text).hexdigest().encode())
    return folder
