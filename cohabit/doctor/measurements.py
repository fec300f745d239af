"""Measurement checks: what has labels, what exporters lack, and which of them report another node. An edge."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.diagnosis.coverage import MOSTLY, coverage, sentences
from cohabit.config.errors import NothingMeasured
from cohabit.diagnosis.diagnose import looked_at, newest_window, stale
from cohabit.doctor.finding import Finding, ok, problem, warning
from features.columnar.asof_join import key_codes
from features.contention.container_resolution import OWN, moved_in, newest_reports
from features.contention.node_state import Facts
from features.contention.shared_devices import uuids
from features.labels.waiting import STALLS
from ingest.decode.metrics.owner_labels import NO_POD
from ingest.lake.row_filter import EPOCH
from ingest.lake.tables import Lake
from ingest.schema.tables import HAMI, UNKNOWN_NODE, WHOLE_NODE

ALL_ZERO = "pressure_all_zero"
PSI = [name for name in STALLS if name.startswith("psi_")]
MAX_NAMED = 3
LOOKED_AT = timedelta(minutes=15)
"""The newest samples, of so long, are looked at."""
NODES_LOOKED_AT = timedelta(hours=2)
OF_NO_POD = tuple(f"{part} of {NO_POD}" for part in ("_count", "_sum", "_total"))
"""Ends of names under which ingestion counts what apps report without naming their pod."""
NO_CPU = {
    "kubelet": "scrape container_cpu_usage_seconds_total too",
    "node_exporter": "enable its collector cpu",
    "telegraf": "set collect_cpu_time = true in inputs.cpu, or read usage_total in inputs.docker",
    "kubeletstats": "enable *.cpu.usage (or *.cpu.time) in its metrics",
    "hostmetrics": "enable its scraper cpu",
}
"""What gives an exporter's CPU, by exporter."""


def examine(lake: Lake) -> Iterator[Finding]:
    """Findings of the newest samples of a lake; nothing is written."""
    span = lake.span("samples")
    if span is None:
        yield ok("samples", "the lake has none: only Cohabit's own format was ingested")
        return
    end = EPOCH + timedelta(microseconds=span[1] + 1)
    rows = lake.rows("samples", end - LOOKED_AT, end, [*OWN, "exporter", "metric", "series", "value", "ts"])
    yield from _without_cpu(rows)
    yield _requests(rows, lake.unknown_fields())
    yield from _shared_gpus(rows)
    yield _moved(rows, Facts(lake.read("nodes", end=end), lake.read("placements", end=end)))


def labels(lake: Lake) -> Iterator[Finding]:
    """How much of running container time has a label, why not the rest, and which kernels count no pressure."""
    try:
        until = newest_window(lake)
    except NothingMeasured as error:
        yield problem("labels", f"nothing can be looked at: {error}")
        return
    ran, _ = looked_at(lake, until)
    covered = coverage(ran)
    said = f"up to {until:%Y-%m-%d %H:%M} UTC, {'; '.join(map(str.strip, sentences(covered)))}"
    kind = problem if not covered.looked.labelled else ok if covered.share >= MOSTLY else warning
    yield kind("labels", said)
    if old := stale(lake, until):
        yield problem("labels", old)
    if covered.by_waiting and not _nodes_wait(lake, until):
        yield warning(
            "waiting",
            "no node reports how long its tasks wait for CPU, so labels of apps whose threads run on several CPUs may "
            "be too low: enable collector schedstat of node_exporter (on by default; its kernel needs "
            "CONFIG_SCHEDSTATS)",
        )
    silent = ran.filter(pc.equal(ran["reason"], ALL_ZERO))
    if nodes := sorted(node for _, node in _places(silent) - _stalled(lake, until)):
        more = f" and {len(nodes) - MAX_NAMED} more" if len(nodes) > MAX_NAMED else ""
        yield problem(
            "pressure",
            f"PSI was 0 for an hour on {', '.join(nodes[:MAX_NAMED])}{more}, although over 30 % of CPU was used: boot "
            "with psi=1 on the kernel's command line (its kernel may be built without CONFIG_PSI, or use cgroup v1)",
        )


def _stalled(lake: Lake, until: datetime) -> set[tuple[str, str]]:
    """Nodes of which any container reported pressure above 0 in the last hour: their kernels count it."""
    rows = lake.rows("node_state", until - timedelta(hours=1), until, ["cluster", "node", *PSI])
    some = reduce(pc.or_, (pc.greater(pc.fill_null(rows[name], 0.0), 0.0) for name in PSI))
    return _places(rows.filter(some))


def _places(rows: pa.Table) -> set[tuple[str, str]]:
    """Cluster and node of rows."""
    return set(zip(rows["cluster"].to_pylist(), rows["node"].to_pylist(), strict=True))


def _nodes_wait(lake: Lake, until: datetime) -> bool:
    """Whether any node reported in the last hours what its tasks waited."""
    rows = lake.rows("node_usage", until - NODES_LOOKED_AT, until, ["run_delay_frac"])
    return bool(rows["run_delay_frac"].null_count < rows.num_rows)


def _without_cpu(rows: pa.Table) -> Iterator[Finding]:
    """Exporters that report memory of pods or nodes and no CPU of them, from any exporter."""
    known = rows.filter(pc.is_valid(rows["value"]))
    for name, which in (("pods", pc.not_equal), ("nodes", pc.equal)):
        here = known.filter(which(known["container"], WHOLE_NODE))
        memory, cpu = (_exporters(here, metric) for metric in ("memory_bytes", "cpu_cores"))
        if memory and not cpu:
            hints = "; ".join(f"{one}: {NO_CPU.get(one, 'see docs/ingest.md')}" for one in memory)
            yield warning(name, f"memory but no CPU from {', '.join(memory)}: {hints}")
        elif cpu:
            yield ok(name, f"CPU from {', '.join(cpu)}, memory from {', '.join(memory) or 'none'}")


def _shared_gpus(rows: pa.Table) -> Iterator[Finding]:
    """GPUs of which several pods report the same at once, from exporters that do not measure each pod's own use."""
    one = ["cluster", "node", "series", "ts", "value"]
    of_gpus = rows.filter(pc.field("metric") == "gpu_sm_frac")
    own = pc.fill_null(pc.is_in(of_gpus["exporter"], pa.array(HAMI)), fill_value=False)
    seen = of_gpus.filter(pc.invert(own))
    measured = {*uuids(of_gpus.filter(own)["series"]).to_pylist()} - {None}
    busy = seen.filter(pc.invert(pc.is_in(uuids(seen["series"]), pa.array([*measured], pa.string())))).filter(
        pc.field("value") > 0
    )
    alike = busy.group_by(one, use_threads=False).aggregate([("container", "count_distinct")])
    shared = alike.filter(pc.field("container_count_distinct") > 1)
    if shared.num_rows:
        gpus = sorted(set(zip(*(shared[name].to_pylist() for name in ("node", "series")), strict=True)))
        named = ", ".join(f"{gpu} of {node}" for node, gpu in gpus[:MAX_NAMED])
        yield warning(
            "GPUs",
            f"{len(gpus):,} GPUs are shared ({named}): what the whole GPU does is divided among its pods, equally "
            "where they report no use of their own, and has no price then (docs/ingest.md); MIG measures each pod",
        )


def _requests(rows: pa.Table, unmapped: Mapping[str, int]) -> Finding:
    """Whose requests are known, and which were of no pod."""
    counted, timed = _exporters(rows, "qps"), _exporters(rows, "rt_s") or _exporters(rows, "rt_mean_ms")
    lost = sum(times for name, times in unmapped.items() if name.endswith(OF_NO_POD))
    if lost:
        names = sorted({name.partition(" of ")[0] for name in unmapped if name.endswith(OF_NO_POD)})
        return warning(
            "requests",
            f"{lost:,} values of requests name no pod ({', '.join(names[:MAX_NAMED])}): have processor k8sattributes "
            "of the Collector, or OpenTelemetry's operator, add k8s.pod.uid; requests known from "
            f"{', '.join(counted) or 'no exporter'}",
        )
    if not counted:
        return ok("requests", "no exporter reports requests: labels rest on CPI, or on waiting (docs/ingest.md)")
    return ok("requests", f"requests from {', '.join(counted)}, response times from {', '.join(timed) or 'none'}")


def _exporters(rows: pa.Table, metric: str) -> list[str]:
    """Exporters of a metric, sorted."""
    found = pc.unique(rows.filter(pc.equal(rows["metric"], metric))["exporter"]).to_pylist()
    return sorted(name or "others" for name in found)


def _moved(rows: pa.Table, facts: Facts) -> Finding:
    moved = [one for one in moved_in(newest_reports(rows), facts).to_pylist() if one["node"] != UNKNOWN_NODE]
    left, right = key_codes(rows, facts.placements, ["cluster"])
    if not np.isin(left, right).any():
        named = ", ".join(sorted(pc.unique(rows["cluster"]).to_pylist())[:3])
        return warning(
            "node names",
            f"no placement is of a cluster that exporters name ({named}): run `cohabit watch`, and give exporters the "
            "label cluster that COHABIT_CLUSTER has",
        )
    if not moved:
        count = len({*pc.unique(rows["node"]).to_pylist()} - {UNKNOWN_NODE})
        return ok("node names", f"no node of {count:,} has another name than placements say")
    pairs = ", ".join(f"{one['node']} for {one['placed_on']}" for one in moved[:3])
    return warning(
        "node names",
        f"{len(moved):,} exporters report another name than their node's ({pairs}): the placements' nodes are used; "
        "set hostNetwork, or the host name, as docs/ingest.md shows",
    )
