"""Search: which settings of the trainer do best on apps never seen, and whether that beats the default honestly.

Nested: a choice among settings by an error makes that error too small. Outer folds of apps judge, and settings
are chosen anew inside each, on inner folds of the other apps.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from features.training.model_input import training_fills
from models.data.dataset import Dataset
from models.data.impute import impute, training_medians
from models.data.splits import Split, leave_group_out
from models.estimator.feature_matrix import Rows
from models.forms.pressure_base import base_sum
from models.metrics.errors_and_ranks import Estimate, error_of_log, resamples_of
from models.metrics.paired_test import above
from models.training.fit import TrainConfig, fit_base_of, fit_residual, out_of_fold_mean, raw_score

Floats = NDArray[np.float64]
Progress = Callable[[str], None]
"""Called with what is being tried."""
SPACE: Mapping[str, tuple[float, ...]] = {
    "rounds": (50, 100, 200),
    "leaves": (3, 5, 7, 15, 31),
    "learning_rate": (0.03, 0.05, 0.1, 0.2),
    "min_rows_in_leaf": (10, 20, 50, 150),
    "huber_log_ratio": (0.05, 0.1, 0.2, 0.5),
    "tolerance": (0.0, 0.01, 0.02, 0.05),
}
"""What candidates draw from; what is not named stays as in the default."""
KEPT_SHARE = 3
"""One candidate in so many goes on from the first inner fold to all of them."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried: candidates next to the default, outer and inner folds of apps, and the seed of the draw."""

    candidates: int = 15
    outer: int = 4
    inner: int = 3
    seed: int = 0
    resamples: int = 500


@dataclass(frozen=True)
class Candidate:
    """Settings, and how they did.

    Args:
        config: the settings.
        inner: mean absolute error on inner folds minus the default's on the same, mean over the outer folds in which it
            went on to all inner ones; NaN where it never did.
        chosen: by how many outer folds.
        outer: error on the outer folds' apps, which no choice ever saw; the default's and that of what was chosen at
            least once. NaN for the others.
    """

    config: TrainConfig
    inner: float
    chosen: int
    outer: float = float("nan")


@dataclass(frozen=True)
class Found:
    """What came out.

    Args:
        candidates: the default first.
        default: its error on outer folds.
        nested: the error of choosing inside each outer fold.
        gain: default minus nested, paired; an interval above zero is a default that loses beyond luck.
    """

    candidates: list[Candidate]
    default: Estimate
    nested: Estimate
    gain: Estimate

    @property
    def default_loses(self) -> bool:
        """Whether searching beats the default beyond the interval."""
        return self.gain.low > 0


def drawn(default: TrainConfig, effort: Effort) -> list[TrainConfig]:
    """The default, then as many others as asked, all different, each setting drawn from SPACE.

    Source: Bergstra and Bengio, "Random search for hyper-parameter optimization", JMLR 2012.
    """
    rng, found = np.random.default_rng(effort.seed), [default]
    while len(found) <= effort.candidates:
        values = {name: type(getattr(default, name))(rng.choice(of)) for name, of in SPACE.items()}
        config = replace(default, **values)
        if config not in found:
            found.append(config)
    return found


def search(rows: Rows, default: TrainConfig, effort: Effort, progress: Progress) -> Found:
    """Nested search over settings.

    Args:
        rows: training rows of at least three apps.
        default: what is used now; the first candidate.
        effort: how much is tried.
        progress: called for each outer fold and candidate.

    Returns:
        All candidates, the default's honest error next to that of choosing, and their paired difference.

    Raises:
        InconsistentDataset: too few apps.

    Source: Cawley and Talbot, JMLR 2010 (nested choice); Jamieson and Talwalkar, AISTATS 2016 (successive halving).
    """
    configs = drawn(default, effort)
    outer = leave_group_out(rows.group, folds=effort.outer)
    inner = np.empty((len(outer), len(configs)))
    picked = np.empty(len(outer), np.int64)
    said: dict[int, Floats] = {}
    for number, split in enumerate(outer):

        def advance(what: str, number: int = number) -> None:
            progress(f"outer fold {number + 1} of {len(outer)}: {what}")

        inner[number] = halving(rows.take(split.train), configs, effort, advance)
        picked[number] = int(np.argmin(inner[number]))
    for which in {0, *picked.tolist()}:
        said[which] = np.empty(len(rows.group))
        for number, split in enumerate(outer):
            progress(f"judging candidate {which} on outer fold {number + 1} of {len(outer)}")
            said[which][split.test] = predicted(rows, split, configs[which])
    return _found(rows, outer, (configs, inner, picked), said, effort)


def halving(seen: Rows, configs: Sequence[TrainConfig], effort: Effort, progress: Progress) -> Floats:
    """Errors of candidates on inner folds of apps.

    Args:
        seen: rows of an outer fold's first part.
        configs: candidates.
        effort: inner folds.
        progress: called for each candidate.

    Returns:
        (candidates,) mean absolute errors over all inner folds of the better third by the first fold, and of the
        default; infinite for the others, which are given up.

    Raises:
        InconsistentDataset: fewer than two apps.

    Source: Jamieson and Talwalkar, "Non-stochastic best arm identification", AISTATS 2016.
    """
    folds = leave_group_out(seen.group, folds=effort.inner)
    errors = np.full((len(folds), len(configs)), np.nan)
    for which, config in enumerate(configs):
        progress(f"candidate {which} of {len(configs) - 1}, first inner fold")
        errors[0, which] = _error(seen, folds[0], config)
    going_on = {0, *np.argsort(errors[0], kind="stable")[: max(1, len(configs) // KEPT_SHARE)].tolist()}
    for which in sorted(going_on):
        progress(f"candidate {which} of {len(configs) - 1}, all inner folds")
        errors[1:, which] = [_error(seen, fold, configs[which]) for fold in folds[1:]]
    whole = np.full(len(configs), np.inf)
    whole[sorted(going_on)] = errors[:, sorted(going_on)].mean(axis=0)
    return whole


def predicted(rows: Rows, split: Split, config: TrainConfig) -> Floats:
    """(judged rows,) log slowdown by the mean model of a split's first part, without spread and margins."""
    seen, unseen = rows.take(split.train), rows.take(split.test)
    fills = training_fills(seen.raw)
    train, test = seen.dataset(fills), unseen.dataset(fills)
    medians = training_medians(train.features, train.base | (train.signs > 0))
    known = train.with_features(impute(train.features, medians))
    return log_mean(known, impute(test.features, medians), config)


def log_mean(known: Dataset, asked: Floats, config: TrainConfig) -> Floats:
    """(n,) what base and trees say of (n, d) imputed rows; as many trees as `fit_placement` would keep."""
    rounds, _ = out_of_fold_mean(known, leave_group_out(known.group, folds=config.folds), config)
    terms = fit_base_of(known, config)
    trees = fit_residual(known, terms, replace(config, rounds=rounds))
    return np.asarray(np.log1p(base_sum(asked, terms)) + raw_score(trees, asked), np.float64)


def _error(rows: Rows, split: Split, config: TrainConfig) -> float:
    return float(error_of_log(rows.log_slowdown[split.test], predicted(rows, split, config)).mean())


def _found(
    rows: Rows,
    outer: list[Split],
    tried: tuple[list[TrainConfig], Floats, NDArray[np.int64]],
    said: dict[int, Floats],
    effort: Effort,
) -> Found:
    configs, inner, picked = tried
    truth, again = rows.log_slowdown, resamples_of(rows.group, np.random.default_rng(effort.seed), effort.resamples)
    nested = np.empty(len(truth))
    for number, split in enumerate(outer):
        nested[split.test] = said[int(picked[number])][split.test]
    known = np.isfinite(inner)
    excess = np.where(known, inner, inner[:, :1]) - inner[:, :1]
    means = excess.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    candidates = [
        Candidate(
            config,
            float(means[which]) if known[:, which].any() else float("nan"),
            int((picked == which).sum()),
            float(error_of_log(truth, said[which]).mean()) if which in said else float("nan"),
        )
        for which, config in enumerate(configs)
    ]
    return Found(
        candidates,
        default=again.mean(error_of_log(truth, said[0])),
        nested=again.mean(error_of_log(truth, nested)),
        gain=above(truth, nested, said[0], again),
    )
