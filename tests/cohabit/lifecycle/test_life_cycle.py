"""Life of a model: challengers are judged on labels nobody learnt from, promoted, watched, and rolled back."""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner, Result

from cohabit.cli.main import app
from cohabit.config.errors import CohabitError
from cohabit.lifecycle.drift import Watch, check_drift
from cohabit.lifecycle.prediction import explain
from cohabit.lifecycle.promotion import MARGINS_BACK, Hand, judge, promote, roll_back
from cohabit.lifecycle.recalibrate import recalibrate
from cohabit.training.retrain import retrain
from cohabit.training.train_model import Birth, Effort, train_bundle
from features.jobs.job_plan import JOB, whole_stretch
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from ingest.simulator.simulate import Plan
from models.bundle.bundle import read_bundle, write_bundle
from models.bundle.signing import make_keys
from models.drift.drift_status import DriftStatus, read_status, write_status
from models.errors import ModelsError
from models.registry.registry import Registry, trained_name
from models.registry.registry_log import HISTORY, events
from models.training.fit import TrainConfig
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=9, apps=6, per_node=8, hours=4.0, seed=4, law="queueing")
EFFORT = Effort(TrainConfig(rounds=40, learning_rate=0.1, folds=2))
NOW = datetime(2026, 3, 2, 6, tzinfo=UTC)
HAND = Hand("somebody", NOW)
HOW = Watch(timedelta(hours=6), timedelta(days=14))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return derived_lake(tmp_path_factory.mktemp("lived"), PLAN)


@pytest.fixture(scope="module")
def bundles(lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`old` and `new` learnt from the first half, the same; `inverted` the opposite; `whole` from everything."""
    shelf, table = Registry(tmp_path_factory.mktemp("bundles")), lake.read("training")
    ends = sorted(pc.unique(table["window_end"]).to_pylist())
    half = table.filter(pc.less_equal(table["window_end"], ends[len(ends) // 2]))
    at = table.column_names.index("log_slowdown")
    opposite = half.set_column(at, "log_slowdown", pc.negate(half["log_slowdown"]))
    for name, rows in (("old", half), ("new", half), ("inverted", opposite), ("whole", table)):
        train_bundle(rows, shelf, NOW, {}, EFFORT, birth=Birth(name, promoted=False))
    return shelf.root


@pytest.fixture
def registry(bundles: Path, tmp_path: Path) -> Registry:
    """The same bundles, none of them current."""
    (tmp_path / "registry").mkdir()
    for bundle in bundles.iterdir():
        (tmp_path / "registry" / bundle.name).symlink_to(bundle)
    return Registry(tmp_path / "registry")


def status_now(registry: Registry) -> DriftStatus:
    found = read_status(registry)
    assert found is not None
    return found


def test_the_first_challenger_takes_an_empty_place(lake: Lake, registry: Registry) -> None:
    assert judge(lake, registry, "old", NOW).passed
    assert promote(registry, "old", HAND)
    assert registry.current() == registry.root / "old"
    assert not promote(registry, "old", HAND)
    [event] = events(registry)
    assert (event.what, event.bundle, event.before, event.by) == ("promoted", "old", None, "somebody")


def test_a_challenger_as_good_as_the_champion_is_promoted_and_one_command_goes_back(
    lake: Lake, registry: Registry
) -> None:
    registry.promote("old")
    verdict = judge(lake, registry, "new", NOW)
    assert (verdict.passed, verdict.champion) == (True, "old")
    assert verdict.labels > 200
    assert {check.name for check in verdict.checks} >= {"tomorrow", "unseen", "bound", "coverage", "regret", "nothing"}
    promote(registry, "new", HAND)

    assert roll_back(registry, HAND) == ("new", "old")

    assert registry.current() == registry.root / "old"
    assert [one.what for one in events(registry)] == ["promoted", "rolled back"]
    with pytest.raises(ModelsError, match="rolled back"):
        promote(registry, "new", HAND)
    with pytest.raises(ModelsError, match="has no earlier bundle to return to"):
        roll_back(registry, HAND)


def test_a_challenger_that_learnt_the_opposite_is_refused_and_stays_out(lake: Lake, registry: Registry) -> None:
    registry.promote("old")
    verdict = judge(lake, registry, "inverted", NOW)
    failed = {check.name for check in verdict.checks if not check.passed}
    assert {"tomorrow", "unseen", "nothing"} <= failed
    with pytest.raises(ModelsError, match="tomorrow"):
        promote(registry, "inverted", HAND)
    assert registry.current() == registry.root / "old"
    assert promote(registry, "inverted", HAND, forced="a drill")
    assert events(registry)[-1].why == "a drill"


def test_a_challenger_that_learnt_from_all_labels_cannot_be_judged_yet(lake: Lake, registry: Registry) -> None:
    registry.promote("old")
    verdict = judge(lake, registry, "whole", NOW)
    assert not verdict.passed
    assert "0 labels of 0 pairs of app and node came after" in verdict.refusals[0]


def test_without_a_verdict_on_this_very_place_nobody_is_promoted(lake: Lake, registry: Registry) -> None:
    registry.promote("old")
    with pytest.raises(ModelsError, match="never judged"):
        promote(registry, "new", HAND)
    judge(lake, registry, "new", NOW)
    registry.promote("whole")
    with pytest.raises(ModelsError, match="judged against old, and whole is current"):
        promote(registry, "new", HAND)
    with pytest.raises(ModelsError, match="the registry has no bundle"):
        promote(registry, "nobody", HAND)


def test_following_labels_does_not_change_who_is_judged_against(lake: Lake, registry: Registry) -> None:
    registry.promote("old")
    recalibrate(lake, registry, NOW, lambda _: None)
    verdict = judge(lake, registry, "new", NOW)
    assert (verdict.champion, verdict.passed) == ("old", True)
    assert promote(registry, "new", HAND)
    assert registry.current() == registry.root / "new"


def test_margins_that_followed_labels_are_put_back_by_the_name_of_what_was_trained(
    lake: Lake, registry: Registry
) -> None:
    registry.promote("old")
    recalibrate(lake, registry, NOW, lambda _: None)
    assert registry.current() != registry.root / "old"
    assert judge(lake, registry, "old", NOW).champion == "old"
    assert registry.verdict("old") is None
    assert promote(registry, "old", HAND)
    assert registry.current() == registry.root / "old"
    assert (events(registry)[-1].bundle, events(registry)[-1].why) == ("old", MARGINS_BACK)
    assert not promote(registry, "old", HAND)


def test_what_was_judged_becomes_current_and_not_what_is_called_so(lake: Lake, registry: Registry) -> None:
    registry.promote("old")
    assert judge(lake, registry, "new", NOW).passed
    (registry.root / "new").unlink()
    shutil.copytree(registry.root / "inverted", registry.root / "new")

    with pytest.raises(ModelsError, match="something else than what was judged"):
        promote(registry, "new", HAND)
    assert registry.current() == registry.root / "old"


def broken(registry: Registry) -> None:
    """`broken`, of which every file is what was written: no graph, but that is what was written."""
    whole = read_bundle(registry.root / "old")
    graphs = {name: b"no graph" for name in whole.files if name.endswith(".onnx")}
    assert graphs
    write_bundle(registry.root / "broken", whole.manifest, {**whole.files, **graphs})


def test_what_cannot_be_served_becomes_current_in_no_way(lake: Lake, registry: Registry) -> None:
    broken(registry)
    attempts: list[Callable[[], object]] = [
        lambda: judge(lake, registry, "broken", NOW),
        lambda: promote(registry, "broken", HAND),
        lambda: promote(registry, "broken", HAND, forced="in a hurry"),
    ]
    for attempt in attempts:
        with pytest.raises(ModelsError, match="onnxruntime cannot open the graph"):
            attempt()
    assert registry.current() is None
    registry.promote("broken")
    registry.promote("old")

    with pytest.raises(ModelsError, match="onnxruntime cannot open the graph"):
        roll_back(registry, HAND)

    assert registry.current() == registry.root / "old"
    assert registry.verdict("old") is None
    assert events(registry) == []


def test_a_change_that_cannot_be_written_down_is_told_and_opens_no_way_around_the_gate(
    lake: Lake, registry: Registry
) -> None:
    registry.promote("old")
    judge(lake, registry, "new", NOW)
    promote(registry, "new", HAND)
    (registry.root / HISTORY).unlink()
    (registry.root / HISTORY).mkdir()

    with pytest.raises(ModelsError, match="old is current now, but"):
        roll_back(registry, HAND)

    assert registry.current() == registry.root / "old"
    with pytest.raises(ModelsError, match="rolled back"):
        promote(registry, "new", HAND)


def test_labels_of_times_to_come_neither_count_as_newest_nor_hide_others(
    lake: Lake, registry: Registry, tmp_path: Path
) -> None:
    registry.promote("old")
    before = check_drift(lake, registry, HOW, NOW)
    ahead = Lake.open(shutil.copytree(lake.root, tmp_path / "ahead"), TABLES)
    late, day = lake.read("training").slice(0, 1), datetime(2026, 12, 31, tzinfo=UTC)
    at = late.column_names.index("window_end")
    late = late.set_column(at, late.field(at), pa.chunked_array([[day]], late.field(at).type))
    ahead.replace("training", day, day + timedelta(hours=1), "features", late)

    after = check_drift(ahead, registry, HOW, NOW)

    assert after.labels_until == before.labels_until
    assert after.signals == before.signals


def test_a_name_like_that_of_what_is_current_opens_no_gate(lake: Lake, registry: Registry) -> None:
    shutil.copytree(registry.root / "old", registry.root / "inverted-until-20260101T000000")
    registry.promote("inverted-until-20260101T000000")
    shutil.copytree(registry.root / "inverted", registry.root / "old-until-20260101T000000")

    for name in ("inverted", "old-until-20260101T000000"):
        with pytest.raises(ModelsError, match="never judged"):
            promote(registry, name, HAND)
    assert not judge(lake, registry, "inverted", NOW).passed


def test_a_sound_model_is_served_as_it_is_and_the_same_labels_say_the_same_again(
    lake: Lake, registry: Registry
) -> None:
    registry.promote("old")
    recalibrate(lake, registry, NOW, lambda _: None)
    first = check_drift(lake, registry, HOW, NOW)
    assert first.bundle == "old"
    assert first.state == "fine", first.signals
    again = check_drift(lake, registry, HOW, NOW + timedelta(minutes=1))
    assert again.signals[:4] == first.signals[:4]
    assert again.labels_until == first.labels_until


def test_a_model_that_learnt_the_opposite_is_widened_and_another_one_starts_anew(
    lake: Lake, registry: Registry
) -> None:
    registry.promote("inverted")
    widened = check_drift(lake, registry, HOW, NOW)
    assert widened.state == "widened"
    assert widened.widening > 1
    assert {one.name for one in widened.signals if one.alarm} >= {"coverage", "residual"}
    registry.promote("old")
    recalibrate(lake, registry, NOW, lambda _: None)
    fresh = check_drift(lake, registry, HOW, NOW + timedelta(hours=1))
    assert (fresh.bundle, fresh.state) == ("old", "fine")
    assert [one.state for one in fresh.changes] == ["widened", "fine"]
    assert fresh.changes[-1].why == "old took the place of inverted"


def test_drift_says_what_is_missing_and_what_is_damaged(lake: Lake, registry: Registry) -> None:
    with pytest.raises(ModelsError, match="no current bundle"):
        check_drift(lake, registry, HOW, NOW)
    registry.promote("old")
    write_status(registry, DriftStatus(bundle="old", checked_at=NOW))
    (registry.root / ".drift.json").write_text("[]")
    with pytest.raises(ModelsError, match=r"\.drift\.json"):
        check_drift(lake, registry, HOW, NOW)


def test_a_broken_line_of_history_loses_no_other(lake: Lake, registry: Registry) -> None:
    judge(lake, registry, "old", NOW)
    promote(registry, "old", HAND)
    with (registry.root / HISTORY).open("ab") as file:
        file.write(b'{"at": "20')
        file.write(b"\n")
    roll = judge(lake, registry, "new", NOW)
    assert roll.passed
    promote(registry, "new", HAND)
    assert [one.bundle for one in events(registry)] == ["old", "new"]


def run(lake: Lake, registry: Registry, *words: str, env: dict[str, str] | None = None) -> Result:
    named = {"COHABIT_LAKE": str(lake.root), "COHABIT_REGISTRY": str(registry.root), "COLUMNS": "200"}
    snapshots = {"COHABIT_SNAPSHOTS": str(registry.root.parent / "snapshots")}
    return CliRunner().invoke(app, list(words), env={**named, **snapshots, **(env or {})})


def said(words: Sequence[Result]) -> list[int]:
    return [one.exit_code for one in words]


def test_commands_from_challenger_to_rollback(lake: Lake, registry: Registry) -> None:
    assert run(lake, registry, "model", "promote", "old", "--force", "the first").exit_code == 0
    bad = run(lake, registry, "model", "gate", "inverted"), run(lake, registry, "model", "promote", "inverted")
    assert said(bad) == [1, 1]
    assert "refused: tomorrow" in " ".join(bad[0].output.split())
    good = run(lake, registry, "model", "gate", "new"), run(lake, registry, "model", "promote", "new")
    assert said(good) == [0, 0]
    assert "next: cohabit model promote new" in good[0].output
    listed = run(lake, registry, "model", "list")
    assert [word in listed.output for word in ("was current", "refused", "passed", "the first")] == [True] * 4
    back = run(lake, registry, "model", "rollback")
    assert (back.exit_code, back.output) == (0, "old is current again, new is not\n")
    again = run(lake, registry, "model", "rollback")
    assert again.exit_code == 1
    assert "no earlier bundle" in again.output


def test_one_damaged_bundle_hides_no_other_and_a_name_outside_is_not_current(lake: Lake, registry: Registry) -> None:
    registry.promote("old")
    broken(registry)
    (registry.root / "broken" / "manifest.json").write_text("{")
    (registry.root / "lost+found").mkdir()
    (registry.root / ".verdicts").mkdir()
    (registry.root / ".verdicts" / "whole.json").write_text("[]")

    listed = run(lake, registry, "model", "list")

    assert listed.exit_code == 0
    assert listed.output.count("unusable") == 3
    assert [listed.output.count(f"bundle {registry.root / name}") for name in ("broken", "lost+found")] == [1, 1]
    for outside in ("../elsewhere", "/elsewhere", "..", ".", ""):
        (registry.root / "current").write_text(f"{outside}\n")
        with pytest.raises(ModelsError, match="the registry has no bundle"):
            registry.current()


@pytest.mark.parametrize("name", ["../evil", "/evil", "a\nb", "", "a-until-b", ".hidden", "a" * 101, "naïve"])
def test_a_bundle_that_is_trained_has_a_name_that_is_one(lake: Lake, registry: Registry, name: str) -> None:
    before = sorted(registry.root.parent.iterdir()), registry.names()

    told = run(lake, registry, "model", "train", "--name", name)

    assert told.exit_code == 1
    assert "no bundle can be called" in told.output
    assert (sorted(registry.root.parent.iterdir()), registry.names()) == before


@pytest.mark.parametrize("hours", ["inf", "nan", "1e300", "0", "8761"])
def test_hours_that_nobody_can_look_at_are_refused(lake: Lake, registry: Registry, hours: str) -> None:
    told = run(lake, registry, "model", "drift", "--hours", hours)

    assert told.exit_code in (1, 2)
    assert "--hours" in told.output


def test_the_command_tells_how_far_the_model_is_served(lake: Lake, registry: Registry) -> None:
    registry.promote("inverted")
    alarmed = run(lake, registry, "model", "drift", "--hours", "2")
    assert alarmed.exit_code == 1
    assert "widened: conformal margins are" in alarmed.output
    assert status_now(registry).state == "widened"
    shadow = run(lake, registry, "model", "shadow", "old")
    assert shadow.exit_code == 1
    assert "has no snapshot" in shadow.output


def test_whoever_trusts_a_key_promotes_no_bundle_without_its_signature(lake: Lake, registry: Registry) -> None:
    private, public = make_keys(registry.root.parent / "keys")
    trusting = {"COHABIT_SIGNING__TRUSTED_KEYS": str(public)}
    refused = run(lake, registry, "model", "promote", "old", "--force", "try", env=trusting)
    assert refused.exit_code == 1
    assert "has no signature" in refused.output
    signing = {"COHABIT_SIGNING__KEY": str(private), **trusting}
    made = run(lake, registry, "model", "train", "--until", "2026-03-02T01:00", "--name", "signed", env=signing)
    assert made.exit_code == 0, made.output
    assert "registry/signed is current" in " ".join(made.output.split())
    current = registry.current()
    assert current is not None
    assert trained_name(current.name) == "signed"
    again = run(lake, registry, "model", "train", "--until", "2026-03-02T01:00", "--name", "signed", env=signing)
    assert (again.exit_code, "there already" in again.output) == (0, True)
    learnt = json.loads((current / "manifest.json").read_text())["training_window"][1]
    assert learnt == "2026-03-02T01:00:00Z"
    followed = run(lake, registry, "model", "recalibrate", env=signing)
    assert followed.exit_code == 0, followed.output
    assert run(lake, registry, "admin", "config", "check", env=trusting).output.count("is whole") == 1


def test_a_prediction_is_the_product_of_what_each_feature_contributes(lake: Lake, registry: Registry) -> None:
    bundle = registry.bundle("whole")
    app = lake.read("training")["app"][0].as_py()

    found = explain(lake, bundle, (app, None, None))

    assert found.app == app
    assert found.predicted == pytest.approx(found.expected * math.prod(factor for _, factor in found.factors))
    sizes = [abs(math.log(factor)) for _, factor in found.factors]
    assert sizes == sorted(sizes, reverse=True)
    with pytest.raises(CohabitError, match=r"none of [\d,]+ training rows is of app 'nothing'"):
        explain(lake, bundle, ("nothing", None, None))


def test_a_bundle_is_reproduced_to_the_byte_from_its_manifest(lake: Lake, registry: Registry, tmp_path: Path) -> None:
    found = retrain(lake, registry.bundle("old"), tmp_path / "again")

    assert len(found.same) >= 4
    assert all(found.same.values())
    with pytest.raises(CohabitError, match=r"trained on [\d,]+ rows, and the [\d,]+ rows of this lake"):
        retrain(lake, registry.bundle("inverted"), tmp_path / "other")


def test_other_settings_make_other_files(lake: Lake, registry: Registry, tmp_path: Path) -> None:
    bundle = registry.bundle("old")
    how = bundle.manifest.provenance
    assert how is not None
    other = how.model_copy(update={"settings": how.settings | {"rounds": 20}})

    found = retrain(
        lake, replace(bundle, manifest=bundle.manifest.model_copy(update={"provenance": other})), tmp_path / "again"
    )

    assert not found.same["placement.mean.onnx"]
    assert not found.same["conformal margins"]


def test_commands_explain_and_reproduce_the_champion(lake: Lake, registry: Registry) -> None:
    assert "has no champion" in run(lake, registry, "model", "explain").output
    registry.promote("old")

    explained = run(lake, registry, "model", "explain", "--top", "3")
    reproduced = run(lake, registry, "model", "reproduce")

    assert said([explained, reproduced]) == [0, 0]
    assert "predicted slowdown" in explained.output
    assert "other features" in explained.output
    assert reproduced.output.count("the same") >= 4
    assert "different" not in reproduced.output


def test_derived_tables_with_columns_of_other_names_are_refused_until_they_are_computed_again(tmp_path: Path) -> None:
    lake = derived_lake(tmp_path, Plan(nodes=2, apps=3, per_node=3, hours=0.5, seed=4))
    kind = TABLES["node_state"]
    columns = tuple(replace(one, name=one.name.replace("memory_bandwidth", "membw")) for one in kind.columns)
    old, rows = replace(kind, columns=columns), lake.read("node_state")
    shutil.rmtree(lake.root / "node_state")
    stretch = whole_stretch(lake)
    assert stretch is not None
    Lake.open(lake.root, {"node_state": old}).replace(
        "node_state", *stretch.ends(), JOB, rows.rename_columns(old.schema.names)
    )

    with pytest.raises(IngestError, match=r"table node_state of .* columns of other names: .*`cohabit features`"):
        Lake.open(lake.root, TABLES).read("node_state")
    ran = CliRunner().invoke(app, ["features", "--lake", str(lake.root)], env={"COLUMNS": "200"})

    assert ran.exit_code == 0, ran.output
    assert Lake.open(lake.root, TABLES).read("node_state", columns=["pressure_memory_bandwidth"]).num_rows
