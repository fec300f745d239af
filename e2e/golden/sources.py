"""Sources: what has to land of each, and values of its golden data to compare. Facts."""

from dataclasses import dataclass

from e2e.golden import exporters, rebuilt
from e2e.golden.docs_page import NODE

NANO = 1e-9


@dataclass(frozen=True)
class Golden:
    """A value in a golden file, and what has to be landed of it.

    Args:
        module: the module that has the file; empty: this folder, for what is rebuilt.
        file: its path in the module.
        pattern: finds the value, its first group.
        metric: of `samples`.
        factor: unit of the column per unit of the file.
    """

    module: str
    file: str
    pattern: str
    metric: str
    factor: float = 1.0


@dataclass(frozen=True)
class Source:
    """A source of docs/ingest.md.

    Args:
        name: as in `exporters.gathered`.
        module: that its golden data is of; empty where all of it is rebuilt.
        golden: values to compare.
        rebuilt: what is not of the exporter's own parts, and where that stands; none where nothing is.
        node: that all of it is of.
        has_cpu: whether the exporter has CPU.
        has_memory: whether it has memory in use; node_exporter has it as a difference alone.
    """

    name: str
    module: str = ""
    golden: tuple[Golden, ...] = ()
    rebuilt: tuple[str, ...] = ()
    node: str = NODE
    has_cpu: bool = True
    has_memory: bool = True


_LIB_TEST, _DOCKER = "metrics/prometheus_fake_test.go", f"{exporters.INPUTS}/docker/docker_testdata.go"
_SUMMARY, _STATS = "testdata/stats-summary.json", "testdata/mock/single_container/stats.json"
_KUBERNETES, _E2E = f"{exporters.INPUTS}/kubernetes/kubernetes_test.go", "collector/fixtures/e2e-output.txt"
_PROC = "collector/fixtures/proc"
_THROTTLED, _WORKING_SET = r"ThrottledTime: +(\d+)", r"WorkingSet: +(\d+)"
_STALLED = r"PSIStats{\s+Full: info.PSIData{[^}]*Total: +(\d+)"
CADVISOR_VALUES = (
    Golden(exporters.CADVISOR, _LIB_TEST, _THROTTLED, "cpu_throttled_frac", NANO),
    Golden(exporters.CADVISOR, _LIB_TEST, _WORKING_SET, "memory_bytes"),
    Golden(exporters.CADVISOR, _LIB_TEST, r"RunqueueTime: +(\d+)", "run_queue_frac", NANO),
    Golden(
        exporters.CADVISOR, _LIB_TEST, r"PSIStats{\s+Full: info.PSIData{[^}]*Total: +(\d+)", "psi_cpu_full_frac", 1e-6
    ),
)
PER_CPU = Golden(exporters.CADVISOR, _LIB_TEST, r"PerCpu: +\[\]uint64{(\d+)", "cpu_cores", NANO)
TOTAL_CPU = Golden(exporters.CADVISOR, _LIB_TEST, r"Usage: info.CpuUsage{\s+Total: +(\d+)", "cpu_cores", NANO)
RESOURCE_VALUES = tuple(
    Golden(exporters.KUBERNETES, exporters.RESOURCE_TEST, rf"\t{name}{{[^}}]*}} (\d+)", metric)
    for name, metric in (
        ("container_cpu_usage_seconds_total", "cpu_cores"),
        ("container_memory_working_set_bytes", "memory_bytes"),
    )
)
NODE_EXPORTER_VALUES = (
    Golden(exporters.NODE_EXPORTER, _E2E, r'node_cpu_seconds_total{cpu="0",mode="user"} (\S+)', "cpu_cores"),
    Golden(exporters.NODE_EXPORTER, f"{_PROC}/stat", r"cpu0 (\d+)", "cpu_cores", 0.01),
)
_PODS = r'"pods": \[[\s\S]*?'
"""The summary begins with containers of the system, which the receiver leaves out by default."""
KUBELETSTATS_VALUES = (
    Golden(exporters.KUBELETSTATS, _SUMMARY, rf'{_PODS}"usageNanoCores": (\d+)', "cpu_cores", NANO),
    Golden(exporters.KUBELETSTATS, _SUMMARY, rf'{_PODS}"usageCoreNanoSeconds": (\d+)', "cpu_cores", NANO),
    Golden(exporters.KUBELETSTATS, _SUMMARY, rf'{_PODS}"workingSetBytes": (\d+)', "memory_bytes"),
)
DOCKERSTATS_VALUES = (Golden(exporters.DOCKERSTATS, _STATS, r'"total_usage": (\d+)', "cpu_cores", NANO),)

_OURS = "dropped/koordinator/metrics_test.go"
KOORDLET_VALUES = (
    Golden("", _OURS, r"line\(([\d.]+)\), Full", "psi_memory_some_frac", 0.01),
    Golden("", _OURS, r"RecordNodeUsedCPU\(([\d.]+)\)", "cpu_cores"),
    Golden("", _OURS, r"RecordNodeUsedMemory\(([\de.]+)\)", "memory_bytes"),
)
DCGM_VALUES = (
    Golden("", "rebuilt.py", r'FB_USED": "(\d+)"', "gpu_memory_bytes", 1 << 20),
    Golden("", "rebuilt.py", r'SM_ACTIVE": "([\d.]+)"', "gpu_sm_frac"),
    Golden("", "rebuilt.py", r'PCIE_TX_BYTES": "(\d+)"', "pcie_bytes_s"),
)

SOURCES = (
    Source("Cohabit, native", node="n17", rebuilt=(rebuilt.OWN,), has_memory=False),
    *(
        Source(f"kubelet cadvisor, {way}", exporters.CADVISOR, (*CADVISOR_VALUES, PER_CPU), places)
        for way, places in (("prom-adapter", (rebuilt.ADAPTER, rebuilt.KUBELET)), ("text", (rebuilt.KUBELET,)))
    ),
    *(
        Source(f"kubelet resource, {way}", exporters.KUBERNETES, RESOURCE_VALUES, places)
        for way, places in (("prom-adapter", (rebuilt.ADAPTER,)), ("text", ()))
    ),
    *(
        Source(f"node_exporter, {way}", exporters.NODE_EXPORTER, NODE_EXPORTER_VALUES, places, has_memory=False)
        for way, places in (("prom-adapter", (rebuilt.ADAPTER,)), ("text", ()))
    ),
    *(
        Source(f"koordlet, {way}", exporters.KOORDINATOR, KOORDLET_VALUES, places)
        for way, places in (
            ("prom-adapter", (rebuilt.ADAPTER, rebuilt.KOORDLET)),
            ("text", (rebuilt.KOORDLET,)),
        )
    ),
    *(
        Source(f"dcgm-exporter, {way}", "", DCGM_VALUES, places, has_cpu=False, has_memory=False)
        for way, places in (("prom-adapter", (rebuilt.ADAPTER, rebuilt.DCGM)), ("text", (rebuilt.DCGM,)))
    ),
    Source(
        "Telegraf docker, telegraf-json",
        exporters.TELEGRAF,
        (Golden(exporters.TELEGRAF, _DOCKER, r'"total_usage": (\d+)', "cpu_cores", NANO),),
        node="absol",
    ),
    Source(
        "Telegraf kubernetes, telegraf-json",
        exporters.TELEGRAF,
        (
            Golden(exporters.TELEGRAF, _KUBERNETES, r'"cpu_usage_nanocores": +int64\((846503)\)', "cpu_cores", NANO),
            Golden(exporters.TELEGRAF, _KUBERNETES, r'"memory_working_set_bytes": +int64\((3\d+)\)', "memory_bytes"),
        ),
        node="node1",
    ),
    Source(
        "Telegraf system, telegraf-json",
        exporters.TELEGRAF,
        (
            Golden(exporters.NODE_EXPORTER, f"{_PROC}/stat", r"cpu  (\d+)", "cpu_cores", 0.01),
            Golden(exporters.NODE_EXPORTER, f"{_PROC}/diskstats", r"sda \d+ \d+ (\d+)", "disk_read_bytes_s", 512),
            Golden(exporters.NODE_EXPORTER, f"{_PROC}/diskstats", r"sda \d+ \d+ \d+ (\d+)", "disk_io_s", 1e-3),
        ),
        rebuilt=(rebuilt.NETWORK,),
    ),
    *(
        Source(f"kubeletstats, {way}", exporters.KUBELETSTATS, KUBELETSTATS_VALUES)
        for way in ("otlp-proto", "otlp-json")
    ),
    *(Source(f"docker_stats, {way}", exporters.DOCKERSTATS, DOCKERSTATS_VALUES) for way in ("otlp-proto", "otlp-json")),
    Source("OTLP example, otlp-json", rebuilt=(rebuilt.OTLP,), has_cpu=False, has_memory=False),
    Source(
        "cAdvisor, cadvisor",
        exporters.CADVISOR,
        (*CADVISOR_VALUES, TOTAL_CPU),
        (rebuilt.CADVISOR,),
    ),
)
