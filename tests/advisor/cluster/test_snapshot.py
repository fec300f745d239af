"""Snapshots: written whole, read whole, replaced at once, and refused with advice when they are damaged."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from advisor.cluster.snapshot import (
    ADDED,
    ARRAYS,
    KEPT,
    Snapshot,
    current_version,
    directory_name,
    load_current,
    next_version,
    publish,
)
from advisor.errors import AdvisorError
from tests.advisor.clusters import snapshot

HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d,)}"
"""Head of an array that cannot be."""


def same(first: Snapshot, second: Snapshot) -> bool:
    arrays = ARRAYS
    names = [name for name in Snapshot.__dataclass_fields__ if name not in arrays]
    equal = [
        np.array_equal(getattr(first, a), getattr(second, a), equal_nan=a not in {"resident_best_effort"})
        for a in arrays
    ]
    return all(equal) and all(getattr(first, name) == getattr(second, name) for name in names)


def test_what_is_read_is_what_was_published(tmp_path: Path) -> None:
    written = snapshot(1, pinned=0.5)

    publish(tmp_path, written)

    assert same(load_current(tmp_path), written)


def test_arrays_are_read_whole_and_cannot_be_written_to(tmp_path: Path) -> None:
    publish(tmp_path, snapshot())

    read = load_current(tmp_path)

    assert not any(isinstance(getattr(read, name), np.memmap) for name in ARRAYS), "a cut file would end the process"
    with pytest.raises(ValueError, match="read-only"):
        read.resident_use[0, 0] = 1.0


def test_a_snapshot_of_an_older_form_is_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = publish(tmp_path, snapshot())
    (folder / "cold_start_prior.npy").rename(folder / "prior.npy")

    with pytest.raises(AdvisorError, match=r"cold_start_prior.*cohabit refresh"):
        load_current(tmp_path)


def test_what_is_expected_goes_by_team_and_platform_where_both_are_known() -> None:
    view = snapshot()

    found = view.expected(np.array([0, 1, -1, 1]), np.array([1, 0, 1, -1]))

    assert np.array_equal(
        found[:3], [view.cold_start_prior[0, 1], view.cold_start_prior[1, 0], view.cold_start_prior[2, 1]]
    )
    assert np.isnan(found[3]).all()


def test_what_apps_are_known_by_is_read_and_must_be_one_for_each(tmp_path: Path) -> None:
    written = snapshot()
    publish(tmp_path, replace(written, kinds=("waiting", *[None] * (len(written.apps) - 1))))

    assert load_current(tmp_path).kinds[0] == "waiting"

    publish(tmp_path, replace(written, version=written.version + 1, kinds=("waiting",) * (len(written.apps) + 1)))
    with pytest.raises(AdvisorError, match=rf"{len(written.apps) + 1} kinds for {len(written.apps)} apps"):
        load_current(tmp_path)


def test_an_app_without_labels_is_taken_for_one_that_waits_where_all_do() -> None:
    every = np.arange(-1, len(snapshot().apps))
    waiting = replace(snapshot(), kinds=(None, *["waiting"] * (len(snapshot().apps) - 1)))

    assert waiting.by_waiting(every).all()
    assert not replace(waiting, kinds=("latency", *waiting.kinds[1:])).by_waiting(every)[:2].any()
    assert not replace(waiting, kinds=()).by_waiting(every).any()


def test_an_empty_cluster_can_be_published(tmp_path: Path) -> None:
    publish(tmp_path, snapshot(nodes=0))

    assert load_current(tmp_path).nodes == ()


def test_indices_name_rows_and_unknown_nodes(tmp_path: Path) -> None:
    assert snapshot().indices(["n2", "elsewhere", "n0", "n2"]).tolist() == [2, -1, 0, 2]


def test_current_names_the_newest(tmp_path: Path) -> None:
    publish(tmp_path, snapshot(version=1))
    publish(tmp_path, snapshot(version=2))

    assert current_version(tmp_path) == directory_name(2)
    assert load_current(tmp_path).version == 2


def test_old_snapshots_go_but_the_last_few(tmp_path: Path) -> None:
    for version in range(1, 8):
        publish(tmp_path, snapshot(version=version))

    assert sorted(d.name for d in tmp_path.iterdir() if d.is_dir()) == [directory_name(v) for v in (5, 6, 7)]
    assert KEPT == 3


def test_the_current_snapshot_is_never_pruned_even_below_leftovers_of_higher_versions(tmp_path: Path) -> None:
    for version in (101, 102, 103, 104):
        publish(tmp_path, snapshot(version=version))

    publish(tmp_path, snapshot(version=5))

    assert load_current(tmp_path).version == 5


def test_a_version_is_published_once(tmp_path: Path) -> None:
    publish(tmp_path, snapshot(version=7))

    with pytest.raises(AdvisorError, match=r"next_version"):
        publish(tmp_path, snapshot(version=7))
    assert next_version(tmp_path) == 8


def test_the_first_version_is_1(tmp_path: Path) -> None:
    assert next_version(tmp_path / "not-there-yet") == 1


def test_what_a_dying_refresher_left_half_written_is_not_seen_and_later_removed(tmp_path: Path) -> None:
    half = tmp_path / ".building.000000000000000002.dead"
    half.mkdir()
    (half / "first.npy").write_bytes(b"")
    assert next_version(tmp_path) == 1

    publish(tmp_path, snapshot(version=1))

    assert not half.exists()
    assert load_current(tmp_path).version == 1


def test_an_empty_folder_says_what_to_start(tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match="cohabit refresh"):
        load_current(tmp_path / "nowhere")


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("content", [b"", b"garbage", None], ids=["empty", "garbage", "gone"])
def test_a_damaged_array_is_refused(tmp_path: Path, array: str, content: bytes | None) -> None:
    file = publish(tmp_path, replace(snapshot(), node_offered=np.zeros(6))) / f"{array}.npy"
    file.unlink()
    if content is None and array in ADDED:
        assert load_current(tmp_path).node_offered.size == 0
        return
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(AdvisorError, match="cannot be read"):
        load_current(tmp_path)


@pytest.mark.parametrize("head", [b"{'descr': (", b"{'descr': \x9b", HUGE % 10**20, HUGE % 10**15, b"[" * 90, b"{}"])
def test_a_damaged_head_of_an_array_is_refused(tmp_path: Path, head: bytes) -> None:
    for version in (b"\x01", b"\x02"):
        file = publish(tmp_path, snapshot(version=version[0])) / "profile.npy"
        length = (118).to_bytes(2 * version[0], "little")
        file.write_bytes(b"\x93NUMPY" + version + b"\0" + length + head.ljust(117) + b"\n")

        with pytest.raises(AdvisorError, match="cannot be read"):
            load_current(tmp_path)


def test_an_archive_is_no_array(tmp_path: Path) -> None:
    (publish(tmp_path, snapshot()) / "profile.npy").write_bytes(b"PK\x03\x04")

    with pytest.raises(AdvisorError, match="cannot be read"):
        load_current(tmp_path)


@pytest.mark.parametrize("array", ARRAYS)
def test_a_truncated_array_is_refused(tmp_path: Path, array: str) -> None:
    file = publish(tmp_path, snapshot()) / f"{array}.npy"
    file.write_bytes(file.read_bytes()[:-1])

    with pytest.raises(AdvisorError, match="cannot be read"):
        load_current(tmp_path)


@pytest.mark.parametrize(
    "change",
    [{"nodes": ["only-one"]}, {"version": "x"}, {"more": 1}, {"cpusets": []}, {"version": 2}],
    ids=["names of another length", "not a number", "a field more", "cpusets missing", "another version"],
)
def test_names_that_do_not_belong_to_the_arrays_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    file = publish(tmp_path, snapshot()) / "names.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))

    with pytest.raises(AdvisorError, match="cannot be read"):
        load_current(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{}", b"\xff\xfe", b'{"version": 1', b'{"x":' + b"[" * 5000])
def test_damaged_names_are_refused(tmp_path: Path, content: bytes) -> None:
    (publish(tmp_path, snapshot()) / "names.json").write_bytes(content)

    with pytest.raises(AdvisorError, match="cannot be read"):
        load_current(tmp_path)


def test_rows_that_point_outside_are_refused(tmp_path: Path) -> None:
    whole = snapshot()
    wrong: list[dict[str, NDArray[Any]]] = [
        {"resident_app": np.full_like(whole.resident_app, 99)},
        {"node_platform": np.full_like(whole.node_platform, -2)},
        {"first": np.full_like(whole.first, len(whole.containers) + 1)},
        {"first": whole.first[::-1].copy()},
        {"profile": whole.profile[:, :, :3]},
        {"cold_start_prior": whole.cold_start_prior[:, :, :3]},
        {"cold_start_prior": whole.cold_start_prior[1:]},
        {"resident_use": whole.resident_use.astype(np.float32)},
    ]
    for version, change in enumerate(wrong, start=1):
        publish(tmp_path, Snapshot(**{**vars(whole), **change, "version": version}))
        with pytest.raises(AdvisorError, match="cannot be read"):
            load_current(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff", b"000000000000000009", b"../elsewhere", b"x" * 5000, b"a\x00b"])
def test_a_damaged_pointer_is_refused(tmp_path: Path, content: bytes) -> None:
    publish(tmp_path, snapshot())
    (tmp_path / "current").write_bytes(content)

    with pytest.raises(AdvisorError, match="cannot be read"):
        load_current(tmp_path)


def test_a_reader_sees_whole_snapshots_while_they_are_published(tmp_path: Path) -> None:
    kept = [snapshot(seed, version=seed) for seed in range(1, 60)]
    publish(tmp_path, kept[0])
    done = threading.Event()

    def publish_all() -> None:
        for new in kept[1:]:
            publish(tmp_path, new)
        done.set()

    writer = threading.Thread(target=publish_all)
    writer.start()
    versions = []
    while not done.is_set():
        read = load_current(tmp_path)
        assert same(read, kept[read.version - 1])
        versions.append(read.version)
    writer.join()

    assert versions == sorted(versions)
    assert load_current(tmp_path).version == 59
