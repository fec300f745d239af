"""Registry: one bundle is current, switching is atomic, and the way back is one call."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from models.bundle.bundle import write_bundle
from models.bundle.manifest import Manifest
from models.errors import BundleCorrupt, ModelsError
from models.registry.gate_result import Verdict
from models.registry.registry import FOLLOWED, Registry

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
    with pytest.raises(ModelsError, match="has no earlier bundle to return to"):
        registry.rollback()


def test_promoting_the_current_bundle_again_keeps_the_way_back(registry: Registry) -> None:
    for name in ("monday", "tuesday", "tuesday"):
        registry.promote(name)

    assert registry.rollback() == registry.root / "monday"


@pytest.mark.parametrize("name", ["friday", "../monday", "", "current"])
def test_only_bundles_of_the_registry_can_be_promoted(registry: Registry, name: str) -> None:
    registry.promote("monday")

    with pytest.raises(ModelsError, match="monday, tuesday, wednesday"):
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


def test_rollback_leaves_the_models_and_not_only_the_margins(registry: Registry) -> None:
    followed = [f"tuesday{FOLLOWED}{hour}" for hour in ("1", "2")]
    for name in followed:
        shutil.copytree(registry.root / "tuesday", registry.root / name)
    for name in ("monday", "tuesday", *followed):
        registry.promote(name)

    assert registry.rollback() == registry.root / "monday"
    with pytest.raises(ModelsError, match="has no earlier bundle to return to"):
        registry.rollback()
    assert registry.current() == registry.root / "monday"


def test_what_was_made_for_the_place_of_another_does_not_take_it_from_a_third(registry: Registry) -> None:
    registry.replace(None, "monday")
    registry.promote("tuesday")

    with pytest.raises(ModelsError, match="made for the place of monday, but tuesday is current"):
        registry.replace("monday", "wednesday")

    assert registry.current() == registry.root / "tuesday"
    assert registry.replace("tuesday", "wednesday") == registry.current()


def test_of_many_that_want_the_same_place_at_once_one_gets_it(registry: Registry) -> None:
    def take(name: str) -> bool:
        try:
            registry.replace(None, name)
        except ModelsError:
            return False
        return True

    with ThreadPoolExecutor(3) as pool:
        taken = list(pool.map(take, ("monday", "tuesday", "wednesday")))
    assert (taken.count(True), len(registry.promoted())) == (1, 1)


def test_a_verdict_is_kept_beside_the_bundles_and_a_damaged_one_is_no_verdict(registry: Registry) -> None:
    assert registry.verdict("monday") is None
    verdict = Verdict(challenger="monday", champion="tuesday", judged_at=T0, refusals=("worse",))
    registry.keep(verdict)
    assert registry.verdict("monday") == verdict
    assert not verdict.passed
    assert registry.names() == ("monday", "tuesday", "wednesday")
    (registry.root / ".verdicts" / "monday.json").write_text("{")
    with pytest.raises(ModelsError, match=r"monday\.json"):
        registry.verdict("monday")
    with pytest.raises(ModelsError, match="the registry has no bundle"):
        registry.verdict("friday")
