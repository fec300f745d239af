"""Synthetic: a cluster of any size and a model trained for it, where only their size matters."""

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from advisor.scoring.scorer import ModelScorer
from advisor.scoring.served_margins import served_margins
from cohabit.training.train_model import entry_of, files_of
from features.schema.catalog import (
    DEMANDS,
    EXPECTED,
    NAMES,
    PRESSURES,
    RAW_NAMES,
    SENSITIVITIES,
    TOGETHER,
    catalogue_hash,
)
from features.training.model_input import PROFILE_COLUMNS
from models.bundle.bundle import write_bundle
from models.bundle.leakage_guard import PLACEMENT
from models.bundle.manifest import Manifest, ModelEntry
from models.bundle.margins import margins_entry
from models.estimator.feature_matrix import Rows
from models.estimator.fitted_model import Placement
from models.registry.registry import Registry
from models.training.fit import TrainConfig
from models.training.trainer import fit, open_fitted

Floats = NDArray[np.float64]

NOW_US = 1_772_323_200_000_000
APPS = tuple(f"app-{i:03d}" for i in range(100))
PLATFORMS = ("p0", "p1", "p2")
CAPACITY = np.array([64.0, 6.4e7, 2e11, 2.56e11, 2e9, 1e5, 3e9, 8.0, 2e11, 5e10])
FACTS = np.array([64.0, 2.6, 1e6, 3e9])


def cluster(nodes: int, residents: int, rng: np.random.Generator) -> Snapshot:
    """Nodes of three platforms with exactly that many residents each."""
    total = nodes * residents
    return Snapshot(
        version=1,
        as_of_us=NOW_US,
        cluster="synthetic",
        nodes=tuple(f"n{i:05d}" for i in range(nodes)),
        platforms=PLATFORMS,
        apps=APPS,
        containers=tuple(f"uid-{i}" for i in range(total)),
        cpusets=(None,) * total,
        node_platform=rng.integers(0, len(PLATFORMS), nodes),
        node_capacity=np.tile(CAPACITY, (nodes, 1)),
        node_facts=np.tile(FACTS, (nodes, 1)),
        node_seen_us=np.full(nodes, NOW_US),
        node_known=np.ones(nodes, np.bool_),
        first=np.arange(nodes + 1) * residents,
        resident_app=rng.integers(0, len(APPS), total),
        resident_best_effort=rng.random(total) < 0.4,
        resident_use=rng.gamma(1.5, 0.015, (total, len(NAMES))) * CAPACITY,
        profile=rng.gamma(1.5, 0.1, (len(APPS), len(PLATFORMS), len(PROFILE_COLUMNS))),
    )


def training_rows(count: int, rng: np.random.Generator) -> Rows:
    """Rows whose slowdown follows sensitivity times pressure, with noise."""
    raw = rng.gamma(1.5, 0.2, (count, len(RAW_NAMES)))
    at = {name: i for i, name in enumerate(RAW_NAMES)}
    raw[:, [at[name] for name in DEMANDS]] *= 0.1
    sensitivity, pressure = ([at[name] for name in names[: len(NAMES)]] for names in (SENSITIVITIES, PRESSURES))
    felt = (raw[:, sensitivity] * raw[:, pressure]).sum(axis=1)
    return Rows(
        raw=raw,
        log_slowdown=np.log1p(felt) + 0.05 * rng.normal(size=count),
        weight=np.ones(count),
        group=rng.integers(0, 20, count),
        node_window=np.arange(count) // 10,
        time=np.arange(count) * 60_000_000,
        series=np.arange(count) % 50,
        expected=np.full((count, len(EXPECTED)), np.nan),
        together=np.full((count, len(TOGETHER)), np.nan),
        together_new=np.full((count, len(TOGETHER)), np.nan),
    )


def scorer(snapshot: Snapshot, rounds: int, rng: np.random.Generator) -> ModelScorer:
    """A scorer over the snapshot with a model of at most that many trees."""
    placement = fit(training_rows(3000, rng), TrainConfig(rounds=rounds, folds=3))
    return _scorer(snapshot, placement, _entry(snapshot, placement))


def promoted(registry: Path, snapshot: Snapshot, rounds: int, rng: np.random.Generator) -> ModelScorer:
    """The same, the model being the current bundle of a registry."""
    placement = fit(training_rows(3000, rng), TrainConfig(rounds=rounds, folds=3))
    entry, now = _entry(snapshot, placement), datetime(2026, 3, 1, tzinfo=UTC)
    manifest = Manifest(
        created_at=now,
        models={PLACEMENT: entry},
        catalogue_hash=catalogue_hash(),
        training_window=(now, now),
        data_fingerprint="synthetic",
        platforms=PLATFORMS,
    )
    write_bundle(registry / "synthetic", manifest, files_of(PLACEMENT, placement))
    Registry(registry).promote("synthetic")
    return _scorer(snapshot, placement, entry)


def _entry(snapshot: Snapshot, placement: Placement) -> ModelEntry:
    names = [(snapshot.cluster, app) for app in APPS]
    margins = margins_entry(placement.bounds(), names)
    return entry_of(PLACEMENT, placement).model_copy(update={"margins": margins})


def _scorer(snapshot: Snapshot, placement: Placement, entry: ModelEntry) -> ModelScorer:
    return ModelScorer(
        snapshot,
        open_fitted(placement),
        served_margins(entry, snapshot.cluster, snapshot.apps, snapshot.platforms),
        placement.calibration.node,
    )
