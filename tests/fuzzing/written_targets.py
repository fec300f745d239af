"""Targets: what people write, export or download: settings, price books, bills, mappings, traces, benchmarks' files."""

import gzip
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np

from advisor.billing.pricing.price_book_toml import EXAMPLE
from benchmarks import interference_files
from benchmarks.reassign.errors import UnusableFile
from benchmarks.reassign.roadef import read_model
from benchmarks.reassign.tianchi import read_contest
from benchmarks.reassign.tianchi_plan import carried_out, read_plan
from cohabit.backtest.pair_file import read_pairs
from cohabit.billing.price_book_file import read_price_book
from cohabit.capacity.demand_series import DemandSeries
from cohabit.capacity.planner_files import read_events, read_pending
from cohabit.config.errors import BadSettings, CohabitError
from cohabit.config.settings import read_settings
from cohabit.config.topic_formats import foreign_topics
from cohabit.doctor.scheduler_config import configured, read_config
from features.metering.invoices import FOCUS, PLAIN, Columns, read_bill
from features.metering.units import HOUR_US
from features.schema.errors import FeaturesError
from ingest.decode.metrics.known_metrics import EXPORTERS
from ingest.decode.metrics.mapping_file import read_mapping
from ingest.schema.errors import IngestError
from ingest.traces.convert import FORMS, file_messages, trace_files
from ingest.traces.form import Origin
from tests.benchmarks.reassign import test_roadef, test_tianchi
from tests.fuzzing.target import Refused, Target, in_folder, of_file, of_text, of_utf8
from tests.ingest.traces import test_traces

SETTINGS = """COHABIT_ENVIRONMENT=production
COHABIT_CLUSTER=blue
COHABIT_LAKE=/data/lake
COHABIT_REGISTRY=/data/registry
COHABIT_SNAPSHOTS=/data/snapshots
COHABIT_BILLING__LEDGER_DIR=/data/lines
COHABIT_DATABASE=postgresql://cohabit:x@db:5432/cohabit
COHABIT_KAFKA__BOOTSTRAP=127.0.0.1:9092
COHABIT_KAFKA__SESSION_TIMEOUT_MS=45000
COHABIT_ADVISOR__AUTH=token
COHABIT_ADVISOR__HOST=::1
COHABIT_ADVISOR__OIDC_ISSUER=https://issuer.example
COHABIT_ADVISOR__OIDC_AUDIENCE=cohabit
COHABIT_ADVISOR__OIDC_ROLES={"platform-team": "sre", "bots": "scheduler"}
COHABIT_ADVISOR__PEERS=http://10.0.0.6:8081,http://[::1]:8081
COHABIT_ADVISOR__MAX_FEATURE_AGE_S=120.5
COHABIT_PLANS__WEBHOOK=https://hooks.example/x
COHABIT_PLANS__MAX_STEPS=20"""
FREEZES = b"2026-12-20T00:00Z/2027-01-03T00:00Z, 2027-04-01T00:00+02:00/2027-04-02"
WINDOWS = b"mon-thu 09:00-16:00,fri 09:00-12:00,sat 22:00-02:00"
TOPICS = b"telegraf=telegraf-json, k8s.metrics=auto,otel_metrics=otlp-proto"
MAPPING = b"""
[[metric]]
name = "my_cpu_millicores"
target = "cpu_cores"
kind = "gauge"
scale = 0.001
where = { state = "used" }
unless = { cpu = ["cpu-total", "x*"] }
series = ["disk"]
unknown = [-1, 1e30]
of = "container"

[[metric]]
name = "my_reads.total"
target = "disk_read_bytes_s"
kind = "counter"
part_of = "reads"

[labels]
node = ["my_node"]
"""
EXTENDER = b"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- urlPrefix: https://127.0.0.1:8081/extender
  prioritizeVerb: prioritize
  filterVerb: filter
  weight: 1
  enableHTTPS: true
  tlsConfig: {caFile: /a/ca.pem, certFile: /a/tls.pem, keyFile: /a/key.pem}
  httpTimeout: 100ms
  nodeCacheCapable: true
  ignorable: true
  managedResources: [{name: nvidia.com/gpu, ignoredByScheduler: false}]
"""
EVENTS = b"""at,until,class,pool,factor,who,why
2026-11-27,2026-12-01T08:00+02:00,LS,std@a,1.5,eve,"sale, of winter"
2026-11-28T08:00Z,,,,0.5,bo,move
"""
PENDING = b"""ts,class,pool,resource,amount
2026-11-01T00:00Z,LS,std@a,cpu,1.5
2026-11-01T04:00:00+01:00,LS,std@a,cpu,0
"""
BILL = b"""pool,start,end,cost,currency
std@a,2026-11-01T00:00:00Z,2026-11-01T03:00:00Z,0.00001,EUR
std@a,2026-11-01T03:00:00+02:00,2026-11-02T03:00:00+02:00,-1234.567890123,EUR
"""
BILL_FOCUS = b"""BilledCost,BillingCurrency,ChargePeriodStart,ChargePeriodEnd,ResourceName,Tags,Other
1.5,USD,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,std@a,"{""x_pool"": ""no""}",x
2.5,USD,2026-11-01T00:00:00Z,2026-11-01T01:00:00Z,,"{""x_pool"": ""gpu@b""}",x
"""


def written_targets(folder: Path) -> Iterator[Target]:
    """All of them."""
    settings = "cohabit.config.settings"
    yield Target("settings", settings, (SETTINGS.encode(),), of_text(_settings), (BadSettings,))
    for name, told in (("change_freezes", FREEZES), ("change_windows", WINDOWS)):
        yield Target(
            name,
            "cohabit.config.change_windows",
            (told,),
            of_text(_setting(f"PLANS__{name.upper()}")),
            (BadSettings,),
        )
    yield Target(
        "topics",
        "cohabit.config.topic_formats",
        (TOPICS,),
        of_text(_topics),
        (BadSettings, CohabitError, IngestError),
    )
    yield Target(
        "price book",
        "advisor.billing.pricing.price_book_toml",
        (EXAMPLE.encode(),),
        of_file(folder / "book.toml", lambda path: read_price_book(path, "ann")),
        (CohabitError,),
    )
    yield Target(
        "metric mapping",
        "ingest.decode.metrics.metric_mapping",
        (MAPPING,),
        of_file(folder / "mapping.toml", lambda path: read_mapping(path, EXPORTERS)),
        (IngestError,),
    )
    yield Target(
        "scheduler configuration",
        "cohabit.doctor.scheduler_config",
        (EXTENDER,),
        of_file(folder / "scheduler.yaml", lambda path: configured(read_config(path))),
        (CohabitError,),
    )
    yield _bill("bill", BILL, PLAIN)
    yield _bill("bill FOCUS", BILL_FOCUS, FOCUS)
    yield from _planner_files(folder / "planner")
    yield from _traces(folder / "traces")
    yield from _measured(folder / "measured")
    yield from _reassigned(folder / "reassign")


def _settings(told: str) -> None:
    read_settings(dict(line.split("=", 1) for line in told.split("\n") if "=" in line))


def _setting(name: str) -> Callable[[str], object]:
    return lambda told: read_settings({f"COHABIT_{name}": told})


def _topics(told: str) -> None:
    foreign_topics(read_settings({"COHABIT_KAFKA__TOPICS": told}), [], None)
    foreign_topics(read_settings({}), [told.partition(",")[0]], None)


def _bill(name: str, good: bytes, columns: Columns) -> Target:
    def read(told: str) -> object:
        return read_bill(told, "nov", "c", columns)

    return Target(name, "features.metering.invoices", (good,), of_utf8(read), (FeaturesError, Refused))


def _planner_files(folder: Path) -> Iterator[Target]:
    hours = np.full((1, 9), 5.0)
    key = ("LS", "std@a", "cpu")
    past = DemandSeries(1_793_491_200_000_000 + HOUR_US * np.arange(9), [key], hours, hours, {}, 9)
    module = "cohabit.capacity.planner_files"
    yield Target("events", module, (EVENTS,), of_file(folder / "events.csv", read_events), (CohabitError,))
    pending = of_file(folder / "pending.csv", lambda path: read_pending(path, past))
    yield Target("pending pods", module, (PENDING,), pending, (CohabitError,))


def _traces(folder: Path) -> Iterator[Target]:
    for name, content in test_traces.SLICES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "alibaba2018" / "machine_meta.csv").unlink()
    packed = gzip.compress(test_traces.SLICES["alibaba2018/machine_meta.csv"].encode(), mtime=0)
    (folder / "alibaba2018" / "machine_meta.csv.gz").write_bytes(packed)
    for form in FORMS:
        yield in_folder(f"trace {form}", "ingest.traces.convert", folder / form, _trace(form), (IngestError,))


def _trace(form: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        files = trace_files(FORMS[form], folder)
        return [list(file_messages(path, how, Origin("c", test_traces.EPOCH_S))) for path, how in files.items()]

    return read


def _measured(folder: Path) -> Iterator[Target]:
    names = [f"w{number}" for number in range(6)]
    pairs = "".join(f"{a},{b},{1 + (i + 2 * j) / 9},p\n" for i, a in enumerate(names) for j, b in enumerate(names))
    alone = "".join(f"{name},{i}.5,{i}e3\n" for i, name in enumerate(names))
    windows = "".join(f"{1 + k % 7}.25,{'abcd'[k % 4]},{k},{k % 5}.5,x\n" for k in range(30))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pairs.csv").write_text(f"victim,aggressor,slowdown,platform\n{pairs}")
    (folder / "alone.csv").write_text(f"workload,llc mean,memory bandwidth\n{alone}")
    (folder / "windows.csv").write_text(f"latency,kind,when,misses,words\n{windows}")
    both, files = ("pairs.csv", "alone.csv"), "benchmarks.interference_files"
    yield in_folder("pair files", "cohabit.backtest.pair_file", folder, _law, (CohabitError,), both)
    refuses = (interference_files.UnusableFile,)
    yield in_folder("benchmark pairs", files, folder, _benchmark_pairs, refuses, both)
    yield in_folder("benchmark windows", files, folder, _benchmark_windows, refuses, ("windows.csv",))


def _law(folder: Path) -> object:
    return read_pairs(folder / "pairs.csv", folder / "alone.csv")


def _benchmark_pairs(folder: Path) -> object:
    with redirect_stderr(StringIO()):
        return interference_files.read_pairs(Namespace(file=folder / "pairs.csv", alone=folder / "alone.csv"))


def _benchmark_windows(folder: Path) -> object:
    asked = {"file": folder / "windows.csv", "label": "latency", "group": "kind", "drop": [], "time": "when"}
    with redirect_stderr(StringIO()):
        return interference_files.read_windows(Namespace(**asked))


def _reassigned(folder: Path) -> Iterator[Target]:
    roadef, tianchi = folder / "roadef", folder / "tianchi"
    for place in (roadef, tianchi):
        place.mkdir(parents=True, exist_ok=True)
    test_roadef.written(roadef)
    test_tianchi.written(tianchi, test_tianchi.placed())
    (tianchi / "submit.csv").write_text("1,w1,m3\n2,b1,m2\n")
    yield in_folder("ROADEF", "benchmarks.reassign.roadef", roadef, _roadef, (UnusableFile,))
    yield in_folder("Tianchi", "benchmarks.reassign.tianchi", tianchi, _tianchi, (UnusableFile,))


def _roadef(folder: Path) -> object:
    return read_model(folder / "model.txt", folder / "assignment.txt")


def _tianchi(folder: Path) -> object:
    contest = read_contest(folder, "semifinal")
    path = folder / "submit.csv"
    return carried_out(path, contest, read_plan(path, contest))
