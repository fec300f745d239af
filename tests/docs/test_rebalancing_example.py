"""What docs/rebalancing.md shows is what happens."""

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "rebalancing.md").read_text()


def test_the_example_prints_rounds_that_cost_less_and_less(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)

    exec(example, {})  # noqa: S102  # the page's own words

    rounds = capsys.readouterr().out.splitlines()
    costs = [float(line.rsplit(" ", 1)[1]) for line in rounds]
    assert len(rounds) >= 2
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] == 3.0
