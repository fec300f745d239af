"""Warm-up: first windows of a container or a new image version have no label."""

import numpy as np
import pyarrow as pa

from features.labels.warm_up import starts, warming
from features.profiles.per_app import labels_of
from ingest.schema.tables import TIMESTAMP
from tests.features.hours import Hour, derived, hour, records
from tests.features.rows import at, placements

ENDS = [300 * k for k in range(1, 8)]


def flagged(*events: dict[str, object]) -> list[bool]:
    """Which of container a's windows in the first 35 minutes warm up."""
    windows = pa.table(
        {
            "cluster": ["c"] * len(ENDS),
            "container": ["a"] * len(ENDS),
            "window_end": pa.array([at(s) for s in ENDS], TIMESTAMP),
        }
    )
    begun = starts(placements(*({"container": "a", **event} for event in events)))
    return [bool(flag) for flag in warming(windows, begun)]


def test_the_window_of_a_start_and_the_next_warm_up() -> None:
    assert flagged({"ts": 310}) == [False, True, True, False, False, False, False]


def test_a_deploy_is_a_start_and_a_change_of_anything_else_is_none() -> None:
    first = {"ts": -3600, "image_version": "1"}
    resized = {"ts": 400, "event": "change", "image_version": "1", "cpu_request_cores": 2.0}
    deployed = {"ts": 910, "event": "change", "image_version": "2"}

    assert flagged(first, resized, deployed) == [False, False, False, True, True, False, False]


def test_what_is_told_twice_and_what_ends_is_no_start() -> None:
    told = {"ts": -3600, "image_version": "1"}

    assert not any(flagged(told, {**told, "ts": 600}, {**told, "ts": 900, "event": "delete"}))
    assert not any(flagged(told, {"ts": 600, "event": "change"}))
    assert not any(flagged({"container": "b", "ts": 310}))


def test_only_warming_windows_lose_their_label() -> None:
    seen: Hour = hour(records(np.random.default_rng(4)))
    made = derived(seen)
    deploy = placements(
        {"container": "c0", "node": "n0", "app": "web", "image_version": "1"},
        {"container": "c0", "node": "n0", "app": "web", "image_version": "2", "ts": 1900, "event": "change"},
    )

    labels = labels_of(made.state, deploy)

    lost = {row["window_end"] for row in labels.to_pylist() if row["container"] == "c0" and row["log_slowdown"] is None}
    assert {at(2100), at(2400)} <= lost
    assert labels.num_rows == made.labels.num_rows
    assert set(labels["kind"].to_pylist()) == set(made.labels["kind"].to_pylist())
