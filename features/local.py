"""The feature steps in one process, without Java: the same kernels, app by app. An edge-free runner for small data."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from features.arrow import Ints
from features.labels import label_app, label_windows
from features.profiles import profile_app
from features.tables import LABELS, PROFILES

APP_KEYS = ("cluster", "app", "platform")


def labels_of(state: pa.Table) -> pa.Table:
    """Labels of every named app and platform in `node_state`."""
    parts = [label_app(label_windows(part)) for part in _by_app(state)]
    return pa.concat_tables([LABELS.schema.empty_table(), *parts])


def profiles_of(state: pa.Table, labels: pa.Table, as_of_us: Ints) -> pa.Table:
    """Profiles of every named app and platform in `node_state`, as of each time."""
    parts = [profile_app(part, _same_app(labels, part), as_of_us) for part in _by_app(state)]
    return pa.concat_tables([PROFILES.schema.empty_table(), *parts])


def _by_app(state: pa.Table) -> Iterator[pa.Table]:
    named = state.filter(pc.and_(pc.is_valid(state["app"]), pc.is_valid(state["platform"])))
    for key in named.group_by(list(APP_KEYS)).aggregate([]).sort_by([(c, "ascending") for c in APP_KEYS]).to_pylist():
        yield named.filter(_is(named, key))


def _same_app(labels: pa.Table, part: pa.Table) -> pa.Table:
    return labels.filter(_is(labels, {c: part[c][0].as_py() for c in APP_KEYS}))


def _is(rows: pa.Table, key: dict[str, object]) -> pa.Array:
    cluster, app, platform = (pc.equal(rows[c], key[c]) for c in APP_KEYS)
    return pc.and_(pc.and_(cluster, app), platform)
