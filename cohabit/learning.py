"""Train and evaluate: training rows in the lake to a bundle in the registry, and to a report."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.catalog import catalogue_hash
from ingest.lake import Lake
from models.bundle import write_bundle
from models.errors import InconsistentDataset
from models.evaluate import Estimate
from models.export import export_placement
from models.learn import Metrics, Trainer, fit, standard_questions
from models.manifest import Manifest, ModelEntry
from models.margins import margins_entry
from models.placement import Placement
from models.registry import Registry
from models.table import Rows, read_rows
from models.train import TrainConfig
from models.tree_file import ROLE, write_trees

MODEL = "placement"
Progress = Callable[[str], None]
"""Told what is being done."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into a model and its report."""

    config: TrainConfig = field(default_factory=lambda: TrainConfig(rounds=100, learning_rate=0.1, folds=3))
    folds: int = 3
    origins: int = 2
    seed: int = 0


DEFAULT_EFFORT = Effort()


def training_table(lake: Lake) -> pa.Table:
    """All training rows of a lake.

    Raises:
        InconsistentDataset: there are none.
    """
    table = lake.read("training")
    if not table.num_rows:
        raise InconsistentDataset(
            "the lake holds no training rows", "run `cohabit ingest` and `cohabit features` first"
        )
    return table


def evaluate_rows(rows: Rows, effort: Effort, progress: Progress) -> dict[str, Metrics]:
    """Errors on tomorrow, on apps the model never saw, and on apps that never ran; beside the baselines."""
    rng, trainer = np.random.default_rng(effort.seed), Trainer(rows, effort.config)
    found = {}
    for name, question in standard_questions(rows, folds=effort.folds, origins=effort.origins).items():

        def told(what: str, name: str = name) -> None:
            progress(f"{name}: {what}")

        found[name] = trainer.judge(question, told).metrics(rng)
    return found


def train_bundle(
    table: pa.Table, registry: Registry, now: datetime, metrics: dict[str, Metrics], effort: Effort
) -> Placement:
    """Train on all rows, write a bundle named by the time, and make it current.

    Args:
        table: training rows.
        registry: where the bundle goes.
        now: its time of birth.
        metrics: what evaluation found; kept in the manifest.
        effort: how to train.
    """
    rows = read_rows(table)
    placement = fit(rows, effort.config)
    graphs = export_placement(placement)
    trees = f"{MODEL}.{ROLE}.arrow"
    files = {f"{MODEL}.{role}.onnx": content for role, content in graphs.items()}
    files[trees] = write_trees(placement.residual, placement.base())
    entry = ModelEntry(
        files={role: f"{MODEL}.{role}.onnx" for role in graphs} | {ROLE: trees},
        features=placement.names,
        signs=tuple(placement.signs.tolist()),
        medians=placement.known_medians(),
        calibration=placement.calibration,
        margins=margins_entry(placement.bounds(), app_names(table, rows.group)),
    )
    name = f"{now:%Y%m%dT%H%M%S}"
    write_bundle(registry.root / name, _manifest(table, entry, now, metrics), files)
    registry.promote(name)
    return placement


def app_names(table: pa.Table, group: NDArray[np.int64]) -> list[tuple[str, str]]:
    """Cluster and app by number of the group: (n,) numbers 0..k-1 of the rows of a table."""
    _, first = np.unique(group, return_index=True)
    at = table.take(pa.array(first))
    return list(zip(at["cluster"].to_pylist(), at["app"].to_pylist(), strict=True))


def metric_lines(metrics: Metrics) -> list[tuple[str, dict[str, Estimate]]]:
    """Predictors and their metrics, ours first, then by error."""
    others = sorted((item for item in metrics.items() if item[0] != "ours"), key=lambda item: item[1]["mae_log"].value)
    return [("ours", metrics["ours"]), *others]


def _manifest(table: pa.Table, entry: ModelEntry, now: datetime, metrics: dict[str, Metrics]) -> Manifest:
    window = pc.min_max(table["window_end"])
    return Manifest(
        created_at=now,
        models={MODEL: entry},
        catalogue_hash=catalogue_hash(),
        training_window=(_utc(window["min"]), _utc(window["max"])),
        data_fingerprint=fingerprint(table),
        platforms=tuple(sorted(p for p in pc.unique(table["platform"]).to_pylist() if p is not None)),
        metrics=metrics,
    )


def fingerprint(table: pa.Table) -> str:
    """A digest of all rows, in their order."""
    digest = hashlib.sha256()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    digest.update(sink.getvalue())
    return digest.hexdigest()


def _utc(moment: pa.Scalar) -> datetime:
    return datetime.fromtimestamp(moment.cast(pa.int64()).as_py() / 1e6, UTC)
