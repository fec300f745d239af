"""Advisor: a real `cohabit serve` over a synthetic cluster whose metrics never grow old. An edge."""

import http.client
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from types import MappingProxyType
from urllib.request import urlopen

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from benchmarks import synthetic
from benchmarks.serving import CLASSES, Changing, request_body
from e2e.kube.processes import HOST, Running, running

TREES, CHANGING_SHARE = 200, 0.01
ADDRESSES = re.compile(r"people and tools: (http://\S+)\s+schedulers: (http://\S+)/extender")
UNKNOWN_CLASSES = 2
"""Of the table, besides those of apps."""
ASK_AGAIN_S, WARM_S = 0.5, 600.0


@dataclass(frozen=True)
class Counts:
    """What an advisor counted.

    Args:
        sources: answers by source, with the reason where there is one.
        answered: requests.
        seconds: they took together.
    """

    sources: Counter[str]
    answered: float
    seconds: float

    def since(self, before: "Counts") -> "Counts":
        """What was added."""
        return Counts(self.sources - before.sources, self.answered - before.answered, self.seconds - before.seconds)

    def __str__(self) -> str:
        sources = ", ".join(f"{source} {count:,.0f}" for source, count in self.sources.most_common())
        return f"{sources or 'none'}; {1e3 * self.seconds / max(self.answered, 1):.2f} ms each"


@dataclass(frozen=True)
class Advisor:
    """A running advisor.

    Args:
        process: to kill.
        main: address for people.
        port: for schedulers.
    """

    process: Running
    main: str
    port: int

    def counts(self) -> Counts:
        """What it counted since it started."""
        with urlopen(f"{self.main}/metrics", timeout=10) as reply:  # noqa: S310 - loopback
            return counts_in(reply.read().decode())

    def classes(self) -> int:
        """Apps in its table."""
        return int(self._gauge("cohabit_score_table_pod_classes")) - UNKNOWN_CLASSES

    def _gauge(self, name: str) -> float:
        """A metric without labels; 0 where it is not there."""
        with urlopen(f"{self.main}/metrics", timeout=10) as reply:  # noqa: S310 - loopback
            found = re.search(rf"^{name} (\S+)", reply.read().decode(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def assumed(self) -> int:
        """Pods that it has assumed."""
        return int(self._gauge("cohabit_assumed_pods"))

    def warm(self, nodes: Sequence[str]) -> None:
        """Ask for every app until the table has them all: a cluster at work, not its first minute.

        The saved table of another advisor does not count: its own is of a snapshot that was published since.
        """
        connection, began = http.client.HTTPConnection(HOST, self.port, timeout=10), monotonic()

        def all_there() -> bool:
            for app in CLASSES:
                body = request_body(app, 0, list(nodes[:2])).replace(b'"uid":"pod-0",', b"")  # not to be booked
                connection.request("POST", "/extender/prioritize", body)
                connection.getresponse().read()
            sleep(ASK_AGAIN_S)
            is_own = self._gauge("cohabit_score_table_age_seconds") < monotonic() - began
            return is_own and self.classes() >= len(CLASSES)

        self.process.until(all_there, WARM_S)


def counts_in(text: str) -> Counts:
    """Counts in Prometheus' text."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    sources = Counter[str]()
    for sample in samples:
        if sample.name == "cohabit_score_requests_total":
            sources[" ".join(filter(None, (sample.labels["source"], sample.labels["reason"])))] += int(sample.value)
    named = {sample.name: sample.value for sample in samples}
    took = "cohabit_prioritize_duration_seconds"
    return Counts(sources, named[f"{took}_count"], named[f"{took}_sum"])


def prepared(folder: Path, nodes: int, residents: int) -> Changing:
    """A bundle, and snapshots of a cluster with so many nodes, the first one published."""
    rng = np.random.default_rng(0)
    view = synthetic.cluster(nodes, residents, rng)
    synthetic.promoted(folder / "registry", view, TREES, rng)
    changing = Changing(folder / "snapshots", view, CHANGING_SHARE, rng)
    changing.publish()
    return changing


@contextmanager
def advisor(
    folder: Path, port: int, name: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Advisor]:
    """`cohabit serve` over that folder, with schedulers on that port; `settings` are variables of its environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("COHABIT_")}
    (temporary := folder / "tmp").mkdir(exist_ok=True)
    ports = ("--port", "0", "--scheduler-port", str(port))
    folders = ("--registry", str(folder / "registry"), "--snapshots", str(folder / "snapshots"))
    command = [sys.executable, "-m", "cohabit", "serve", *ports, *folders]
    log = folder / f"{name}.log"
    with running(command, log, {**kept, **settings, "COLUMNS": "300", "TMPDIR": str(temporary)}) as process:
        process.until(lambda: ADDRESSES.search(log.read_text()) is not None)
        [(main, _)] = ADDRESSES.findall(log.read_text())
        yield Advisor(process, main, port)
