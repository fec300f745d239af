"""Drifting: whether labels that came bear the current model out, and how far it is served from now on. An edge."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cohabit.lifecycle.promotion import labels_since, served_by
from features.columnar.arrow_columns import floats
from features.columnar.group_means import group_codes
from features.schema.catalog import RAW, RAW_NAMES, catalogue_hash
from ingest.lake.tables import Lake
from ingest.schema.atomic_file import replace_atomically
from models.bundle.bundle import Bundle, load_bundle
from models.bundle.leakage_guard import PLACEMENT
from models.drift.detector import DriftContext, Labels, evidence, next_status, with_change
from models.drift.drift_status import DriftStatus, read_status, write_status
from models.drift.feature_shift import REFERENCE, Reference, stability_index
from models.errors import BundleCorrupt, ModelsError
from models.estimator.feature_matrix import read_rows
from models.estimator.load_fallback import LoadAware
from models.estimator.predictor import medians_of
from models.evaluation.protocols import read_keys
from models.registry.registry import Registry, trained_name

SKEW = ".skew.json"
"""Of the registry: what the last `cohabit model check-skew` found."""
FEWEST_ROWS = 500
"""Rows from which feature distributions are compared: ten bins of fewer differ by chance."""


WATCHED = tuple(feature.name for feature in RAW if feature.known in {"residents", "node"})
"""How profiles lie changes with the few apps that there are, and with how long they have been known."""


class LastSkew(BaseModel):
    """What the last comparison of served with recomputed features found."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at_us: int
    share: float = Field(ge=0, le=1)


@dataclass(frozen=True, slots=True)
class Watch:
    """How a model is watched.

    Args:
        span: labels of so long are looked at, the newest ones.
        max_age: from which a model is old.
    """

    span: timedelta
    max_age: timedelta


def check_drift(lake: Lake, registry: Registry, how: Watch, now: datetime) -> DriftStatus:
    """Look at the labels that came since the current bundle was trained, and set how the advisor serves it.

    Args:
        lake: with table `training`.
        registry: its current bundle is watched.
        how: over how long.
        now: time of the check.

    Returns:
        The status that is in force from now on.

    Raises:
        ModelsError: no bundle is current, it cannot be read or has no placement model with margins, or what the last
            check wrote is damaged.
    """
    bundle = _current(registry)
    before = _before(registry, bundle, now)
    table = _newest(lake, bundle, how.span, now)
    entry = bundle.entry_of(PLACEMENT)
    level = entry.margins.level if entry.margins is not None else entry.calibration.level
    context = DriftContext(
        stability=_stability(bundle, table),
        age=now - bundle.manifest.training_window[1],
        max_age=how.max_age,
        equal=last_skew(registry),
    )
    said = served_by(bundle, table, followed=True)
    by_load = _by_load(bundle, table)
    rng = np.random.default_rng(0)
    found = evidence(said, by_load, _labels(table), context, level=level, widening=before.widening, rng=rng)
    status = next_status(before, found, now)
    write_status(registry, status)
    return status


def keep_skew(registry: Registry, share: float, now: datetime) -> None:
    """Keep what a comparison found, for the next check."""
    kept = LastSkew(at_us=round(now.timestamp() * 1e6), share=share)
    replace_atomically(registry.root / SKEW, kept.model_dump_json().encode())


def _current(registry: Registry) -> Bundle:
    current = registry.current()
    if current is None:
        raise _nothing_to_watch(registry.root, "it has no current bundle")
    bundle = load_bundle(current, catalogue_hash(), registry.trust)
    if PLACEMENT not in bundle.manifest.models:
        raise _nothing_to_watch(registry.root, f"{current.name} has no placement model")
    return bundle


def _before(registry: Registry, bundle: Bundle, now: datetime) -> DriftStatus:
    """The last status, or of models that were not checked before one that says nothing against them."""
    name, last = trained_name(bundle.directory.name), read_status(registry)
    if last is not None and last.bundle == name:
        return last
    fresh = DriftStatus(bundle=name, checked_at=now, changes=() if last is None else last.changes)
    if last is None or last.state == "fine":
        return fresh
    return with_change(last, fresh, f"{name} took the place of {last.bundle}")


def _newest(lake: Lake, bundle: Bundle, span: timedelta, now: datetime) -> pa.Table:
    """Labels since training, of the last so long."""
    table = labels_since(lake, bundle.manifest.training_window[1], now)
    if not table.num_rows:
        return table
    since = pc.max(table["window_end"]).as_py() - span
    return table.filter(pc.greater(table["window_end"], pa.scalar(since, table["window_end"].type)))


def _labels(table: pa.Table) -> Labels:
    keys = read_keys(table)
    return Labels(keys.time, group_codes(table, ["cluster", "app", "node"]), keys.app, keys.decision, keys.node)


def _by_load(bundle: Bundle, table: pa.Table) -> np.ndarray:
    """(n,) what nodes would be compared by without the model."""
    medians = medians_of(bundle.entry_of(PLACEMENT))
    features = read_rows(table).dataset(medians[: len(RAW_NAMES)]).features
    return LoadAware(medians).predict(features).log_mean


def _stability(bundle: Bundle, table: pa.Table) -> dict[str, float]:
    """By feature, where the bundle has its distribution and there are enough rows to compare."""
    if REFERENCE not in bundle.files or table.num_rows < FEWEST_ROWS:
        return {}
    try:
        reference = Reference.model_validate_json(bundle.files[REFERENCE])
    except ValidationError as error:
        raise BundleCorrupt(bundle.directory, REFERENCE, f"is none ({error.errors()[0]['msg']})") from error
    watched = [name for name in WATCHED if name in reference.features]
    return {name: stability_index(reference.features[name], floats(table[name])) for name in watched}


def last_skew(registry: Registry) -> float | None:
    """Of the last comparison; None before the first one, or where it cannot be read."""
    try:
        return LastSkew.model_validate_json((registry.root / SKEW).read_bytes()).share
    except (FileNotFoundError, ValidationError):
        return None


def _nothing_to_watch(root: Path, reason: str) -> ModelsError:
    return ModelsError(f"there is no model to watch in {root}: {reason}; run `cohabit model train` first")
