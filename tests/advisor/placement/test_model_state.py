"""Serving: what is answered when a part is missing, old or damaged, and what is taken up when."""

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from structlog.testing import capture_logs

from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import directory_name
from advisor.errors import AdvisorError
from advisor.placement.feature_log import ServedLog
from advisor.placement.model_state import Answer
from advisor.scoring.loaded_model import open_model
from models.bundle.bundle import write_bundle
from models.estimator.fitted_model import Placement
from models.onnx_export.exporter import export_placement
from tests.advisor.clusters import NOW_US, manifest_of, snapshot, write
from tests.advisor.processes import Process

WEB = PendingPod("web")


def ready(process: Process) -> Process:
    process.promote("first")
    process.publish(snapshot(version=1))
    process.serving.reload()
    return process


def ask(process: Process, *names: str) -> Answer:
    return process.serving.answer(WEB, names or ("n0", "n1"))


def test_before_the_first_reload_answers_are_neutral(process: Process) -> None:
    answer = ask(process)

    assert (answer.reason, answer.points.tolist(), answer.scored) == ("not_loaded", [0, 0], None)


def test_without_a_bundle_answers_are_neutral(process: Process) -> None:
    process.publish(snapshot())
    process.serving.reload()

    assert (ask(process).reason, ask(process).points.tolist()) == ("no_bundle", [0, 0])
    assert process.serving.problem() == "no_bundle"


def test_without_a_snapshot_answers_are_neutral(process: Process) -> None:
    process.promote("first")
    process.serving.reload()

    assert (ask(process).reason, ask(process).points.tolist()) == ("no_snapshot", [0, 0])
    assert process.serving.age_s() == float("inf")


def test_with_both_the_model_answers(process: Process) -> None:
    answer = ask(ready(process))

    assert answer.reason == process.serving.problem() == ""
    assert answer.scored is not None
    assert answer.scored.scores.source == "model"
    assert answer.points.max() > 0


def test_a_snapshot_too_old_is_not_believed_until_a_newer_one_comes(process: Process) -> None:
    ready(process)
    process.now_us = NOW_US + 120_000_001
    assert (ask(process).reason, process.serving.problem()) == ("stale", "stale")

    fresh = snapshot(version=2)
    process.publish(type(fresh)(**{**vars(fresh), "as_of_us": process.now_us}))
    process.serving.reload()

    assert ask(process).reason == ""


def test_a_snapshot_at_the_limit_is_believed(process: Process) -> None:
    ready(process).now_us = NOW_US + 120_000_000

    assert ask(process).reason == ""


def test_nodes_nobody_knows_make_a_neutral_answer(process: Process) -> None:
    answer = ask(ready(process), "elsewhere", "nowhere")

    assert (answer.reason, answer.points.tolist()) == ("unknown_nodes", [0, 0])


def test_an_unknown_node_among_known_ones_gets_their_middle(process: Process) -> None:
    answer = ask(ready(process), "n0", "elsewhere", "n1", "n2")

    known = sorted(answer.points[[0, 2, 3]].tolist())
    assert answer.points[1] == known[1]
    assert answer.scored is not None
    assert answer.scored.known.tolist() == [0, 2, 3]


def test_no_nodes_get_no_points(process: Process) -> None:
    assert ready(process).serving.answer(WEB, []).points.tolist() == []


def test_all_nodes_are_offered_when_none_are_named(process: Process) -> None:
    assert list(ready(process).serving.answer(WEB, None).names) == [f"n{i}" for i in range(6)]


def test_a_new_snapshot_is_taken_up_without_opening_the_bundle_again(process: Process) -> None:
    ready(process)
    before = process.serving.scorer
    process.publish(snapshot(7, version=2))
    process.serving.reload()

    assert before is not None
    assert process.serving.scorer is not None
    assert process.serving.scorer.snapshot.version == 2
    assert process.serving.scorer.predictor is before.predictor


def test_nothing_new_changes_nothing(process: Process) -> None:
    before = ready(process).serving.scorer
    process.serving.reload()

    assert process.serving.scorer is before


def test_a_newly_promoted_bundle_is_taken_up(process: Process) -> None:
    before = ready(process).serving.scorer
    process.promote("second")
    process.serving.reload()

    assert before is not None
    assert process.serving.scorer is not None
    assert process.serving.scorer.predictor is not before.predictor
    assert process.serving.scorer.snapshot is before.snapshot


def test_a_damaged_bundle_leaves_the_last_good_one_which_still_gets_new_snapshots(process: Process) -> None:
    ready(process)
    (process.promote("second") / "placement-mean.onnx").write_bytes(b"not this")
    process.publish(snapshot(7, version=2))
    process.serving.reload()
    answer = ask(process)

    assert answer.scored is not None
    assert (answer.scored.scores.source, answer.scored.scores.version) == ("last_good", 2)
    assert process.counted("cohabit_reloads_failed_total", reason="no_bundle") == 1
    assert process.counted("cohabit_score_requests_total", source="last_good", reason="no_bundle") == 1


def test_a_damaged_snapshot_leaves_the_last_good_one_until_the_next(process: Process) -> None:
    ready(process)
    (process.publish(snapshot(version=2)) / "first.npy").write_bytes(b"")
    process.serving.reload()
    kept = ask(process)
    process.publish(snapshot(version=3))
    process.serving.reload()
    healed = ask(process)

    assert kept.scored is not None
    assert healed.scored is not None
    assert (kept.scored.scores.source, kept.scored.scores.version) == ("last_good", 1)
    assert (healed.scored.scores.source, healed.scored.scores.version) == ("model", 3)


def test_a_registry_that_vanishes_leaves_the_last_good_bundle(process: Process) -> None:
    ready(process)
    shutil.rmtree(process.registry.root)
    process.serving.reload()

    assert ask(process).reason == ""


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no-such-bundle\n", b"../../etc\n", b"x" * 5000, b"a\x00b\n"])
def test_a_damaged_registry_pointer_is_not_fatal(process: Process, content: bytes) -> None:
    ready(process)
    (process.registry.root / "current").write_bytes(content)
    process.serving.reload()

    assert ask(process).reason == ""
    assert "no_bundle" in process.serving.refused


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"x" * 5000, b"a\x00b"])
def test_a_damaged_snapshot_pointer_is_not_fatal(process: Process, content: bytes) -> None:
    ready(process)
    (process.snapshots / "current").write_bytes(content)
    process.serving.reload()

    assert ask(process).reason == ""
    assert "no_snapshot" in process.serving.refused


def test_a_snapshot_republished_under_another_name_is_read_once(process: Process) -> None:
    ready(process)
    first = process.serving.scorer
    (process.snapshots / "current").write_text(directory_name(1))
    process.serving.reload()

    assert process.serving.scorer is first


def test_every_answer_is_counted_by_source_and_reason(process: Process) -> None:
    ask(process)
    ask(ready(process))
    ask(process, "elsewhere")
    process.now_us += 10**9
    ask(process)

    def count(source: str, reason: str) -> float:
        return process.counted("cohabit_score_requests_total", source=source, reason=reason)

    assert count("neutral", "not_loaded") == 1
    assert count("model", "") == 1
    assert count("neutral", "unknown_nodes") == 1
    assert count("neutral", "stale") == 1
    assert process.counted("cohabit_snapshot_age_seconds") == 1000.0


def test_an_answer_holds_the_snapshot_it_was_made_of(process: Process) -> None:
    answer = ask(ready(process))
    process.publish(snapshot(9, nodes=2, version=2))
    process.serving.reload()

    assert answer.scored is not None
    assert answer.scored.scorer.snapshot.version == answer.scored.scores.version == 1


def test_a_bundle_without_a_placement_model_is_refused(placement: Placement, tmp_path: Path) -> None:
    with pytest.raises(AdvisorError, match="no model 'placement'"):
        open_model(write(placement, tmp_path / "other", model="diagnosis"))


def test_a_bundle_that_says_nothing_of_a_row_without_values_is_refused(placement: Placement, tmp_path: Path) -> None:
    forgetful = type(placement)(**{**vars(placement), "medians": np.full_like(placement.medians, np.nan)})

    with pytest.raises(AdvisorError, match="medians"):
        open_model(write(forgetful, tmp_path / "forgetful"))


def test_a_graph_this_runtime_cannot_read_leaves_the_last_good_bundle(process: Process, placement: Placement) -> None:
    ready(process)
    graphs = {f"placement-{role}.onnx": b"\x08\x63 not a graph" for role in export_placement(placement)}
    write_bundle(process.registry.root / "newer", manifest_of(placement), graphs)
    process.registry.promote("newer")
    process.serving.reload()

    assert ask(process).reason == ""
    assert "no_bundle" in process.serving.refused


def test_answers_stay_whole_while_snapshots_and_bundles_change(process: Process) -> None:
    ready(process)
    done = threading.Event()

    def change_everything() -> None:
        for version in range(2, 30):
            process.publish(snapshot(version, nodes=1 + version % 9, version=version))
            if version % 5 == 0:
                process.promote(f"bundle-{version}")
            process.serving.reload()
        done.set()

    changer = threading.Thread(target=change_everything)
    changer.start()
    versions = set()
    while not done.is_set():
        answer = process.serving.answer(WEB, None)
        assert answer.scored is not None
        assert list(answer.names) == list(answer.scored.scorer.snapshot.nodes)
        assert len(answer.points) == len(answer.scored.scores.mean) == len(answer.names)
        versions.add(answer.scored.scores.version)
    changer.join()

    assert len(versions) > 3


def test_a_snapshot_dated_far_ahead_is_not_believed_for_ever(process: Process) -> None:
    ready(process)
    process.now_us = NOW_US - 3600 * 1_000_000

    assert ask(process).reason == process.serving.problem() == "ahead"


def test_whatever_fails_a_scheduler_is_answered_neutrally(process: Process) -> None:
    ready(process)
    scorer = process.serving.scorer
    assert scorer is not None
    process.serving.scorer = replace(scorer, snapshot=replace(scorer.snapshot, node_capacity=np.zeros((0, 0))))

    answer = process.serving.answer_anyway(WEB, ["n0", "n1"])
    process.serving.count(answer)

    assert (answer.reason, answer.points.tolist()) == ("error", [0, 0])
    assert process.counted("cohabit_score_requests_total", source="neutral", reason="error") == 1


def test_vectors_that_cannot_be_kept_cost_no_answer(process: Process) -> None:
    ready(process)
    folder = process.snapshots / "served"
    folder.write_text("a file, where no folder can be made")
    process.serving.served = ServedLog(folder, 1.0, np.random.default_rng(0))

    with capture_logs() as logs:
        for _ in range(3):
            assert ask(process).reason == ""
    assert [entry["event"] for entry in logs] == ["cannot write to the feature log"]
