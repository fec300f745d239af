"""A crash round; `make crash` plays a hundred."""

from pathlib import Path

from ingest.devkafka.broker import running_broker
from tests.ingest.rounds import Rules, play_rounds, summary


def test_what_dies_freezes_and_comes_back_in_any_order_loses_and_doubles_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path / "kafka") as broker:
        outcomes = play_rounds(1, 20, broker, tmp_path, say=print, rules=Rules())

    assert all(outcome.good for outcome in outcomes), summary(outcomes)
