"""Training and evaluating on a sample: what is read, and who is told that it is one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cohabit.cli.main import app
from cohabit.cli.models.train import run_evaluate
from cohabit.config.settings import read_settings
from cohabit.training.evaluation import Thoroughness
from cohabit.training.train_model import diagnosis_of
from cohabit.training.training_rows import diagnosis_of_sample, sample_of, sample_sheet, sample_words
from ingest.lake.tables import Lake
from ingest.simulator.simulate import Plan
from models.bundle.bundle import read_bundle
from models.evaluation.protocols import Depth
from models.registry.registry import Registry
from models.training.fit import TrainConfig
from tests.models.lakes import derived_lake

PLAN = Plan(nodes=9, apps=6, per_node=8, hours=2.0, seed=4, law="queueing")
KEPT, JUDGED = 300, 900
SPARK = """
import sys
import pyarrow as pa
from cohabit.training.training_rows import OnSpark, sample_of
from features.schema.tables import TABLES
from ingest.lake.tables import Lake
rows = sample_of(Lake.open(sys.argv[1], TABLES), int(sys.argv[2]), OnSpark("local[1]", "1g")).rows
with pa.OSFile(sys.argv[3], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
    writer.write_table(rows)
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Two hours of a small cluster, with all derived tables."""
    return derived_lake(tmp_path_factory.mktemp("sampled"), PLAN)


@pytest.fixture(scope="module")
def there(lake: Lake) -> int:
    return int(lake.read("training", columns=[]).num_rows)


def test_no_more_rows_than_asked_for_are_all_learnt_from(lake: Lake, there: int) -> None:
    found = sample_of(lake, there)

    assert found.draw is None
    assert found.rows.equals(lake.read("training"))


def test_a_sample_has_as_many_rows_as_asked_for_of_every_app_and_stands_for_all(lake: Lake, there: int) -> None:
    def weights(rows: pa.Table) -> dict[tuple[object, ...], float]:
        keys = rows.select(["node", "container", "window_end"]).to_pylist()
        return dict(zip((tuple(key.values()) for key in keys), rows["weight"].to_pylist(), strict=True))

    whole, found = lake.read("training"), sample_of(lake, KEPT).rows

    before, after = weights(whole), weights(found)
    assert len(after) == KEPT
    assert set(found["app"].to_pylist()) == set(whole["app"].to_pylist())
    assert sum(weight / before[key] for key, weight in after.items()) == pytest.approx(there)


def test_a_sample_is_explained_by_what_all_rows_are_explained_by(lake: Lake) -> None:
    sample = sample_of(lake, KEPT)

    found, expected = diagnosis_of_sample(lake, sample), diagnosis_of(lake, sample.rows)

    assert np.isfinite(expected.rows.raw).any(axis=0).sum() > 20
    assert np.array_equal(found.rows.raw, expected.rows.raw, equal_nan=True)
    assert np.array_equal(found.signs, expected.signs, equal_nan=True)


def test_what_was_drawn_is_told_in_figures_that_add_up(lake: Lake, there: int) -> None:
    draw = sample_of(lake, KEPT).draw
    assert draw is not None

    words, sheet = sample_words(draw), sample_sheet(draw)

    assert words.startswith(f"a sample: {KEPT:,} of {there:,} training rows, drawn by {draw.strata.num_rows} strata")
    totals = [sum(int(row[column].replace(",", "")) for row in sheet.rows) for column in (1, 2)]
    assert totals == [there, KEPT]
    assert {"below 1.1, below 0.5", "from 1.5, from 1"} & {row[0] for row in sheet.rows}


def test_training_says_everywhere_that_it_learnt_from_a_sample(lake: Lake, there: int, tmp_path: Path) -> None:
    words = ["model", "train", "--lake", str(lake.root), "--registry", str(tmp_path), "--max-rows", str(KEPT)]

    ran = CliRunner().invoke(app, words, catch_exceptions=False)

    assert ran.exit_code == 0
    assert f"a sample: {KEPT:,} of {there:,} training rows" in " ".join(ran.stdout.split())
    bundle = read_bundle(tmp_path / str(Registry(tmp_path).current()))
    provenance = bundle.manifest.provenance
    assert provenance is not None
    assert provenance.sampled is not None
    assert (provenance.rows, provenance.sampled.rows_there, provenance.sampled.max_rows) == (KEPT, there, KEPT)
    card = next(tmp_path.glob("*/MODEL_CARD.md")).read_text()
    assert f"a sample of {there:,} rows" in card
    assert f"`--max-rows {KEPT}`" in card


def test_fewer_rows_than_strata_end_with_the_number_to_ask_for(lake: Lake, tmp_path: Path) -> None:
    words = ["model", "train", "--lake", str(lake.root), "--registry", str(tmp_path), "--max-rows", "2"]

    ran = CliRunner().invoke(app, words, catch_exceptions=False)

    assert ran.exit_code == 1
    assert "2 training rows cannot stand for" in " ".join(ran.stderr.split())


def test_an_evaluation_of_a_sample_says_so_on_screen_and_in_the_report(
    lake: Lake, there: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    how = Thoroughness(TrainConfig(rounds=2, spread_rounds=2, folds=2), Depth(2, 2, 1), resamples=5)

    run_evaluate(read_settings({}), lake=str(lake.root), report=tmp_path, how=how, max_rows=JUDGED)

    told = f"a sample: {JUDGED:,} of {there:,} training rows"
    assert told in " ".join(capsys.readouterr().out.split())
    assert f"All figures are of {told}" in (tmp_path / "report.md").read_text()


@pytest.mark.long
def test_spark_draws_the_same_rows(lake: Lake, tmp_path: Path) -> None:
    command = [sys.executable, "-c", SPARK, str(lake.root), str(KEPT), str(tmp_path / "rows.arrow")]
    subprocess.run(command, check=True, timeout=300)

    with pa.memory_map(str(tmp_path / "rows.arrow")) as source:
        assert pa.ipc.open_file(source).read_all().equals(sample_of(lake, KEPT).rows)
