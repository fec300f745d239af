"""Our own measured co-location runs (data_samples/measured) as native records.

`python -m benchmarks.measured_records [FOLDER]` writes `<topic>.log` from the CSVs; without FOLDER the shipped files
are replaced.

Each measured window becomes one record for each of its members, five minutes after the window before, so that no
feature or label window mixes two configurations. Members were all there before the window began: their placements
start a second before it and end within it. Windows in which a member ran alone come first, so that profiles exist
when the first co-located window is decided.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
from pyarrow import csv

from cohabit.training.measured_runs import CLUSTER, NODE, SPACING_S, START, app_of, container_of, window_starts
from ingest.kafka_io.stream_files import Message as Printed
from ingest.kafka_io.stream_files import TopicWriter
from ingest.schema.topics import NODES, PLACEMENTS, USAGE, Topic, message_key
from ingest.simulator.messages import Message

FOLDER = Path(__file__).parent.parent / "data_samples" / "measured"
MIB = 1 << 20
MEGA = 1e6

VM = {
    "platform": "amd-epyc-kvm-2core",
    "cores": 2.0,
    "smt": 1,
    "numa_nodes": 1,
    "llc_bytes": 32 * MIB,
    "memory_bytes": 24e9,
}
"""What is known of the machine; cache and bandwidth counters cannot be read in the virtual machine."""

SCALES = {
    "cpu_cores": ("cpu_cores", 1.0),
    "cpu_throttled_frac": ("throttled", 1.0),
    "cpu_us_per_request": ("cpu_us_per_op", 1.0),
    "memory_bytes": ("rss_mb", MEGA),
    "disk_read_bytes_s": ("blk_rd_mb_s", MEGA),
    "disk_write_bytes_s": ("blk_wr_mb_s", MEGA),
    "disk_ios_s": ("blk_ios_s", 1.0),
    "psi_cpu_some_frac": ("psi_cpu", 1.0),
    "psi_io_some_frac": ("psi_io", 1.0),
    "psi_memory_some_frac": ("psi_mem", 1.0),
    "qps": ("qps", 1.0),
    "rt_mean_ms": ("mean_us", 1e-3),
    "rt_p95_ms": ("p95_us", 1e-3),
    "rt_p99_ms": ("p99_us", 1e-3),
}
"""Usage column -> measured column and factor. Run delay includes throttled time there and is set apart below."""


def records(windows: pa.Table, members: pa.Table) -> Iterator[Message]:
    """Messages of topics nodes, placements and usage, in order of arrival.

    Args:
        windows: windows.csv.
        members: members.csv, read as text and numbers; empty cells are missing.
    """
    starts = window_starts(windows)
    first = int(START.timestamp())
    yield _message(NODES, {"cluster": CLUSTER, "node": NODE, "ts": first - 60, **VM}, first - 60)
    by_window: dict[str, list[dict[str, object]]] = {}
    for member in members.to_pylist():
        by_window.setdefault(str(member["window"]), []).append(member)
    for window, start in starts.items():
        inside = by_window.get(window, [])
        yield from (_placement(member, "add", start - 1) for member in inside)
        yield from (_usage(member, start + 60) for member in inside)
        yield from (_placement(member, "delete", start + SPACING_S - 2) for member in inside)


def _identity(member: dict[str, object]) -> dict[str, object]:
    victim = member["role"] == "victim"
    return {
        "cluster": CLUSTER,
        "node": NODE,
        "container": container_of(str(member["window"]), str(member["role"]), _int(member["idx"])),
        "app": app_of(str(member["name"]), member["level"]),
        "team": "services" if victim else "stress",
        "qos": "LS" if victim else "BE",
    }


def _placement(member: dict[str, object], event: str, at_s: int) -> Message:
    record = {**_identity(member), "ts": at_s, "event": event, "cpuset": str(_int(member["core"]))}
    quota = _number(member["quota"])
    if np.isfinite(quota):
        record["cpu_limit_cores"] = quota
    return _message(PLACEMENTS, record, at_s)


def _usage(member: dict[str, object], at_s: int) -> Message:
    values = {column: _number(member[source]) * factor for column, (source, factor) in SCALES.items()}
    values["run_delay_frac"] = max(0.0, _number(member["rundelay"]) - _number(member["throttled"]))
    signals = {column: float(f"{value:.9g}") for column, value in values.items() if np.isfinite(value)}
    return _message(USAGE, {**_identity(member), "ts": at_s, "interval_s": 5.0, **signals}, at_s + 1)


def _message(topic: Topic, record: dict[str, object], at_s: int) -> Message:
    return Message(topic.name, message_key(topic, record), orjson.dumps(record), at_s * 1000)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _int(value: object) -> int:
    return int(_number(value))


def main(target: Path) -> None:
    """Replace the stream files in a folder."""
    options = csv.ConvertOptions(column_types={"level": pa.string()})
    windows = csv.read_csv(FOLDER / "windows.csv")
    members = csv.read_csv(FOLDER / "members.csv", convert_options=options)
    for old in target.glob("*.log"):
        old.unlink()
    for message in records(windows, members):
        TopicWriter(target, message.topic).write([Printed(message.arrived_ms, message.key, message.value)])


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FOLDER)
