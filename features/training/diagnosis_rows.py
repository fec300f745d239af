"""Diagnosis: what is measured of a container while it runs, in addition to its label. Catalogue and kernel.

A placement is decided before any of this is known. To explain a slowdown that is there, pressures are those of the very
window, and the container's own signs of waiting count too; never what the label is made of, which would be the answer.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from features.columnar.arrow_columns import Floats, Ints, floats, micros, side_by_side
from features.columnar.asof_join import key_codes, row_of
from features.columnar.group_means import GroupMeans, group_starts
from features.columnar.windows import LABEL_US, window_end
from features.schema.catalog import FEATURES, NAMES, RAW, RAW_NAMES, Feature
from ingest.schema.tables import SIGNALS, TIMESTAMP

DURING = "during_"
LABEL_PARTS = ("cpi", "rt_mean_ms", "rt_p95_ms", "rt_p99_ms", "cpu_us_per_request", "cpu_cores")
"""Own signals that are the label, or give it together with the load: CPU time over requests is CPU time per request."""
OWN = {
    "run_delay_frac": "cpu",
    "psi_cpu_some_frac": "cpu",
    "psi_cpu_full_frac": "cpu",
    "psi_memory_some_frac": "memory",
    "psi_memory_full_frac": "memory",
    "psi_io_some_frac": "disk",
    "psi_io_full_frac": "disk",
    "memory_refault_s": "memory",
    "rdma_pause_s": "rdma",
    "disk_await_ms": "disk",
    "llc_mpki": "llc",
    "cpu_throttled_frac": "own limit",
}
"""Own signs of contention, columns of node state, and what each is a sign of."""
FREE = ("disk_await_ms", "llc_mpki", "cpu_throttled_frac")
"""They also follow the kind of work and the own limit, so that more of them need not mean more slowdown."""
UNITS = {"memory_refault_s": "1/s", "rdma_pause_s": "1/s", "disk_await_ms": "ms", "llc_mpki": "ratio to the profile's"}
SIGNS = (
    *(Feature(f"own_{n}", UNITS.get(n, "s/s"), sign=int(n not in FREE), known="during") for n in OWN),
    Feature("neighbour_run_delay_frac", "s/s", sign=1, known="during"),
    Feature("load_of_peak", "ratio", known="during"),
)
"""After the pressures: the container's own signs, how long its neighbours waited for a core, and its load."""
STATE_COLUMNS = ("cluster", "node", "container", "window_end", "samples", *OWN)
"""What is read of node state."""
WINDOW_KEY = ("cluster", "node", "window_end", "container")
DIAGNOSIS = (
    *(replace(f, name=DURING + f.name, known="during") if f.known == "residents" else f for f in FEATURES),
    *SIGNS,
)
"""The order of the model's input: the placement model's, with the pressures of the window itself, then the signs."""
DIAGNOSIS_NAMES = tuple(f.name for f in DIAGNOSIS)
AFTER_DECISION = frozenset(
    {f.name for f in (*FEATURES, *DIAGNOSIS) if f.known == "during"}
    | {f"{prefix}{c.name}" for c in SIGNALS for prefix in ("", "own_")}
    | {"log_slowdown"}
)
"""Names of what is known too late for a placement: all that is measured of the container itself while it runs."""
_PRESSING = tuple(f.name for f in RAW if f.known == "residents")
_WINDOW_SIGNS = ("neighbour_run_delay_frac", "load_of_peak")


def diagnosis_rows(training: pa.Table, contention: pa.Table, state: pa.Table) -> Floats:
    """What was measured in the window of each training row.

    Args:
        training: rows of `training`, (n,): they say which windows have a label, and what the profile and the node were
            as of the window's start.
        contention: rows of `contention`, any order.
        state: STATE_COLUMNS of `node_state`, any order.

    Returns:
        (n, len(RAW) + len(SIGNS)): raw features with the window's own pressures, then SIGNS. NaN where not measured. No
        value depends on a column of LABEL_PARTS.

    Source: ours, docs/decisions/0020-diagnosis.md.
    """
    raw = np.column_stack([floats(training[name]) for name in RAW_NAMES])
    row = row_of(*key_codes(training, contention, list(WINDOW_KEY)))
    window = contention.take(pa.array(row, mask=row < 0))
    for name in _PRESSING:
        raw[:, RAW_NAMES.index(name)] = floats(window[name])
    own = own_means(training, state)
    normal = floats(training["profile_llc_mpki"])
    own[:, list(OWN).index("llc_mpki")] /= np.where(normal > 0, normal, np.nan)
    return np.column_stack([raw, own, *(floats(window[name]) for name in _WINDOW_SIGNS)])


def own_means(windows: pa.Table, state: pa.Table) -> Floats:
    """Means of each window's own signs over its minutes.

    Args:
        windows: (n,) key of five-minute windows.
        state: STATE_COLUMNS of `node_state`, any order.

    Returns:
        (n, len(OWN)) weighted by samples; NaN where no minute has a value.

    Source: the definition of a weighted mean.
    """
    minutes = micros(state["window_end"])
    ends = pa.array(window_end(minutes, LABEL_US), TIMESTAMP)
    keys = pa.table({**{c: state[c] for c in ("cluster", "node", "container")}, "window_end": ends})
    window: Ints = row_of(*key_codes(keys, windows, list(WINDOW_KEY)))
    order = np.lexsort((minutes, window))
    order = order[window[order] >= 0]
    found = np.full((windows.num_rows, len(OWN)), np.nan)
    if len(order):
        starts = group_starts(window[order])
        mean = GroupMeans(floats(state["samples"])[order], starts)
        found[window[order][starts]] = side_by_side([mean(floats(state[name])[order]) for name in OWN])
    return found


def cause_of(feature: str) -> str:
    """What a contribution of a feature counts for: a resource, `neighbours`, `own limit`, `node` or `app`."""
    own = feature.removeprefix("own_")
    if own in OWN:
        return OWN[own]
    if feature == "neighbour_run_delay_frac":
        return "cpu"
    name = feature.removeprefix(DURING)
    if name == feature:
        return "node" if name.startswith("node_") else "app"
    if name in {"neighbours", "neighbours_be"}:
        return "neighbours"
    return _resource(name)


def _resource(name: str) -> str:
    """The longest resource that a pressure's name ends with; the CPU's two pressures are one."""
    ending = name.removesuffix("_elsewhere")
    return max((r for r in NAMES if ending.endswith(f"_{r}")), key=len)
