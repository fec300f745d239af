"""The demo for capacity planners, as it is typed: within a minute from a quarter of a year to dated orders."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
def test_the_demo_ends_with_orders_on_the_page(tmp_path: Path) -> None:
    environment = os.environ | {"COHABIT_ADVISOR__PORT": "0", "COHABIT_ADVISOR__SCHEDULER_PORT": "0"}
    ran = subprocess.run(
        [sys.executable, "-m", "cohabit", "demo", "--capacity", "--exit"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip

    assert ran.returncode == 0, ran.stdout + ran.stderr
    for said in ("days to full", "written: skus.csv", "amortised cost", "grow:web:30", "/ui/capacity"):
        assert said in ran.stdout
    assert json.loads(ran.stdout.splitlines()[-1])["orders"] > 0
    assert list(tmp_path.iterdir()) == []
