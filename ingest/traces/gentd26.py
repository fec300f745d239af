"""Alibaba cluster-trace-v2026-GenAI (GenTD26): one file a metric becomes `samples`. Kernel.

The trace has no nodes, so all containers are on node `unknown`: no neighbours can be summed up there. Its times are
seconds since 1970 already, shifted by its publishers; the epoch is not added. A row without container is sent as it is,
and ingest rejects it.

Source: alibaba/clusterdata, cluster-trace-v2026-GenAI/README.md.
"""

from collections.abc import Callable
from functools import partial

import pyarrow as pa

from ingest.schema.topics import SAMPLES
from ingest.traces.cells import Record, numbers, records, texts, times
from ingest.traces.form import Form, Origin, TraceFile

NODE = "unknown"
COLUMNS = ("value", "timestamp_anon", "container_ip")
NO_CONTAINER = ("", "NULL")
METRICS = {
    "pod_gpu_duty_cycle_anon": ("gpu_sm_frac", 0.01),
    "pod_gpu_memory_used_bytes_anon": ("gpu_memory_bytes", 1.0),
    "qps": ("qps", 1.0),
}
"""File -> metric of our catalogue, and factor. Of other files the metric is the file's own name, its unit kept."""
OTHER_FORM = ("lora_request_trace",)
"""Files of the trace that are no metric."""


def samples(rows: pa.Table, origin: Origin, *, stem: str) -> list[Record]:
    """Rows of the file `stem` as records of `samples`."""
    metric, factor = METRICS.get(stem, (stem, 1.0))
    n = rows.num_rows
    kinds = texts(rows["request_type"]) if "request_type" in rows.column_names else [None] * n
    return records(
        {
            "cluster": [origin.cluster] * n,
            "node": [NODE] * n,
            "container": ["" if ip in NO_CONTAINER else ip for ip in rows["container_ip"].to_pylist()],
            "ts": times(rows["timestamp_anon"], 0.0),
            "metric": [metric] * n,
            "series": kinds,
            "kind": ["gauge"] * n,
            "value": numbers(rows["value"], factor),
        }
    )


def file_of(stem: str) -> TraceFile | None:
    """Every file is one metric, but those of another form."""
    if stem in OTHER_FORM:
        return None
    kernel: Callable[[pa.Table, Origin], list[Record]] = partial(samples, stem=stem)
    return TraceFile(SAMPLES, COLUMNS, header=True, kernel=kernel)


GENTD26 = Form("gentd26", file_of, "one .csv file a metric, such as qps.csv and pod_gpu_duty_cycle_anon.csv")
