"""Mixed: what apps without latency do to a model of the apps that have it, fleet by fleet of the same containers."""

import sys
import tempfile
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from benchmarks.diagnosis import FIRST_SEED
from benchmarks.laws import CONFIG, simulated_world
from benchmarks.runner import OURS, TOP, Result
from features.columnar.asof_join import key_codes, row_of
from ingest.simulator.laws import LAWS
from ingest.simulator.simulate import Plan
from models.estimator.feature_matrix import read_rows
from models.evaluation.protocols import Depth, protocol, read_keys
from models.training.trainer import Trainer

Floats = NDArray[np.float64]
KEYS = ["cluster", "node", "container", "window_end"]
DEPTH = Depth(app_folds=3, folds=2, origins=1)
ASKED = {"S1": "mixed_error", "S2": "mixed_unseen_error"}
"""Questions of docs/evaluation.md: apps that were learnt from, and others."""
PLAN = Plan(nodes=24, apps=48, per_node=10, hours=6.0)
"""Half of its apps are enough to learn from."""
AGAIN = 10_000
"""Resamples of seeds behind an interval."""


def run_mixed(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Errors on apps with latency where the others lack it, over those of a fleet that has it everywhere.

    Of each seed one cluster, the laws in turn. The ratio is of means over seeds; its interval is of seeds drawn again,
    both fleets of a seed together.
    """
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ASKED.values()}
    for number in range(arguments.seeds):
        law = list(LAWS)[number % len(LAWS)]
        seed = FIRST_SEED + number
        for name, (mixed, whole) in _pair(replace(PLAN, law=law, seed=seed)).items():
            found[name].append((mixed, whole))
            print(f"{law}, seed {seed}: {name} {mixed:.4f}, all {whole:.4f}", file=sys.stderr, flush=True)
    ratios = [ratio_over_seeds(name, np.array(pairs), rng) for name, pairs in found.items()]
    return {TOP: {key: value for of in ratios for key, value in of.items()}}


def ratio_over_seeds(name: str, pairs: Floats, rng: np.random.Generator) -> dict[str, float]:
    """Ratio of the means of (seeds, 2) pairs, and the ends of its 95 % interval over seeds drawn again."""
    drawn = pairs[rng.integers(0, len(pairs), (AGAIN, len(pairs)))].mean(axis=1)
    low, high = np.quantile(drawn[:, 0] / drawn[:, 1], [0.025, 0.975]).tolist()
    whole = float(pairs[:, 0].mean() / pairs[:, 1].mean())
    return {f"{name}_ratio": whole, f"{name}_ratio_low": low, f"{name}_ratio_high": high}


def _pair(plan: Plan) -> dict[str, tuple[float, float]]:
    """Mean absolute log errors on the same rows, of models of the mixed fleet and of the one with latency alone."""
    mixed, whole = _judged(replace(plan, mixed=True)), _judged(plan)
    found = {}
    for question, name in ASKED.items():
        one, other = mixed[question], whole[question]
        row = row_of(*key_codes(one, other, KEYS))
        same = (row >= 0) & np.asarray(pc.not_equal(one["kind"], "waiting"))
        errors = one["error"].to_numpy()[same], other["error"].to_numpy()[row[same]]
        found[name] = (float(errors[0].mean()), float(errors[1].mean()))
    return found


def _judged(plan: Plan) -> dict[str, pa.Table]:
    """By question the judged rows, KEYS, `kind` of the label and `error`, absolute, log ratio."""
    with tempfile.TemporaryDirectory(prefix="cohabit-mixed-") as folder:
        world = simulated_world(Path(folder), plan)
        labels = world.lake.read("labels")
    table = world.table
    row = row_of(*key_codes(table, labels, KEYS))
    kind = labels["kind"].take(pa.array(row, mask=row < 0))
    trainer = Trainer(read_rows(table), CONFIG)
    found = {}
    for one in protocol(read_keys(table), DEPTH):
        if one.id in ASKED and one.question is not None:
            outcome = trainer.judge(one.question, lambda _: None)
            error = np.abs(outcome.predicted[OURS] - outcome.rows.log_slowdown)
            where = pa.array(outcome.where)
            rows = table.select(KEYS).take(where).append_column("kind", kind.take(where))
            found[one.id] = rows.append_column("error", pa.array(error))
    return found
