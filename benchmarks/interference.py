"""Interference: any file of measured windows or pairs, our trainer beside the baselines on the same splits."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.interference_files import (
    FEWEST_ROWS,
    PairTable,
    UnusableFile,
    Windows,
    read_pairs,
    read_windows,
    refuse_unwritable,
)
from benchmarks.interference_scores import Judged, Said, scores
from benchmarks.pair_baselines import PAIR_BASELINES, Predict, Seen
from benchmarks.pair_blend import fit_pair_blend
from benchmarks.pair_newcomers import newcomers, predict_newcomers
from benchmarks.runner import OURS, Benchmark, Result
from benchmarks.window_baselines import WINDOW_BASELINES, Maker
from models.calibration.conformal import conformal_quantile
from models.challengers.pair_model import Cells, PairConfig, describe
from models.data.dataset import Dataset
from models.data.splits import Split, held_apart, leave_group_out, random_rows
from models.training.fit import TrainConfig, fit_placement
from models.training.trainer import open_fitted

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[str], None]
"""Told which method is being fitted to which fold."""
FOLDS = 5
INNER_FOLDS = 4
LEVEL = 0.9
TIME_BLOCKS = 5
ROLES = ("victim", "aggressor")
EPILOG = """windows: one row is one measured window; the label is modelled in log, --group is what is left out together
and never a feature, every other numeric column is a feature; a column of words is left out and named, a word among more
numbers than words is refused. --time judges what is latest: about 30 %, since rows of equal time stay together and the
boundary moves to the nearest change of time. pairs: columns victim, aggressor, slowdown, perhaps platform; --leave-out
victim or aggressor judges each workload that nobody learnt from in that role, but for --probes of its pairs, drawn at
random. A column split (train, test) rules in both; without one, windows are judged by folds of groups, pairs by folds
of cells.
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Two modes, each with its file."""
    parser.epilog = EPILOG
    modes = parser.add_subparsers(dest="mode", metavar="MODE", required=True)
    windows = modes.add_parser("windows", help="one row is one measured window", epilog=EPILOG)
    windows.add_argument("--file", type=Path, required=True, help="CSV, may be compressed")
    windows.add_argument("--label", required=True, help="column with what is predicted, above zero")
    windows.add_argument("--group", required=True, help="column whose values are left out as a whole")
    windows.add_argument("--drop", type=_names, default=[], metavar="A,B", help="columns that are no features")
    windows.add_argument("--time", metavar="COLUMN", help="sort by it, learn from about 70 %%, judge what is later")
    pairs = modes.add_parser("pairs", help="one row is one victim beside one aggressor", epilog=EPILOG)
    pairs.add_argument("--file", type=Path, required=True, help="CSV with victim, aggressor, slowdown")
    pairs.add_argument("--alone", type=Path, help="CSV with workload and numbers measured alone")
    pairs.add_argument("--leave-out", choices=ROLES, help="judge each workload that was never seen in this role")
    pairs.add_argument("--probes", type=int, default=0, metavar="N", help="pairs of it that are measured before (0)")
    for mode in (windows, pairs):
        mode.add_argument("--predictions", type=Path, metavar="OUT.csv", help="write what ours says of each judged row")


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Judge the file that is named; what is being done goes to standard error."""
    if arguments.predictions:
        refuse_unwritable(arguments.predictions)
    progress = _timed()
    if arguments.mode == "windows":
        windows = read_windows(arguments)
        rows, judged = judge_windows(windows, progress)
        about = {"group": [windows.group_names[g] for g in windows.group[rows]]}
        end = {"distance": judged.said[OURS].distance}
        held = windows.held
    else:
        pairs = read_pairs(arguments)
        splits = splits_of_pairs(pairs, arguments.leave_out, arguments.probes)
        rows, judged = judge_pairs(pairs, splits, arguments.leave_out, rng, progress)
        about = {
            "victim": [pairs.workloads[v] for v in pairs.victim[rows]],
            "aggressor": [pairs.workloads[a] for a in pairs.aggressor[rows]],
            "platform": [pairs.platforms[p] for p in pairs.platform[rows]],
        }
        end = {}
        held = pairs.held
    if arguments.predictions:
        write_predictions(
            arguments.predictions, rows, judged, {**about, "split": "fold" if held is None else "test", **end}
        )
    progress("intervals")
    return scores(judged, rng)


def judge_windows(windows: Windows, progress: Progress) -> tuple[Ints, Judged]:
    """Which rows were judged, and what every method says of them."""
    parts, splits = [], splits_of(windows)
    for number, split in enumerate(splits, 1):
        seen, unseen = np.flatnonzero(split.train), np.flatnonzero(split.test)
        methods = {OURS: partial(ours_of_windows, windows, seen, unseen)} | {
            name: partial(_baseline_of_windows, makers, windows, seen, unseen)
            for name, makers in WINDOW_BASELINES.items()
        }
        parts.append((unseen, _said_by(methods, f"fold {number} of {len(splits)}", progress)))
    rows, said = _together(parts)
    return rows, Judged(windows.log_label[rows], windows.group[rows], said)


def splits_of(windows: Windows) -> list[Split]:
    """The split of the file or of time, else folds of groups, else of rows where there is but one group.

    Raises:
        UnusableFile: without one group there is next to nothing to learn from.
    """
    if windows.held is not None:
        return [held_apart(windows.held)]
    if len(windows.group_names) > 1:
        folds = leave_group_out(windows.group, folds=FOLDS)
        if (fewest := min(fold.train.sum() for fold in folds)) < TIME_BLOCKS:
            raise UnusableFile(
                f"without its largest group the file has {fewest} rows: group by another column, or split"
            )
        return folds
    return random_rows(len(windows.group), folds=FOLDS, rng=np.random.default_rng(0))


def ours_of_windows(windows: Windows, seen: Ints, unseen: Ints) -> Said:
    """Our trainer without signs, through its exported graphs; margins for unseen groups where the groups are unseen."""
    fold = _inner_groups(windows, seen, unseen)
    data = Dataset(
        features=windows.features[seen],
        names=windows.names,
        signs=np.zeros(len(windows.names), np.int8),
        base=np.zeros(len(windows.names), np.bool_),
        log_slowdown=windows.log_label[seen],
        weight=np.ones(len(seen)),
        group=fold.astype(np.int32),
        node_window=np.arange(len(seen)),
        time=np.arange(len(seen)),
        kind=windows.group[seen].astype(np.int32),
    )
    placement = fit_placement(data, TrainConfig())
    said = open_fitted(placement).predict(windows.features[unseen])
    known = np.isin(windows.group[unseen], windows.group[seen])
    margin = np.where(known, placement.calibration.pooled, placement.calibration.hierarchical)
    return Said(said.log_mean, said.log_mean + margin * said.spread, said.distance)


def _inner_groups(windows: Windows, seen: Ints, unseen: Ints) -> Ints:
    """What training leaves out to judge itself: groups where the judged groups are new, else blocks of rows."""
    groups = windows.group[seen]
    new = ~np.isin(windows.group[unseen], groups)
    if new.mean() > 0.5 and len(np.unique(groups)) > 1 and not windows.in_time:
        return groups
    return np.arange(len(seen)) * TIME_BLOCKS // len(seen)


def _baseline_of_windows(makers: Sequence[Maker], windows: Windows, seen: Ints, unseen: Ints) -> Said:
    """A baseline on all rows, its setting and its bound by the inner folds that ours is judged on."""
    x, y = windows.features, windows.log_label
    errors = np.empty((len(makers), len(seen)))
    for fold in leave_group_out(_inner_groups(windows, seen, unseen), folds=FOLDS):
        learnt, left = seen[fold.train], seen[fold.test]
        for error, make in zip(errors, makers, strict=True):
            error[fold.test] = y[left] - make().fit(x[learnt], y[learnt]).predict(x[left])
    best = int(np.abs(errors).mean(axis=1).argmin())
    log_mean = makers[best]().fit(x[seen], y[seen]).predict(x[unseen])
    return Said(log_mean, log_mean + max(0.0, conformal_quantile(errors[best], LEVEL)))


def judge_pairs(
    pairs: PairTable, splits: list[Split], role: str | None, rng: np.random.Generator, progress: Progress
) -> tuple[Ints, Judged]:
    """As judge_windows; what is independent is a workload of the role, or a victim."""
    entities = entities_of(pairs)
    described, standard = described_of(pairs, entities), standard_of(pairs, entities)
    parts = []
    for number, split in enumerate(splits, 1):
        seen, asked = Seen(entities.cells.take(split.train), standard), entities.cells.take(split.test)
        methods = {OURS: partial(_ours_of_pairs, seen, asked, described, rng)} | {
            name: partial(_baseline_of_pairs, fit, seen, asked) for name, fit in PAIR_BASELINES.items()
        }
        said_here = _said_by(methods, f"fold {number} of {len(splits)}", progress)
        parts.append((np.flatnonzero(split.test), said_here))
    rows, said = _together(parts)
    victim = entities.cells.victim[rows]
    cluster = pairs.aggressor[rows] if role == "aggressor" else victim
    return rows, Judged(pairs.log_slowdown[rows], cluster, said, choice=victim)


def _ours_of_pairs(seen: Seen, asked: Cells, described: Floats, rng: np.random.Generator) -> Said:
    new = newcomers(seen.cells, asked)
    if new is None:
        ours = fit_pair_blend(seen.cells, described, PairConfig(), rng).predict(asked.victim, asked.aggressor, rng)
    else:
        ours = predict_newcomers(seen.cells, (described, seen.profiles), asked, new, rng)
    return Said(ours.log_mean, ours.upper)


def _baseline_of_pairs(fit: Callable[[Seen], Predict], seen: Seen, asked: Cells) -> Said:
    """A baseline on all cells, its bound from errors on cells left out."""
    log_mean = fit(seen)(asked.victim, asked.aggressor)
    return Said(log_mean, log_mean + max(0.0, conformal_quantile(cell_errors(fit, seen), LEVEL)))


def splits_of_pairs(pairs: PairTable, role: str | None = None, probes: int = 0) -> list[Split]:
    """The split of the file, else every workload of a role in turn, but for its probes, else folds of cells.

    Raises:
        UnusableFile: a split and a role were asked for, or a workload has no pair that is no probe.
    """
    if pairs.held is not None:
        if role is not None:
            raise UnusableFile("column 'split' says what is judged: take it out, or leave out --leave-out")
        return [held_apart(pairs.held)]
    if role is None:
        if probes:
            raise UnusableFile("--probes are of workloads that are left out: add --leave-out victim or aggressor")
        return random_rows(len(pairs.victim), folds=FOLDS, rng=np.random.default_rng(0))
    return _each_left_out(pairs.victim if role == "victim" else pairs.aggressor, probes)


def _each_left_out(workload: Ints, probes: int) -> list[Split]:
    rng, count = np.random.default_rng(0), np.bincount(workload)
    fewest = int(count[count > 0].min())
    if not 0 <= probes < fewest:
        raise UnusableFile(f"--probes {probes}: from 0 to {fewest - 1}, as a workload has {fewest} pairs and no more")
    splits = []
    for one in np.flatnonzero(count):
        test = workload == one
        test[rng.permutation(np.flatnonzero(test))[:probes]] = False
        if (~test).sum() < FEWEST_ROWS:
            raise UnusableFile(f"without one workload {(~test).sum()} pairs are left, and {FEWEST_ROWS} are needed")
        splits.append(held_apart(test))
    return splits


@dataclass(frozen=True)
class Entities:
    """Workloads on platforms: (e,) which workload and platform each is, and the cells between them."""

    workload: Ints
    platform: Ints
    cells: Cells


def entities_of(pairs: PairTable) -> Entities:
    """Number every workload on every platform it was seen on."""
    count = len(pairs.platforms)
    codes = np.concatenate([pairs.victim, pairs.aggressor]) * count + np.tile(pairs.platform, 2)
    names, place = np.unique(codes, return_inverse=True)
    victim, aggressor = np.split(place.astype(np.int64), 2)
    return Entities(names // count, names % count, Cells(victim, aggressor, pairs.log_slowdown))


def described_of(pairs: PairTable, entities: Entities) -> Floats:
    """(e, q) what ours knows of entities beforehand."""
    return describe(entities.workload, entities.platform, pairs.profiles)


def standard_of(pairs: PairTable, entities: Entities) -> Floats:
    """(e, p) what baselines know of them: numbers measured alone, standardised."""
    return _standard(pairs.profiles)[entities.workload]


def write_predictions(path: Path, rows: Ints, judged: Judged, about: Mapping[str, object]) -> None:
    """One line a judged row: its number in the file (in the order judged by), truth, expectation and bound."""
    ours = judged.said[OURS]
    ratios = {"y": np.exp(judged.truth), "yhat": np.exp(ours.log_mean), "upper": np.exp(ours.upper)}
    pd.DataFrame({"row": rows, **ratios, **about}).sort_values("row").to_csv(path, index=False)


def cell_errors(fit: Callable[[Seen], Predict], seen: Seen) -> Floats:
    """Measured less expected log slowdown of the cells that one inner fold left out."""
    fold = random_rows(len(seen.cells.victim), folds=INNER_FOLDS, rng=np.random.default_rng(1))[0]
    left = seen.cells.take(fold.test)
    return left.log_slowdown - fit(Seen(seen.cells.take(fold.train), seen.profiles))(left.victim, left.aggressor)


def _said_by(methods: Mapping[str, Callable[[], Said]], fold: str, progress: Progress) -> dict[str, Said]:
    """What each method says of one fold, in their order."""
    said = {}
    for name, say in methods.items():
        progress(f"{fold}: {name}")
        said[name] = say()
    return said


def _timed() -> Progress:
    """A line on standard error for each step that begins, with the seconds until then."""
    began = perf_counter()
    return lambda what: print(f"{perf_counter() - began:8.1f} s  {what}", file=sys.stderr, flush=True)


def _together(parts: Sequence[tuple[Ints, Mapping[str, Said]]]) -> tuple[Ints, dict[str, Said]]:
    """Folds one after the other."""
    rows = np.concatenate([rows for rows, _ in parts])
    return rows, {name: _joined([said[name] for _, said in parts]) for name in parts[0][1]}


def _joined(said: Sequence[Said]) -> Said:
    """What was said of one fold after the other."""
    apart = [part.distance for part in said if part.distance is not None]
    return Said(
        np.concatenate([part.log_mean for part in said]),
        np.concatenate([part.upper for part in said]),
        np.concatenate(apart) if apart else None,
    )


def _standard(profiles: Floats) -> Floats:
    """(w, p) standardised; missing counts as the mean."""
    known = profiles[:, np.isfinite(profiles).any(axis=0)]
    centred = np.nan_to_num(known - np.nanmean(known, axis=0)) if known.size else known
    spread = centred.std(axis=0)
    standard: Floats = centred[:, spread > 0] / spread[spread > 0]
    return standard


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


BENCHMARK = Benchmark(
    "interference", "any file of measured windows or pairs, ours beside baselines", run, 1, add_arguments
)
