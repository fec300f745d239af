"""Export: the exported graph, compiled trees and native LightGBM, one thread each, and what explaining costs."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from statistics import median
from time import thread_time

import lightgbm as lgb
import numpy as np
from numpy.typing import NDArray

from benchmarks.runner import OURS, Benchmark, Result
from models.estimator.compiled_ensemble import CompiledEnsemble, compiled_ensemble
from models.estimator.onnx_session import load_graph
from models.estimator.predictor import Ensemble
from models.evaluation.onnx_parity import awkward, on_thresholds
from models.explain.shap import path_attribution, tree_shap
from models.explain.tree_paths import paths_of
from models.forms.pressure_base import BaseTerms
from models.forms.tree_arrays import parse_forest
from models.onnx_export.exporter import TREE_RAW, export_mean
from models.training.fit import raw_score

Floats = NDArray[np.float64]
Answer = Callable[[Floats], object]

BATCHES = (1, 100, 500, 5000)
COLUMNS, IN_BASE, LEAVES, TRAINED_ON = 40, 12, 31, 10_000
MISSING_SHARE = 0.05
SHORTEST_S = 0.02
"""How long calls are repeated before they count as one measurement."""


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """CPU time of graph and kernel (trees and base) over LightGBM's (trees alone), and rows that differ."""
    rows = training_rows(max(TRAINED_ON, *BATCHES), rng)
    trees = trained(rows, arguments.trees, rng)
    forest = parse_forest(trees.model_to_string())
    terms = BaseTerms(np.arange(IN_BASE), np.full(IN_BASE, 0.1))
    graph, kernel = load_graph(export_mean(forest, terms)), compiled_ensemble(forest, terms)
    asked = rows[: max(BATCHES)]
    tested = np.concatenate([asked, awkward(asked), on_thresholds(rows, forest)])
    found: dict[str, float] = {"compared_rows": len(tested), "differing_rows": differing(graph, trees, tested)}
    found["kernel_differing_rows"] = differing(kernel, trees, tested) + differing_alone(kernel, trees, tested)
    for size in BATCHES:
        answers: list[Answer] = [graph.predict, kernel.predict, lambda batch: raw_score(trees, batch)]
        onnx, compiled, theirs = _us_per_row(answers, asked[:size], arguments.turns)
        found |= {f"onnx_us_{size}": onnx, f"kernel_us_{size}": compiled, f"lightgbm_us_{size}": theirs}
        found |= {f"onnx_vs_lightgbm_{size}": onnx / theirs, f"kernel_vs_lightgbm_{size}": compiled / theirs}
    paths = paths_of(forest)
    exact, native = _us_per_row(
        [lambda row: tree_shap(row, paths), lambda row: trees.predict(row, pred_contrib=True, num_threads=1)],
        asked[:1],
        arguments.turns,
    )
    found |= {"tree_shap_us": exact, "pred_contrib_us": native, "tree_shap_vs_pred_contrib": exact / native}
    found["path_us_per_row"] = _us_per_row([lambda batch: path_attribution(batch, paths)], asked, arguments.turns)[0]
    return {OURS: found}


def training_rows(count: int, rng: np.random.Generator) -> Floats:
    """(count, COLUMNS) amounts; a share is missing outside the base."""
    rows = rng.gamma(1.5, 0.3, (count, COLUMNS))
    missing = rng.random(rows.shape) < MISSING_SHARE
    missing[:, :IN_BASE] = False
    rows[missing] = np.nan
    return rows


def trained(rows: Floats, rounds: int, rng: np.random.Generator) -> lgb.Booster:
    """Trees of LEAVES leaves; what they learn does not matter, that they use every column does."""
    known = np.nan_to_num(rows)
    label = known @ rng.normal(size=COLUMNS) + known[:, 0] * known[:, 1] + 0.1 * rng.normal(size=len(rows))
    fixed = {"num_leaves": LEAVES, "num_threads": 1, "deterministic": True, "force_col_wise": True, "verbosity": -1}
    return lgb.train(fixed, lgb.Dataset(rows, label), rounds)


def differing(ensemble: Ensemble, trees: lgb.Booster, rows: Floats) -> int:
    """How many rows' raw scores differ in any bit."""
    return _differing(ensemble.predict(rows)[TREE_RAW], raw_score(trees, rows))


def differing_alone(kernel: CompiledEnsemble, trees: lgb.Booster, rows: Floats) -> int:
    """The same of rows that are asked for one by one, which the kernel computes by another loop."""
    alone = [kernel.predict(rows[i : i + 1])[TREE_RAW] for i in range(len(rows))]
    return _differing(np.concatenate(alone), raw_score(trees, rows))


def _differing(ours: Floats, theirs: Floats) -> int:
    return int((ours.view(np.int64) != theirs.view(np.int64)).sum())


def _us_per_row(answers: list[Answer], rows: Floats, turns: int) -> list[float]:
    """Typical microseconds a row of each answer, which take turns so that what slows one slows the others."""
    calls = [_calls(answer, rows) for answer in answers]
    seconds = [[_cpu_s(a, rows, n) / n for a, n in zip(answers, calls, strict=True)] for _ in range(turns)]
    return [1e6 * median(of_one) / len(rows) for of_one in zip(*seconds, strict=True)]


def _calls(answer: Answer, rows: Floats) -> int:
    answer(rows)
    return 1 + int(SHORTEST_S / max(_cpu_s(answer, rows, 1), 1e-6))


def _cpu_s(answer: Answer, rows: Floats, calls: int) -> float:
    """CPU seconds of this thread, which does all the work: other processes on the machine do not count."""
    started = thread_time()
    for _ in range(calls):
        answer(rows)
    return thread_time() - started


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--trees", type=int, default=300, help=f"trees of the model, of {LEAVES} leaves (300)")
    parser.add_argument("--turns", type=int, default=15, help="measurements of each size, taking turns (15)")


BENCHMARK = Benchmark(
    "export",
    "graph, compiled trees and native LightGBM at four batch sizes, rows that differ, and the cost of explaining",
    run,
    add_arguments=_arguments,
)
