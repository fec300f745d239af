"""Registry: one bundle is current, switching is atomic, and the way back is one call."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from models.bundle import write_bundle
from models.errors import BundleCorrupt, NothingToRollBackTo, UnknownBundle
from models.manifest import Manifest
from models.registry import Registry

T0 = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    empty = Manifest(
        created_at=T0, models={}, catalogue_hash="c", training_window=(T0, T0), data_fingerprint="d", platforms=()
    )
    for name in ("monday", "tuesday", "wednesday"):
        write_bundle(tmp_path / name, empty, {"mean.onnx": name.encode()})
    return Registry(tmp_path)


def test_nothing_is_current_before_the_first_promotion(registry: Registry) -> None:
    assert registry.current() is None


def test_the_last_promoted_bundle_is_current_and_rollback_returns_to_the_one_before(registry: Registry) -> None:
    for name in ("monday", "tuesday", "wednesday"):
        assert registry.promote(name) == registry.current() == registry.root / name

    assert registry.rollback() == registry.current() == registry.root / "tuesday"
    assert registry.rollback() == registry.current() == registry.root / "monday"
    with pytest.raises(NothingToRollBackTo):
        registry.rollback()


def test_promoting_the_current_bundle_again_keeps_the_way_back(registry: Registry) -> None:
    for name in ("monday", "tuesday", "tuesday"):
        registry.promote(name)

    assert registry.rollback() == registry.root / "monday"


@pytest.mark.parametrize("name", ["friday", "../monday", "", "current"])
def test_only_bundles_of_the_registry_can_be_promoted(registry: Registry, name: str) -> None:
    registry.promote("monday")

    with pytest.raises(UnknownBundle, match="monday, tuesday, wednesday"):
        registry.promote(name)

    assert registry.current() == registry.root / "monday"


def test_a_corrupt_bundle_is_not_promoted(registry: Registry) -> None:
    registry.promote("monday")
    (registry.root / "tuesday" / "mean.onnx").write_bytes(b"not tuesday")

    with pytest.raises(BundleCorrupt):
        registry.promote("tuesday")

    assert registry.current() == registry.root / "monday"


def test_the_pointer_is_replaced_as_a_whole(registry: Registry) -> None:
    registry.promote("monday")
    with (registry.root / "current").open() as held_open_by_a_reader:
        registry.promote("tuesday")

        assert held_open_by_a_reader.read() == "monday\n"
    assert registry.current() == registry.root / "tuesday"
    assert sorted(p.name for p in registry.root.iterdir() if not p.is_dir()) == [".lock", "current"]
