"""The measured runs: how well are kinds of antagonists foreseen that the model never saw?

Features come from the replayed records by the kernels of production, profiles from windows in which a member ran
alone. The label is the measured `slow_mean` of clean windows with a good load generator, rounds averaged. The diagnosis
model is asked the same: it also sees how the victim waits, in the first of the rounds that the label averages.
"""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from features.columnar.group_means import group_codes
from features.contention.node_state import Facts, node_state
from features.profiles.per_app import profiles_of
from features.schema.tables import LABELS
from features.training.five_minute import contention
from features.training.residents import Sources
from features.training.rows import training_rows
from ingest.lake.tables import Lake
from ingest.schema.tables import TIMESTAMP
from models.bundle.leakage_guard import DIAGNOSIS
from models.estimator.feature_matrix import Rows, read_rows
from models.metrics.baselines import BASELINES
from models.metrics.errors_and_ranks import evaluate, spearman
from models.training.diagnosis_model import DiagnosisRows, fit_diagnosis, read_diagnosis
from models.training.fit import TrainConfig
from models.training.trainer import OURS, Metrics, fit, open_fitted

Floats = NDArray[np.float64]
CLUSTER, NODE = "measured", "vm-1"
START = datetime(2025, 11, 20, tzinfo=UTC)
SPACING_S = 300
"""Seconds from one window's start to the next one's, on the clock of the records."""
TEXT = csv.ConvertOptions(
    column_types={"level": pa.string(), "kinds": pa.string(), "cfg_id": pa.string(), "gen_ok": pa.bool_()},
    strings_can_be_null=True,
)
CONFIG = TrainConfig(rounds=120, spread_rounds=20, leaves=5, min_rows_in_leaf=8, folds=4)


@dataclass(frozen=True, slots=True)
class _Pair:
    """One victim in one configuration: where it was first measured, its co-runners, and its log slowdown by round."""

    window: str
    app: str
    container: str
    kinds: str
    logs: list[float]


@dataclass(frozen=True)
class Configurations:
    """Every co-located victim and configuration, rounds averaged.

    Args:
        rows: what the model sees, and the measured log slowdown.
        during: what the diagnosis model sees.
        app: (n,) victims.
        kinds: (n,) antagonist kinds next to each, sorted.
        rounds: (pairs, 2) log slowdown of the first and second round, where there were two.
    """

    rows: Rows
    during: DiagnosisRows
    app: tuple[str, ...]
    kinds: tuple[tuple[str, ...], ...]
    rounds: Floats


@dataclass(frozen=True)
class Report:
    """What came out.

    Args:
        metrics: ours, the diagnosis and every baseline on kinds left out; intervals are over configurations of a kind.
        round_to_round: rank correlation of one round with the other; labels average both and are better than one.
        rows: how many configurations were judged.
        example: antagonist kind -> (predicted, measured) mean slowdown of one service next to it.
    """

    metrics: Metrics
    round_to_round: float
    rows: int
    example: dict[str, tuple[float, float]]


def window_starts(windows: pa.Table) -> dict[str, int]:
    """Start of each window on the replay's clock, in seconds since 1970, by window name."""
    together = pc.cast(pc.equal(windows["kind"], "colo"), pa.int8())
    ordered = windows.append_column("together", together).sort_by(
        [(c, "ascending") for c in ("together", "run", "seq")]
    )
    first = int(START.timestamp())
    return {name: first + i * SPACING_S for i, name in enumerate(ordered["window"].to_pylist())}


def app_of(name: str, level: object) -> str:
    """App of a member: what it is and how hard it works."""
    return f"{name}-{level}"


def container_of(window: str, role: str, idx: int) -> str:
    """Uid of a member; every window starts new ones."""
    return f"{window}-{role}{idx}"


def read_configurations(folder: Path, lake: Lake) -> Configurations:
    """Labels from the CSVs, features from the replayed records in the lake.

    Args:
        folder: data_samples/measured.
        lake: holds cluster `measured`.
    """
    windows = csv.read_csv(folder / "windows.csv", convert_options=TEXT)
    victims = csv.read_csv(folder / "victims.csv", convert_options=TEXT)
    chosen = victims.filter(pc.and_(pc.equal(victims["kind"], "colo"), pc.and_(victims["clean"], victims["gen_ok"])))
    pairs = _pairs(chosen)
    labels = _labels(pairs, window_starts(windows))
    sources = _sources(lake, windows)
    table = training_rows(labels, sources).sort_by([("container", "ascending")])
    during = read_diagnosis(table, contention(sources.state, sources.profiles), sources.state)
    by_container = {pair.container: pair for pair in pairs}
    ordered = [by_container[container] for container in table["container"].to_pylist()]
    partners = [pair.kinds for pair in ordered]
    return Configurations(
        rows=_grouped(read_rows(table), partners),
        during=replace(during, rows=_grouped(during.rows, partners)),
        app=tuple(pair.app for pair in ordered),
        kinds=tuple(tuple(pair.kinds.split("+")) if pair.kinds else () for pair in ordered),
        rounds=np.array([pair.logs[:2] for pair in ordered if len(pair.logs) > 1]),
    )


def leave_kind_out(found: Configurations, rng: np.random.Generator, service: str = "redis") -> Report:
    """Predict each configuration by models that never saw one of its antagonist kinds; several kinds are averaged."""
    every = sorted({kind for kinds in found.kinds for kind in kinds})
    sums: dict[str, Floats] = {}
    counts = np.zeros(len(found.kinds))
    for kind in every:
        test = np.array([kind in kinds for kinds in found.kinds])
        counts += test
        for name, values in said_of_unseen(found, test).items():
            sums.setdefault(name, np.zeros(len(counts)))[test] += values
    judged = counts > 0
    predicted = {name: total[judged] / counts[judged] for name, total in sums.items()}
    truth = found.rows.log_slowdown[judged]
    metrics = evaluate(truth, predicted, found.rows.group[judged], rng=rng)
    round_to_round = spearman(found.rounds[:, 0], found.rounds[:, 1])
    example = _example(found, np.flatnonzero(judged), predicted[OURS], service)
    return Report(metrics, round_to_round, int(judged.sum()), example)


def said_of_unseen(found: Configurations, test: NDArray[np.bool_]) -> dict[str, Floats]:
    """What ours and every baseline, trained on the other configurations, say of the test ones, in log slowdown."""
    train = ~test
    seen, unseen = found.rows.take(train), found.rows.take(test)
    placement = fit(seen, CONFIG)
    fills = placement.medians[: seen.raw.shape[1]]
    said = open_fitted(placement).predict(unseen.dataset(fills).features)
    app = np.unique(found.app, return_inverse=True)[1].astype(np.int64)
    seen_apps = _with_group(seen, app[train]).dataset(fills)
    unseen_apps = _with_group(unseen, app[test]).dataset(fills)
    baselines = {name: fit_one(seen_apps).predict(unseen_apps) for name, fit_one in BASELINES.items()}
    return {OURS: said.log_mean, DIAGNOSIS: _diagnosed(found, test), **baselines}


def _diagnosed(found: Configurations, test: NDArray[np.bool_]) -> Floats:
    """What a diagnosis model of the other configurations says of the test ones."""
    model, fills = fit_diagnosis(found.during.take(~test), CONFIG)
    return open_fitted(model).predict(found.during.take(test).dataset(fills).features).log_mean


def _example(
    found: Configurations, rows: NDArray[np.int64], predicted: Floats, service: str
) -> dict[str, tuple[float, float]]:
    pairs: dict[str, list[tuple[float, float]]] = {}
    for row, log in zip(rows, predicted, strict=True):
        if found.app[row].startswith(service):
            for kind in found.kinds[row]:
                pairs.setdefault(kind, []).append((float(log), float(found.rows.log_slowdown[row])))
    means = {kind: np.exp(np.mean(values, axis=0)) for kind, values in pairs.items()}
    ordered = sorted(means.items(), key=lambda item: -item[1][0])
    return {kind: (float(pair[0]), float(pair[1])) for kind, pair in ordered}


def _pairs(chosen: pa.Table) -> list[_Pair]:
    """Every victim of every configuration once, with all its rounds."""
    found: dict[tuple[object, ...], _Pair] = {}
    for row in chosen.sort_by([("run", "ascending"), ("seq", "ascending")]).to_pylist():
        container = container_of(row["window"], "victim", row["idx"])
        first = _Pair(row["window"], app_of(row["name"], row["level"]), container, row["kinds"] or "", [])
        found.setdefault((row["run"], row["cfg_id"], row["idx"]), first).logs.append(float(np.log(row["slow_mean"])))
    return list(found.values())


def _labels(pairs: list[_Pair], starts: dict[str, int]) -> pa.Table:
    """Rows of `labels`: decided at the window's start, weighted by rounds."""
    start = np.array([starts[pair.window] for pair in pairs]) * 1_000_000
    times = {"window_start": start, "window_end": start + SPACING_S * 1_000_000, "arrived_at": start}
    n = len(pairs)
    columns: dict[str, object] = {name: pa.array(us, TIMESTAMP) for name, us in times.items()}
    columns |= {"cluster": [CLUSTER] * n, "node": [NODE] * n, "kind": ["measured"] * n}
    columns |= {"container": [pair.container for pair in pairs], "app": [pair.app for pair in pairs]}
    columns["log_slowdown"] = [sum(pair.logs) / len(pair.logs) for pair in pairs]
    columns["weight"] = [float(len(pair.logs)) for pair in pairs]
    arrays = [pa.array(columns[f.name], f.type) if f.name in columns else pa.nulls(n, f.type) for f in LABELS.schema]
    return pa.Table.from_arrays(arrays, schema=LABELS.schema)


def _sources(lake: Lake, windows: pa.Table) -> Sources:
    """Everything known of the measured node; profiles from the time before anybody shared it."""
    tables = {name: _of_cluster(lake.read(name)) for name in ("usage", "nodes", "placements")}
    facts = Facts(tables["nodes"], tables["placements"])
    state = node_state(tables["usage"], facts)
    starts = window_starts(windows)
    shared = set(windows.filter(pc.equal(windows["kind"], "colo"))["window"].to_pylist())
    first_us = min(start for window, start in starts.items() if window in shared) * 1_000_000
    profiles = profiles_of(state, np.array([first_us]))
    return Sources(state, facts.nodes, facts.placements, profiles)


def _of_cluster(table: pa.Table) -> pa.Table:
    return table.filter(pc.equal(table["cluster"], CLUSTER))


def _grouped(rows: Rows, names: list[str]) -> Rows:
    return _with_group(rows, group_codes(pa.table({"name": pa.array(names, pa.string())}), ["name"]))


def _with_group(rows: Rows, group: NDArray[np.int64]) -> Rows:
    return replace(rows, group=group)
