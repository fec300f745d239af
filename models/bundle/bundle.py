"""Bundle: a directory of ONNX files and their manifest, written at once and verified on every load. An edge.

`manifest.json` holds the digest of every file, `manifest.sha256` the digest of the manifest, and `manifest.sig`, where
there is one, the trainer's signature.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from models.bundle.leakage_guard import PLACEMENT, refuse_leakage
from models.bundle.manifest import Manifest, ModelEntry
from models.bundle.signing import ANYBODY, Trust
from models.errors import BundleCorrupt, ModelsError

MANIFEST, SEAL, SIGNATURE = "manifest.json", "manifest.sha256", "manifest.sig"


@dataclass(frozen=True)
class Bundle:
    """A verified bundle: the bytes here are the bytes whose digests were checked."""

    directory: Path
    manifest: Manifest
    files: Mapping[str, bytes]

    def entry_of(self, model: str) -> ModelEntry:
        """What the manifest says of one model.

        Raises:
            ModelsError: the bundle has none of that name.
        """
        if model not in self.manifest.models:
            raise ModelsError(
                f"bundle {self.directory} has no model {model!r}; it has "
                f"{', '.join(sorted(self.manifest.models)) or 'none'}"
            )
        return self.manifest.models[model]

    def file_of(self, model: str, role: str) -> bytes:
        """The graph that plays a role ("mean", "spread") in a model."""
        return self.files[self.entry_of(model).files[role]]


def write_bundle(
    directory: Path, manifest: Manifest, files: Mapping[str, bytes], sign: Callable[[bytes], bytes] | None = None
) -> Bundle:
    """Write a new bundle, with a signature of its manifest where one is wanted; it appears complete or not at all.

    Raises:
        ModelsError: the directory holds something already, or its placement model reads what is known only after the
            decision.
    """
    _refuse_leakage(manifest)
    sealed = manifest.model_copy(update={"sha256": {name: _digest(content) for name, content in files.items()}})
    described = Manifest.model_validate(sealed.model_dump()).model_dump_json(indent=2).encode()
    Manifest.model_validate_json(described)  # what could not be read again, such as an infinite figure, is not written
    building = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
    building.mkdir(parents=True)
    try:
        signed = {} if sign is None else {SIGNATURE: sign(described)}
        for name, content in {**files, MANIFEST: described, SEAL: _digest(described).encode(), **signed}.items():
            _write_synced(building / name, content)
        _move(building, directory)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return Bundle(directory, sealed, files)


def fingerprint(bundle: Bundle) -> str:
    """SHA-256, hex, of all that a manifest says, digests of files among it: the same for the same contents alone."""
    return _digest(bundle.manifest.model_dump_json().encode())


def load_bundle(directory: Path, catalogue_hash: str, trust: Trust = ANYBODY) -> Bundle:
    """Read and verify a bundle for a process that builds rows by the given catalogue.

    Raises:
        BundleCorrupt: a file is missing or differs from what was written.
        ModelsError: it has no signature of a trusted signer, its placement model reads what is known only after the
            decision, or the bundle was trained on another catalogue.
    """
    bundle = read_bundle(directory, trust)
    if bundle.manifest.catalogue_hash != catalogue_hash:
        raise ModelsError(
            f"bundle {directory} was trained on feature catalogue {bundle.manifest.catalogue_hash!r}, this process "
            f"builds {catalogue_hash!r}: train again with this version, or start the version that trained it"
        )
    return bundle


def read_bundle(directory: Path, trust: Trust = ANYBODY) -> Bundle:
    """Read and verify a bundle, whatever its catalogue.

    Raises:
        BundleCorrupt: a file is missing or differs from what was written.
        ModelsError: it has no signature of a trusted signer, or its placement model reads what is known only after the
            decision.
    """
    seal = _read(directory, SEAL).decode(errors="replace")
    described = _verified(directory, MANIFEST, seal)
    if trust.keys:
        trust.verify(directory, described, _signature(directory))
    manifest = _parsed(directory, described)
    _refuse_leakage(manifest)
    for name in sorted({file for model in manifest.models.values() for file in model.files.values()}):
        if name not in manifest.sha256:
            raise BundleCorrupt(directory, name, "has no digest in the manifest")
    files = {name: _verified(directory, name, digest) for name, digest in manifest.sha256.items()}
    return Bundle(directory, manifest, files)


def _refuse_leakage(manifest: Manifest) -> None:
    if PLACEMENT in manifest.models:
        refuse_leakage(manifest.models[PLACEMENT].features)


def _parsed(directory: Path, content: bytes) -> Manifest:
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        text = f"{where}: {first['msg']}" if where else first["msg"]
        raise BundleCorrupt(directory, MANIFEST, f"cannot be read by this version ({text})") from error


def _verified(directory: Path, name: str, digest: str) -> bytes:
    content = _read(directory, name)
    if _digest(content) != digest:
        raise BundleCorrupt(directory, name, f"has sha256 {_digest(content)}, written was {digest}")
    return content


def _read(directory: Path, name: str) -> bytes:
    try:
        return (directory / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:  # ValueError: a name no file can have
        raise BundleCorrupt(directory, name, "is missing") from error
    except OSError as error:
        raise BundleCorrupt(directory, name, f"cannot be read ({error.strerror})") from error


def _signature(directory: Path) -> bytes | None:
    try:
        return _read(directory, SIGNATURE)
    except BundleCorrupt:
        return None


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _write_synced(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _move(building: Path, directory: Path) -> None:
    try:
        building.rename(directory)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}:
            raise ModelsError(
                f"bundle {directory} exists already and is never overwritten: write under another name"
            ) from error
        raise
