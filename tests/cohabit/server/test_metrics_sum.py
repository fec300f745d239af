"""Worker metrics: what all workers counted adds up, and never falls when one of them is started again."""

from pathlib import Path

from prometheus_client import CollectorRegistry, Counter

from cohabit.server.metrics_sum import Leaving, Together


def counting(times: int) -> CollectorRegistry:
    metrics = CollectorRegistry()
    Counter("answers", "Of all sources.", ["source"], registry=metrics).labels("table").inc(times)
    return metrics


def told(folder: Path, own: CollectorRegistry) -> float:
    """By the first process."""
    together = CollectorRegistry()
    together.register(Together(own, folder))
    return together.get_sample_value("answers_total", {"source": "table"}) or 0.0


def test_counts_of_workers_are_added_up_also_of_those_that_others_took_the_place_of(tmp_path: Path) -> None:
    own = counting(1)
    Leaving(tmp_path, 1, counting(10)).leave()
    Leaving(tmp_path, 2, counting(100)).leave()
    assert told(tmp_path, own) == 111

    again = Leaving(tmp_path, 1, counting(1000))
    assert told(tmp_path, own) == 111
    for _ in range(2):
        again.leave()
        assert told(tmp_path, own) == 1111
    Leaving(tmp_path, 1, counting(0)).leave()
    assert told(tmp_path, own) == 1111
