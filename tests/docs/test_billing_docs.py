"""The example of docs/cost-estimates.md prints what the page shows, to the micro-unit."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cost-estimates.md").read_text()


def test_a_container_costs_what_the_page_says() -> None:
    found = re.search(r"<!-- runs as a test -->\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None

    ran = subprocess.run([sys.executable, "-c", found[1]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == found[2]
