"""Recalibrate: a new bundle with the models of the current one and margins that followed the labels since. An edge."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.schema.catalog import RAW_NAMES, catalogue_hash
from ingest.lake.tables import Lake
from models.bundle.bundle import Bundle, load_bundle, write_bundle
from models.bundle.leakage_guard import PLACEMENT
from models.bundle.manifest import EntryMargins, Followed
from models.bundle.margin_updates import follow, needed, tracking_key
from models.bundle.margins import margins_of
from models.errors import ModelsError, NothingNewer
from models.estimator.feature_matrix import read_rows
from models.estimator.predictor import Predictor, open_predictor
from models.registry.model_card import CARD, model_card
from models.registry.registry import FOLLOWED, Registry, trained_name

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Progress = Callable[[str], None]
Signer = Callable[[bytes], bytes]
PIECE = timedelta(days=1)
"""Training rows are read by so much time at once, so that a long absence costs time and not memory."""
WINDOW_END = "window_end"
MICROSECOND = timedelta(microseconds=1)
KEPT = 3
"""Bundles that followed labels of the same models; older ones are removed, hourly ones would fill a disk."""


@dataclass(frozen=True, slots=True)
class Recalibrated:
    """What came of it.

    Args:
        margins: of the new bundle.
        followed: where its stretches stand.
        labels: how many were followed now.
        held: how many of them lay below the bound that training had calibrated.
    """

    margins: EntryMargins
    followed: Followed
    labels: int
    held: int


def recalibrate(
    lake: Lake, registry: Registry, now: datetime, progress: Progress, sign: Signer | None = None
) -> Recalibrated:
    """Follow the labels of windows after the last one that the current bundle knows of.

    Args:
        lake: with table `training`.
        registry: its current bundle is followed, the new one becomes current.
        now: completes the name of the new bundle; windows that end later wait for their time.
        progress: called with each day that is read.
        sign: signs the new bundle.

    Returns:
        What was followed.

    Raises:
        ModelsError: no bundle, or one without margins; another bundle became current meanwhile.
        NothingNewer: no label since.
        BundleCorrupt: the current bundle's files are not what was written.
    """
    bundle, margins = _current(registry)
    until = margins.followed.until if margins.followed else bundle.manifest.training_window[1]
    predictor = open_predictor(bundle, PLACEMENT)
    found: Recalibrated | None = None
    for table in _pieces(lake, until, now):
        progress(f"{table.num_rows:,} labels of {pc.min(table[WINDOW_END]).as_py():%Y-%m-%d}")
        more = _followed(bundle, margins, predictor, table)
        margins = more.margins
        found = replace(more, labels=more.labels + found.labels, held=more.held + found.held) if found else more
    if found is None:
        raise NothingNewer(until)
    trained = trained_name(bundle.directory.name)
    name = f"{trained}{FOLLOWED}{now:%Y%m%dT%H%M%S}"
    _write(bundle, margins, registry.root / name, sign)
    registry.replace(bundle.directory.name, name)
    for name in [name for name in registry.promoted() if name.startswith(trained + FOLLOWED)][:-KEPT]:
        registry.retire(name)
    return found


def _current(registry: Registry) -> tuple[Bundle, EntryMargins]:
    current = registry.current()
    if current is None:
        raise _nothing_to_follow(f"{registry.root} has no current bundle")
    bundle = load_bundle(current, catalogue_hash(), registry.trust)
    entry = bundle.manifest.models.get(PLACEMENT)
    if entry is None or entry.margins is None:
        raise _nothing_to_follow(f"{current} has no margins of its own")
    return bundle, entry.margins


def _pieces(lake: Lake, until: datetime, now: datetime) -> Iterator[pa.Table]:
    """Training rows of windows that ended later and are over, a day at a time."""
    start, end = until + MICROSECOND, now + MICROSECOND
    last = pc.max(lake.read("training", start, end, columns=[WINDOW_END])[WINDOW_END]).as_py()
    while last is not None and start <= last:
        table = lake.read("training", start, min(start + PIECE, end))
        if table.num_rows:
            yield table
        start += PIECE


def _followed(bundle: Bundle, margins: EntryMargins, predictor: Predictor, table: pa.Table) -> Recalibrated:
    """The labels of a table, cluster by cluster judged, together followed."""
    platform = pc.fill_null(table["platform"], "").to_pylist()
    before = () if margins.followed is None else margins.followed.stretches
    names = sorted({*platform, *(one.platform for one in before)})
    at = {name: number for number, name in enumerate(names)}
    key, scores = np.empty(table.num_rows, np.int64), np.empty(table.num_rows)
    code = np.array([at[name] for name in platform], np.int64)
    cluster = np.array(table["cluster"].to_pylist())
    for name in np.unique(cluster):
        here = cluster == name
        tier, scores[here] = _judged(bundle, predictor, str(name), table.filter(pa.array(here)))
        key[here] = tracking_key(tier, code[here])
    stretches = follow(margins, names, key, scores, read_rows(table).time)
    followed = Followed(until=pc.max(table[WINDOW_END]).as_py().astimezone(UTC), stretches=stretches)
    labelled = np.isfinite(scores)
    return Recalibrated(
        margins=margins.model_copy(update={"followed": followed}),
        followed=followed,
        labels=int(labelled.sum()),
        held=int((scores[labelled] <= 1.0).sum()),
    )


def _judged(bundle: Bundle, predictor: Predictor, cluster: str, table: pa.Table) -> tuple[NDArray[np.int8], Floats]:
    """(n,) how well each row's app was known, and (n,) what its label needed of the calibrated margin."""
    rows, apps = read_rows(table), sorted(set(table["app"].to_pylist()))
    at = {app: number for number, app in enumerate(apps)}
    group = np.array([at[app] for app in table["app"].to_pylist()], np.int64)
    margins = margins_of(bundle.manifest.models[PLACEMENT], cluster, apps)
    features = rows.dataset(predictor.medians[: len(RAW_NAMES)]).features
    said, profiled = predictor.predict(features, margins.known(group)), rows.profiled()
    margin = margins.multipliers(group, profiled) * (said.spread + margins.floor)
    return margins.tier(group, profiled), needed(rows.log_slowdown - said.log_mean, margin)


def _write(bundle: Bundle, margins: EntryMargins, directory: Path, sign: Signer | None) -> None:
    """The same models with other margins."""
    entry = bundle.manifest.models[PLACEMENT].model_copy(update={"margins": margins})
    manifest = bundle.manifest.model_copy(update={"models": {**bundle.manifest.models, PLACEMENT: entry}})
    write_bundle(directory, manifest, {**bundle.files, CARD: model_card(manifest).encode()}, sign)


def _nothing_to_follow(reason: str) -> ModelsError:
    return ModelsError(f"margins stay as they are: {reason}; run `cohabit model train` first")
