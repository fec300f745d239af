"""Train and evaluate: training rows in the lake to a bundle of two models in the registry, and to a report."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.group_means import group_codes
from features.schema.catalog import catalogue_hash
from features.training.diagnosis_rows import STATE_COLUMNS
from features.training.stratified_sample import Draw
from ingest.lake.row_filter import FOREVER
from ingest.lake.tables import Lake
from models.bundle.bundle import write_bundle
from models.bundle.leakage_guard import DIAGNOSIS, PLACEMENT
from models.bundle.manifest import EntryChoice, Manifest, ModelEntry, Provenance, Sampled
from models.bundle.margins import margins_entry
from models.bundle.tree_file import FAMILIAR_ROLE, ROLE, SPREAD_ROLE, write_trees
from models.drift.feature_shift import REFERENCE, reference_of
from models.errors import InconsistentDataset
from models.estimator.feature_matrix import Rows, read_rows
from models.estimator.fitted_model import Placement
from models.estimator.predictor import FAMILIAR
from models.metrics.errors_and_ranks import Estimate
from models.onnx_export.exporter import export_placement
from models.registry.model_card import CARD, model_card
from models.registry.registry import Registry
from models.training.diagnosis_model import (
    DiagnosisRows,
    compared_to_placement,
    fit_diagnosis,
    judge_diagnosis,
    read_diagnosis,
)
from models.training.fit import TrainConfig
from models.training.trainer import Metrics, Trainer, fit, standard_questions

MODEL = PLACEMENT
EXPLAINING = ("time_forward", "leave_app_out")
"""What is asked of the diagnosis model too: a container of an app that never ran has not run long enough to explain."""
Progress = Callable[[str], None]
"""Called with the current step."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work goes into a model and its report."""

    config: TrainConfig = field(default_factory=lambda: TrainConfig(rounds=100, learning_rate=0.1, folds=3))
    folds: int = 3
    origins: int = 2
    seed: int = 0


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True, slots=True)
class Birth:
    """What becomes of a bundle that was trained.

    Args:
        name: of it; empty for one by the time.
        promoted: whether it becomes current.
        sign: signs its manifest; None leaves it unsigned.
        versions: of the lake's tables that it was trained on.
    """

    name: str = ""
    promoted: bool = True
    sign: Callable[[bytes], bytes] | None = None
    versions: Mapping[str, int] = field(default_factory=dict)


BORN = Birth()

READ = ("training", "contention", "node_state")
"""Tables that models are trained on."""


def as_now(lake: Lake) -> tuple[Lake, dict[str, int]]:
    """A lake in which the tables that models are trained on change no more, and their versions."""
    versions = {table: lake.version(table) for table in READ}
    return lake.at(versions), versions


def training_table(lake: Lake, end: datetime = FOREVER) -> pa.Table:
    """All training rows of a lake of windows that ended before.

    Raises:
        InconsistentDataset: there are none.
    """
    table = lake.read("training", end=end)
    if not table.num_rows:
        then = "" if end == FOREVER else f" of windows that ended before {end:%Y-%m-%d %H:%M} UTC"
        raise InconsistentDataset(
            f"the lake holds no training rows{then}", "run `cohabit ingest` and `cohabit features` first"
        )
    return table


def diagnosis_of(lake: Lake, table: pa.Table) -> DiagnosisRows:
    """What was measured in the windows of a lake's training rows."""
    state = lake.read("node_state", columns=list(STATE_COLUMNS))
    return read_diagnosis(table, lake.read("contention"), state)


def evaluate_rows(
    rows: Rows, effort: Effort, progress: Progress, diagnosis: DiagnosisRows | None = None
) -> dict[str, Metrics]:
    """Errors on tomorrow, on apps the model never saw, and on apps that never ran; with the baselines.

    With `diagnosis`, of the same rows, also of the diagnosis model, the placement model's next to it, under
    `diagnosis_` and the name of the question.
    """
    rng, trainer = np.random.default_rng(effort.seed), Trainer(rows, effort.config)
    placed: dict[str, Metrics] = {}
    explained: dict[str, Metrics] = {}
    for name, question in standard_questions(rows, folds=effort.folds, origins=effort.origins).items():

        def advance(what: str, name: str = name) -> None:
            progress(f"{name}: {what}")

        outcome = trainer.judge(question, advance)
        placed[name] = outcome.metrics(rng)
        if diagnosis is not None and name in EXPLAINING:
            again = judge_diagnosis(diagnosis, question.splits, effort.config, advance)
            explained[f"{DIAGNOSIS}_{name}"] = compared_to_placement(again, outcome, np.random.default_rng(effort.seed))
    return placed | explained


def train_bundle(
    table: pa.Table,
    registry: Registry,
    now: datetime,
    metrics: dict[str, Metrics],
    effort: Effort,
    *,
    diagnosis: DiagnosisRows | None = None,
    draw: Draw | None = None,
    birth: Birth = BORN,
) -> Placement:
    """Train on all rows, write a bundle, and make it current unless that is not wanted.

    Args:
        table: training rows.
        registry: where the bundle goes.
        now: its time of birth.
        metrics: what evaluation found; kept in the manifest.
        effort: how to train.
        diagnosis: of the same rows; without it the bundle has the placement model alone.
        draw: how the rows were drawn, where they are a sample.
        birth: its name, whether it becomes current, and who signs it.

    Returns:
        The placement model.
    """
    rows = read_rows(table)
    placement = fit(rows, effort.config)
    models = {PLACEMENT: placement}
    if diagnosis is not None:
        models[DIAGNOSIS] = fit_diagnosis(diagnosis, effort.config)[0]
    entries = {name: entry_of(name, model) for name, model in models.items()}
    own = margins_entry(placement.bounds(), app_names(table, rows.group))
    entries[PLACEMENT] = entries[PLACEMENT].model_copy(update={"margins": own})
    files = {file: content for name, model in models.items() for file, content in files_of(name, model).items()}
    name = birth.name or name_at(now)
    provenance = provenance_of(table, effort, draw).model_copy(update={"versions": dict(birth.versions)})
    manifest = _manifest(table, entries, now, metrics).model_copy(update={"provenance": provenance})
    reference = reference_of(rows).model_dump_json().encode()
    files |= {CARD: model_card(manifest).encode(), REFERENCE: reference}
    write_bundle(registry.root / name, manifest, files, birth.sign)
    if birth.promoted:
        registry.promote(name)
    return placement


def name_at(now: datetime) -> str:
    """Default name of a bundle."""
    return f"{now:%Y%m%dT%H%M%S}"


def files_of(name: str, model: Placement) -> dict[str, bytes]:
    """The files of one model of a bundle: its graphs, and its trees to explain and to compile."""
    graphs = {f"{name}.{role}.onnx": content for role, content in export_placement(model).items()}
    trees = {ROLE: model.residual, SPREAD_ROLE: model.spread}
    trees |= {} if model.familiar is None else {FAMILIAR_ROLE: model.familiar.residual}
    return graphs | {f"{name}.{role}.arrow": write_trees(forest, model.base()) for role, forest in trees.items()}


def entry_of(name: str, model: Placement) -> ModelEntry:
    """What the manifest says of one model."""
    own = model.familiar is not None
    graphs, trees = ("mean", "spread", *([FAMILIAR] * own)), (ROLE, SPREAD_ROLE, *([FAMILIAR_ROLE] * own))
    return ModelEntry(
        files={role: f"{name}.{role}.onnx" for role in graphs} | {role: f"{name}.{role}.arrow" for role in trees},
        features=model.names,
        signs=tuple(model.signs.tolist()),
        medians=model.known_medians(),
        calibration=model.calibration,
        seen_share=model.familiar.share if model.familiar else None,
        choice=None if model.choice is None else EntryChoice.model_validate(asdict(model.choice)),
    )


def app_names(table: pa.Table, group: NDArray[np.int64]) -> list[tuple[str, str]]:
    """Cluster and app by number of the group: (n,) numbers 0..k-1 of the rows of a table."""
    _, first = np.unique(group, return_index=True)
    at = table.take(pa.array(first))
    return list(zip(at["cluster"].to_pylist(), at["app"].to_pylist(), strict=True))


def metric_lines(metrics: Metrics) -> list[tuple[str, dict[str, Estimate]]]:
    """Predictors and their metrics, ours first, then by error."""
    others = sorted((item for item in metrics.items() if item[0] != "ours"), key=lambda item: item[1]["mae_log"].value)
    return [("ours", metrics["ours"]), *others]


def provenance_of(table: pa.Table, effort: Effort, draw: Draw | None = None) -> Provenance:
    """What is trained on, how it was drawn where it is a sample, and by which settings."""
    apps, nodes = (len(np.unique(group_codes(table, ["cluster", name]))) for name in ("app", "node"))
    sampled = None if draw is None else _sampled(draw)
    return Provenance(rows=table.num_rows, apps=apps, nodes=nodes, settings=asdict(effort.config), sampled=sampled)


def _sampled(draw: Draw) -> Sampled:
    return Sampled(
        rows_there=int(draw.rows.sum()),
        strata=len(draw.rows),
        max_rows=draw.max_rows,
        power=draw.power,
        seed=draw.seed,
    )


def _manifest(table: pa.Table, entries: dict[str, ModelEntry], now: datetime, metrics: dict[str, Metrics]) -> Manifest:
    window = pc.min_max(table["window_end"])
    return Manifest(
        created_at=now,
        models=entries,
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
