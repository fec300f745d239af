"""Small clusters and a small training table: real snapshots and a really trained bundle, nothing pretended."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from advisor.cluster.snapshot import Snapshot
from features.columnar.arrow_columns import table
from features.schema.catalog import (
    EXPECTED,
    NAMES,
    PRESSURES,
    RAW_NAMES,
    SENSITIVITIES,
    TOGETHER,
    catalogue_hash,
    expected_name,
)
from features.schema.tables import TRAINING
from features.training.model_input import PROFILE_COLUMNS, training_fills
from models.bundle.bundle import load_bundle, write_bundle
from models.bundle.manifest import AppMargin, EntryMargins, Manifest, ModelEntry
from models.bundle.tree_file import FAMILIAR_ROLE, ROLE, SPREAD_ROLE, write_trees
from models.estimator.feature_matrix import read_rows, with_fills
from models.estimator.fitted_model import Placement
from models.onnx_export.exporter import export_placement
from models.training.fit import TrainConfig, train
from models.training.fit_known_apps import fit_familiar

Floats = NDArray[np.float64]

NOW_US = 1_772_323_200_000_000
"""2026-03-01T00:00:00Z."""
APPS = ("batch", "cache", "db", "web")
TEAMS = ("blue", "red")
PLATFORMS = ("big", "small")
CAPACITY = {
    "big": [32.0, 6.4e7, 2e11, 2.56e11, 2e9, 1e5, 3e9, 8.0, 2e11, 5e10],
    "small": [8.0, 1.6e7, 5e10, 3.2e10, 5e8, 2e4, 1e9, 2.0, 5e10, 1e10],
}
FACTS = {"big": [32.0, 2.4, 2e6, 6.25e9], "small": [8.0, 3.1, 2e6, 6.25e9]}
MARGINS = EntryMargins(
    level=0.9,
    floor=0.05,
    seen=0.7,
    unseen=1.5,
    cold=2.5,
    apps=(AppMargin(cluster="c", app="web", multiplier=0.5, windows=150.0),),
)
"""`web` has earned its own; the others were never seen."""
CONFIG = TrainConfig(rounds=40, spread_rounds=10, leaves=5, min_rows_in_leaf=10, folds=3)


def snapshot(
    seed: int = 0,
    *,
    nodes: int = 6,
    residents: tuple[int, int] = (0, 4),
    missing: float = 0.15,
    pinned: float = 0.0,
    version: int = 1,
) -> Snapshot:
    """A random cluster: residents from .. to on each node, a share of values missing, a share of containers pinned."""
    rng = np.random.default_rng(seed)
    platform = rng.integers(0, len(PLATFORMS), nodes)
    counts = rng.integers(residents[0], residents[1] + 1, nodes)
    total = int(counts.sum())
    capacity = np.array([CAPACITY[PLATFORMS[p]] for p in platform]).reshape(nodes, len(NAMES))
    use = rng.uniform(0, 0.12, (total, len(NAMES))) * np.repeat(capacity, counts, axis=0)
    use[rng.random(use.shape) < missing] = np.nan
    return Snapshot(
        version=version,
        as_of_us=NOW_US,
        cluster="c",
        nodes=tuple(f"n{i}" for i in range(nodes)),
        platforms=PLATFORMS,
        apps=APPS,
        containers=tuple(f"uid-{i}" for i in range(total)),
        cpusets=tuple("0-3" if rng.random() < pinned else None for _ in range(total)),
        node_platform=platform,
        node_capacity=capacity,
        node_facts=np.array([FACTS[PLATFORMS[p]] for p in platform]).reshape(nodes, 4),
        node_seen_us=np.full(nodes, NOW_US),
        node_known=np.ones(nodes, np.bool_),
        first=np.append(0, np.cumsum(counts)),
        resident_app=rng.integers(-1, len(APPS), total),
        resident_best_effort=rng.random(total) < 0.4,
        resident_use=use,
        profile=_profiles(rng),
        teams=TEAMS,
        cold_start_prior=rng.uniform(0.02, 0.4, (len(TEAMS) + 1, len(PLATFORMS), len(EXPECTED))),
    )


def _profiles(rng: np.random.Generator) -> Floats:
    """Profiles of every app on every platform, but for `db` on `small`."""
    width = len(PROFILE_COLUMNS)
    cube = rng.uniform(0.02, 0.4, (len(APPS), len(PLATFORMS), width))
    cube[:, :, -1] = 60.0
    cube[APPS.index("db"), PLATFORMS.index("small")] = [*[np.nan] * (width - 1), 0.0]
    return cube


def busier(of: Snapshot, resident: int, resource: int, factor: float) -> Snapshot:
    """The same cluster, one resident using more of one resource."""
    use = of.resident_use.copy()
    use[resident, resource] *= factor
    return replace(of, resident_use=use)


def emptied(of: Snapshot) -> Snapshot:
    """The same nodes with nobody on them."""
    none = np.zeros(0, np.int64)
    return replace(
        of,
        containers=(),
        cpusets=(),
        first=np.zeros(len(of.nodes) + 1, np.int64),
        resident_app=none,
        resident_best_effort=none.astype(np.bool_),
        resident_use=of.resident_use[:0],
    )


def training_table(rows: int = 480, apps: int = 8) -> pa.Table:
    """Training rows in the catalogue's columns: slowdown follows sensitivity times pressure; a tenth is missing."""
    rng = np.random.default_rng(5)
    raw = {name: rng.gamma(1.5, 0.2, rows) for name in RAW_NAMES}
    raw |= {name: rng.integers(0, 8, rows).astype(float) for name in ("neighbours", "neighbours_be")}
    raw |= {"node_cores": rng.choice([8.0, 32.0], rows), "profile_windows": rng.integers(0, 90, rows).astype(float)}
    felt = sum(raw[s] * raw[p] for s, p in zip(SENSITIVITIES, PRESSURES, strict=False))
    log_slowdown = np.log1p(np.asarray(felt)) + 0.02 * rng.normal(size=rows)
    for name in RAW_NAMES:
        raw[name] = np.where(rng.random(rows) < 0.1, np.nan, raw[name])
    end = np.arange(rows) * 300_000_000 + NOW_US
    return table(
        {
            **{c: pa.array([c] * rows) for c in ("cluster", "team", "qos", "platform")},
            "node": pa.array([f"n{i % 5}" for i in range(rows)]),
            "container": pa.array([f"uid-{i}" for i in range(rows)]),
            "app": pa.array([f"app-{i % apps}" for i in range(rows)]),
            "window_end": end,
            "as_of": end - 300_000_000,
            **raw,
            "log_slowdown": log_slowdown,
            "weight": np.ones(rows),
            **{expected_name(name): raw[name] for name in EXPECTED},
            **{name: np.asarray(felt) for told in TOGETHER for name in (told, expected_name(told))},
        },
        TRAINING.schema,
    )


@cache
def trained() -> Placement:
    """A small model, trained as the real one is, with trees of their own for apps learnt from; once in a process."""
    rows = read_rows(training_table())
    medians = training_fills(rows.raw)
    made = train(rows.dataset(medians), CONFIG)
    own = fit_familiar(made.known, made.placement.base(), 12, CONFIG)
    return replace(with_fills(made.placement, medians), familiar=own)


def manifest_of(placement: Placement, model: str = "placement") -> Manifest:
    """What the bundle of a small model says of itself."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    own = placement.familiar
    entry = ModelEntry(
        files={role: f"{model}-{role}.onnx" for role in ("mean", "spread", *(["familiar"] if own else []))},
        features=placement.names,
        signs=tuple(placement.signs.tolist()),
        medians=placement.known_medians(),
        calibration=placement.calibration,
        margins=MARGINS,
        seen_share=own.share if own else None,
    )
    return Manifest(
        created_at=start,
        models={model: entry},
        catalogue_hash=catalogue_hash(),
        training_window=(start, start),
        data_fingerprint="synthetic",
        platforms=PLATFORMS,
    )


def write(placement: Placement, directory: Path, model: str = "placement") -> Path:
    """The model as a bundle on disk."""
    manifest, own = manifest_of(placement, model), placement.familiar
    forests = {ROLE: placement.residual, SPREAD_ROLE: placement.spread} | ({FAMILIAR_ROLE: own.residual} if own else {})
    names = {role: f"{model}-{role}.arrow" for role in forests}
    entry = manifest.models[model]
    entry = entry.model_copy(update={"files": entry.files | names})
    trees = {names[role]: write_trees(forest, placement.base()) for role, forest in forests.items()}
    written = graphs_of(placement, model) | trees
    write_bundle(directory, manifest.model_copy(update={"models": {model: entry}}), written)
    return directory


def write_mixed_up(placement: Placement, directory: Path) -> Path:
    """A bundle of which the trees and the graph are of different models."""
    residual = replace(placement.residual, leaf_value=placement.residual.leaf_value * 2)
    write(placement, directory)
    bundle = load_bundle(directory, catalogue_hash())
    files = {file: bundle.file_of("placement", role) for role, file in bundle.entry_of("placement").files.items()}
    files[bundle.entry_of("placement").files[ROLE]] = write_trees(residual, placement.base())
    shutil.rmtree(directory)
    write_bundle(directory, bundle.manifest, files)
    return directory


def write_older(placement: Placement, directory: Path) -> Path:
    """The same as it was before bundles had tree files."""
    write_bundle(directory, manifest_of(placement), graphs_of(placement, "placement"))
    return directory


def graphs_of(placement: Placement, model: str) -> dict[str, bytes]:
    """Content by name of file."""
    return {f"{model}-{role}.onnx": graph for role, graph in export_placement(placement).items()}
