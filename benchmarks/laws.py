"""Laws: how far models come on truths of three forms, two of them not their own, beside baselines and the noise."""

import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from benchmarks.choices import CROWDING, Choices, draw_choices
from benchmarks.cold import cold_errors, cold_regrets, judged_cold
from benchmarks.runner import OURS, Benchmark, Result
from cohabit.ingestion.simulation import simulate_into
from cohabit.terminal.locations import TOPICS
from cohabit.training.evaluation import modelled_share
from cohabit.training.train_model import training_table
from features.columnar.arrow_columns import floats, micros
from features.columnar.asof_join import key_codes, row_of
from features.columnar.group_means import group_codes
from features.columnar.windows import LABEL_US, window_end
from features.jobs.job_plan import whole_stretch
from features.jobs.local_job import run_local
from features.schema.catalog import RAW_NAMES
from features.schema.tables import TABLES
from features.training.model_input import complete
from ingest.lake.tables import Lake
from ingest.pipeline.metrics import IngestMetrics
from ingest.pipeline.runner import ingest_files
from ingest.schema.tables import TIMESTAMP
from ingest.simulator.laws import LAWS
from ingest.simulator.simulate import Plan
from models.bundle.margins import Margins
from models.data.splits import Split
from models.estimator.feature_matrix import Rows, read_rows
from models.evaluation.prequential import adapted_metrics
from models.evaluation.protocols import Depth, protocol, read_keys
from models.evaluation.scorecard import bound_metrics, selected_coverage
from models.metrics.errors_and_ranks import resamples_of
from models.metrics.ranking import candidate_sets, regret_at_1
from models.training.fit import TrainConfig
from models.training.trainer import Outcome, Trainer, open_fitted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
COLD = "SC"
ASKED = ("S1", "S2", COLD, "S3", "S6")
DEPTH = Depth(app_folds=3, folds=2, origins=1)
CONFIG = TrainConfig(rounds=100, learning_rate=0.1, folds=3)
BOUNDED = {"warm": "S1", "unseen": "S2", "cold": COLD}
"""Questions that bounds are told of, by suffix of the figure."""
FIGURES = (
    "coverage90",
    "coverage90_selected",
    "coverage90_own",
    "coverage90_adapted",
    "coverage90_selected_adapted",
    "apps_covered",
    "width_vs_oracle",
    "margin_vs_oracle",
)
DECISIONS = 40
"""Choices drawn for each fold of unseen apps; of apps learnt from as many as of all unseen ones."""
WITH_TREES = "with_trees"
"""Choosing by all that we expect, not by the base alone, see docs/decisions/0034-choice-by-base.md."""


@dataclass(frozen=True)
class World:
    """A simulated lake and what was true in it.

    Args:
        plan: what was simulated.
        lake: all derived tables.
        table: rows of `training`.
        truth: (n,) true log slowdown in each row's window; NaN where the container was not there.
        before: (n,) the same in the window before, the last before the decision; NaN where the container was not there.
    """

    plan: Plan
    lake: Lake
    table: pa.Table
    truth: Floats
    before: Floats


def simulated_world(folder: Path, plan: Plan) -> World:
    """Simulate, land, derive, and find the truth of every training row."""
    simulate_into(folder / "stream", plan, lambda _done, _of: None, truth=folder / "truth.parquet")
    lake = Lake.open(folder / "lake", TABLES)
    metrics = IngestMetrics(CollectorRegistry())
    ingest_files(folder / "stream", TOPICS, lake, stop=Event(), metrics=metrics)
    stretch = whole_stretch(lake)
    if stretch is not None:
        run_local(lake, stretch, lambda _table, _rows: None)
    table = training_table(lake)
    truth = pq.read_table(folder / "truth.parquet")
    return World(plan, lake, table, true_of(table, truth), true_of(table, truth, windows_before=1))


def true_of(table: pa.Table, truth: pa.Table, *, windows_before: int = 0) -> Floats:
    """(n,) log of the mean true slowdown of each training row's container in its window, or so many windows before.

    NaN where the container was not there.
    """
    ends = pa.array(window_end(micros(truth["ts"]), LABEL_US) + windows_before * LABEL_US, TIMESTAMP)
    known = pa.table({"container": truth["container"], "window_end": ends, "ratio": truth["slowdown_ratio"]})
    means = known.group_by(["container", "window_end"]).aggregate([("ratio", "mean")])
    row = row_of(*key_codes(table, means, ["container", "window_end"]))
    return np.append(np.log(floats(means["ratio_mean"])), np.nan)[row]


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Every figure of every law, prefixed by its name."""
    found: dict[str, dict[str, float]] = {}
    for law in LAWS:
        plan = Plan(
            arguments.nodes,
            arguments.apps,
            hours=arguments.hours,
            seed=arguments.seed,
            law=law,
            team_likeness=arguments.team_likeness,
        )
        with tempfile.TemporaryDirectory(prefix="cohabit-laws-") as folder:
            of_law = judged(simulated_world(Path(folder), plan), rng)
        for method, figures in of_law.items():
            found.setdefault(method, {}).update({f"{law}_{name}": value for name, value in figures.items()})
    return found


def judged(world: World, rng: np.random.Generator, config: TrainConfig = CONFIG) -> dict[str, dict[str, float]]:
    """Figures by method under one law."""
    trainer = Trainer(read_rows(world.table), config)
    asked = {one.id: one.question for one in protocol(read_keys(world.table), DEPTH)}
    questions = {name: question for name in ASKED if (question := asked[name]) is not None}
    cold = judged_cold(trainer, questions[COLD], world.table, world.lake)
    outcomes = {name: trainer.judge(one, lambda _: None) for name, one in questions.items() if name != COLD}
    outcomes[COLD] = cold[OURS]
    errors = {name: {who: _mae(o, said) for who, said in o.predicted.items()} for name, o in outcomes.items()}
    found = {who: {f"{name.lower()}_mae": errors[name][who] for name in ("S1", "S2", "S6")} for who in errors["S1"]}
    apart, group = rng.spawn(1)[0], groups_of(world, trainer.rows)
    _add(found, cold_errors(cold, apart))
    for suffix, crowding in CROWDING.items():
        drawn = choices_of(world, questions["S2"].splits, crowding=crowding, rng=rng)
        _add(found, {who: {f"regret_at_1_100{suffix}": said} for who, said in regrets(trainer, drawn, group).items()})
        _add(found, cold_regrets(trainer, drawn, f"regret_at_1_100{suffix}_cold", rng=apart))
        learnt = choices_of(world, questions["S1"].splits, crowding=crowding, rng=apart, learnt=True)
        _add(
            found,
            {who: {f"regret_at_1_100{suffix}_seen": said} for who, said in regrets(trainer, learnt, group).items()},
        )
    found[OURS] |= _beside_the_noise(world, outcomes["S1"]) | _beside_others(outcomes, errors)
    for suffix, name in BOUNDED.items():
        found[OURS] |= {f"{figure}_{suffix}": value for figure, value in bounds(world, outcomes[name], rng).items()}
    found[OURS]["modelled_share"] = modelled_share(world.lake.read("labels")).share
    return found


def _add(found: dict[str, dict[str, float]], more: dict[str, dict[str, float]]) -> None:
    for who, figures in more.items():
        found.setdefault(who, {}).update(figures)


def choices_of(
    world: World,
    splits: list[Split],
    *,
    crowding: tuple[float, float],
    rng: np.random.Generator,
    learnt: bool = False,
) -> list[tuple[Split, Choices]]:
    """Choices for newcomers of the apps that each split leaves out, or of those that it learns from."""
    names = np.array([int(name.removeprefix("app-")) for name in world.table["app"].to_pylist()])
    count = DEPTH.app_folds * DECISIONS // len(splits) if learnt else DECISIONS
    chosen = [np.unique(names[split.train if learnt else split.test]) for split in splits]
    drawn = (draw_choices(world.lake, world.plan, a, crowding=crowding, count=count, rng=rng) for a in chosen)
    return list(zip(splits, drawn, strict=True))


def groups_of(world: World, rows: Rows) -> Ints:
    """(apps,) the group of each app of the simulator in the training rows, -1 where it is not among them."""
    group = np.full(world.plan.apps, -1)
    group[[int(name.removeprefix("app-")) for name in world.table["app"].to_pylist()]] = rows.group
    return group


def regrets(trainer: Trainer, drawn: list[tuple[Split, Choices]], group: Ints) -> dict[str, float]:
    """Mean regret at 1 by method: ours by the model of each split."""
    found: dict[str, list[Floats]] = {}
    for split, choices in drawn:
        sets = candidate_sets(choices.decision, np.arange(len(choices.decision)))
        for who, score in {**_said(trainer, split, choices, group), **choices.scores()}.items():
            found.setdefault(who, []).append(regret_at_1(sets, choices.log_slowdown, score))
    return {who: float(np.concatenate(parts).mean()) for who, parts in found.items()}


def _said(trainer: Trainer, split: Split, choices: Choices, group: Ints) -> dict[str, Floats]:
    """As we choose, and by all that is expected, of apps learnt from by their own trees."""
    placement = trainer.model_of(split)
    known = placement.bounds().known(group[choices.app])
    predictor, whole = open_fitted(placement), complete(choices.raw, placement.medians[: len(RAW_NAMES)])
    chosen = predictor.log_choice(choices.harm(), lambda rows: whole[rows])
    return {OURS: chosen, WITH_TREES: predictor.predict(whole, known).log_mean}


def bounds(world: World, outcome: Outcome, rng: np.random.Generator) -> dict[str, float]:
    """Figures of the bounds of one question, see docs/evaluation.md, those that the rows allow."""
    keys, where = read_keys(world.table), outcome.where
    again = resamples_of(outcome.rows.group, rng, resamples=1)
    sets = candidate_sets(keys.decision[where], keys.node[where])
    found = bound_metrics(outcome, again, rng) | selected_coverage(outcome, sets, again)
    found |= adapted_metrics(outcome, sets, keys.platform[where], again)
    told = {name: found[name].value for name in FIGURES if name in found}
    return told | {"own_share": float((outcome.tier == Margins.OWN).mean())}


def _beside_the_noise(world: World, outcome: Outcome) -> dict[str, float]:
    """Our error beside that of the truth itself, whose labels are noisy and, app by app, biased.

    Each comparison is on the rows whose truth is known: a node whose clock is wrong tells of windows that never were.
    """
    truth, before, label = world.truth[outcome.where], world.before[outcome.where], outcome.rows.log_slowdown
    told, there, error = np.isfinite(truth), np.isfinite(before), np.abs(outcome.predicted[OURS] - label)
    apart = (label - truth)[told]
    normal = group_codes(world.table, ["app", "platform"])[outcome.where][told]
    bias = np.bincount(normal, apart) / np.maximum(np.bincount(normal), 1)
    ours, foresight = float(error[told].mean()), float(np.abs(label - before)[there].mean())
    return {
        "foresight_mae": foresight,
        "s1_vs_foresight": float(error[there].mean()) / foresight,
        "floor_mae": float(np.abs(apart).mean()),
        "label_bias": float(apart.mean()),
        "s1_vs_floor": ours / float(np.abs(apart).mean()),
        "s1_vs_unbiased_floor": ours / float(np.abs(apart - bias[normal]).mean()),
        "s1_mae_of_truth": float(np.abs(outcome.predicted[OURS] - truth)[told].mean()),
    }


def _beside_others(outcomes: dict[str, Outcome], errors: dict[str, dict[str, float]]) -> dict[str, float]:
    """Our error beside the best baseline's and, beyond the pressures learnt from, beside ours within; coverage."""
    return {
        "s2_vs_best_baseline": _against_best(errors["S2"]),
        "s6_vs_best_baseline": _against_best(errors["S6"]),
        "s6_vs_in_range": errors["S6"][OURS] / _mae_of_same(outcomes["S3"], outcomes["S6"].where),
        "rows": float(len(outcomes["S2"].where)),
    }


def _mae(outcome: Outcome, predicted: Floats) -> float:
    return float(np.abs(predicted - outcome.rows.log_slowdown).mean())


def _mae_of_same(outcome: Outcome, where: Ints) -> float:
    """Our error on those of the judged rows that another question judged too."""
    same = np.isin(outcome.where, where)
    return float(np.abs(outcome.predicted[OURS] - outcome.rows.log_slowdown)[same].mean())


def _against_best(errors: dict[str, float]) -> float:
    return errors[OURS] / min(value for who, value in errors.items() if who != OURS)


def share(text: str) -> float:
    """A number from 0 to 1."""
    value = float(text)
    if not 0.0 <= value <= 1.0:
        raise ArgumentTypeError(f"{text} is not from 0 to 1")
    return value


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=12, help="simulated nodes (12)")
    parser.add_argument("--apps", type=int, default=24, help="simulated apps (24)")
    parser.add_argument("--hours", type=float, default=12.0, help="simulated hours (12)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulation (1)")
    parser.add_argument(
        "--team-likeness", type=share, default=0.0, help="share of apps' variance that their teams explain, 0 to 1 (0)"
    )


BENCHMARK = Benchmark(
    "laws",
    "errors, regret and coverage on simulated truths of three forms, beside the noise and baselines",
    run,
    runs=1,
    add_arguments=_arguments,
)
