"""Examples of README and docs/quickstart.md run, in their order, as a reader would type them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cohabit.cli.demo import noisiest
from cohabit.cli.main import app
from cohabit.diagnosis.diagnose import diagnosed, newest_window
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from tests.docs.node_counts import by_map_and_page

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text()
BIN = Path(sys.executable).parent


def block(marker: str) -> str:
    """The shell block that follows a marker."""
    found = re.search(rf"<!-- {marker} -->\n```sh\n(.*?)```", QUICKSTART, flags=re.DOTALL)
    assert found is not None, f"docs/quickstart.md has no block marked {marker!r}"
    return found[1]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_") or k == "COHABIT_CACHE"}
    return {**kept, "PATH": f"{BIN}{os.pathsep}{kept['PATH']}"}


def shell(commands: str, folder: Path) -> str:
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, str]]:
    """`cohabit serve` over what the steps left; its two addresses."""
    command = [str(BIN / "cohabit"), "serve", "--port", "0", "--scheduler-port", "0"]
    exported = dict(re.findall(r"(COHABIT_\w+)=(\S+)", block("runs as a test")))
    settings = {**environment(), **exported, "COLUMNS": "200"}
    with subprocess.Popen(command, cwd=folder, env=settings, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            addresses = re.findall(r"http://[\d.:]+", process.stdout.readline())
            shell(f"until curl -sf {addresses[0]}/readyz; do read -rt 0.1 <> <(:) || true; done", folder)
            yield addresses[0], addresses[1]
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the step-by-step block was run."""
    folder = tmp_path_factory.mktemp("quickstart")
    shell(block("runs as a test"), folder)
    return folder


def test_the_steps_leave_a_bundle_and_a_snapshot(folder: Path) -> None:
    assert any((folder / "try" / "registry").glob("*/manifest.json"))
    assert (folder / "try" / "snapshots" / "current").exists()


def test_the_planted_noisy_neighbour_is_named(folder: Path) -> None:
    lake = Lake.open(folder / "try" / "lake", TABLES)

    assert "of app-009 on node-0002" in noisiest(diagnosed(lake, newest_window(lake)))  # one app after the nine


def test_the_requests_are_answered(folder: Path) -> None:
    with served(folder) as (main, scheduler):
        commands = block("runs as a test against a running server")
        commands = commands.replace("localhost:8080", main).replace("localhost:8081", scheduler)
        counts = by_map_and_page(main)
        prioritized, scores, ready = re.split(r"(?<=[\]}])(?=[{])", shell(commands, folder))

    assert counts
    assert [node for node, by_map, by_page in counts if by_map != by_page] == []
    assert [entry["Host"] for entry in json.loads(prioritized)] == ["node-0000", "node-0007"]
    assert all(type(entry["Score"]) is int for entry in json.loads(prioritized))
    assert json.loads(scores)["nodes"][0]["slowdown_ratio"] > 0.5
    assert json.loads(ready)["status"] == "ready"


def test_every_step_has_help() -> None:
    steps = "dev broker, dev simulate, dev replay, ingest, features, model train, model evaluate, refresh, serve, demo"
    named = [*steps.split(", "), "dev backtest", "model impact", "plan create", "bill close"]

    listed = shell("cohabit --help", ROOT)

    assert all(step.split()[0] in listed for step in named)
    assert all(len(CliRunner().invoke(app, [*step.split(), "--help"]).stdout.split()) > 30 for step in named)
