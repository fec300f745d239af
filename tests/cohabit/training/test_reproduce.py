"""A bundle is trained again from the versions of tables that it names, whatever became of the lake since."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cohabit.config.errors import CohabitError
from cohabit.training.retrain import retrain
from cohabit.training.train_model import Birth, Effort, as_now, diagnosis_of, train_bundle
from features.jobs.job_plan import JOB, whole_stretch
from ingest.lake.tables import Lake
from ingest.lake.upkeep import When, compact, vacuum
from ingest.simulator.simulate import Plan
from models.registry.registry import Registry
from models.training.fit import TrainConfig
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=4, apps=6, per_node=6, hours=2.0, seed=4)
EFFORT = Effort(TrainConfig(rounds=10, learning_rate=0.1, folds=2))
NOW = datetime(2026, 3, 2, tzinfo=UTC)
LATER = datetime(2100, 1, 1, tzinfo=UTC)
READ = ("training", "contention", "node_state")


def change(lake: Lake) -> None:
    """Compute all again, with other labels, and keep house three times."""
    stretch = whole_stretch(lake)
    assert stretch is not None
    for table in READ:
        rows = lake.read(table)
        lake.replace(table, *stretch.ends(), JOB, rows.slice(0, rows.num_rows // 2))
    for _ in range(3):
        for table in READ:
            compact(lake, table, When(LATER), lambda _done, _of: None)
            vacuum(lake, table)


def test_a_bundle_is_reproduced_from_the_versions_that_it_names_until_these_are_gone(tmp_path: Path) -> None:
    lake = derived_lake(tmp_path, PLAN)
    pinned, versions = as_now(lake)
    table, shelf = pinned.read("training"), Registry(tmp_path / "registry")
    birth = Birth("b", versions=versions)
    train_bundle(table, shelf, NOW, {}, EFFORT, diagnosis=diagnosis_of(pinned, table), birth=birth)

    change(lake)

    bundle = shelf.bundle("b")
    assert bundle.manifest.provenance is not None
    assert set(bundle.manifest.provenance.versions) == set(READ)
    found = retrain(lake, bundle, tmp_path / "again")
    assert len(found.same) > 4
    assert all(found.same.values())
    for name in READ:
        vacuum(lake, name, retention=timedelta())
    with pytest.raises(CohabitError, match=r"[1-9] of \d files of version \d of table training were deleted"):
        retrain(lake, bundle, tmp_path / "once more")


def test_a_version_that_the_log_no_longer_keeps_is_named(tmp_path: Path) -> None:
    lake = derived_lake(tmp_path, PLAN)
    table, shelf = lake.read("training"), Registry(tmp_path / "registry")
    train_bundle(table, shelf, NOW, {}, EFFORT, birth=Birth("b", versions={"training": 99}))

    with pytest.raises(
        CohabitError, match=r"version 99 of table training of lake .* is gone: its log keeps versions of 30"
    ):
        retrain(lake, shelf.bundle("b"), tmp_path / "again")
