"""Retrain: a bundle's models, trained again from its provenance and compared to the byte. An edge."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from cohabit.config.errors import CohabitError
from cohabit.training.train_model import DEFAULT_EFFORT, Birth, fingerprint, train_bundle
from cohabit.training.training_rows import OnSpark, diagnosis_of_sample, sample_of
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from models.bundle.bundle import Bundle, read_bundle
from models.bundle.leakage_guard import DIAGNOSIS
from models.bundle.manifest import Manifest
from models.registry.registry import Registry
from models.training.fit import TrainConfig

AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Retrained:
    """How a bundle compares with one that was trained again.

    Args:
        rows: training rows that both were trained on.
        same: whether each model file, and the conformal margins, are the same to the byte, by name.
    """

    rows: int
    same: Mapping[str, bool]


def retrain(lake: Lake, bundle: Bundle, folder: Path, spark: OnSpark | None = None) -> Retrained:
    """Train a bundle's models again with the rows and settings that its manifest names.

    Args:
        lake: that it was trained on.
        bundle: to reproduce.
        folder: where the new bundle is written; empty.
        spark: where a sample is drawn; None draws it here.

    Raises:
        CohabitError: the bundle does not say how it was trained, or the lake holds other rows by now.
        InconsistentDataset: the lake holds no training rows of that time.
    """
    manifest = bundle.manifest
    how = manifest.provenance
    if how is None:
        raise _not_reproducible(bundle.directory, "its manifest has no provenance")
    most, lake = sys.maxsize if how.sampled is None else how.sampled.max_rows, _as_then(lake, bundle, how.versions)
    sample = sample_of(lake, most, spark, manifest.training_window[1])
    if fingerprint(sample.rows) != manifest.data_fingerprint:
        raise _not_reproducible(
            bundle.directory,
            f"it was trained on {how.rows:,} rows, and the {sample.rows.num_rows:,} rows of this lake until "
            f"{manifest.training_window[1]:%Y-%m-%d %H:%M} UTC are others",
        )
    effort = replace(DEFAULT_EFFORT, config=TypeAdapter(TrainConfig).validate_python(how.settings))
    measured = diagnosis_of_sample(lake, sample, spark) if DIAGNOSIS in manifest.models else None
    shelf, birth = Registry(folder), Birth(AGAIN, promoted=False)
    train_bundle(sample.rows, shelf, manifest.created_at, {}, effort, diagnosis=measured, draw=sample.draw, birth=birth)
    return Retrained(sample.rows.num_rows, _compared(manifest, read_bundle(folder / AGAIN).manifest))


def _as_then(lake: Lake, bundle: Bundle, versions: Mapping[str, int]) -> Lake:
    """The lake with the versions of tables that a bundle was trained on; as it is now where it names none.

    Raises:
        CohabitError: some of it is gone.
    """
    then, gone = lake.at(versions), []
    for table, version in versions.items():
        try:
            missing, files = then.missing(table) if version >= 0 else (0, 0)
        except IngestError as error:
            gone.append(str(error))
        else:
            gone += [f"{missing} of {files} files of version {version} of table {table} were deleted"] * bool(missing)
    if gone:
        raise _not_reproducible(bundle.directory, "; ".join(gone))
    return then


def _compared(manifest: Manifest, again: Manifest) -> dict[str, bool]:
    files = sorted({file for model in manifest.models.values() for file in model.files.values()})
    same = {file: again.sha256.get(file) == manifest.sha256[file] for file in files}
    recalibrated = any(one.margins is not None and one.margins.followed for one in manifest.models.values())
    return same if recalibrated else same | {"conformal margins": again.models == manifest.models}


def _not_reproducible(directory: Path, reason: str) -> CohabitError:
    return CohabitError(
        f"bundle {directory.name} cannot be reproduced: {reason}; name the lake that it was trained on by --lake, and "
        "keep its labels, which `cohabit features` writes again from later data"
    )
