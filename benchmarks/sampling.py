"""Sampling: what models lose that learn from a share of the rows, drawn by strata or at random; what reading costs."""

import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.laws import CONFIG, DEPTH, simulated_world
from benchmarks.reading import peaks
from benchmarks.runner import HIGH, LOW, OURS, Benchmark, Figures, Result
from features.training.stratified_sample import BETWEEN, PROPORTIONAL, chosen, draw_of, tally, weighted
from ingest.simulator.simulate import Plan
from models.data.splits import Split
from models.estimator.feature_matrix import Rows, read_rows
from models.evaluation.protocols import protocol, read_keys
from models.evaluation.scorecard import HIGH_SLOWDOWN
from models.training.fit import TrainConfig
from models.training.trainer import Outcome, Question, Trainer

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SHARES = (0.05, 0.1, 0.2, 0.5)
WHOLE = 1.0
ASKED = ("S1", "S2")
QUANTILES = (0.025, 0.975)
RESAMPLES = 1000
RANDOM = "random"
Pick = Callable[[pa.Table, int, int], "Picked"]
"""Training rows with their number in column ROW, how many to keep, a seed."""
ROW = "row"


@dataclass(frozen=True)
class Picked:
    """Rows that were drawn: (m,) their numbers, and (m,) what the weight of each is multiplied with."""

    rows: Ints
    factor: Floats


def by_strata(power: float) -> Pick:
    """Drawn as `cohabit model train` does, with this power."""

    def pick(table: pa.Table, max_rows: int, seed: int) -> Picked:
        draw = draw_of(tally(table), max_rows, power=power, seed=seed)
        found = weighted(chosen(table, draw), draw)
        rows = found[ROW].to_numpy()
        before = table["weight"].to_numpy()[np.searchsorted(table[ROW].to_numpy(), rows)]
        return Picked(rows, found["weight"].to_numpy() / before)

    return pick


def at_random(table: pa.Table, max_rows: int, seed: int) -> Picked:
    """Any rows, each with the same chance."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(table[ROW].to_numpy())[:max_rows]
    return Picked(rows, np.full(len(rows), table.num_rows / len(rows)))


METHODS: Mapping[str, Pick] = {
    OURS: by_strata(PROPORTIONAL),
    "between": by_strata(BETWEEN),
    RANDOM: at_random,
}


def judged(table: pa.Table, share: float, pick: Pick, seed: int, config: TrainConfig) -> dict[str, float]:
    """Figures of models that learnt from a share of each split's first part and are judged on all of its second."""
    numbered = table.append_column(ROW, pa.array(np.arange(table.num_rows)))
    rows = read_rows(table)
    found: dict[str, float] = {}
    for asked in protocol(read_keys(table), DEPTH):
        if asked.id in ASKED and asked.question is not None:
            parts = [_judged(rows, numbered, s, share, (pick, seed, config)) for s in asked.question.splits]
            found |= {f"{asked.id.lower()}_{name}": value for name, value in _figures(parts).items()}
    return found


def _judged(rows: Rows, numbered: pa.Table, split: Split, share: float, how: tuple[Pick, int, TrainConfig]) -> Outcome:
    pick, seed, config = how
    learnt, weight = split.train, rows.weight
    if share < WHOLE:
        picked = pick(numbered.filter(pa.array(split.train)), round(share * split.train.sum()), seed)
        learnt, weight = np.zeros_like(split.train), rows.weight.copy()
        learnt[picked.rows] = True
        weight[picked.rows] *= picked.factor
    trainer = Trainer(replace(rows, weight=weight), config)
    return trainer.judge(Question([replace(split, train=learnt)]), lambda _: None)


def _figures(parts: list[Outcome]) -> dict[str, float]:
    truth = np.concatenate([part.rows.log_slowdown for part in parts])
    said = np.concatenate([part.predicted[OURS] for part in parts])
    upper = np.concatenate([part.upper for part in parts])
    error, harmed = np.abs(said - truth), truth >= np.log(HIGH_SLOWDOWN)
    return {
        "mae": float(error.mean()),
        "mae_harmed": float(error[harmed].mean()),
        "covered": float((truth <= upper).mean()),
        "margin": float((upper - said).mean()),
    }


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Means over worlds and draws, with intervals: of every figure at every size, and of errors beside others'."""
    seen: dict[str, dict[str, list[float]]] = {name: {} for name in METHODS}
    told: dict[str, float] = {}
    for world in range(1, arguments.worlds + 1):
        plan = Plan(arguments.nodes, arguments.apps, per_node=arguments.per_node, hours=arguments.hours, seed=world)
        with tempfile.TemporaryDirectory(prefix="cohabit-sampling-") as folder:
            table = simulated_world(Path(folder), replace(plan, law=arguments.law)).table
            if world == 1:
                told = {"rows": float(table.num_rows), **peaks(Path(folder), table, arguments.read_rows)}
        for method, name, value in _of_world(table, arguments.shares, arguments.draws):
            seen[method].setdefault(name, []).append(value)
    found = {method: _with_intervals(figures, rng) for method, figures in seen.items()}
    return {**found, OURS: {**found[OURS], **{n + e: v for n, v in told.items() for e in ("", LOW, HIGH)}}}


def _of_world(table: pa.Table, shares: Sequence[float], draws: int) -> Iterator[tuple[str, str, float]]:
    """Method, figure, value; `_above` is an error over that of all rows minus 1, `_beside_random` over random rows'."""
    whole = judged(table, WHOLE, at_random, 0, CONFIG)
    yield from ((method, f"{name}_100", value) for method in METHODS for name, value in whole.items())
    for share in shares:
        for seed in range(draws):
            found = {method: judged(table, share, pick, seed, CONFIG) for method, pick in METHODS.items()}
            for method, name in product(METHODS, whole):
                value, size = found[method][name], f"{name}_{share * 100:g}"
                yield method, size, value
                if "mae" in name:
                    yield method, f"{size}_above", value / whole[name] - 1
                    yield method, f"{size}_beside_random", value / found[RANDOM][name] - 1


def _with_intervals(figures: Mapping[str, list[float]], rng: np.random.Generator) -> Figures:
    """Means, with the middle 95 % of means of as many values drawn again."""
    found: dict[str, float] = {}
    for name, values in figures.items():
        low, high = np.quantile(rng.choice(values, (RESAMPLES, len(values))).mean(axis=1), QUANTILES)
        found |= {name: float(np.mean(values)), name + LOW: float(low), name + HIGH: float(high)}
    return found


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--law", default="threshold", help="of the simulation (threshold)")
    parser.add_argument("--nodes", type=int, default=24, help="simulated nodes (24)")
    parser.add_argument("--per-node", type=int, default=5, help="containers of each (5): few, so that harm is rare")
    parser.add_argument("--apps", type=int, default=24, help="simulated apps (24)")
    parser.add_argument("--hours", type=float, default=18.0, help="simulated hours (18)")
    parser.add_argument("--worlds", type=int, default=4, help="clusters, by seeds 1, 2, ... (4)")
    parser.add_argument("--draws", type=int, default=3, help="samples of each size and kind (3)")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="of the rows (0.05 0.1 0.2 0.5)")
    parser.add_argument("--read-rows", type=int, default=1_000_000, help="training rows whose reading is measured")


BENCHMARK = Benchmark(
    "sampling",
    "error of models that learn from a share of the rows, drawn by strata or at random; memory of reading",
    run,
    runs=1,
    add_arguments=_arguments,
)
