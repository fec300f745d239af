"""Harm ratio: loads are drawn in pools of their own, pods follow the best score, and ratios are paired."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from benchmarks.admission.advisor_client import patched
from benchmarks.admission.harm_ratio import EXTENDER, NONE, Harmed, figures_of, harm_ratio
from benchmarks.admission.swarms_and_streams import ALONE, FORMS, STREAM, SWARM, Landed, Size, drawn_loads
from benchmarks.runner import OURS

SIZE = Size(swarms=3, swarm_pods=5, streams=2, stream_pods=4, intervals=2, per_s=100.0)


def test_each_load_has_a_pool_and_a_swarm_has_one_app_and_one_interval() -> None:
    loads = drawn_loads(SIZE, 24, np.random.default_rng(0))

    assert [load.pool for load in loads] == list(range(SIZE.pools))
    swarms = [load for load in loads if (load.situation, load.form) == (SWARM, ALONE)]
    assert [[len(apps) for apps in load.intervals] for load in swarms] == [[5, 0], [0, 5], [5, 0]]
    assert len({int(np.concatenate(load.intervals)[0]) for load in swarms}) == 3
    streams = [load for load in loads if load.situation == STREAM]
    assert len(streams) == 2 * len(FORMS)
    assert all([len(apps) for apps in load.intervals] == [4, 4] for load in streams)


def test_a_ratio_of_pairs_is_as_certain_as_its_pairs_are_alike() -> None:
    others = np.array([1.0, 10.0, 100.0])

    assert harm_ratio(1.1 * others, others) == pytest.approx((1.1, 1.1, 1.1))
    middle, low, high = harm_ratio(np.array([2.0, 10.0, 50.0]), others)
    assert middle == pytest.approx(62 / 111)
    assert low == pytest.approx(0.5)
    assert high == pytest.approx(2.0)


def test_a_law_is_judged_by_its_worst_situation_and_form() -> None:
    landed = (Landed(pods=4, top=3, neutral=1),)
    ours = {(SWARM, ALONE): 1.0, (STREAM, ALONE): 3.0}
    found = {
        way: {cell: Harmed(np.array([scale * value if way == OURS else scale]), landed) for cell, value in ours.items()}
        for way, scale in ((OURS, 1.0), (EXTENDER, 1.0), (NONE, 4.0))
    }

    figures = figures_of("threshold", found)[OURS]

    assert figures["threshold_swarm_advice_alone_admission_vs_extender"] == 1.0
    assert figures["threshold_admission_vs_extender"] == 3.0
    assert figures["threshold_admission_vs_extender_hi"] == 3.0
    assert figures["threshold_stream_advice_alone_admission_vs_unadvised"] == 0.75
    assert figures["threshold_swarm_advice_alone_top_share"] == 0.75


def test_a_patch_adds_parents_and_ends_of_lists_to_a_copy() -> None:
    pod = {"metadata": {"annotations": {}}, "spec": {"terms": [1]}}
    steps: list[dict[str, Any]] = [
        {"op": "add", "path": "/metadata/annotations/a~1b", "value": "x"},
        {"op": "add", "path": "/spec/terms/-", "value": 2},
        {"op": "add", "path": "/spec/affinity", "value": {}},
    ]

    assert patched(pod, steps) == {
        "metadata": {"annotations": {"a/b": "x"}},
        "spec": {"terms": [1, 2], "affinity": {}},
    }
    assert pod == {"metadata": {"annotations": {}}, "spec": {"terms": [1]}}
    with pytest.raises(ValueError, match="remove"):
        patched(pod, [{"op": "remove", "path": "/spec"}])


@pytest.mark.long
def test_the_benchmark_ends_with_ratios_of_each_situation_and_form_and_the_worst() -> None:
    size = ["--nodes", "6", "--swarms", "1", "--swarm-pods", "6", "--streams", "1", "--stream-pods", "3"]
    words = ["admission", "--law", "threshold", "--hours", "2", "--intervals", "2", *size]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *words], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout.splitlines()[-1])
    assert line.keys() == {"worst_admission_vs_extender", OURS, EXTENDER, NONE}
    ours = line[OURS]
    assert line["worst_admission_vs_extender"] == ours["threshold_admission_vs_extender"]
    for situation in (SWARM, STREAM):
        for form in FORMS:
            assert ours[f"threshold_{situation}_{form}_admission_vs_extender"] > 0
            assert ours[f"threshold_{situation}_{form}_neutral_share"] < 1
