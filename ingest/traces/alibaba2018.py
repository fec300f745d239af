"""Alibaba cluster-trace-v2018: machines become `nodes` and `node_usage`, containers `placements` and `usage`. Kernel.

Percentages become shares; memory and network are published only as shares of an unknown largest machine, so they have
no column of bytes. A container's own percentages are of an amount that is not published, and are left out.

Source: alibaba/clusterdata, cluster-trace-v2018/schema.txt and trace_2018.md.
"""

import pyarrow as pa

from ingest.schema.topics import NODE_USAGE, NODES, PLACEMENTS, USAGE
from ingest.traces.cells import Record, Values, numbers, records, texts, times
from ingest.traces.form import Form, Origin, TraceFile

UNKNOWN = (-1.0, 101.0)
"""How the trace marks a share that is invalid."""
PERCENT = 0.01
CORE = 0.01
"""100 is one core."""
INTERVAL_S = 10.0
STOPPED = "stopped"

MACHINE_META = ("machine_id", "time_stamp", "failure_domain_1", "failure_domain_2", "cpu_num", "mem_size", "status")
MACHINE_USAGE = (
    *("machine_id", "time_stamp", "cpu_util_percent", "mem_util_percent", "mem_gps", "mkpi"),
    *("net_in", "net_out", "disk_io_percent"),
)
CONTAINER_META = (
    *("container_id", "machine_id", "time_stamp", "app_du", "status"),
    *("cpu_request", "cpu_limit", "mem_size"),
)
CONTAINER_USAGE = (
    *("container_id", "machine_id", "time_stamp", "cpu_util_percent", "mem_util_percent", "cpi", "mem_gps", "mpki"),
    *("net_in", "net_out", "disk_io_percent"),
)


def machine_usage(rows: pa.Table, origin: Origin) -> list[Record]:
    """Rows of machine_usage as records of `node_usage`."""
    return records(
        {
            **_place(rows, origin),
            "interval_s": [INTERVAL_S] * rows.num_rows,
            "cpu_frac": _share(rows, "cpu_util_percent"),
            "memory_frac": _share(rows, "mem_util_percent"),
            "memory_bandwidth_frac": _share(rows, "mem_gps"),
            "llc_mpki": numbers(rows["mkpi"]),
            "net_rx_frac": _share(rows, "net_in"),
            "net_tx_frac": _share(rows, "net_out"),
            "disk_busy_frac": _share(rows, "disk_io_percent"),
        }
    )


def machine_meta(rows: pa.Table, origin: Origin) -> list[Record]:
    """Rows of machine_meta as records of `nodes`; the status is a label."""
    return records(
        {
            **_place(rows, origin),
            "cores": numbers(rows["cpu_num"]),
            "zone": texts(rows["failure_domain_1"]),
            "rack": texts(rows["failure_domain_2"]),
            "labels": [{"status": status} if status else None for status in texts(rows["status"])],
        }
    )


def container_usage(rows: pa.Table, origin: Origin) -> list[Record]:
    """Rows of container_usage as records of `usage`: what has a unit, cycles per instruction and misses."""
    return records(
        {
            **_place(rows, origin),
            "container": texts(rows["container_id"]),
            "interval_s": [INTERVAL_S] * rows.num_rows,
            "cpi": numbers(rows["cpi"]),
            "llc_mpki": numbers(rows["mpki"]),
        }
    )


def container_meta(rows: pa.Table, origin: Origin) -> list[Record]:
    """Rows of container_meta as records of `placements`; the trace's containers are its online services, hence LS."""
    return records(
        {
            **_place(rows, origin),
            "container": texts(rows["container_id"]),
            "event": ["delete" if status == STOPPED else "add" for status in rows["status"].to_pylist()],
            "app": texts(rows["app_du"]),
            "qos": ["LS"] * rows.num_rows,
            "cpu_request_cores": numbers(rows["cpu_request"], CORE),
            "cpu_limit_cores": numbers(rows["cpu_limit"], CORE),
        }
    )


FILES = {
    "machine_meta": TraceFile(NODES, MACHINE_META, header=False, kernel=machine_meta),
    "machine_usage": TraceFile(NODE_USAGE, MACHINE_USAGE, header=False, kernel=machine_usage),
    "container_meta": TraceFile(PLACEMENTS, CONTAINER_META, header=False, kernel=container_meta),
    "container_usage": TraceFile(USAGE, CONTAINER_USAGE, header=False, kernel=container_usage),
}
ALIBABA_2018 = Form("alibaba2018", FILES.get, ", ".join(f"{stem}.csv" for stem in FILES))


def _place(rows: pa.Table, origin: Origin) -> dict[str, Values]:
    return {
        "cluster": [origin.cluster] * rows.num_rows,
        "node": texts(rows["machine_id"]),
        "ts": times(rows["time_stamp"], origin.epoch_s),
    }


def _share(rows: pa.Table, column: str) -> Values:
    return numbers(rows[column], PERCENT, unknown=UNKNOWN)
