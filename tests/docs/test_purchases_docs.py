"""The example of docs/purchases.md runs on the files that stand in the page, and prints what the page shows."""

import re
import subprocess
from pathlib import Path

from tests.advisor.commands import environment

PAGE = (Path(__file__).parents[2] / "docs" / "purchases.md").read_text()


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    for name, lines in re.findall(r"<!-- (\w+\.csv) -->\n```csv\n(.*?)```", PAGE, re.DOTALL):
        (tmp_path / name).write_text(lines)
    [(command, shown)] = re.findall(r"<!-- runs as a test -->\n```sh\n(.*?)```\n+```text\n(.*?)```", PAGE, re.DOTALL)

    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stderr
    printed = [line.rstrip() for line in ran.stdout.splitlines()]
    assert [line for line in shown.splitlines() if line not in printed] == []
    assert (tmp_path / "plan.json").exists()
