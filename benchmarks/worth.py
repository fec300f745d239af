"""Worth: does `cohabit model impact` tell the effect that advice had, where it is known? Estimates beside the truth."""

from argparse import ArgumentParser, Namespace

import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from benchmarks.runner import HIGH, LOW, OURS, Benchmark, Figures, Result
from benchmarks.worth_site import HORIZON, STEP_S, Ground, Told, experiment
from models.impact.ab_estimate import Interval, Trial, worth

Floats = NDArray[np.float64]
COVERED, MAX_BIAS = (0.85, 0.95), 0.02
"""What must hold."""
STEP_US = round(STEP_S * 1e6)


def trial_of(told: Told, advised_share: float) -> Trial:
    """What the estimator gets to see."""
    n = len(told.outcome)
    chance, kept = np.full(n, advised_share), np.ones(n)
    at_us = np.arange(n) * STEP_US
    return Trial(told.advised, chance, kept, told.outcome, told.complied, told.covariates, at_us)


def judged(told: Told, advised_share: float) -> dict[str, float]:
    """One experiment: estimates, truths, and whether each interval holds its truth."""
    trial = trial_of(told, advised_share)
    found = worth(trial, HORIZON * STEP_US)
    truth = float((told.potential[:, 0] - told.potential[:, 1]).mean())
    moved = float((told.landing[:, 1].astype(float) - told.landing[:, 0]).mean())
    wide = found.serial_error / found.error
    plain = float(told.outcome[~told.advised].mean() - told.outcome[told.advised].mean())
    followed = float(told.outcome[~told.complied].mean() - told.outcome[told.complied].mean())
    return {
        "effect": found.per_pod.value,
        "truth": truth,
        "holds": _holds(found.per_pod, truth),
        "holds_serial": _holds(_wider(found.per_pod, wide), truth),
        "width": found.per_pod.high - found.per_pod.low,
        "mover_effect": found.per_mover.value,
        "mover_truth": truth / moved,
        "mover_holds": _holds(found.per_mover, truth / moved),
        "site_truth": float(told.everybody.mean()),
        "plain": plain,
        "as_treated": followed,
    }


def _holds(interval: Interval, truth: float) -> float:
    return float(interval.low <= truth <= interval.high)


def _wider(interval: Interval, times: float) -> Interval:
    low, high = ((bound - interval.value) * times for bound in (interval.low, interval.high))
    return Interval(interval.value, interval.value + low, interval.value + high)


def run(arguments: Namespace, _: np.random.Generator) -> Result:
    """All experiments, every one counted; beside ours plain means of the arms, and of where pods went."""
    ground = Ground(arguments.decisions)
    seeds = range(arguments.first, arguments.first + arguments.experiments)
    each = [
        judged(experiment(ground, np.random.default_rng(seed)), ground.advised_share)
        for seed in track(seeds, "experiments", transient=True)
    ]
    of = {name: np.array([one[name] for one in each]) for name in each[0]}
    truth = float(of["truth"].mean())
    found: dict[str, Figures] = {
        OURS: _ours(of),
        "plain_means": {"bias": _off(of["plain"], truth), "mean_effect": float(of["plain"].mean())},
        "where_pods_went": {"bias": _off(of["as_treated"], truth), "mean_effect": float(of["as_treated"].mean())},
    }
    print("targets: " + ("all hold" if met(found[OURS]) else "NOT MET"))
    return found


def met(figures: Figures) -> bool:
    """Whether both effects are within their intervals as often as promised, and neither is biased."""
    covered = all(COVERED[0] <= figures[name] <= COVERED[1] for name in ("coverage90", "mover_coverage90"))
    return covered and max(figures["bias"], figures["mover_bias"]) <= MAX_BIAS


def _ours(of: dict[str, Floats]) -> Figures:
    effect, truth = float(of["effect"].mean()), float(of["truth"].mean())
    mover, mover_truth = float(of["mover_effect"].mean()), float(of["mover_truth"].mean())
    return {
        **_share("coverage90", of["holds"]),
        "bias": _off(of["effect"], truth),
        "bias_chance": float((of["effect"] - of["truth"]).std() / len(of["truth"]) ** 0.5 / abs(truth)),
        "mean_effect": effect,
        "mean_truth": truth,
        "width": float(of["width"].mean()),
        "told": float((of["width"] / 2 < np.abs(of["effect"])).mean()),
        **_share("mover_coverage90", of["mover_holds"]),
        "mover_bias": _off(of["mover_effect"], mover_truth),
        "mover_mean_effect": mover,
        "mover_mean_truth": mover_truth,
        **_share("coverage90_serial", of["holds_serial"]),
        "site_mean_truth": float(of["site_truth"].mean()),
        "experiments": float(len(of["truth"])),
    }


def _share(name: str, holds: Floats) -> Figures:
    """A share of experiments, and its 95 % interval by Wilson: what chance alone makes of it."""
    n, share = len(holds), float(holds.mean())
    z = 1.96
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * (share * (1 - share) / n + z**2 / (4 * n**2)) ** 0.5 / (1 + z**2 / n)
    return {name: share, name + LOW: middle - half, name + HIGH: middle + half}


def _off(estimates: Floats, truth: float) -> float:
    return abs(float(estimates.mean()) - truth) / abs(truth)


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--experiments", type=int, default=200, help="sites, each of a seed of its own (200)")
    parser.add_argument("--first", type=int, default=1, help="seed of the first (1)")
    parser.add_argument("--decisions", type=int, default=3500, help="pods of each that count (3500)")


BENCHMARK = Benchmark(
    "worth",
    "violation-minutes that advice avoided, estimated from withheld advice, beside the truth",
    run,
    runs=1,
    add_arguments=_arguments,
)
