"""What docs/billing.md quotes is what the kernels make of it, to the micro-unit."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "billing.md").read_text()


def test_a_container_is_quoted_as_the_page_says() -> None:
    found = re.search(r"<!-- runs as a test -->\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None

    ran = subprocess.run([sys.executable, "-c", found[1]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == found[2]
