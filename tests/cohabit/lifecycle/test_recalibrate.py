"""Recalibrating: labels that came after training move the served bounds, once each, and nothing else."""

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from advisor.scoring.served_margins import served_margins
from cohabit.cli.main import app
from cohabit.lifecycle.recalibrate import KEPT, recalibrate
from cohabit.training.train_model import Effort, train_bundle
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.bundle.bundle import read_bundle
from models.bundle.manifest import EntryMargins, Manifest
from models.errors import ModelsError
from models.registry.registry import Registry
from models.training.fit import TrainConfig
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=9, apps=6, per_node=8, hours=2.0, seed=4, law="queueing")
EFFORT = Effort(TrainConfig(rounds=10, learning_rate=0.1, folds=2))
NOW = datetime(2026, 3, 2, 3, tzinfo=UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return derived_lake(tmp_path_factory.mktemp("followed"), PLAN)


@pytest.fixture
def registry(lake: Lake, tmp_path: Path) -> Registry:
    """A bundle that learnt from the first two thirds of the time."""
    table, shelf = lake.read("training"), Registry(tmp_path)
    ends = sorted(pc.unique(table["window_end"]).to_pylist())
    train_bundle(table.filter(pc.less_equal(table["window_end"], ends[2 * len(ends) // 3])), shelf, NOW, {}, EFFORT)
    return shelf


def manifest_of(registry: Registry) -> Manifest:
    current = registry.current()
    assert current is not None
    return read_bundle(current).manifest


def margins_of(registry: Registry) -> EntryMargins:
    margins = manifest_of(registry).models["placement"].margins
    assert margins is not None
    return margins


def test_labels_since_training_are_followed_once_and_the_models_stay(lake: Lake, registry: Registry) -> None:
    before, table = manifest_of(registry), lake.read("training")
    later = pc.sum(pc.greater(table["window_end"], before.training_window[1])).as_py()

    found = recalibrate(lake, registry, NOW + timedelta(hours=1), lambda _: None)

    after = manifest_of(registry)
    assert 0 < found.labels <= later
    assert sum(one.labels for one in found.followed.stretches) == found.labels
    assert 0 <= found.held <= found.labels
    assert found.followed.until == pc.max(table["window_end"]).as_py()
    assert margins_of(registry).followed == found.followed
    graphs = {name: digest for name, digest in after.sha256.items() if name != "MODEL_CARD.md"}
    assert graphs == {name: digest for name, digest in before.sha256.items() if name != "MODEL_CARD.md"}
    assert margins_of(registry).model_copy(update={"followed": None}) == before.models["placement"].margins
    with pytest.raises(ModelsError, match="no label of a window after"):
        recalibrate(lake, registry, NOW + timedelta(hours=2), lambda _: None)


def test_what_is_served_is_stretched_by_platform(lake: Lake, registry: Registry) -> None:
    recalibrate(lake, registry, NOW + timedelta(hours=1), lambda _: None)
    entry = manifest_of(registry).models["placement"]
    followed = margins_of(registry).followed
    assert followed is not None
    platforms = tuple(sorted({one.platform for one in followed.stretches}))
    still = entry.model_copy(update={"margins": margins_of(registry).model_copy(update={"followed": None})})
    app, windows = np.full(len(platforms) + 1, -1), np.full(len(platforms) + 1, 60.0)
    where = np.append(np.arange(len(platforms)), -1)

    now, before = (served_margins(e, "c", (), platforms).multipliers(app, windows, where) for e in (entry, still))

    told = {(one.tier, one.platform): np.exp(one.log_stretch) for one in followed.stretches}
    assert (now / before).tolist() == pytest.approx([*(told.get(("unseen", p), 1.0) for p in platforms), 1.0])


def test_hourly_bundles_do_not_fill_the_registry(lake: Lake, registry: Registry) -> None:
    """Each forgets what it followed, so that there is something to follow again."""
    (trained,) = registry.names()
    for hour in range(KEPT + 2):
        recalibrate(lake, registry, NOW + timedelta(hours=hour + 1), lambda _: None)
        registry.promote(trained)

    assert len(registry.names()) == 1 + KEPT
    assert registry.promoted()[-1] == trained


def test_without_a_bundle_or_its_margins_nothing_is_followed(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match="run `cohabit model train` first"):
        recalibrate(lake, Registry(tmp_path), NOW, lambda _: None)


def test_the_command_tells_how_bounds_held(lake: Lake, registry: Registry) -> None:
    ran = CliRunner().invoke(app, ["model", "recalibrate", "--lake", str(lake.root), "--registry", str(registry.root)])

    words = " ".join(ran.output.split())
    assert ran.exit_code == 0, ran.output
    assert "lay below the bound as it was trained, 0.9 is promised" in words
    assert "-until-" in words.replace(" ", "")


def test_the_command_run_again_changes_nothing_and_is_well(lake: Lake, registry: Registry) -> None:
    """Whoever was killed after the bundle was made runs it again."""
    words = ["model", "recalibrate", "--lake", str(lake.root), "--registry", str(registry.root)]
    CliRunner().invoke(app, words)
    before = registry.names()

    again = CliRunner().invoke(app, words)

    assert again.exit_code == 0, again.output
    assert "margins stay as they are: the lake has no label of a window after" in " ".join(again.output.split())
    assert registry.names() == before


def test_a_lake_that_is_not_there_is_an_error_and_is_not_made(registry: Registry, tmp_path: Path) -> None:
    words = ["model", "recalibrate", "--lake", str(tmp_path / "no" / "such"), "--registry", str(registry.root)]

    ran = CliRunner().invoke(app, words)

    assert ran.exit_code == 1
    assert "no lake in" in " ".join(ran.output.split())
    assert not (tmp_path / "no").exists()


def test_what_a_clock_that_is_ahead_has_dated_waits_for_its_time(
    lake: Lake, registry: Registry, tmp_path: Path
) -> None:
    ahead = Lake.open(shutil.copytree(lake.root, tmp_path / "ahead"), TABLES)
    late = lake.read("training").slice(0, 1)
    at = late.column_names.index("window_end")
    day = datetime(2026, 12, 31, tzinfo=UTC)
    late = late.set_column(at, late.field(at), pa.chunked_array([[day]], late.field(at).type))
    ahead.replace("training", day, day + timedelta(hours=1), "features", late)
    assert ahead.read("training").num_rows == lake.read("training").num_rows + 1

    found = recalibrate(ahead, registry, NOW, lambda _: None)

    assert found.followed.until == pc.max(lake.read("training")["window_end"]).as_py()
