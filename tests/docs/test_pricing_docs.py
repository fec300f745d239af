"""What docs/pricing.md works out is what the kernels make of it, to the cent."""

import re
import subprocess
import sys
from pathlib import Path

from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.billed_quantity import Rule, best_quantile
from advisor.billing.pricing.price_book import Policy

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "pricing.md").read_text()


def test_the_hour_is_billed_as_the_page_says() -> None:
    found = re.search(r"<!-- runs as a test -->\n```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, flags=re.DOTALL)
    assert found is not None

    ran = subprocess.run([sys.executable, "-c", found[1]], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == found[2]
    owed = [round(100 * float(amount)) for amount in re.findall(r"[a-z]+ (\d+\.\d\d)", found[2].splitlines()[-1])]
    assert sum(owed) == 384


def test_the_defaults_that_the_page_names_are_those_of_a_policy() -> None:
    policy = Policy("any")

    assert best_quantile(Rule(0.5, 3.0)) == 0.8
    assert (policy.at_least, policy.windows, policy.delta_ppm) == (6, 12, MICROS // 20)
    assert (policy.cap_ppm, policy.gamma_ppm, policy.shadow) == (MICROS // 5, 0, True)
