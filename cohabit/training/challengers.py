"""Challengers: ours compared with other models on a lake's training rows, as tables and sentences."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from cohabit.training.evaluation import Thoroughness
from cohabit.training.tables import Sheet, with_range
from cohabit.training.train_model import training_table
from ingest.lake.tables import Lake
from models.challengers.catalogue import BOUNDS, WORDS
from models.challengers.comparison import Contest, compared, winners
from models.errors import InconsistentDataset
from models.estimator.feature_matrix import Rows, read_rows
from models.evaluation.protocols import Asked, protocol, read_keys
from models.metrics.errors_and_ranks import resamples_of
from models.training.trainer import OURS, Metrics, Trainer

Progress = Callable[[str], None]
ASKED = ("S1", "S2", "SC", "S6")
"""Tomorrow, unseen apps, apps that never ran, denser packing: what placements live by."""


@dataclass(frozen=True)
class Faced:
    """One question and how everybody did; `metrics` is empty where there is no answer, for a `reason`.

    `unfitted` has the challengers that could not be fitted, with the reason.
    """

    asked: Asked
    metrics: Metrics
    reason: str = ""
    unfitted: Mapping[str, str] = field(default_factory=dict)


def challenge_lake(
    lake: Lake, how: Thoroughness, progress: Progress, *, training: pa.Table | None = None
) -> list[Faced]:
    """Ask four questions of ours, the baselines and the challengers.

    Args:
        lake: holds training rows.
        how: how much work; the splits are those of the evaluation.
        progress: called with each question, split and challenger.
        training: see cohabit.training.evaluation.evaluate_lake.

    Returns:
        In the order of ASKED.

    Raises:
        InconsistentDataset: the lake holds no training rows.
    """
    table = training_table(lake) if training is None else training
    asked = {one.id: one for one in protocol(read_keys(table), how.depth)}
    return challenge_rows(read_rows(table), [asked[name] for name in ASKED], how, progress)


def challenge_rows(rows: Rows, questions: list[Asked], how: Thoroughness, progress: Progress) -> list[Faced]:
    """As `challenge_lake`, of rows and questions."""
    trainer = Trainer(rows, how.config)
    contest = Contest(trainer)
    faced = []
    for number, one in enumerate(questions, 1):

        def saying(what: str, one: Asked = one, number: int = number) -> None:
            progress(f"challengers, question {number} of {len(questions)}, {one.id} {one.title}: {what}")

        faced.append(_face(contest, one, how, saying))
    return faced


def _face(contest: Contest, asked: Asked, how: Thoroughness, progress: Progress) -> Faced:
    if asked.question is None:
        return Faced(asked, {}, asked.reason)
    try:
        outcome = contest.trainer.judge(asked.question, progress)
        heard = contest.judge(asked.question, progress)
    except InconsistentDataset as error:
        return Faced(asked, {}, f"{error.problem}: {error.remedy}")
    again = resamples_of(asked.cluster[outcome.where], np.random.default_rng(how.depth.seed), how.resamples)
    return Faced(asked, compared(outcome, heard.said, again), unfitted=heard.unfitted)


def challenge_sheets(faced: list[Faced]) -> list[Sheet]:
    """For each answered question the expectations, and the bounds."""
    return [sheet for one in faced if one.metrics for sheet in (_expectations(one), _bounds(one))]


def verdicts(faced: list[Faced]) -> list[str]:
    """Who, by question, beats ours beyond the interval, and in what, or that none does; and which were not fitted."""
    said = []
    for one in faced:
        named = ", ".join(f"{n} ({_loss(n)} {with_range(one.metrics[n]['above_ours'])})" for n in winners(one.metrics))
        words = one.reason if not one.metrics else f"better than ours beyond luck: {named or 'none'}"
        said.append(f"{one.asked.id} {one.asked.title}: {words}")
        said += [f"{one.asked.id} {one.asked.title}: {name} not fitted: {why}" for name, why in one.unfitted.items()]
    return said


def _loss(name: str) -> str:
    """What a challenger's difference from ours is measured in."""
    return "pinball" if name in BOUNDS else "MAE"


def append_challengers(report: Path, faced: list[Faced]) -> None:
    """Add the section to a report that was written."""
    tables = "\n".join(
        f"### {sheet.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in _lines(sheet)) + "\n"
        for sheet in challenge_sheets(faced)
    )
    words = "\n".join(f"- `{name}`: {word}" for name, word in WORDS.items())
    lost = "\n".join(f"- {sentence}" for sentence in verdicts(faced))
    head = (
        "## Challengers\n\nOther learners on the same rows, folds and columns. `above ours` is their error minus ours, "
        "with the paired 95 % interval; below zero they are better. The error is the MAE of log slowdown for "
        "expectations, and the pinball loss at 0.9 for bounds (`quantile_`).\n"
    )
    report.write_text("\n".join([report.read_text(), head, lost, "", words, "", tables]))


def _lines(sheet: Sheet) -> list[tuple[str, ...]]:
    rule = tuple("---" if k == 0 else "---:" for k in range(len(sheet.columns)))
    return [sheet.columns, rule, *sheet.rows]


def _expectations(one: Faced) -> Sheet:
    chosen = {name: found for name, found in one.metrics.items() if "mae_log" in found}
    ranked = sorted(chosen, key=lambda name: (name != OURS, chosen[name]["mae_log"].value))
    rows: list[tuple[str, ...]] = [
        (name, with_range(chosen[name]["mae_log"]), with_range(chosen[name].get("above_ours"))) for name in ranked
    ]
    return Sheet(f"{one.asked.id} {one.asked.title}: MAE of log slowdown", ("predictor", "MAE", "above ours"), rows)


def _bounds(one: Faced) -> Sheet:
    rows: list[tuple[str, ...]] = []
    for name in (OURS, *(name for name in BOUNDS if name in one.metrics)):
        found = one.metrics[name]
        rows.append(
            (name, with_range(found["pinball90"]), with_range(found["coverage90"]), with_range(found.get("above_ours")))
        )
    columns = ("bound", "pinball", "coverage", "pinball above ours")
    return Sheet(f"{one.asked.id} {one.asked.title}: bounds, 0.9 is promised", columns, rows)
