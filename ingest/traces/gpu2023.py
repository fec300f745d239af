"""Alibaba cluster-trace-gpu-v2023: its node list becomes `nodes`, its pod lists `placements`. Kernel.

A pod is added when it was scheduled and deleted when it was deleted. The lists do not say on which node it ran, so the
node is `unknown`. A pod that was never scheduled has no time to be added at, and ingest rejects it.

Source: alibaba/clusterdata, cluster-trace-gpu-v2023/README.md.
"""

import orjson
import pyarrow as pa

from ingest.schema.topics import NODES, PLACEMENTS
from ingest.traces.cells import Record, Values, numbers, records, texts, times
from ingest.traces.form import Form, Origin, TraceFile

NODE = "unknown"
MILLI = 1e-3
MIB = float(1 << 20)
BEST_EFFORT = "BE"
NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS = (
    *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "qos"),
    *("deletion_time", "scheduled_time"),
)
GPU_LABEL = "gpu_model"


def nodes(rows: pa.Table, origin: Origin) -> list[Record]:
    """Rows of a node list as records of `nodes`, all published at the trace's time 0."""
    n = rows.num_rows
    return records(
        {
            "cluster": [origin.cluster] * n,
            "node": texts(rows["sn"]),
            "ts": [origin.epoch_s] * n,
            "cores": numbers(rows["cpu_milli"], MILLI),
            "memory_bytes": numbers(rows["memory_mib"], MIB),
            "gpus": numbers(rows["gpu"]),
            "labels": [{GPU_LABEL: model} if model else {} for model in texts(rows["model"])],
        }
    )


def placements(rows: pa.Table, origin: Origin) -> list[Record]:
    """Rows of a pod list as records of `placements`: an add each, and a delete of those that were ever scheduled."""
    n = rows.num_rows
    named: dict[str, Values] = {
        "cluster": [origin.cluster] * n,
        "node": [NODE] * n,
        "container": texts(rows["name"]),
        "name": texts(rows["name"]),
        "qos": ["BE" if qos == BEST_EFFORT else "LS" for qos in rows["qos"].to_pylist()],
        "cpu_request_cores": numbers(rows["cpu_milli"], MILLI),
        "memory_request_bytes": numbers(rows["memory_mib"], MIB),
        "gpu_request": gpu_request(numbers(rows["num_gpu"]), numbers(rows["gpu_milli"], MILLI)),
        "affinity": [_affinity(spec) for spec in rows["gpu_spec"].to_pylist()],
    }
    placed, ended = times(rows["scheduled_time"], origin.epoch_s), times(rows["deletion_time"], origin.epoch_s)
    added = records({**named, "ts": placed, "event": ["add"] * n})
    deleted = records({**named, "ts": ended, "event": ["delete"] * n})
    return added + [record for record, start in zip(deleted, placed, strict=True) if start is not None]


def gpu_request(pieces: Values, shares: Values) -> Values:
    """GPUs requested: pieces times the share of each; what is no number stays as it is, to be rejected."""
    pairs = zip(pieces, shares, strict=True)
    return [n * share if isinstance(n, float) and isinstance(share, float) else n for n, share in pairs]


def file_of(stem: str) -> TraceFile | None:
    """Node lists and pod lists, whatever part of the cluster they hold."""
    if stem.startswith("openb_node_list"):
        return TraceFile(NODES, NODE_COLUMNS, header=True, kernel=nodes)
    if stem.startswith("openb_pod_list"):
        return TraceFile(PLACEMENTS, POD_COLUMNS, header=True, kernel=placements)
    return None


GPU_2023 = Form("gpu2023", file_of, "openb_node_list_*.csv and openb_pod_list_*.csv")


def _affinity(models: str) -> str | None:
    if not models:
        return None
    return orjson.dumps({"nodeSelector": {GPU_LABEL: models}}).decode()
