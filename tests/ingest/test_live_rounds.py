"""One crash round of the whole line; `make crash` plays a hundred."""

from pathlib import Path

import pytest

from tests.ingest.live_rounds import play

pytestmark = pytest.mark.long


def test_a_snapshot_survives_the_death_of_whoever_made_it(tmp_path: Path) -> None:
    outcome = play(1, tmp_path / "round")

    assert outcome.good, str(outcome)
    assert outcome.sent > 800
    assert "spark" in outcome.story
