"""The example of docs/rightsizing.md prints what the page shows, and the page's figures of rules are the code's."""

import re
import subprocess
import sys
from pathlib import Path

from advisor.capacity.rightsize import MIB, Rule
from cohabit.capacity.rightsize_apps import USUAL

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "rightsizing.md").read_text()


def test_the_app_is_sized_as_the_page_says() -> None:
    found = re.search(r"<!-- runs as a test -->\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None

    ran = subprocess.run([sys.executable, "-c", found[1]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == found[2]


def test_the_rules_on_the_page_are_those_of_the_code() -> None:
    rule = Rule()

    assert f"{rule.cpu_floor_cores * 1000:.0f} millicores" in PAGE
    assert f"{rule.memory_floor_bytes / MIB:.0f} MiB" in PAGE
    assert f"the largest sample and {rule.memory_margin:.0%}".replace("%", " %") in PAGE
    assert f"{rule.min_windows} at a risk of 5 %, {Rule(risk=0.01).min_windows:,} at 1 %" in PAGE
    assert f"more than {USUAL.minutes // 1_000_000} million container-minutes" in PAGE
