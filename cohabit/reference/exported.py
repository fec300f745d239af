"""Every Prometheus metric, its kind, labels and meaning, from the parts that count."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector
from sqlalchemy import create_engine

from advisor.admission.admission_advice import AdmissionAdvice
from advisor.admission.room_file import NewestRooms
from advisor.auth.denials import Refusals
from advisor.placement.decision_log import Shares, explorer_in
from advisor.placement.model_state import Serving
from advisor.placement.prioritizer import Prioritizer
from cohabit.reference.markdown import NONE, as_text, code, page, table
from cohabit.server.assembly import gang_desk
from cohabit.server.peer_discovery import Peers
from cohabit.server.reservation_poller import ReservationPoller
from ingest.kube.watcher import WatchMetrics
from ingest.pipeline.metrics import IngestMetrics
from models.registry.registry import Registry

ABOUT = (
    "Every metric, from the code that counts it. A counter's series end in `_total`, those of a histogram in "
    "`_bucket`, `_sum` and `_count`; times are seconds. `deploy/prometheus/cohabit.rules.yaml` has alerts on them. "
    "`make reference` writes this page."
)
WHERE = {
    "cohabit ingest": "`cohabit ingest --metrics-port 9100`, or `COHABIT_KAFKA__METRICS_PORT`: process i on port + i.",
    "cohabit watch": "`cohabit watch --metrics-port 9101`, or `COHABIT_KAFKA__METRICS_PORT`.",
    "cohabit serve": "`GET /metrics` on the listener for people and tools; what several workers counted is added up.",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """One metric.

    Args:
        name: of its family; a counter's series have `_total` behind it.
        kind: counter, gauge or histogram.
        labels: what its series differ in.
        meaning: the help text of a scrape.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


class _Recorded(CollectorRegistry):
    """A registry that remembers who registered: only they know the labels of series that are not there yet."""

    def __init__(self) -> None:
        self.registered: list[Collector] = []
        super().__init__()

    def register(self, collector: Collector) -> None:
        self.registered.append(collector)
        super().register(collector)


def metrics_page() -> str:
    """The reference of metrics."""
    return page("Metrics", ABOUT, (_section(command, found) for command, found in exported().items()))


def exported() -> dict[str, list[Exported]]:
    """What each command counts, by name."""
    parts = {"cohabit ingest": _ingest, "cohabit watch": _watch, "cohabit serve": _serve}
    return {command: list(_counted(register)) for command, register in parts.items()}


def _section(command: str, found: list[Exported]) -> str:
    rows = [
        (
            code(one.name + ("_total" if one.kind == "counter" else "")),
            one.kind,
            ", ".join(code(label) for label in one.labels) or NONE,
            as_text(one.meaning),
        )
        for one in found
    ]
    return f"## {command}\n\n{WHERE[command]}\n\n{table(('metric', 'kind', 'labels', 'meaning'), rows)}"


def _counted(register: Callable[[CollectorRegistry], None]) -> Iterator[Exported]:
    registry = _Recorded()
    register(registry)
    for collector in sorted(registry.registered, key=lambda one: next(iter(one.collect())).name):
        for metric in collector.collect():
            labels = tuple(getattr(collector, "_labelnames", ()))
            yield Exported(metric.name, metric.type, labels, metric.documentation)


def _ingest(registry: CollectorRegistry) -> None:
    IngestMetrics(registry, lambda: 0.0)


def _watch(registry: CollectorRegistry) -> None:
    WatchMetrics(registry)


def _serve(registry: CollectorRegistry) -> None:
    """All that `cohabit serve` may have, peers, reservations, kept decisions and refusals too; nothing is written."""
    prioritizer = Prioritizer(Serving(Path(), Registry(Path()), 1.0, lambda: 0, registry))
    AdmissionAdvice(prioritizer, NewestRooms(Path()), "advise", str)
    explorer_in(Path(), Shares(), np.random.default_rng(0), registry)
    gang_desk(create_engine("sqlite://"), prioritizer, Path())
    Refusals(create_engine("sqlite://"), lambda: 0, registry, str)
    Peers((), lambda: 0, registry).close()
    ReservationPoller("", str, lambda: 0, lambda _: None, registry).close()
