"""Use ratios: the table is what the two public sets give."""

import csv
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.best_effort.use_ratios import QUANTILES, RATIOS, drawn_ratios
from benchmarks.headroom import machine_usage


@pytest.mark.public_data
def test_the_table_is_use_of_machine_hours_over_the_share_that_pods_request() -> None:
    folder = os.environ.get("BENCH_DATA")
    if folder is None:
        pytest.skip("BENCH_DATA does not name the folder of public data")
    node, time_s, cpu = machine_usage(Path(folder))
    _, hour = np.unique(node * 10_000 + time_s // 3600, return_inverse=True)
    use = np.bincount(hour, cpu) / np.bincount(hour)

    assert np.quantile(use, QUANTILES) / requested(Path(folder)) == pytest.approx(RATIOS, abs=0.001)


def requested(folder: Path) -> float:
    """Share of openb's cores that all its pods request."""
    names = ("openb_pod_list_default.csv.gz", "openb_node_list_all_node.csv.gz")
    pods, nodes = (sum(int(row["cpu_milli"]) for row in rows_of(folder / "purchase" / name)) for name in names)
    return pods / nodes


def rows_of(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


def test_ratios_are_drawn_over_the_table_s_range() -> None:
    found = drawn_ratios(1000, np.random.default_rng(1))

    assert found.min() >= RATIOS[0]
    assert found.max() <= RATIOS[-1]
    assert np.median(found) == pytest.approx(RATIOS[2], abs=0.03)
