"""Challenging: one table each for expectations and bounds, a plain verdict, and a section of the report."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.laws import World, simulated_world
from cohabit.cli.models.train import run_evaluate
from cohabit.config.settings import read_settings
from cohabit.training.challengers import Faced, append_challengers, challenge_rows, challenge_sheets, verdicts
from cohabit.training.evaluation import Thoroughness
from ingest.simulator.simulate import Plan
from models.challengers.catalogue import BOUNDS, CHALLENGERS
from models.estimator.feature_matrix import read_rows
from models.evaluation.protocols import Asked, Depth, protocol, read_keys
from models.metrics.errors_and_ranks import Estimate
from models.training.fit import TrainConfig
from models.training.trainer import OURS

QUICK = Thoroughness(TrainConfig(rounds=20, learning_rate=0.2, spread_rounds=5, folds=2), Depth(2, 2, 1), resamples=20)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return simulated_world(tmp_path_factory.mktemp("small"), Plan(nodes=7, apps=7, per_node=8, hours=2.0, seed=4))


@pytest.fixture(scope="module")
def told() -> list[str]:
    return []


@pytest.fixture(scope="module")
def faced(world: World, told: list[str]) -> list[Faced]:
    asked = {one.id: one for one in protocol(read_keys(world.table), QUICK.depth)}
    return challenge_rows(read_rows(world.table), [asked[name] for name in ("S2", "S6", "S7")], QUICK, told.append)


def test_every_challenger_and_baseline_is_beside_ours_with_a_paired_difference(faced: list[Faced]) -> None:
    expectations, bounds = challenge_sheets(faced)[:2]

    names = [row[0] for row in expectations.rows]
    assert names[0] == OURS
    assert {*CHALLENGERS, "constant", "ridge", "sum_of_pressure", "group_mean"} == set(names[1:])
    assert [row[2] == "" for row in expectations.rows] == [True] + [False] * (len(names) - 1)
    assert [row[0] for row in bounds.rows] == [OURS, *BOUNDS]


def test_progress_names_question_split_and_challenger(told: list[str], faced: list[Faced]) -> None:
    assert "challengers, question 1 of 3, S2 unseen apps: split 2 of 2, random_forest" in told
    assert len(faced) == 3


def test_what_the_data_do_not_allow_has_a_reason_and_no_table(faced: list[Faced]) -> None:
    assert len(challenge_sheets(faced)) == 4
    assert verdicts(faced)[2].startswith("S7 choices made at random: no randomised rows")


def test_who_wins_beyond_luck_is_named_and_nobody_else() -> None:
    def metrics(low: float, high: float) -> dict[str, dict[str, Estimate]]:
        return {OURS: {"mae_log": Estimate(0.1, 0.1, 0.1)}, "forest": {"above_ours": Estimate(-0.01, low, high)}}

    asked = Asked("S2", "unseen apps", "", np.zeros(0, np.int64), None)
    sure, unsure = (Faced(asked, metrics(-0.02, high)) for high in (-0.001, 0.001))

    assert verdicts([sure]) == ["S2 unseen apps: better than ours beyond luck: forest (MAE -0.010 (-0.020 to -0.001))"]
    assert verdicts([unsure]) == ["S2 unseen apps: better than ours beyond luck: none"]


def test_a_bound_that_wins_is_told_in_pinball_loss_and_who_was_not_fitted_with_the_reason() -> None:
    asked = Asked("S2", "unseen apps", "", np.zeros(0, np.int64), None)
    better = {"quantile_shifted": {"above_ours": Estimate(-0.01, -0.02, -0.001)}}

    said = verdicts([Faced(asked, better, unfitted={"hist_boosting": "too few rows"})])

    assert said == [
        "S2 unseen apps: better than ours beyond luck: quantile_shifted (pinball -0.010 (-0.020 to -0.001))",
        "S2 unseen apps: hist_boosting not fitted: too few rows",
    ]


def test_the_report_gets_a_section_with_all_tables_words_and_verdicts(faced: list[Faced], tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text("# Before\n")

    append_challengers(report, faced)

    text = report.read_text()
    assert text.startswith("# Before\n\n## Challengers\n")
    assert all(f"### {sheet.title}\n" in text for sheet in challenge_sheets(faced))
    assert all(f"- {sentence}\n" in text for sentence in verdicts(faced))
    assert all(f"- `{name}`: " in text for name in (*CHALLENGERS, *BOUNDS))


@pytest.mark.long
def test_the_command_shows_challengers_only_when_asked_and_writes_them_down(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = Thoroughness(TrainConfig(rounds=2, spread_rounds=2, folds=2), Depth(2, 2, 1), resamples=5)
    lake = str(world.lake.root)

    run_evaluate(read_settings({}), lake=lake, report=tmp_path / "without", how=how)
    without = capsys.readouterr().out
    run_evaluate(read_settings({}), lake=lake, report=tmp_path / "with", challengers=True, how=how)
    shown = capsys.readouterr().out

    assert "beyond luck" not in without
    assert "## Challengers" not in (tmp_path / "without" / "report.md").read_text()
    assert shown.count("beyond luck") == 4
    assert (tmp_path / "with" / "report.md").read_text().count("\n| random_forest |") == 4
