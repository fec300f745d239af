"""DAGs as a real Airflow reads them, in an environment of its own: complete, documented, bounded, without a cycle."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from cohabit_commands import NOT_CLOSED

from e2e.airflow.running import DAGS, installed, read

pytestmark = pytest.mark.long
CATCHING_UP = {"cohabit_metering", "cohabit_billing"}


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Installs Airflow where it is not there yet."""
    installed()
    return read(tmp_path_factory.mktemp("airflow"), {"COHABIT_DAGS_SINCE": "2026-02-01"})


@pytest.fixture
def tasks(told: dict[str, Any]) -> dict[str, Any]:
    return {f"{dag}.{name}": task for dag, of in told["dags"].items() for name, task in of["tasks"].items()}


def test_every_file_is_read_and_makes_a_dag(told: dict[str, Any]) -> None:
    files = [path for path in DAGS.glob("*.py") if not path.name.startswith("cohabit_")]

    assert told["errors"] == {}
    assert len(told["dags"]) == len(files)


def test_every_dag_has_intervals_documentation_and_one_run_at_a_time(told: dict[str, Any]) -> None:
    for name, dag in told["dags"].items():
        assert dag["schedule"] == "CronDataIntervalTimetable", name
        assert dag["doc"], name
        assert dag["tags"] == ["cohabit"], name
        assert dag["max_active_runs"] == 1, name
        assert dag["start"] == "2026-02-01T00:00:00+00:00", name


def test_only_what_belongs_to_an_interval_is_caught_up_with(told: dict[str, Any]) -> None:
    assert {name for name, dag in told["dags"].items() if dag["catchup"]} == CATCHING_UP


def test_every_task_is_owned_bounded_tried_again_and_told_of(tasks: dict[str, Any]) -> None:
    pools = json.loads((DAGS / "pools.json").read_text())
    for name, task in tasks.items():
        assert task["owner"] == "cohabit", name
        assert task["doc"], name
        assert task["retries"] >= 1, name
        assert task["retry_growth"] == 2, name
        assert 0 < task["timeout_s"] <= 36_000, name
        assert task["pool"] in pools, name
        assert task["told"], name


def test_a_month_waits_for_a_person_without_taking_a_place(tasks: dict[str, Any]) -> None:
    task = tasks["cohabit_billing.approved"]

    assert (task["kind"], task["mode"]) == ("BashSensor", "reschedule")
    assert task["waits_for"] == NOT_CLOSED
    assert task["after"] == ["draft"]
    assert tasks["cohabit_billing.export"]["after"] == ["approved"]


def test_a_bundle_becomes_current_after_its_gate_and_only_in_the_newest_run(tasks: dict[str, Any]) -> None:
    assert tasks["cohabit_training.newest"]["kind"] == "LatestOnlyOperator"
    assert tasks["cohabit_training.gate"]["after"] == ["newest"]
    assert tasks["cohabit_training.promote"]["after"] == ["gate"]


def test_served_scores_are_looked_at_before_profiles_are_rebuilt_which_happens_whatever_came_of_it(
    tasks: dict[str, Any],
) -> None:
    task = tasks["cohabit_hourly.features"]

    assert (task["after"], task["rule"]) == (["skew"], "all_done")


def test_the_model_is_looked_at_before_bounds_follow_labels_and_a_run_with_an_alarm_has_failed(
    tasks: dict[str, Any],
) -> None:
    hourly = {name.partition(".")[2]: task for name, task in tasks.items() if name.startswith("cohabit_hourly.")}

    assert (hourly["recalibrate"]["after"], hourly["recalibrate"]["rule"]) == (["drift"], "all_done")
    assert (hourly["whole"]["after"], hourly["whole"]["rule"]) == (sorted(hourly.keys() - {"whole"}), "all_success")


def test_airflow_fills_in_the_interval_and_quotes_what_variables_hold(tasks: dict[str, Any]) -> None:
    words = {name: shlex.split(task["line"])[2:] for name, task in tasks.items() if task["line"]}

    day = ["--from", "2026-03-02", "--to", "2026-03-03"]
    assert words["cohabit_metering.meter"] == ["bill", "meter", *day, "--whole"]
    assert words["cohabit_training.promote"] == ["model", "promote", "daily-20260303"]
    assert words["cohabit_backups.verify"] == ["admin", "backup", "verify", "/cohabit_backups of 'ours'/2026-03-03"]
    kept = ["--before", "2026-03-03", "--keep-days", "800", "--yes"]
    assert words["cohabit_retention.expire"] == ["lake", "expire", *kept]


def test_what_is_set_to_nothing_counts_as_left_out(tmp_path: Path) -> None:
    installed()
    told = read(tmp_path, dict.fromkeys(("COHABIT_DAGS_SINCE", "COHABIT_DAGS_RETRY_S", "COHABIT_DAGS_ASK_S"), ""))

    assert (told["errors"], told["dags"].keys() >= CATCHING_UP) == ({}, True)
    assert not any(dag["catchup"] for dag in told["dags"].values())
