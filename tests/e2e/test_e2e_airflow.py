"""What `make e2e-airflow` kills, compares and tells, without Airflow."""

import subprocess
import sys
from pathlib import Path

import pytest

from e2e.airflow.__main__ import main
from e2e.airflow.errors import NeverCame
from e2e.airflow.killing import differing, killed, measured, models_of, tables_of
from e2e.airflow.running import Ran, Task
from e2e.airflow.site import Site, until
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from tests.models.lakes import derived_lake

WORK = "while True: pass"


def working(site: Site, *words: str) -> "subprocess.Popen[bytes]":
    """A process that looks like a command of a site, and works without end."""
    return subprocess.Popen([sys.executable, "-c", WORK, "-m", "cohabit", *words], env=site.settings)


def test_the_command_of_that_site_is_killed_and_no_other(tmp_path: Path) -> None:
    here, there = Site(tmp_path / "here"), Site(tmp_path / "there")
    with (
        working(here, "model", "train") as meant,
        working(here, "features") as other,
        working(there, "model", "train") as elsewhere,
    ):
        with killed(
            here,
            (
                "model",
                "train",
            ),
            0.1,
        ) as done:
            code = meant.wait(30)
        still = (other.poll(), elsewhere.poll())
        other.kill()
        elsewhere.kill()

    assert done.is_set()
    assert (code, still) == (-9, (None, None))


def test_what_did_not_use_enough_is_not_killed_and_measured_instead(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with (
        killed(
            site,
            (
                "model",
                "train",
            ),
            1e6,
        ) as done,
        measured(
            site,
            (
                "model",
                "train",
            ),
        ) as used,
        working(site, "model", "train") as busy,
    ):
        until("it is measured", lambda: used.seconds > 0.2, 60.0)
        still = busy.poll()
        busy.kill()

    assert (still, done.is_set()) == (None, False)


def test_tables_are_the_same_whatever_the_order_of_their_rows_and_others_with_a_row_less(tmp_path: Path) -> None:
    lake = derived_lake(tmp_path / "one", Plan(nodes=3, apps=4, per_node=4, hours=1.0))
    found, rows = tables_of(lake), lake.read("labels")

    assert found["labels"][0] == rows.num_rows
    assert differing(found, tables_of(Lake.open(lake.root, lake.tables))) == []
    assert differing(found, {**found, "labels": (rows.num_rows - 1, "x")}) == ["labels"]
    assert differing(found, {name: one for name, one in found.items() if name != "usage"}) == ["usage"]


def test_models_are_compared_file_by_file(tmp_path: Path) -> None:
    for name, content in (("daily-1/a.onnx", "x"), ("daily-1/MODEL_CARD.md", "made today"), ("daily-2/a.onnx", "y")):
        path = tmp_path / "registry" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    assert list(models_of(Site(tmp_path))) == ["daily-1/a.onnx", "daily-2/a.onnx"]


def test_a_run_is_well_when_all_of_it_is(tmp_path: Path) -> None:
    good, bad = Task("meter", "success", 2, 3.04), Task("judge", "skipped", 1, 0.0)

    assert (str(good), str(bad)) == ("meter 3.0 s, try 2", "judge 0.0 s SKIPPED")
    assert Ran("d", "success", 1.0, (good,), tmp_path).well
    assert not Ran("d", "success", 1.0, (good, bad), tmp_path).well
    assert not Ran("d", "failed", 1.0, (good,), tmp_path).well


def test_who_waits_in_vain_is_told_for_what() -> None:
    with pytest.raises(NeverCame, match=r"the moon: not within 0 s"):
        until("the moon", lambda: False, 0.0)


def test_the_airflow_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])

    assert "--keep" in capsys.readouterr().out
