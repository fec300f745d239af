"""Labels: how much slower than its baseline each container ran, in five-minute windows. Kernel.

The signal is chosen per app and platform: CPI where it tracks the app's latency, else latency at matched load, else
CPU time per request, else waiting, else the app is not modelled. Where no load is reported, own use
stands for it (features.labels.load_proxy); what replicas share at one time is no interference
(features.labels.replica_contrast).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from features.columnar.arrow_columns import Floats, Ints, floats, micros, table
from features.columnar.group_means import group_codes, group_means, group_starts
from features.columnar.windows import LABEL_US, window_end
from features.labels.app_version import specs
from features.labels.baseline import MIN_CALM, calm_rows, fit_curve, normal_at
from features.labels.interference_adjust import harm
from features.labels.load_proxy import fit_use, normal_by_use
from features.labels.replica_contrast import shared_drift, use_at_rest
from features.labels.waiting import MEASURED, STALLS, against_calm, unmeasured, waiting
from features.schema.catalog import PRESSURES
from features.schema.tables import LABELS
from ingest.schema.tables import TIMESTAMP

SIGNALS = {"cpi": "cpi", "latency": "rt_mean_ms", "cpu_time": "cpu_us_per_request"}
USE = "cpu_cores"
IDENTITY = ("cluster", "node", "container", "app", "team", "qos", "platform")
MEANS = (*SIGNALS.values(), "qps", USE, "cpu_throttled_frac", "demand_cpu", *STALLS, *PRESSURES)
WINDOW_COLUMNS = (*IDENTITY, "window_end", "arrived_at", "samples", *MEANS)
"""Of node state, that windows are made of."""
PER_REQUEST = "cpu_time"
"""The kind that needs no load: it is of one request already."""
Flags = NDArray[np.bool_]
WAITING = "waiting"
"""Kind of an app of which only stalls are known, see features.labels.waiting. Where CPI is known and above its normal,
that is counted too: queues and cycles per instruction lengthen the same work one after the other."""
TRUST = {WAITING: 1.0 / 20.0}
"""What a window of a kind counts in training, compared with one whose latency is known."""
NO_SIGNAL = "none"
"""Kind of an app that no signal stands for."""
REASONS = {
    "warming_up": "too soon after a start or a deploy",
    "own_limit": "throttled by its own limit",
    "throttling_not_reported": "has a CPU limit, and its exporter does not send throttling",
    "not_reported": "no latency, CPI, CPU per request, pressure or run delay",
    "pressure_all_zero": "pressure is 0 on a busy node: its kernel does not count it (boot with psi=1)",
    "idle": "uses less than 0.05 cores",
    "few_calm_windows": "measured, but in less than half of its app's windows, or in too few without neighbours",
    "no_baseline": "at a load, or in a version, of which too few windows without neighbours were seen",
}
"""Why a window has no label."""
CPI_GATE = 0.6
MIN_GATE_ROWS = 20
MIN_SHARE = 0.5
PASSES = 3
"""How often the normal and the harm are fitted in turn; further passes move labels by thousandths."""
MAX_LOG = 7.0
"""A signal a thousand times its normal, or less than a thousandth, is an error of measurement."""
MAX_THROTTLED = 0.02
"""Windows throttled longer than this by the container's own limit say nothing about its neighbours."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what the n windows of one app were measured.

    Args:
        load: (n,) offered load, 1/s; NaN where not known.
        use: (n,) CPU of the container itself, cores; NaN where not known, or where the signal does not depend on it.
        time_us: (n,) ends of the windows, microseconds: those of one time are replicas.
        pressure: (n, p) pressures, to find the calm rows and what is left to take off them.
    """

    load: Floats
    use: Floats
    time_us: Ints
    pressure: Floats

    def of(self, rows: Flags) -> "Conditions":
        """Those of some windows."""
        return Conditions(self.load[rows], self.use[rows], self.time_us[rows], self.pressure[rows])


def label_windows(state: pa.Table) -> pa.Table:
    """Means of signals and pressures over five minutes.

    Args:
        state: rows of `node_state`, any order.

    Returns:
        One row per cluster, node, container and five-minute window: identity, `window_start`, `window_end`,
        `arrived_at`, `weight` (samples), and means of signals and pressures weighted by samples; missing left out.

    Source: ours; five minutes even out noise that a minute would show as interference.
    """
    ends = window_end(micros(state["window_end"]), LABEL_US)
    keyed = state.append_column("label_end", pa.array(ends, TIMESTAMP))
    keys = ["cluster", "node", "container", "label_end"]
    rows = keyed.sort_by([(c, "ascending") for c in (*keys, "window_end")]).combine_chunks()
    starts = group_starts(group_codes(rows, keys))
    weight = floats(rows["samples"])
    last = rows.take(pa.array(np.append(starts[1:], rows.num_rows) - 1))
    columns = {c: last[c] for c in IDENTITY}
    label_ends = micros(last["label_end"])
    times = {
        "window_start": pa.array(label_ends - LABEL_US, TIMESTAMP),
        "window_end": pa.array(label_ends, TIMESTAMP),
        "arrived_at": pa.array(np.maximum.reduceat(micros(rows["arrived_at"]), starts), TIMESTAMP),
    }
    means = {c: pa.array(group_means(floats(rows[c]), weight, starts), from_pandas=True) for c in MEANS}
    return pa.table({**columns, **times, "weight": np.add.reduceat(weight, starts), **means})


def label_app(
    windows: pa.Table, warming: Flags, version: Ints, limited: Flags | None = None, cpus: float = 1.0
) -> pa.Table:
    """Labels of one app on one platform.

    Args:
        windows: `label_windows` of that app and platform.
        warming: (n,) windows that follow a start or deploy too closely: they count for nothing.
        version: (n,) image version of each, see features.labels.app_version: each version has its own baseline.
        limited: (n,) containers with a CPU limit; None where that is not known of any.
        cpus: over how many its pressure is a mean, see features.labels.waited_cpus.

    Returns:
        Table `labels`, one row per window. Where `log_slowdown` is null, `reason` says why, see REASONS; the kind is
        `none` where the app has no usable signal.

    Source: ours; the gate at a correlation of 0.6 follows CPI2 practice (Zhang et al., EuroSys 2013).
    """
    settled, bound = windows.filter(pa.array(~warming)), np.zeros(windows.num_rows, np.bool_)
    bound = (bound if limited is None else limited)[~warming]
    parts = specs(version[~warming], micros(settled["window_end"]))

    @cache
    def ratio(kind: str) -> Floats:
        if kind == WAITING:
            signal, under = waiting(settled, bound, cpus), conditions(settled, kind)
            stalled = against_calm(signal, _by_spec(signal, under, parts), settled, calm_rows(under.pressure))
            return stalled + np.maximum(np.nan_to_num(ratio("cpi")), 0.0)
        return _by_spec(floats(settled[SIGNALS[kind]]), conditions(settled, kind), parts)

    kind = choose_signal(ratio)
    throttled = np.nan_to_num(floats(settled["cpu_throttled_frac"])) > MAX_THROTTLED
    log = np.full(settled.num_rows, np.nan) if kind == NO_SIGNAL else np.where(throttled, np.nan, ratio(kind))
    label, reason = np.full(windows.num_rows, np.nan), np.full(windows.num_rows, "warming_up", object)
    label[~warming] = log
    reason[~warming] = _reasons(settled, kind, log, bound, throttled)
    columns: dict[str, object] = {c: windows[c] for c in windows.column_names}
    columns |= {
        "kind": pa.array([kind] * windows.num_rows),
        "cpus": np.full(windows.num_rows, cpus if kind == WAITING else np.nan),
        "log_slowdown": label,
        "reason": pa.array(reason, pa.string()),
    }
    return table(columns, LABELS.schema)


def _reasons(settled: pa.Table, kind: str, log: Floats, limited: Flags, throttled: Flags) -> NDArray[np.object_]:
    """(n,) why windows have no label, see REASONS; None where they have one."""
    if kind == NO_SIGNAL:
        reason = unmeasured(settled, limited)
        reason[reason == MEASURED] = "few_calm_windows"
        reason[throttled] = "own_limit"
        return reason
    reason = unmeasured(settled, limited) if kind == WAITING else np.full(len(log), MEASURED, object)
    if kind != WAITING:
        reason[~(floats(settled[SIGNALS[kind]]) > 0)] = "not_reported"
        reason[throttled] = "own_limit"
    reason[(reason == MEASURED) & np.isnan(log)] = "no_baseline"
    reason[np.isfinite(log)] = None
    return reason


def trust(kind: pa.ChunkedArray) -> Floats:
    """(n,) what labels of each kind count in training."""
    return np.array([TRUST.get(name, 1.0) for name in kind.to_pylist()])


def pressure_of(rows: pa.Table) -> Floats:
    """(n, pressures) pressure columns of a table."""
    return np.column_stack([floats(rows[c]) for c in PRESSURES])


def conditions(settled: pa.Table, kind: str) -> Conditions:
    """Under what windows were measured, as far as the kind of signal depends on it."""
    use = np.full(settled.num_rows, np.nan) if kind == PER_REQUEST else floats(settled[USE])
    return Conditions(floats(settled["qps"]), use, micros(settled["window_end"]), pressure_of(settled))


def log_ratio(signal: Floats, under: Conditions) -> Floats:
    """Log of a signal over its normal at the same load, at the same time and without neighbours.

    Args:
        signal: (n,) values > 0; NaN where not measured.
        under: load, use, time and pressures of the same rows.

    Returns:
        (n,) log ratios; NaN where the signal is missing, not positive or absurd, where the load lies outside the calm
        windows' loads, and everywhere when there are too few calm windows.

    Source: ours, docs/decisions/0006-profiles.md and 0025-contrast.md; matched load, so that busy hours are not taken
    for interference, and what replicas share at one time is none either.
    """
    positive, calm = np.where(signal > 0, signal, np.nan), calm_rows(under.pressure)
    if np.count_nonzero(np.isfinite(positive[calm])) < MIN_CALM:
        return np.full(len(signal), np.nan)
    excess, drift = np.ones(len(signal)), np.ones(len(signal))
    ratio = positive / _normal(positive, under, calm)
    for _ in range(PASSES):
        excess = harm(ratio, under.pressure, excess)
        rest = replace(under, use=use_at_rest(under.use, excess, under.time_us))
        ratio = positive / _normal(positive / (excess * drift), rest, calm)
        drift = np.exp(shared_drift(_log(ratio / excess), under.pressure, under.time_us))
        ratio = positive / drift / _normal(positive / (excess * drift), rest, calm)
    log = _log(ratio)
    return np.where(np.abs(log) <= MAX_LOG, log, np.nan)


def _log(ratio: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(ratio)


def _by_spec(signal: Floats, under: Conditions, parts: list[tuple[Flags, Flags]]) -> Floats:
    """(n,) `log_ratio` of each window against the normal of its spec; NaN where it is of none."""
    found = np.full(len(signal), np.nan)
    for start, fitted in parts:
        ratio = np.full(len(signal), np.nan)
        ratio[fitted] = log_ratio(signal[fitted], under.of(fitted))
        found[start] = ratio[start]
    return found


def _normal(signal: Floats, under: Conditions, calm: Flags) -> Floats:
    """(n,) what the signal reads at each load, or without any at each use, in calm rows; NaN with too few of them."""
    curve = fit_curve(under.load[calm], signal[calm])
    if curve is None:
        return np.full(len(signal), np.nan)
    if len(curve.load):
        return normal_at(curve, under.load)
    whole = float(curve.value[0])
    return normal_by_use(fit_use(under.use[calm], signal[calm], whole), under.use, whole)


def choose_signal(ratio: Callable[[str], Floats]) -> str:
    """Which signal stands for the app's slowdown, a kind of table `labels`; fits only the kinds it needs."""
    latency = ratio("latency")
    if np.count_nonzero(np.isfinite(latency)) >= MIN_GATE_ROWS:
        cpi = ratio("cpi")
        both = np.isfinite(cpi) & np.isfinite(latency)
        if both.sum() >= MIN_GATE_ROWS and _correlation(cpi[both], latency[both]) >= CPI_GATE:
            return "cpi"
    for kind in ("latency", "cpu_time", WAITING):
        if len(latency) and np.isfinite(ratio(kind)).mean() >= MIN_SHARE:
            return kind
    return NO_SIGNAL


def _correlation(a: Floats, b: Floats) -> float:
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread > 0 else 0.0
