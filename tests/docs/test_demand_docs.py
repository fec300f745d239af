"""The examples of docs/demand.md run as a reader types them, and show what the page shows."""

import json
import re
import subprocess
from pathlib import Path

from tests.advisor.commands import environment
from tests.cohabit.capacity.metered_weeks import lake_of

PAGE = (Path(__file__).parents[2] / "docs" / "demand.md").read_text()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in re.split("[│┃]", line) if cell.strip()]


def test_the_command_shows_what_the_page_shows(tmp_path: Path) -> None:
    commands, shown = re.findall(r"<!-- runs as a test -->\n```sh\n(.*?)```\n+```text\n(.*?)```", PAGE, re.DOTALL)[0]
    lake_of(tmp_path / "lake", 12)

    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=tmp_path, env=environment(tmp_path) | {"COHABIT_LAKE": str(tmp_path / "lake"), "COLUMNS": "160"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    printed = [cells(line) for line in ran.stdout.splitlines()]
    for line in shown.splitlines():
        assert not cells(line) or set(line) <= set("━┏┳┓┡╇┩─└┴┘") or cells(line) in printed, line
    assert json.loads((tmp_path / "forecast.json").read_text())["events"][0]["who"] == "eve"


def test_the_function_gives_what_the_page_asserts() -> None:
    code = re.findall(r"<!-- runs as a test -->\n```python\n(.*?)```", PAGE, re.DOTALL)[0]

    exec(compile(code, "docs/demand.md", "exec"), {})  # noqa: S102
