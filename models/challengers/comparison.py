"""Challenge: challengers on the same rows, folds and columns as ours, and how sure a difference is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
from lightgbm.basic import LightGBMError
from numpy.typing import NDArray

from features.schema.catalog import RAW_NAMES
from models.challengers.catalogue import BOUNDS, CHALLENGERS, Lesson, Says
from models.data.dataset import Dataset
from models.data.impute import impute
from models.data.splits import Split
from models.errors import ModelsError
from models.estimator.feature_matrix import Rows
from models.evaluation.scorecard import pinball
from models.metrics.errors_and_ranks import Estimate, Resamples, covered, error_of_log
from models.metrics.paired_test import above
from models.training.trainer import OURS, Metrics, Outcome, Progress, Question, Trainer

Floats = NDArray[np.float64]
T = TypeVar("T")
REFUSALS = (ValueError, LightGBMError, ModelsError)
"""What learners raise on rows that they cannot learn from: too few, or columns without any value."""


@dataclass(frozen=True)
class Heard:
    """What challengers say of n judged rows.

    Args:
        said: by challenger, (n,) log slowdown.
        unfitted: why the others say nothing, by challenger.
    """

    said: dict[str, Floats]
    unfitted: dict[str, str]


@dataclass(frozen=True)
class Contest:
    """Fits challengers on the first parts of splits, on the same part only once.

    Args:
        trainer: of ours.
        expecting: challengers of the expectation.
        bounding: challengers of the bound.
        done: fitted ones, or why they are not, by the rows they learnt from.
    """

    trainer: Trainer
    expecting: Mapping[str, Callable[[Lesson], Says]] = field(default_factory=lambda: CHALLENGERS)
    bounding: Mapping[str, Callable[[Lesson], Says]] = field(default_factory=lambda: BOUNDS)
    done: dict[bytes, dict[str, Says | str]] = field(default_factory=dict)

    def judge(self, question: Question, progress: Progress) -> Heard:
        """What every challenger says of the judged rows.

        Args:
            question: as for Trainer.judge.
            progress: called for each challenger and split.

        Returns:
            In the order of Trainer.judge. Who cannot learn from one split's first part says nothing, with the reason.

        Raises:
            InconsistentDataset: ours cannot learn from a split's first part.

        Source: docs/evaluation.md.
        """
        parts: list[dict[str, Floats | str]] = []
        for number, split in enumerate(question.splits, 1):

            def advance(name: str, number: int = number) -> None:
                progress(f"split {number} of {len(question.splits)}, {name}")

            fitted = self._fitted(split, advance)
            asked = self.trainer.rows.take(split.test)
            rows = self._imputed(asked.without_profile() if question.cold else asked, split)
            parts.append(
                {n: says if isinstance(says, str) else _tried(partial(says, rows)) for n, says in fitted.items()}
            )
        return _heard(parts)

    def _fitted(self, split: Split, advance: Progress) -> dict[str, Says | str]:
        key = np.packbits(split.train).tobytes()
        if key not in self.done:
            advance(OURS)
            seen = self._imputed(self.trainer.rows.take(split.train), split)
            lesson = Lesson(seen, self.trainer.model_of(split), self.trainer.config)
            self.done[key] = {}
            for name, fit in {**self.expecting, **self.bounding}.items():
                advance(name)
                self.done[key][name] = _tried(partial(fit, lesson))
        return self.done[key]

    def _imputed(self, rows: Rows, split: Split) -> Dataset:
        medians = self.trainer.model_of(split).medians
        data = rows.dataset(medians[: len(RAW_NAMES)])
        return data.with_features(impute(data.features, medians))


def compared(outcome: Outcome, said: Mapping[str, Floats], again: Resamples) -> Metrics:
    """Errors of ours, of the baselines and of the challengers, and how far each is above ours.

    Args:
        outcome: of ours and the baselines, n rows.
        said: of `Contest.judge`, on the same question.
        again: resamples of the rows' clusters.

    Returns:
        By predictor: mae_log and, but for ours, above_ours; for challengers of the bound pinball90, coverage90 and
        above_ours, of the pinball loss, next to those of `ours`.

    Raises:
        Nothing.

    Source: docs/evaluation.md; paired cluster bootstrap, Cameron et al., REStat 2008.
    """
    truth, ours = outcome.rows.log_slowdown, outcome.predicted[OURS]
    expecting = {**outcome.predicted, **{name: values for name, values in said.items() if name not in BOUNDS}}
    found: Metrics = {}
    for name, predicted in expecting.items():
        found[name] = {"mae_log": again.mean(error_of_log(truth, predicted))}
        if name != OURS:
            found[name]["above_ours"] = above(truth, ours, predicted, again)
    found[OURS] |= _bound(truth, outcome.upper, again)
    for name in said.keys() & BOUNDS.keys():
        lost = pinball(truth, said[name]) - pinball(truth, outcome.upper)
        found[name] = _bound(truth, said[name], again) | {"above_ours": again.mean(lost)}
    return found


def winners(metrics: Metrics) -> list[str]:
    """Predictors whose error is smaller than ours beyond the paired interval, the surest first."""
    gaps = {name: found["above_ours"] for name, found in metrics.items() if "above_ours" in found}
    return sorted((name for name, gap in gaps.items() if gap.high < 0), key=lambda name: gaps[name].high)


def _tried(act: Callable[[], T]) -> T | str:
    """What comes of it, or the first line of why nothing does."""
    try:
        return act()
    except REFUSALS as refusal:
        return (str(refusal).strip() or type(refusal).__name__).splitlines()[0]


def _heard(parts: list[dict[str, Floats | str]]) -> Heard:
    """Splits one after the other; of a challenger that failed on one, only the first reason."""
    said, unfitted = {}, {}
    for name in parts[0]:
        values = [part[name] for part in parts]
        reasons = [one for one in values if isinstance(one, str)]
        if reasons:
            unfitted[name] = reasons[0]
        else:
            said[name] = np.concatenate(values)
    return Heard(said, unfitted)


def _bound(truth: Floats, upper: Floats, again: Resamples) -> dict[str, Estimate]:
    return {"pinball90": again.mean(pinball(truth, upper)), "coverage90": again.mean(covered(truth, upper))}
