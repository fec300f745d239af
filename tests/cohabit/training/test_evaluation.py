"""Evaluation of a whole lake: every question is answered or has a reason, and alarms say what they mean."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest

from cohabit.cli.models.train import LEGEND, run_evaluate
from cohabit.config.settings import read_settings
from cohabit.terminal.options import FOLDS_DIFFER
from cohabit.training import tables as evaluation_tables
from cohabit.training.evaluation import (
    Answer,
    Findings,
    Thoroughness,
    evaluate_lake,
    floor_of,
    leak_words,
    modelled_share,
)
from cohabit.training.evaluation_report import FIGURES, write_report
from cohabit.training.tables import beyond_words, narrow_sheets, predictor_sheets, sentences, sheets
from cohabit.training.train_model import DEFAULT_EFFORT
from features.schema.tables import CONTENTION, LABELS
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.evaluation.protocols import Depth
from models.metrics import curves
from models.metrics.errors_and_ranks import Estimate
from models.training.fit import TrainConfig
from models.training.trainer import OURS
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=9, apps=9, per_node=8, hours=2.0, seed=4, law="queueing")
QUICK = Thoroughness(TrainConfig(rounds=20, spread_rounds=10, folds=2), Depth(2, 2, 2), resamples=20)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two hours of a small cluster, with all derived tables."""
    return derived_lake(tmp_path_factory.mktemp("evaluated"), PLAN)


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def found(lake: Lake, told: list[str]) -> Findings:
    return evaluate_lake(lake, QUICK, told.append)


def test_every_question_has_figures_or_a_reason(found: Findings) -> None:
    assert list(found.answers) == ["S1", "S2", "SC", "S3", "S4", "S5", "S6", "S7", "S0"]
    assert {name for name, answer in found.answers.items() if not answer.metrics} == {"S7"}
    assert found.answers["S7"].reason.startswith("no randomised rows")
    for answer in found.answers.values():
        if answer.metrics:
            of_bounds = {"coverage90", "coverage90_selected", "width", "margin_vs_oracle", "pinball90", "apps_covered"}
            assert {"mae_log", "skill", *of_bounds} <= answer.metrics[OURS].keys()
            assert ("coverage90_adapted" in answer.metrics[OURS]) == (answer.asked.id == "S1")
            assert all(e.low <= e.value <= e.high for e in (m["mae_log"] for m in answer.metrics.values()))


def test_progress_names_the_question_and_the_split(found: Findings, told: list[str]) -> None:
    assert told[0] == "question 1 of 9, S1 tomorrow: split 1 of 2"
    assert told[-1] == "question 9 of 9, S0 random rows: split 2 of 2"


def test_the_model_is_no_better_than_the_noise_floor_allows(found: Findings) -> None:
    assert found.floor is not None
    assert 0 < found.floor.guaranteed < found.floor.if_normal < found.answers["S1"].metrics[OURS]["mae_log"].value


def test_candidates_of_a_decision_are_of_one_app_and_window(found: Findings) -> None:
    answer = found.answers["S2"]
    assert answer.outcome is not None
    rows = answer.outcome.where[answer.sets.row]

    for keys in (found.keys.app, found.keys.time):
        assert len(np.unique(np.column_stack([answer.sets.of, keys[rows]]), axis=0)) == answer.sets.count
    assert answer.sets.mean_size >= 2


def test_what_is_modelled_is_counted_by_signal(lake: Lake) -> None:
    labels = lake.read("labels")

    found = modelled_share(labels)

    assert found.windows == labels.num_rows
    assert sum(found.by_kind.values()) == found.labelled == labels.num_rows - labels["log_slowdown"].null_count
    assert found.labelled <= found.modelled <= found.windows
    assert found.windows - found.modelled == labels["kind"].to_pylist().count("none")
    assert modelled_share(LABELS.schema.empty_table()).share == 0.0


def test_loads_that_moved_are_no_replicates(lake: Lake) -> None:
    labels = lake.read("labels")
    moved = lake.read("contention")
    wild = moved.set_column(
        moved.column_names.index("load_of_peak"), "load_of_peak", pa.array(np.arange(moved.num_rows) % 7.0)
    )

    with_loads, wildly = (floor_of(labels, contention) for contention in (moved, wild))
    without = floor_of(labels, CONTENTION.schema.empty_table())

    assert with_loads is not None
    assert without is not None
    assert with_loads.pairs < without.pairs
    assert wildly is None or wildly.pairs < with_loads.pairs
    assert floor_of(LABELS.schema.empty_table(), moved) is None


@pytest.mark.parametrize(
    ("ratio", "begins"), [(1.1, "ALARM"), (7.0, "ALARM"), (3.0, "no sign of a leak"), (None, "no leak alarm")]
)
def test_a_leak_is_told_in_words(ratio: float | None, begins: str) -> None:
    assert leak_words(ratio).startswith(begins)


def test_an_error_beyond_the_pressures_that_is_smaller_is_not_called_easier() -> None:
    assert "not larger, 0.80 times" in beyond_words(0.8)
    assert "does not say that such rows are easier" in beyond_words(0.8)
    assert beyond_words(1.5).startswith("denser packing: the error beyond the pressures learnt from is 1.50 times")


def test_intervals_whose_ends_are_negative_can_be_read() -> None:
    assert evaluation_tables.with_range(Estimate(-0.02, -0.03, -0.01)) == "-0.020 (-0.030 to -0.010)"


def test_why_figures_of_training_and_evaluation_differ_is_told_beside_both() -> None:
    train, evaluation = DEFAULT_EFFORT, Depth()

    assert f"{train.folds} folds of apps and {train.origins} origins" in FOLDS_DIFFER
    assert f"{evaluation.app_folds} folds and up to {evaluation.origins}" in FOLDS_DIFFER
    assert FOLDS_DIFFER in LEGEND


def test_tables_have_a_row_for_each_answer_and_sentences_tell_the_rest(found: Findings) -> None:
    answered = [f"{a.asked.id} {a.asked.title}" for a in found.answers.values() if a.metrics]

    for sheet in (*sheets(found), *narrow_sheets(found)):
        assert [row[0] for row in sheet.rows] == answered
        assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    assert [len(sheet.rows) for sheet in predictor_sheets(found)] == [5] * len(answered)
    said = "\n".join(sentences(found))
    for words in (
        "noise floor, from",
        "container-hours are of apps with a usable signal",
        "bounds of tomorrow",
        "denser packing",
        "S7 choices made at random",
    ):
        assert words in said


def test_a_question_that_training_cannot_answer_has_a_reason_too(found: Findings) -> None:
    lonely = replace(found, answers={**found.answers, "S2": replace(found.answers["S2"], outcome=None, metrics={})})

    assert lonely.leak_ratio is None
    assert replace(found, answers={**found.answers, "S3": lonely.answers["S2"]}).beyond_ratio is None


def test_a_report_has_every_table_and_figure(found: Findings, tmp_path: Path) -> None:
    path = write_report(found, tmp_path / "new", QUICK, seconds=61.0)

    report = path.read_text()
    named = re.findall(r"\]\((\w+)\.svg\)", report)
    assert named == [*FIGURES]
    for name in named:
        ElementTree.fromstring((path.parent / f"{name}.svg").read_text())  # noqa: S314
    for sheet in (*sheets(found), *predictor_sheets(found)):
        assert f"### {sheet.title}\n" in report
    assert all(sentence in report for sentence in sentences(found))
    assert "61 s" in report


def test_figures_that_the_data_do_not_allow_are_named(found: Findings, tmp_path: Path) -> None:
    nothing = {name: Answer(answer.asked, reason="one app") for name, answer in found.answers.items()}

    report = write_report(replace(found, answers=nothing), tmp_path, QUICK, seconds=1.0).read_text()

    assert report.count("the data do not allow this figure") == len(FIGURES)
    assert report.count("no answer: one app") == len(nothing)
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]


def test_a_handful_of_judged_rows_draws_no_curve(
    found: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a lake so small that every bin of rows is left out."""
    monkeypatch.setattr(curves, "FEWEST_ROWS", 10**9)

    report = write_report(found, tmp_path, QUICK, seconds=1.0).read_text()

    missing = {name for name in FIGURES if not (tmp_path / f"{name}.svg").exists()}
    assert {"reliability", "extrapolation"} <= missing
    assert report.count("the data do not allow this figure") == len(missing)


def test_the_command_prints_tables_and_writes_the_report(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = Thoroughness(TrainConfig(rounds=2, spread_rounds=2, folds=2), Depth(2, 2, 1), resamples=5)

    run_evaluate(read_settings({}), lake=str(lake.root), report=tmp_path, how=how)

    shown = capsys.readouterr().out
    assert "S1 tomorrow" in shown
    assert "no randomised rows" in shown
    assert (tmp_path / "report.md").exists()
