"""Decode: messages and samples per CPU-second of every wire format, beside the least that its bytes cost to take apart.

The bound of a JSON format is orjson.loads of each message; of protobuf, parsing a request and a bare loop that reads
value (of a histogram its buckets), time and attributes of each point; of text, a bare line.split() of each line. Both
are timed in the same run.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from time import process_time
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from benchmarks import messages
from benchmarks.runner import OURS, Benchmark, Result
from ingest.decode.contract import Context
from ingest.decode.formats.format_registry import decoder_named
from ingest.schema.tables import SIGNALS, TIMESTAMP

TARGET_SAMPLES_S = 250_000
AT_ONCE = 2_000
"""Messages of a batch; a consumer takes up to ten times as many."""
Bound = Callable[[bytes], object]


def load_json(message: bytes) -> object:
    """The bound of JSON."""
    return orjson.loads(message)


def read_points(message: bytes) -> int:
    """The bound of protobuf."""
    request = ExportMetricsServiceRequest()
    request.ParseFromString(message)
    count = 0
    for resource in request.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for point in metric.gauge.data_points:
                    _ = point.as_double, point.time_unix_nano, point.attributes
                    count += 1
                for bar in metric.histogram.data_points:
                    _ = list(bar.bucket_counts), list(bar.explicit_bounds), bar.sum, bar.time_unix_nano, bar.attributes
                    count += 1
    return count


def split_lines(message: bytes) -> None:
    """The bound of text."""
    for line in message.decode().split("\n"):
        line.split()


class Case(NamedTuple):
    """A format, who makes its messages, its bound, how many samples a row of its holds, and what else is in them."""

    format: str
    make: messages.Make
    bound: Bound
    samples_a_row: int = 1
    of: str = ""

    @property
    def name(self) -> str:
        """What its figures are called."""
        return f"{self.format}-{self.of}" if self.of else self.format


CASES = (
    Case("native-usage", messages.native, load_json, len(SIGNALS)),
    Case("telegraf-json", messages.telegraf_json, load_json),
    Case("prom-adapter", messages.prom_adapter, load_json),
    Case("prom-text", messages.prom_text, split_lines),
    Case("prom-text", messages.text_histograms, split_lines, of="histograms"),
    Case("otlp-proto", messages.otlp_proto, read_points),
    Case("otlp-proto", messages.otlp_histograms, read_points, of="histograms"),
    Case("otlp-json", messages.otlp_json, load_json),
    Case("cadvisor", messages.cadvisor, load_json),
)


def run(arguments: Namespace, rng: np.random.Generator) -> Result:
    """Figures of each format; `ours` is the worst of each, and how many processes it takes for TARGET_SAMPLES_S."""
    chosen = [case for case in CASES if arguments.format in {"all", case.name}]
    found = {case.name: _figures(case, case.make(arguments.samples, rng), arguments.rounds) for case in chosen}
    return {OURS: _worst(list(found.values())), **found}


def _worst(figures: Sequence[Mapping[str, float]]) -> dict[str, float]:
    slowest = min(of["samples_per_cpu_s"] for of in figures)
    return {
        "fraction_of_bound": min(of["fraction_of_bound"] for of in figures),
        "samples_per_cpu_s": slowest,
        f"processes_for_{TARGET_SAMPLES_S}_samples_s": float(ceil(TARGET_SAMPLES_S / slowest)),
    }


def _figures(case: Case, made: Sequence[bytes], rounds: int) -> dict[str, float]:
    """The best of several rounds, ours and the bound taken in turn, since other processes only ever slow one down."""
    decode = decoder_named(case.format)
    batches = [
        (pa.array(made[at : at + AT_ONCE], pa.binary()), made[at : at + AT_ONCE]) for at in range(0, len(made), AT_ONCE)
    ]
    times = {"ours": [], "bound": []}  # type: dict[str, list[float]]
    rows = 0
    for _ in range(rounds):
        started = process_time()
        rows = sum(decode(array, _context(len(array))).rows.num_rows for array, _ in batches)
        between = process_time()
        for _, batch in batches:
            for message in batch:
                case.bound(message)
        times["ours"].append(between - started)
        times["bound"].append(process_time() - between)
    ours, bound = min(times["ours"]), min(times["bound"])
    samples_s = rows * case.samples_a_row / ours
    return {
        "fraction_of_bound": bound / ours,
        "samples_per_cpu_s": samples_s,
        "messages_per_cpu_s": len(made) / ours,
        f"processes_for_{TARGET_SAMPLES_S}_samples_s": float(ceil(TARGET_SAMPLES_S / samples_s)),
    }


def _context(count: int) -> Context:
    arrived = np.full(count, (messages.START_S + 10**8) * 10**6, dtype=np.int64)
    return Context(pa.array(arrived).cast(TIMESTAMP))


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--samples", type=int, default=50_000, help="samples of each format, about (50000)")
    parser.add_argument("--rounds", type=int, default=3, help="times each is timed; the best counts (3)")
    parser.add_argument("--format", choices=["all", *(case.name for case in CASES)], default="all")


BENCHMARK = Benchmark(
    "decode",
    "messages and samples per CPU-second of each wire format, beside the least its bytes cost",
    run,
    add_arguments=_arguments,
)
