"""Bundle: complete or absent, verified on every load, never changed."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from models.bundle.bundle import load_bundle, read_bundle, write_bundle
from models.bundle.manifest import Manifest, ModelEntry
from models.calibration.conformal import Calibration
from models.errors import BundleCorrupt, ModelsError
from models.metrics.errors_and_ranks import Estimate

T0 = datetime(2026, 3, 1, tzinfo=UTC)
FILES = {"mean.onnx": b"the mean graph", "spread.onnx": b"the spread graph"}


@pytest.fixture
def manifest() -> Manifest:
    placement = ModelEntry(
        files={"mean": "mean.onnx", "spread": "spread.onnx"},
        features=("llc_pressure", "hour"),
        signs=(1, 0),
        medians={"llc_pressure": 0.1 + 0.2},
        calibration=Calibration(0.9, 1.3, 1.9, 2.2, rows=1000, groups=12, node_windows=300),
    )
    return Manifest(
        created_at=T0,
        models={"placement": placement},
        catalogue_hash="c1",
        training_window=(T0, T0),
        data_fingerprint="d1",
        platforms=("epyc",),
        metrics={"leave_group_out": {"ours": {"mae_log": Estimate(0.1, 0.05, 0.2)}}},
    )


def test_a_bundle_comes_back_as_written(tmp_path: Path, manifest: Manifest) -> None:
    written = write_bundle(tmp_path / "b1", manifest, FILES)

    loaded = load_bundle(tmp_path / "b1", "c1")

    assert loaded == written
    assert loaded.file_of("placement", "spread") == b"the spread graph"
    assert loaded.manifest.models == manifest.models


@pytest.mark.parametrize("file", ["mean.onnx", "spread.onnx", "manifest.json", "manifest.sha256"])
def test_one_changed_bit_anywhere_is_refused(tmp_path: Path, manifest: Manifest, file: str) -> None:
    write_bundle(tmp_path / "b1", manifest, FILES)
    content = bytearray((tmp_path / "b1" / file).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "b1" / file).write_bytes(content)

    with pytest.raises(BundleCorrupt, match=r"manifest\.json" if "manifest" in file else file):
        load_bundle(tmp_path / "b1", "c1")


@pytest.mark.parametrize("file", ["mean.onnx", "manifest.json", "manifest.sha256"])
def test_a_missing_file_is_refused_by_name(tmp_path: Path, manifest: Manifest, file: str) -> None:
    write_bundle(tmp_path / "b1", manifest, FILES)
    (tmp_path / "b1" / file).unlink()

    with pytest.raises(BundleCorrupt, match=f"{file} is missing"):
        read_bundle(tmp_path / "b1")


def test_another_feature_catalogue_is_refused(tmp_path: Path, manifest: Manifest) -> None:
    write_bundle(tmp_path / "b1", manifest, FILES)

    with pytest.raises(ModelsError, match=r"'c1'.*'c2'"):
        load_bundle(tmp_path / "b1", "c2")


def test_a_bundle_is_never_overwritten(tmp_path: Path, manifest: Manifest) -> None:
    write_bundle(tmp_path / "b1", manifest, FILES)

    with pytest.raises(ModelsError, match="exists already and is never overwritten"):
        write_bundle(tmp_path / "b1", manifest, {**FILES, "mean.onnx": b"another"})

    assert load_bundle(tmp_path / "b1", "c1").files == FILES
    assert [p.name for p in tmp_path.iterdir()] == ["b1"]


@pytest.mark.parametrize(
    "files",
    [{"mean.onnx": b"no spread graph"}, {**FILES, "../outside": b""}, {**FILES, ".hidden": b""}],
    ids=["a graph is missing", "a path leads outside", "a name is hidden"],
)
def test_a_bundle_that_does_not_describe_itself_is_not_written(
    tmp_path: Path, manifest: Manifest, files: dict[str, bytes]
) -> None:
    with pytest.raises(ValidationError):
        write_bundle(tmp_path / "b1", manifest, files)

    assert list(tmp_path.iterdir()) == []


def test_a_figure_that_cannot_be_read_again_is_not_written(tmp_path: Path, manifest: Manifest) -> None:
    infinite = {"leave_group_out": {"ours": {"mae_log": Estimate(np.inf, 0.05, np.inf)}}}

    with pytest.raises(ValidationError):
        write_bundle(tmp_path / "b1", manifest.model_copy(update={"metrics": infinite}), FILES)

    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_is_refused_by_name(tmp_path: Path, manifest: Manifest) -> None:
    write_bundle(tmp_path / "b1", manifest, FILES)
    (tmp_path / "b1" / "mean.onnx").unlink()
    (tmp_path / "b1" / "mean.onnx").mkdir()

    with pytest.raises(BundleCorrupt, match=r"mean\.onnx cannot be read"):
        read_bundle(tmp_path / "b1")


@pytest.mark.parametrize("changed", [{"node": -1.0}, {"node": np.nan}, {"pooled": np.inf}, {"level": 5.0}])
def test_a_bound_that_could_lie_below_its_expectation_is_refused(manifest: Manifest, changed: dict[str, float]) -> None:
    entry = manifest.models["placement"]
    bad = {**asdict(entry.calibration), **changed}

    with pytest.raises(ValidationError, match="multipliers of a bound"):
        ModelEntry.model_validate({**entry.model_dump(), "calibration": bad})


@pytest.mark.parametrize("role", ["mean", "spread"])
def test_a_model_without_one_of_its_graphs_is_refused(manifest: Manifest, role: str) -> None:
    entry = manifest.models["placement"]

    with pytest.raises(ValidationError, match="a graph for its mean"):
        ModelEntry.model_validate({**entry.model_dump(), "files": {role: "m.onnx"}})
