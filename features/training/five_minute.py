"""Contention over five minutes: means and maxima of the minutes' features, and how far to trust them. Kernel."""

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints, floats, micros, table
from features.columnar.composite_keys import joint, ranks, rising
from features.columnar.group_means import GroupMeans, group_starts
from features.columnar.windows import LABEL_US, WINDOW_US, window_end
from features.contention.pressure import PRESSURE_COLUMNS
from features.schema.catalog import COMPOSITION, PRESSURES
from features.schema.tables import CONTENTION
from features.training.residents import newest_profile
from ingest.schema.tables import TIMESTAMP

AVERAGED = tuple(dict.fromkeys((*PRESSURE_COLUMNS, *COMPOSITION)))
IDENTITY = ("cluster", "node", "container", "app", "team", "qos", "platform")

MINUTES = tuple(
    dict.fromkeys((*IDENTITY, "window_end", "arrived_at", "samples", "missing", "age_s", "qps", *AVERAGED, *PRESSURES))
)
"""Columns of `node_state` that are read."""


def contention(state: pa.Table, profiles: pa.Table) -> pa.Table:
    """Five-minute windows of every container.

    Args:
        state: rows of `node_state`, any order; MINUTES suffice.
        profiles: as known at many times; the newest by a window's start has the app's largest load.

    Returns:
        Table `contention`, sorted by its key. Means are over the minutes in which a value is known; a maximum is of
        those too. `missing` has the bits of all minutes.

    Source: ours; the windows of labels, so that a label and its features lie in the same five minutes.
    """
    if not state.num_rows:
        return CONTENTION.schema.empty_table()
    ends = window_end(micros(state["window_end"]), LABEL_US)
    cluster, node, container = (ranks(state[c]) for c in ("cluster", "node", "container"))
    key = joint([cluster, node, (ends - ends.min()) // WINDOW_US, container])
    order = rising(key, micros(state["window_end"]))
    starts = group_starts(key[order])
    last = order[np.append(starts[1:], len(order)) - 1]
    columns: dict[str, object] = {c: state[c].take(pa.array(last)) for c in IDENTITY}
    columns |= _times(state, order, starts, ends[last])
    columns |= _trust(state, order, starts, ends[last])
    mean = GroupMeans(np.ones(len(order)), starts)
    columns |= {c: mean(floats(state[c])[order]) for c in AVERAGED}
    columns |= {f"{c}_max": mean.runs.largest(floats(state[c])[order]) for c in PRESSURES}
    load = mean(floats(state["qps"])[order])
    return table({**columns, "load_of_peak": load / _known_peak(columns, ends[last], profiles)}, CONTENTION.schema)


def _times(state: pa.Table, order: Ints, starts: Ints, ends: Ints) -> dict[str, object]:
    arrived = np.maximum.reduceat(micros(state["arrived_at"])[order], starts)
    times = {"window_start": ends - LABEL_US, "window_end": ends, "arrived_at": arrived}
    return {name: pa.array(values, TIMESTAMP) for name, values in times.items()}


def _trust(state: pa.Table, order: Ints, starts: Ints, ends: Ints) -> dict[str, object]:
    """Support, age and what was missing."""
    samples = np.asarray(state["samples"].to_numpy(), np.int64)[order]
    missing = np.asarray(state["missing"].to_numpy(), np.int64)[order]
    last = np.append(starts[1:], len(order)) - 1
    since_minute_end = ends - micros(state["window_end"])[order][last]
    return {
        "minutes": np.diff(np.append(starts, len(order))),
        "samples": np.add.reduceat(samples, starts),
        "missing": np.bitwise_or.reduceat(missing, starts),
        "age_s": since_minute_end / 1e6 + floats(state["age_s"])[order][last],
    }


def _known_peak(columns: dict[str, object], ends: Ints, profiles: pa.Table) -> Floats:
    """(n,) largest load of the app known before each window; NaN where none is."""
    keys = pa.table({c: columns[c] for c in ("cluster", "app", "platform")})
    known = floats(newest_profile(keys, ends - LABEL_US, profiles)["qps_peak"])
    return np.where(known > 0, known, np.nan)
