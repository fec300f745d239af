"""Searching: the table, the verdict and the file say what was found."""

import json
from dataclasses import replace
from pathlib import Path

from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.training.hyperparameters import candidate_sheet, verdict, write_found
from models.metrics.errors_and_ranks import Estimate
from models.training.fit import TrainConfig
from models.training.tuning import Candidate, Found

DEFAULT = TrainConfig()
FOUND = Found(
    [
        Candidate(DEFAULT, 0.0, 1, 0.12),
        Candidate(replace(DEFAULT, leaves=3), float("nan"), 0),
        Candidate(replace(DEFAULT, leaves=31), -0.01, 3, 0.115),
    ],
    default=Estimate(0.12, 0.1, 0.14),
    nested=Estimate(0.115, 0.1, 0.13),
    gain=Estimate(0.005, -0.001, 0.011),
)


def test_the_default_is_first_and_what_was_given_up_last() -> None:
    sheet = candidate_sheet(FOUND)

    assert [row[0] for row in sheet.rows] == ["default", "2", "1"]
    assert sheet.rows[1][-3:] == ("-0.0100", "3", "0.1150")
    assert sheet.rows[2][-3:] == ("", "", "")
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)


def test_the_default_loses_only_beyond_the_interval() -> None:
    assert "the default stands" in verdict(FOUND)
    assert "LOSES" in verdict(replace(FOUND, gain=Estimate(0.005, 0.001, 0.011)))
    assert "LOSES" not in verdict(replace(FOUND, gain=Estimate(-0.005, -0.011, -0.001)))


def test_the_file_has_every_candidate_and_null_for_what_is_not_known(tmp_path: Path) -> None:
    write_found(FOUND, tmp_path / "found.json")

    read = json.loads((tmp_path / "found.json").read_text())

    assert [one["leaves"] for one in read["candidates"]] == [DEFAULT.leaves, 3, 31]
    assert read["candidates"][1]["inner"] is None
    assert read["gain"] == {"value": 0.005, "low": -0.001, "high": 0.011}
    assert read["default_loses"] is False


def test_a_seed_below_zero_is_refused_in_a_sentence() -> None:
    told = CliRunner().invoke(app, ["model", "tune", "--seed", "-3"], env={"COLUMNS": "200", "TERM": "dumb"})

    assert told.exit_code == 2
    assert "Invalid value for '--seed'" in told.output
