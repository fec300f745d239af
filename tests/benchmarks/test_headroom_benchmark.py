"""The headroom benchmark: Alibaba's machines as they are published, PlanetLab's form, and figures of both."""

import gzip
import json
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import pytest

from benchmarks.headroom import BENCHMARK, BY_DAY, Judged, alibaba_nodes
from benchmarks.headroom_nodes import VMS, planetlab_nodes
from benchmarks.runner import TOP, json_line
from models.headroom.peak_baselines import peak_of_sums, rc_like
from models.headroom.peak_features import DAY

KEYS = {
    *("violations_vs_target", "saving", "oracle_saving", "best_peer_saving", "saving_24h"),
    *("violations_vs_target_24h", "severity"),
}


def planetlab(folder: Path, days: int, vms: int) -> Path:
    rng = np.random.default_rng(1)
    for day in range(days):
        (folder / f"2011030{day + 1}").mkdir(parents=True)
        for vm in range(vms):
            use = np.clip(rng.normal(12, 6, DAY), 0, 100).astype(int)
            (folder / f"2011030{day + 1}" / f"vm{vm}").write_text("\n".join(map(str, use)) + "\n")
    return folder


def test_machines_are_read_by_five_minutes_with_gaps_and_without_invalid_values(tmp_path: Path) -> None:
    folder = tmp_path / "stream" / "alibaba2018"
    folder.mkdir(parents=True)
    rows = ["m_1,0,41,92,,,1,1,5", "m_1,10,43,92,,,1,1,5", "m_1,300,101,92,,,1,1,5", "m_2,900,-1,9,,,1,1,5"]
    (folder / "machine_usage.csv.gz").write_bytes(gzip.compress("\n".join([*rows, "m_2,600,7,9,,,1,1,5"]).encode()))

    use = alibaba_nodes(tmp_path)

    assert use.shape == (2, 8 * DAY)
    assert use[0, 0] == 0.43
    assert use[1, 2] == pytest.approx(0.07)
    assert np.isfinite(use).sum() == 2


def test_a_violation_is_a_peak_above_what_was_left_and_a_gap_offers_nothing() -> None:
    judged = Judged(np.array([[0.5, 0.5, 0.5, 0.5]]), np.array([[True, True, True, False]]))

    found = judged.figures(np.array([[0.4, 0.6, np.nan, 0.1]]))

    assert found["violation"] == pytest.approx(1 / 3)
    assert found["saving"] == pytest.approx((0.6 + 0.4 + 0.0) / 3)
    assert found["severity"] == pytest.approx(0.2 / 3)
    assert judged.longest_run(np.array([[0.4, 0.4, 0.6, 0.1]])) == 10


def test_the_form_of_planetlab_ends_with_every_key(tmp_path: Path) -> None:
    folder = planetlab(tmp_path / "pl", 5, VMS)
    parser = ArgumentParser()
    BENCHMARK.add_arguments(parser)

    result = BENCHMARK.run(parser.parse_args(["--planetlab", str(folder)]), np.random.default_rng(0))

    assert set(result[TOP]) >= KEYS
    assert {"ours", "oracle", "rc_like_p99", "peak_of_sums", "batch_usage"} <= set(result)
    assert set(BY_DAY) <= set(result["ours"])
    assert json.loads(json_line(result))["oracle_saving"] == result["oracle"]["saving"]
    assert result["oracle"]["violation"] == 0
    assert result["peak_of_sums"]["saving"] < result["oracle"]["saving"]


def test_a_folder_without_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="folders of days"):
        planetlab_nodes(tmp_path, np.random.default_rng(0))


def test_percentiles_of_residents_add_up() -> None:
    parts = np.tile(np.linspace(0, 0.01, DAY), (1, 3, 1))

    assert peak_of_sums(parts)[0, -1] == pytest.approx(0.03)
    assert rc_like(parts, 15, np.zeros((1, DAY)))[0, -1] == pytest.approx(3 * np.sort(parts[0, 0])[-15])
    assert rc_like(parts, 15, np.full((1, DAY), 0.5))[0, -1] == 0.5
