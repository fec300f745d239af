"""Signing: a bundle is believed only where somebody signed it whom one trusts, and nothing of it was changed since."""

import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from models.bundle.bundle import SIGNATURE, read_bundle, write_bundle
from models.bundle.manifest import Manifest
from models.bundle.signing import make_keys, signer_of, trust_of
from models.errors import BundleCorrupt, ModelsError
from models.registry.registry import Registry

T0 = datetime(2026, 3, 1, tzinfo=UTC)
EMPTY = Manifest(
    created_at=T0, models={}, catalogue_hash="c", training_window=(T0, T0), data_fingerprint="d", platforms=()
)


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return make_keys(tmp_path / "keys")


def signed(folder: Path, key: Path) -> Path:
    return write_bundle(folder, EMPTY, {"mean.onnx": b"graph"}, signer_of(key)).directory


def test_a_bundle_of_somebody_trusted_is_believed(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    bundle = signed(tmp_path / "registry" / "one", keys[0])
    trust = trust_of([make_keys(tmp_path / "others")[1], keys[1]])
    assert read_bundle(bundle, trust).files == {"mean.onnx": b"graph"}
    assert Registry(tmp_path / "registry", trust).promote("one") == bundle


def test_a_bundle_of_somebody_else_or_of_nobody_is_not_and_does_not_become_current(
    tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    shelf = Registry(tmp_path / "registry", trust_of([keys[1]]))
    write_bundle(shelf.root / "unsigned", EMPTY, {})
    signed(shelf.root / "other", make_keys(tmp_path / "others")[0])
    for name, reason in (("unsigned", "has no signature"), ("other", "not signed by anybody who is trusted")):
        with pytest.raises(ModelsError, match=reason):
            shelf.promote(name)
    assert shelf.current() is None


def test_a_signature_of_another_bundle_or_a_broken_one_does_not_count(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    trust, one = trust_of([keys[1]]), signed(tmp_path / "one", keys[0])
    other = write_bundle(tmp_path / "other", EMPTY.model_copy(update={"data_fingerprint": "e"}), {}).directory
    shutil.copy(one / SIGNATURE, other / SIGNATURE)
    with pytest.raises(ModelsError, match="train it where COHABIT_SIGNING__KEY is set, or"):
        read_bundle(other, trust)
    (one / SIGNATURE).write_bytes(b"\xff not base64")
    with pytest.raises(ModelsError, match="a signature that is none"):
        read_bundle(one, trust)


def test_a_file_that_was_changed_is_found_though_the_signature_is_right(
    tmp_path: Path, keys: tuple[Path, Path]
) -> None:
    bundle = signed(tmp_path / "one", keys[0])
    (bundle / "mean.onnx").write_bytes(b"other")
    with pytest.raises(BundleCorrupt):
        read_bundle(bundle, trust_of([keys[1]]))


def test_whoever_trusts_nobody_in_particular_believes_both(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    assert read_bundle(signed(tmp_path / "one", keys[0])).manifest == read_bundle(tmp_path / "one").manifest


def test_the_private_key_is_for_its_owner_alone_and_no_pair_is_overwritten(tmp_path: Path) -> None:
    private, _ = make_keys(tmp_path)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        make_keys(tmp_path)


def test_files_that_hold_no_key_are_named(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    wrong = tmp_path / "wrong.pem"
    for path in (tmp_path / "missing.pem", wrong, keys[0]):
        wrong.write_text("no key")
        with pytest.raises(ModelsError, match=path.name):
            trust_of([path])
    for path in (tmp_path / "missing.pem", wrong, keys[1]):
        with pytest.raises(ModelsError, match=path.name):
            signer_of(path)
