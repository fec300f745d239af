"""`cohabit model impact` end to end: decisions as the extender logged them, outcomes from a simulated lake."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from advisor.cluster.pending_pod import PendingPod, PodClass
from advisor.cluster.snapshot import publish
from advisor.placement.decision_log import Advised, Explorer, read_advised
from advisor.placement.offer import Offer
from advisor.placement.prioritizer import Prioritizer
from advisor.placement.rotating_log import KeptLines
from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.impact.estimate import Ledger, Rules, labels_since, ledger, looked_up, trial_lines, violating_before
from cohabit.impact.impact_report import effect_rows, sentences
from cohabit.lifecycle.training_serving_skew import snapshot_as_of
from cohabit.server.score_table_process import Tabling
from features.columnar.arrow_columns import micros
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.errors import ModelsError
from models.impact.ab_estimate import Interval
from tests.advisor.processes import new_process
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=5, apps=6, per_node=7, hours=3.0, churn_per_hour=3.0, seed=3)
START_US = round(PLAN.start.timestamp() * 1e6)
NODES = tuple(f"node-{number:04d}" for number in range(PLAN.nodes))
RULES = Rules()
Words = tuple[str, ...]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return derived_lake(tmp_path_factory.mktemp("worth"), PLAN)


@pytest.fixture
def log(written: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(written, tmp_path / "log"))


@pytest.fixture(scope="module")
def written(lake: Lake, bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every container that started after an hour was asked for when it did, by a scheduler that heeds nobody."""
    tmp_path = tmp_path_factory.mktemp("site")
    process = new_process(bundle, tmp_path)
    process.promote("first")
    as_of_us = START_US + 3_600_000_000
    publish(process.snapshots, snapshot_as_of(lake, PLAN.cluster, as_of_us, lake.read("profiles")))
    process.now_us, process.serving.max_age_s = as_of_us, 1e9
    process.serving.reload()
    folder, metrics = tmp_path / "advised", process.serving.metrics
    lines = KeptLines(folder, 1 << 20, 1 << 24)
    process.serving.explorer = Explorer(lines, 0.0, 1.0, np.random.default_rng(5), metrics, 0.5)
    born = lake.read("placements").filter(pc.equal(lake.read("placements")["event"], "add"))
    born = born.filter(pc.greater(born["ts"].cast(pa.int64()), as_of_us)).sort_by("ts")
    tabling = Tabling(process.serving, tmp_path / "table")
    for name in sorted(set(born["app"].to_pylist())):
        for best_effort in (False, True):
            tabling.ask(PodClass(name, best_effort), 0.0)
    for _ in range(20):
        tabling.step(0.0)
    prioritizer = Prioritizer(process.serving, tabling.path)
    prioritizer.take(prioritizer.newer())
    for row in born.select(["container", "app", "qos", "ts"]).to_pylist():
        process.now_us = round(row["ts"].timestamp() * 1e6)
        pending_pod = PendingPod(row["app"], None, row["qos"] == "BE")
        for _ in range(2):  # a scheduler tries again
            asyncio.run(prioritizer.answer(Offer(pending_pod, row["container"], NODES)))
    process.serving.explorer._thread.shutdown()
    return folder


@pytest.fixture
def found(lake: Lake, log: Path) -> Ledger:
    return ledger(log, lake, RULES)


def run(*words: str) -> tuple[int, str, str]:
    bare = {name: None for name in os.environ if name.startswith("COHABIT_")}
    ran = CliRunner().invoke(app, ["model", "impact", *words], env={**bare, "COLUMNS": "200"}, catch_exceptions=False)
    return ran.exit_code, ran.stdout, ran.stderr


def test_the_command_tells_both_arms_both_effects_and_what_is_not_told_yet(
    lake: Lake, log: Path, tmp_path: Path
) -> None:
    code, told, errors = run("--lake", str(lake.root), "--log", str(log), "--json", str(tmp_path / "worth.json"))

    assert (code, errors) == (0, "")
    for words in ("with outcome", "not over yet", "for each pod advised", "for each that the advice moved"):
        assert words in told
    written = json.loads((tmp_path / "worth.json").read_text())
    assert set(written["arms"]) == {"advised", "holdout"}
    effect = written["per_pod_minutes_avoided"]
    assert effect["low"] < effect["value"] < effect["high"]
    assert abs(effect["value"]) < effect["high"] - effect["low"], "the scheduler heeded nobody"
    sentences = " ".join(told.split())
    assert (effect["low"] < 0 < effect["high"]) == ("The interval holds zero" in sentences)
    assert "not significant yet that the advice moves any" in sentences


def test_every_pod_is_counted_once_by_what_became_of_it(found: Ledger, log: Path) -> None:
    lines = read_advised(log)
    uids = {line.uid for line in lines}

    assert len(lines) == 2 * len(uids)
    assert found.advised.pods + found.holdout.pods == len(uids)
    assert found.holdout.pods == len({line.uid for line in lines if line.held_out})
    assert found.outside == 0
    for arm in (found.advised, found.holdout):
        assert arm.fates["not over yet"] > 0
        assert 0 < arm.compared <= arm.residents
        assert arm.missing == arm.fates["not in the lake"] + arm.fates["not measured"]


def test_outcomes_are_those_of_a_plain_count_of_labels(lake: Lake, log: Path) -> None:
    lines, _ = trial_lines(log)
    labels = labels_since(lake, lines[0].at_us - 3_600_000_000)
    pods = looked_up(lines, labels, RULES)
    rows = labels.select(["node", "container", "qos", "window_start", "log_slowdown"]).to_pylist()
    checked = 0
    for number in np.flatnonzero(pods.fate == 0)[:14].tolist():
        uid = pods.lines[number].uid
        own = [row for row in rows if row["container"] == uid]
        start = min(row["window_start"] for row in own)
        inside = [row["log_slowdown"] for row in own if row["window_start"] < start + RULES.horizon]
        measured = [value for value in inside if value is not None]
        if measured:
            assert pods.found.own[number] == 5.0 * sum(value > np.log(1.25) for value in measured)
            checked += 1
        assert pods.landed[number].endswith(own[0]["node"])
    assert checked > 2


def test_pods_that_never_ran_are_told_apart_and_not_taken_for_unharmed(lake: Lake, log: Path) -> None:
    before = ledger(log, lake, RULES)
    [path] = log.glob("*.jsonl")
    lines = read_advised(log)
    ghosts = [replace_uid(line, f"ghost-{number}") for number, line in enumerate(lines[:40]) if line.held_out]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in [*lines, *ghosts]))

    after = ledger(log, lake, RULES)

    assert after.holdout.fates["not in the lake"] == before.holdout.fates["not in the lake"] + len(ghosts)
    assert after.worth == before.worth
    assert after.missing_chance < before.missing_chance


def replace_uid(line: Advised, uid: str) -> Advised:
    return msgspec.structs.replace(line, uid=uid)


def test_decisions_of_a_time_without_withholding_are_left_out_and_counted(lake: Lake, log: Path) -> None:
    before = ledger(log, lake, RULES)
    [path] = log.glob("*.jsonl")
    lines = read_advised(log)
    plain = [
        msgspec.structs.replace(line, uid=f"old-{number}", held_out=False, holdout_share=0.0)
        for number, line in enumerate(lines[:10])
    ]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in [*plain, *lines]))

    after = ledger(log, lake, RULES)

    assert (after.outside, after.worth) == (10, before.worth)


def test_covariates_are_known_before_the_decision(lake: Lake, log: Path) -> None:
    """What comes after a decision does not change what is taken for known at it."""
    lines, _ = trial_lines(log)
    labels = labels_since(lake, 0)
    middle = lines[len(lines) // 2]
    early = labels.filter(pa.array(micros(labels["window_end"]) <= middle.at_us))

    assert violating_before([middle], labels, RULES) == pytest.approx(violating_before([middle], early, RULES))


@pytest.mark.parametrize("line", [b"{}", b"\xff", b'{"cluster": "\xff"}', b'{"x":' + b"[" * 5000])
def test_a_line_that_is_no_decision_is_named_with_its_folder(tmp_path: Path, line: bytes) -> None:
    (tmp_path / "1.jsonl").write_bytes(line + b"\n")

    with pytest.raises(CohabitError, match=str(tmp_path)):
        trial_lines(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda lines: [], CohabitError, "COHABIT_ADVISOR__HOLDOUT_SHARE above 0"),
        (lambda lines: [line for line in lines if not line.held_out], CohabitError, "no holdout to compare with"),
        (lambda lines: lines[:10], ModelsError, "let more pods come"),
    ],
    ids=["empty", "none held out", "few"],
)
def test_a_log_that_cannot_tell_says_what_to_do(
    lake: Lake,
    log: Path,
    spoil: Callable[[list[Advised]], list[Advised]],
    error: type[Exception],
    said: str,
) -> None:
    [path] = log.glob("*.jsonl")
    kept = spoil(read_advised(log))
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in kept))

    with pytest.raises(error, match=said):
        ledger(log, lake, RULES)
    code, told, errors = run("--lake", str(lake.root), "--log", str(log))
    assert (code, told) == (1, "")
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1


def test_without_lake_labels_or_readable_lines_it_says_what_to_do(lake: Lake, log: Path, tmp_path: Path) -> None:
    assert "no lake in" in run("--lake", str(tmp_path / "nowhere"), "--log", str(log))[2]
    with pytest.raises(CohabitError, match="cohabit features"):
        ledger(log, Lake.open(tmp_path / "lake", TABLES), RULES)
    (log / "2.jsonl").write_bytes(b'{"at_us": NaN}\n')
    with pytest.raises(CohabitError, match="remove its file"):
        ledger(log, lake, RULES)


def test_a_time_in_another_unit_is_told_by_its_file(lake: Lake, log: Path) -> None:
    later = msgspec.structs.replace(read_advised(log)[0], at_us=START_US * 1000)
    (log / "3.jsonl").write_bytes(msgspec.json.encode(later) + b"\n")

    with pytest.raises(CohabitError, match="at_us"):
        ledger(log, lake, RULES)


def test_where_nobody_is_told_to_have_moved_a_loss_is_called_chance_perhaps(found: Ledger) -> None:
    loss = Interval(-2.0, -3.0, -1.0)
    unknown = Interval(300.0, float("-inf"), float("inf"))
    lost = replace(found, worth=replace(found.worth, per_pod=loss, per_mover=unknown))
    known = replace(found, worth=replace(found.worth, per_pod=loss, per_mover=loss))

    assert "may be why" in " ".join(sentences(lost))
    assert "may be why" not in " ".join(sentences(known))
    assert [row[1] for row in effect_rows(lost)][-1] == "unknown"


def test_the_horizon_is_in_windows_of_five_minutes() -> None:
    assert (RULES.windows, replace(RULES, horizon=RULES.horizon / 4).windows) == (12, 3)
