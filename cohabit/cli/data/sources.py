"""The commands that read other sources: watch, import."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from cohabit.config.errors import CohabitError
from cohabit.config.malloc_trim import give_back_for_good
from cohabit.config.settings import Settings
from cohabit.ingestion.metrics_port import scraped
from cohabit.terminal.console import bar, console
from cohabit.terminal.locations import stop_on_signals, stream_exists
from ingest.kafka_io.connection import Brokers
from ingest.kafka_io.stream_files import topics_in
from ingest.schema.topics import NODE_USAGE, NODES, PLACEMENTS, Topic

if TYPE_CHECKING:
    from ingest.kafka_io.sender import Outlet
    from ingest.kube.watcher import Follower, Surroundings


def run_watch(
    settings: Settings,
    *,
    api_at: tuple[Path | None, str | None],
    namespaces: Sequence[str],
    cluster: str | None,
    bootstrap: str | None,
    state: Path,
    once: bool,
    metrics_port: int | None,
) -> None:
    """See `cohabit watch`; the API is that of a configuration file and a context."""
    from ingest.devkafka.broker import create_topics
    from ingest.kafka_io.replay import Sender
    from ingest.kube.list_watch import IN_CLUSTER, core_api
    from ingest.kube.watcher import Surroundings, WatchMetrics, follow_all

    give_back_for_good()
    stop, brokers = stop_on_signals(), settings.kafka.brokers(bootstrap)
    api = core_api(*api_at, in_cluster=IN_CLUSTER in os.environ)
    create_topics(brokers, (NODES, PLACEMENTS, NODE_USAGE))
    metrics = WatchMetrics(registry := CollectorRegistry())
    with scraped(settings.kafka, metrics_port, registry), closing(Sender(brokers)) as sender:
        around = Surroundings(cluster or settings.cluster, sender, _now_ms, metrics)
        followers = _followers(api, namespaces, state / around.cluster, around)
        console.print(f"cluster {around.cluster} at {api.api_client.configuration.host} goes to {brokers}")
        follow_all(followers, stop, "listed" if once else "stopped")
    console.print(f"{metrics.sent():,} records sent, {metrics.skipped():,} malformed objects skipped")


def _followers(api: Any, namespaces: Sequence[str], state: Path, around: "Surroundings") -> list["Follower"]:
    """One for nodes, and for all or each namespace one for budgets and one for pods; each keeps its own position."""
    from ingest.kube.events import BUDGETS, CLUSTER_NODES, PODS
    from ingest.kube.list_watch import budget_feed, node_feed, pod_feed
    from ingest.kube.watcher import Follower

    followers = [Follower(CLUSTER_NODES, node_feed(api), state / "nodes.json", around)]
    for name in dict.fromkeys(namespaces) or (None,):
        of = f"-{name}" if name else ""
        budgets = Follower(BUDGETS, budget_feed(api, name), state / f"budgets{of}.json", around)
        followers += [budgets, Follower(PODS, pod_feed(api, name), state / f"pods{of}.json", around, budgets)]
    return followers


def run_import(
    form: str, source: Path, *, out: Path | None, bootstrap: Brokers | None, epoch: str, cluster: str | None
) -> None:
    """See `cohabit dev import`."""
    from ingest.traces.convert import FORMS, import_trace, trace_files
    from ingest.traces.form import Origin

    if form not in FORMS:
        raise CohabitError(f"no format {form!r}: there are {', '.join(FORMS)}")
    origin = Origin(cluster or form, epoch_seconds(epoch))
    files = trace_files(FORMS[form], source)
    console.print(f"importing {', '.join(path.name for path in files)}")
    with _outlet(out, bootstrap, {how.topic for how in files.values()}) as outlet, bar("messages") as shown:
        count = import_trace(files, outlet, origin, shown.reach)
    then = f"cohabit ingest {out}" if out else f"cohabit ingest --bootstrap {bootstrap}"
    console.print(f"{count:,} messages of cluster {origin.cluster} in {out or bootstrap}; next: {then}")


def epoch_seconds(epoch: str) -> float:
    """Seconds since 1970 of a time in UTC, such as 2018-01-01 or 2018-01-01T00:00:00Z.

    Raises:
        CohabitError: it is no time.
    """
    try:
        moment = datetime.fromisoformat(epoch)
    except ValueError as error:
        raise CohabitError(f"--epoch {epoch}: not a time like 2018-01-01T00:00:00Z") from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


@contextmanager
def _outlet(out: Path | None, bootstrap: Brokers | None, topics: Collection[Topic]) -> Iterator["Outlet"]:
    """Kafka, or a folder that holds none of the topics yet."""
    from ingest.kafka_io.sender import FileOutlet

    if (out is None) == (bootstrap is None):
        raise CohabitError("name either --out FOLDER or --bootstrap HOST:PORT")
    if bootstrap is not None:
        from ingest.devkafka.broker import create_topics
        from ingest.kafka_io.replay import Sender

        create_topics(bootstrap, topics)
        with closing(Sender(bootstrap)) as sender:
            yield sender
    elif out is not None:
        if there := sorted({topic.name for topic in topics} & set(topics_in(out))):
            raise stream_exists(out, there)
        yield FileOutlet(out)


def _now_ms() -> int:
    return time_ns() // 1_000_000
