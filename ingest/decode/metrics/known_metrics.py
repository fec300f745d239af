"""Exporters: the metrics of others and the columns they become, one row a metric. Facts.

Metrics of one exporter that have the same target are added up. Of exporters, and of alternative metrics of one thing
(`kubeletstats`, `by old names`, `by counters`), `features.contention.usage_rates` uses one for each pod and minute, in
the order of `EXPORTER_PREFERENCE`. Left out: docker_container_cpu.usage_percent (usage_total is taken).

Sources: google/cadvisor metrics/prometheus.go and info/v1/container.go; prometheus/node_exporter collector/;
koordinator-sh/koordinator pkg/koordlet/metrics; NVIDIA/dcgm-exporter etc/dcp-metrics-included.csv;
open-telemetry/opentelemetry-collector-contrib receiver/{kubeletstats,hostmetrics,dockerstats}receiver; influxdata/
telegraf plugins/inputs/{docker,kubernetes,cpu,mem,net,diskio}.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ingest.decode.metrics.mapping_file import read_mapping
from ingest.decode.metrics.metric_mapping import (
    APP_LEVEL,
    COUNTER,
    NODE_LEVEL,
    POD,
    POD_LEVEL,
    Conditions,
    ForeignMetric,
    MetricMap,
)

_counter = partial(ForeignMetric, kind=COUNTER)


def _gauge(name: str, target: str, scale: float = 1.0, where: Conditions | None = None, **more: Any) -> ForeignMetric:
    return ForeignMetric(name, target, scale=scale, where=where or {}, **more)


_node_counter = partial(ForeignMetric, kind=COUNTER, of=NODE_LEVEL)
_node_gauge = partial(ForeignMetric, of=NODE_LEVEL)
_pod_counter = partial(ForeignMetric, kind=COUNTER, of=POD_LEVEL)


NANO, MICRO, MILLI, PERCENT = 1e-9, 1e-6, 1e-3, 1e-2
MEBIBYTE = 1048576.0

VIRTUAL_LINKS = ("lo", "veth*", "docker*", "cni*", "flannel*", "cali*", "cilium*", "lxc*", "br-*", "virbr*", "all")
"""Interfaces whose traffic never leaves the node, or is counted at another interface too."""
PARTS_OF_DISKS = (
    *("dm-*", "md*", "loop*", "ram*", "zram*", "sr*", "fd*"),
    *("sd[a-z]*[0-9]", "vd[a-z]*[0-9]", "xvd[a-z]*[0-9]", "hd[a-z]*[0-9]", "nvme*n*p[0-9]*", "mmcblk*p[0-9]*"),
)
"""Devices whose traffic is counted at the disk below them too."""
_INTERFACE: dict[str, Any] = {"series": ("interface",), "unless": {"interface": VIRTUAL_LINKS}}
_DEVICE: dict[str, Any] = {"series": ("device",)}
_OF_DISK: dict[str, Any] = {"series": ("device",), "unless": {"device": PARTS_OF_DISKS}}
_OF_LINK: dict[str, Any] = {"series": ("device",), "unless": {"device": VIRTUAL_LINKS}}

KUBELET = (
    _counter("container_cpu_usage_seconds_total", "cpu_cores", series=("cpu",)),
    _counter("container_cpu_cfs_throttled_seconds_total", "cpu_throttled_frac"),
    _counter("container_cpu_schedstat_runqueue_seconds_total", "run_queue_frac", series=("cpu",)),
    _gauge("container_memory_working_set_bytes", "memory_bytes"),
    _counter("container_memory_workingset_refault_file_total", "memory_refault_s", part_of="file"),
    _counter("container_memory_workingset_refault_anon_total", "memory_refault_s", part_of="anon"),
    _gauge("container_llc_occupancy_bytes", "llc_occupancy_bytes", series=("node_id",)),
    _counter("container_memory_bandwidth_bytes", "memory_bandwidth_bytes_s", series=("node_id",)),
    _pod_counter("container_network_receive_bytes_total", "net_rx_bytes_s", **_INTERFACE),
    _pod_counter("container_network_transmit_bytes_total", "net_tx_bytes_s", **_INTERFACE),
    _counter("container_fs_reads_bytes_total", "disk_read_bytes_s", series=("device",)),
    _counter("container_fs_writes_bytes_total", "disk_write_bytes_s", series=("device",)),
    _counter("container_fs_reads_total", "disk_ios_s", part_of="read", **_DEVICE),
    _counter("container_fs_writes_total", "disk_ios_s", part_of="write", **_DEVICE),
    _counter("container_fs_read_seconds_total", "disk_io_s", part_of="read", **_DEVICE),
    _counter("container_fs_write_seconds_total", "disk_io_s", part_of="write", **_DEVICE),
    _counter("container_pressure_cpu_waiting_seconds_total", "psi_cpu_some_frac"),
    _counter("container_pressure_cpu_stalled_seconds_total", "psi_cpu_full_frac"),
    _counter("container_pressure_memory_waiting_seconds_total", "psi_memory_some_frac"),
    _counter("container_pressure_memory_stalled_seconds_total", "psi_memory_full_frac"),
    _counter("container_pressure_io_waiting_seconds_total", "psi_io_some_frac"),
    _counter("container_pressure_io_stalled_seconds_total", "psi_io_full_frac"),
)
"""cAdvisor's own endpoint and the kubelet's /metrics/cadvisor."""

KUBELET_RESOURCE = (
    _node_counter("node_cpu_usage_seconds_total", "cpu_cores"),
    _node_gauge("node_memory_working_set_bytes", "memory_bytes"),
)
"""The node in the kubelet's /metrics/resource. Its containers have the names of /metrics/cadvisor."""

EVENTS = {
    "cycles_s": ("cycles", "cpu-cycles", "CPU_CLK_UNHALTED.THREAD", "CYCLES"),
    "instructions_s": ("instructions", "INST_RETIRED.ANY", "INSTRUCTIONS", "INSTRUCTIONS_RETIRED"),
    "llc_misses_s": ("LLC-load-misses", "LLC_MISSES", "cache-misses", "LONGEST_LAT_CACHE.MISS"),
}
"""Names of perf events by the ingredient they are; one name of each is configured."""
PERF = tuple(
    _counter("container_perf_events_total", target, where={"event": names}, series=("cpu",))
    for target, names in EVENTS.items()
)
"""cAdvisor gives perf events already scaled by the share of time in which they were counted."""

_PORT: dict[str, Any] = {"series": ("device", "port")}
_BUSY = {"mode": ("user", "nice", "system", "irq", "softirq", "steal")}
NODE_EXPORTER = (
    _node_counter("node_cpu_seconds_total", "cpu_cores", series=("cpu", "mode"), where=_BUSY),
    _node_counter("node_cpu", "cpu_cores", series=("cpu", "mode"), where=_BUSY),
    _node_counter("node_network_receive_bytes", "net_rx_bytes_s", **_OF_LINK),
    _node_counter("node_network_transmit_bytes", "net_tx_bytes_s", **_OF_LINK),
    _node_counter("node_disk_bytes_read", "disk_read_bytes_s", **_OF_DISK),
    _node_counter("node_disk_bytes_written", "disk_write_bytes_s", **_OF_DISK),
    _node_counter("node_disk_reads_completed", "disk_ios_s", part_of="read", **_OF_DISK),
    _node_counter("node_disk_writes_completed", "disk_ios_s", part_of="write", **_OF_DISK),
    _node_counter("node_schedstat_waiting_seconds_total", "run_queue_frac", series=("cpu",)),
    _node_counter("node_network_receive_bytes_total", "net_rx_bytes_s", **_OF_LINK),
    _node_counter("node_network_transmit_bytes_total", "net_tx_bytes_s", **_OF_LINK),
    _node_counter("node_disk_read_bytes_total", "disk_read_bytes_s", **_OF_DISK),
    _node_counter("node_disk_written_bytes_total", "disk_write_bytes_s", **_OF_DISK),
    _node_counter("node_disk_reads_completed_total", "disk_ios_s", part_of="read", **_OF_DISK),
    _node_counter("node_disk_writes_completed_total", "disk_ios_s", part_of="write", **_OF_DISK),
    _node_counter("node_disk_read_time_seconds_total", "disk_io_s", part_of="read", **_OF_DISK),
    _node_counter("node_disk_write_time_seconds_total", "disk_io_s", part_of="write", **_OF_DISK),
    _node_counter("node_vmstat_workingset_refault_file", "memory_refault_s", part_of="file"),
    _node_counter("node_vmstat_workingset_refault_anon", "memory_refault_s", part_of="anon"),
    _node_counter("node_pressure_cpu_waiting_seconds_total", "psi_cpu_some_frac"),
    _node_counter("node_pressure_memory_waiting_seconds_total", "psi_memory_some_frac"),
    _node_counter("node_pressure_memory_stalled_seconds_total", "psi_memory_full_frac"),
    _node_counter("node_pressure_io_waiting_seconds_total", "psi_io_some_frac"),
    _node_counter("node_pressure_io_stalled_seconds_total", "psi_io_full_frac"),
    _node_counter("node_infiniband_port_data_received_bytes_total", "rdma_bytes_s", part_of="read", **_PORT),
    _node_counter("node_infiniband_port_data_transmitted_bytes_total", "rdma_bytes_s", part_of="write", **_PORT),
)
"""User time includes the time of virtual CPUs. Memory in use is a difference of two of its metrics. Names without
_total and units are those before 0.16; no release sends both."""

KOORDLET_WINDOW_S = 10.0
"""Seconds over which koordlet counts cycles and instructions by default; their ratio, CPI, does not depend on it."""
_PSI = [(resource, degree) for resource in ("cpu", "mem", "io") for degree in ("some", "full")]
KOORDLET = (
    *(
        _gauge("koordlet_container_cpi", f"{name}_s", scale=1 / KOORDLET_WINDOW_S, where={"cpi_field": (name,)})
        for name in ("cycles", "instructions")
    ),
    *(
        _gauge(
            name,
            f"psi_{'memory' if resource == 'mem' else resource}_{degree}_frac",
            scale=PERCENT,
            where={"psi_resource_type": (resource,), "psi_degree": (degree,), "psi_precision": ("avg10",)},
        )
        for name in ("koordlet_container_psi", "koordlet_pod_psi")
        for resource, degree in _PSI
    ),
    _node_gauge("koordlet_node_used_cpu_cores", "cpu_cores"),
    _node_gauge("koordlet_node_used_memory_bytes", "memory_bytes"),
)
"""Pressure is the kernel's average over 10 s, in percent."""

_OF_GPU: dict[str, Any] = {"series": ("gpu", "GPU_I_ID", "UUID"), "unless": {POD: ("*dcgm*",)}}
_SLICES = 7
"""Of a GPU, in which MIG cuts its multiprocessors; of an A30, which alone has instances of 6 GB a slice, 4."""
_PARTS = (
    ({"GPU_I_PROFILE": ("",)}, 1.0),
    *(({"GPU_I_PROFILE": (f"{n}g.{6 * n}gb*",)}, n / 4) for n in (1, 2, 4)),
    *(({"GPU_I_PROFILE": (f"{n}g.*",)}, n / _SLICES) for n in range(1, _SLICES + 1)),
)
"""A whole GPU, and its instances by profile: what they are busy is a share of their slices."""
DCGM = (
    *(_gauge("DCGM_FI_PROF_SM_ACTIVE", "gpu_sm_frac", scale, where, **_OF_GPU) for where, scale in _PARTS),
    _gauge("DCGM_FI_DEV_FB_USED", "gpu_memory_bytes", scale=MEBIBYTE, **_OF_GPU),
    *(_gauge("DCGM_FI_PROF_DRAM_ACTIVE", "gpu_dram_frac", scale, where, **_OF_GPU) for where, scale in _PARTS),
    _gauge("DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_bytes_s", part_of="tx", **_OF_GPU),
    _gauge("DCGM_FI_PROF_PCIE_RX_BYTES", "pcie_bytes_s", part_of="rx", **_OF_GPU),
    _gauge("DCGM_FI_DEV_GPU_UTIL", "gpu_util_frac", scale=PERCENT, **_OF_GPU),
)
"""Rates, though the exporter declares some of them counters: NVIDIA defines PROF_PCIE_* as bytes per second."""
DCGM_ENGINE = tuple(
    _gauge("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu_sm_frac", scale, where, **_OF_GPU) for where, scale in _PARTS
)
DCGM_UTILIZATION = (_gauge("DCGM_FI_DEV_GPU_UTIL", "gpu_sm_frac", scale=PERCENT, **_OF_GPU),)
"""What the exporter's own list has: SM_ACTIVE is commented out there. Cards before Volta have GPU_UTIL alone."""

_OWN: dict[str, Any] = {"of": APP_LEVEL, "series": ("container", "exported_container", "device_uuid", "vdevice_index")}
HAMI = (
    _gauge("hami_container_device_utilization_ratio", "gpu_sm_frac", PERCENT, **_OWN),
    _gauge("hami_vgpu_memory_used_bytes", "gpu_memory_bytes", **_OWN),
)
_OWN_OLD: dict[str, Any] = {"of": APP_LEVEL, "series": ("ctrname", "deviceuuid", "vdeviceid")}
HAMI_OLD = (
    _gauge("Device_utilization_desc_of_container", "gpu_sm_frac", PERCENT, **_OWN_OLD),
    _gauge("vGPU_device_memory_usage_in_bytes", "gpu_memory_bytes", **_OWN_OLD),
)
"""What each container does on a GPU that HAMi divides, in percent whatever the name says; absent before its first use.

Source: Project-HAMi/HAMi, cmd/vGPUmonitor/metrics.go, issue 281.
"""

_READ, _WRITE = {"direction": ("read",)}, {"direction": ("write",)}
_IN, _OUT = {"direction": ("receive",)}, {"direction": ("transmit",)}
KUBELETSTATS = (
    _gauge("container.cpu.usage", "cpu_cores"),
    _gauge("container.memory.working_set", "memory_bytes"),
    _gauge("k8s.pod.cpu.usage", "cpu_cores", of=POD_LEVEL),
    _gauge("k8s.pod.memory.working_set", "memory_bytes", of=POD_LEVEL),
    _pod_counter("k8s.pod.network.io", "net_rx_bytes_s", where=_IN, **_INTERFACE),
    _pod_counter("k8s.pod.network.io", "net_tx_bytes_s", where=_OUT, **_INTERFACE),
    _node_gauge("k8s.node.cpu.usage", "cpu_cores"),
    _node_gauge("k8s.node.memory.working_set", "memory_bytes"),
    _node_counter("k8s.node.network.io", "net_rx_bytes_s", where=_IN, **_INTERFACE),
    _node_counter("k8s.node.network.io", "net_tx_bytes_s", where=_OUT, **_INTERFACE),
)
_IN_A_POD = {"k8s.pod.uid": ("?*",)}
KUBELETSTATS_OLD = (
    _gauge("container.cpu.utilization", "cpu_cores", where=_IN_A_POD, unless={"container.runtime": ("?*",)}),
    _gauge("k8s.pod.cpu.utilization", "cpu_cores", of=POD_LEVEL),
    _node_gauge("k8s.node.cpu.utilization", "cpu_cores"),
)
"""The same gauges, in cores, as Collectors before 0.125 call them, and Splunk's after it. docker_stats has a metric of
the first name too, in percent."""
KUBELETSTATS_COUNTERS = (
    _counter("container.cpu.time", "cpu_cores"),
    _pod_counter("k8s.pod.cpu.time", "cpu_cores"),
    _node_counter("k8s.node.cpu.time", "cpu_cores"),
)
DOCKER_STATS = (
    _counter("container.cpu.usage.total", "cpu_cores", scale=NANO),
    _counter("container.cpu.throttling_data.throttled_time", "cpu_throttled_frac", scale=NANO),
    _gauge("container.memory.usage.total", "memory_bytes"),
    _pod_counter("container.network.io.usage.rx_bytes", "net_rx_bytes_s", series=("interface",)),
    _pod_counter("container.network.io.usage.tx_bytes", "net_tx_bytes_s", series=("interface",)),
)
_BUSY_STATE = {"state": ("user", "nice", "system", "interrupt", "softirq", "steal")}
_BOTH_WAYS: dict[str, Any] = {"series": ("direction", "device"), "unless": {"device": PARTS_OF_DISKS}}
HOSTMETRICS = (
    _node_counter("system.cpu.time", "cpu_cores", series=("cpu", "state"), where=_BUSY_STATE),
    _node_gauge("system.memory.usage", "memory_bytes", where={"state": ("used",)}),
    _node_counter("system.network.io", "net_rx_bytes_s", where=_IN, **_OF_LINK),
    _node_counter("system.network.io", "net_tx_bytes_s", where=_OUT, **_OF_LINK),
    _node_counter("system.disk.io", "disk_read_bytes_s", where=_READ, **_OF_DISK),
    _node_counter("system.disk.io", "disk_write_bytes_s", where=_WRITE, **_OF_DISK),
    _node_counter("system.disk.operations", "disk_ios_s", **_BOTH_WAYS),
    _node_counter("system.disk.operation_time", "disk_io_s", **_BOTH_WAYS),
)
"""Receivers of the OpenTelemetry Collector."""

TELEGRAF_COUNTERS = (
    _counter("kubernetes_pod_container.cpu_usage_core_nanoseconds", "cpu_cores", scale=NANO),
    _node_counter("kubernetes_node.cpu_usage_core_nanoseconds", "cpu_cores", scale=NANO),
)
_ALL_CORES = {"cpu": ("cpu-total",)}
_DOCKER_NET: dict[str, Any] = {"series": ("network",), "unless": {"network": ("total",)}}
_DOCKER_DISK: dict[str, Any] = {"series": ("device",), "unless": {"device": ("total",)}}
_DISKIO: dict[str, Any] = {"series": ("name",), "unless": {"name": PARTS_OF_DISKS}}
TELEGRAF = (
    _counter("docker_container_cpu.usage_total", "cpu_cores", scale=NANO, where=_ALL_CORES),
    _counter("docker_container_cpu.throttling_throttled_time", "cpu_throttled_frac", scale=NANO, where=_ALL_CORES),
    _gauge("docker_container_mem.usage", "memory_bytes"),
    _pod_counter("docker_container_net.rx_bytes", "net_rx_bytes_s", **_DOCKER_NET),
    _pod_counter("docker_container_net.tx_bytes", "net_tx_bytes_s", **_DOCKER_NET),
    _counter("docker_container_blkio.io_service_bytes_recursive_read", "disk_read_bytes_s", **_DOCKER_DISK),
    _counter("docker_container_blkio.io_service_bytes_recursive_write", "disk_write_bytes_s", **_DOCKER_DISK),
    _counter("docker_container_blkio.io_serviced_recursive_read", "disk_ios_s", part_of="read", **_DOCKER_DISK),
    _counter("docker_container_blkio.io_serviced_recursive_write", "disk_ios_s", part_of="write", **_DOCKER_DISK),
    _gauge("kubernetes_pod_container.cpu_usage_nanocores", "cpu_cores", scale=NANO),
    _gauge("kubernetes_pod_container.memory_working_set_bytes", "memory_bytes"),
    _pod_counter("kubernetes_pod_network.rx_bytes", "net_rx_bytes_s"),
    _pod_counter("kubernetes_pod_network.tx_bytes", "net_tx_bytes_s"),
    _node_gauge("kubernetes_node.cpu_usage_nanocores", "cpu_cores", scale=NANO),
    _node_gauge("kubernetes_node.memory_working_set_bytes", "memory_bytes"),
    _node_counter("kubernetes_node.network_rx_bytes", "net_rx_bytes_s"),
    _node_counter("kubernetes_node.network_tx_bytes", "net_tx_bytes_s"),
    *(
        _node_counter(f"cpu.time_{state}", "cpu_cores", where=_ALL_CORES, part_of=state)
        for state in ("user", "nice", "system", "irq", "softirq", "steal")
    ),
    _node_gauge("mem.used", "memory_bytes"),
    _node_counter("net.bytes_recv", "net_rx_bytes_s", **_INTERFACE),
    _node_counter("net.bytes_sent", "net_tx_bytes_s", **_INTERFACE),
    _node_counter("diskio.read_bytes", "disk_read_bytes_s", **_DISKIO),
    _node_counter("diskio.write_bytes", "disk_write_bytes_s", **_DISKIO),
    _node_counter("diskio.reads", "disk_ios_s", part_of="read", **_DISKIO),
    _node_counter("diskio.writes", "disk_ios_s", part_of="write", **_DISKIO),
    _node_counter("diskio.read_time", "disk_io_s", scale=MILLI, part_of="read", **_DISKIO),
    _node_counter("diskio.write_time", "disk_io_s", scale=MILLI, part_of="write", **_DISKIO),
)
"""Inputs docker, kubernetes, cpu, mem, net and diskio; cpu needs collect_cpu_time."""

CADVISOR = (
    _counter("cpu.usage.total", "cpu_cores", scale=NANO),
    _counter("cpu.cfs.throttled_time", "cpu_throttled_frac", scale=NANO),
    _counter("cpu.schedstat.runqueue_time", "run_queue_frac", scale=NANO),
    _gauge("memory.working_set", "memory_bytes"),
    _counter("memory.workingset_refault_file", "memory_refault_s", part_of="file"),
    _counter("memory.workingset_refault_anon", "memory_refault_s", part_of="anon"),
    *(
        _counter(f"{place}.psi.{degree}.total", f"psi_{resource}_{degree}_frac", scale=MICRO)
        for place, resource in (("cpu", "cpu"), ("memory", "memory"), ("diskio", "io"))
        for degree in ("some", "full")
    ),
    _pod_counter("network.rx_bytes", "net_rx_bytes_s", **_INTERFACE),
    _pod_counter("network.tx_bytes", "net_tx_bytes_s", **_INTERFACE),
    _counter("diskio.io_service_bytes.Read", "disk_read_bytes_s", series=("device",)),
    _counter("diskio.io_service_bytes.Write", "disk_write_bytes_s", series=("device",)),
    _counter("diskio.io_serviced.Read", "disk_ios_s", part_of="read", **_DEVICE),
    _counter("diskio.io_serviced.Write", "disk_ios_s", part_of="write", **_DEVICE),
    *(_counter("perf_stats", target, where={"event": names}, series=("cpu",)) for target, names in EVENTS.items()),
    _counter("resctrl.mbm_total_bytes", "memory_bandwidth_bytes_s", series=("node_id",)),
    _gauge("resctrl.llc_occupancy", "llc_occupancy_bytes", series=("node_id",)),
)
"""Fields of cAdvisor's JSON, joined by '.'. Its comment on pressure says nanoseconds; the value is the kernel's, in
microseconds, as its own Prometheus endpoint reads it."""

_BY_EXPORTER = {
    "kubelet": (*KUBELET, *PERF),
    "node_exporter": NODE_EXPORTER,
    "kubelet resource": KUBELET_RESOURCE,
    "koordlet": KOORDLET,
    "hami": HAMI,
    "hami by old names": HAMI_OLD,
    "dcgm": DCGM,
    "dcgm by engine": DCGM_ENGINE,
    "dcgm by utilization": DCGM_UTILIZATION,
    "kubeletstats": KUBELETSTATS,
    "kubeletstats by old names": KUBELETSTATS_OLD,
    "kubeletstats by counters": KUBELETSTATS_COUNTERS,
    "docker_stats": DOCKER_STATS,
    "hostmetrics": HOSTMETRICS,
    "telegraf": TELEGRAF,
    "telegraf by counters": TELEGRAF_COUNTERS,
    "cadvisor": CADVISOR,
}
_USAGE = MetricMap.of(
    replace(metric, exporter=exporter) for exporter, metrics in _BY_EXPORTER.items() for metric in metrics
)
EXPORTERS = read_mapping(Path(__file__).with_name("app_metrics.toml"), _USAGE)
"""Everything that is shipped: use of containers and nodes, and the requests of apps."""
