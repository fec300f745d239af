"""Warm-up: which windows follow a container's start or a deploy too closely to show neighbours' effects. Kernel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.columnar.arrow_columns import floats, micros
from features.columnar.composite_keys import joint, ranks
from features.columnar.windows import LABEL_US, window_end
from features.contention.node_state import LANDED_IN, known_at

WARM_UP_WINDOWS = 2
KEYS = ["cluster", "container"]


def warming(windows: pa.Table, begun: pa.Table) -> NDArray[np.bool_]:
    """Which windows are a container's first, or the first of a new image version.

    Args:
        windows: label windows, any order.
        begun: rows of `starts`; a container without a row is not known to warm up.

    Returns:
        (n,) true for the window that holds the start and for the WARM_UP_WINDOWS - 1 after it.

    Source: ours, docs/decisions/0006-profiles.md; caches and compilers are cold then, whatever the neighbours are.
    """
    ends = micros(windows["window_end"])
    newest = known_at(windows, ends, begun, KEYS)["ts"]
    since = np.asarray(pc.fill_null(newest.cast(pa.int64()), -WARM_UP_WINDOWS * LABEL_US))
    return ends < window_end(since, LABEL_US) + WARM_UP_WINDOWS * LABEL_US


def starts(placements: pa.Table) -> pa.Table:
    """The placement events by which a container first appeared, or its image version became another one."""
    there = placements.select([*KEYS, "ts", "event", "image_version", *LANDED_IN])
    there = there.filter(pc.not_equal(there["event"], "delete"))
    rows = there.sort_by([(c, "ascending") for c in (*KEYS, "ts", *LANDED_IN)]).combine_chunks()
    first = np.diff(joint([ranks(rows[c]) for c in KEYS]), prepend=-1) != 0
    version = rows["image_version"]
    versioned = np.asarray(pc.is_valid(version))
    other = np.diff(ranks(version), prepend=-1) != 0
    return rows.filter(pa.array(first | (other & versioned & np.roll(versioned, 1))))


def limited(windows: pa.Table, placements: pa.Table) -> NDArray[np.bool_]:
    """(n,) label windows of pods of which any part had a CPU limit, by the newest placement at the window's end."""
    newest = known_at(windows, micros(windows["window_end"]), placements, KEYS)
    any_part = np.asarray(pc.fill_null(newest["cpu_limited"], fill_value=False))
    return np.asarray(np.isfinite(floats(newest["cpu_limit_cores"])) | any_part, np.bool_)
