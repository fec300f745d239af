"""The example of docs/headroom.md runs as a reader types it, and shows what the page shows."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.advisor.commands import environment

pytestmark = pytest.mark.long
PAGE = (Path(__file__).parents[2] / "docs" / "headroom.md").read_text()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split("[│┃]", line) if cell.strip()]


def test_the_example_shows_what_the_page_shows(tmp_path: Path) -> None:
    commands, shown = re.findall(r"<!-- runs as a test -->\n```sh\n(.*?)```\n+```text\n(.*?)```", PAGE, re.DOTALL)[0]

    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    printed = [cells(line) for line in ran.stdout.splitlines()]
    for line in shown.splitlines():
        assert not cells(line) or set(line) <= set("━┏┳┓┡╇┩─└┴┘") or cells(line) in printed, line
    assert (tmp_path / "snapshots" / "headroom.json").exists()
    assert (tmp_path / "offers.json").exists()
