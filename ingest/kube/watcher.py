"""Watch a Kubernetes cluster: its pods become records of topic `placements`, its nodes of topic `nodes`. An edge.

List once, then watch from the list's version; when the connection ends, go on from the last version heard. When the
server no longer knows that version (410 Gone) list again; what stands is published, and the end of what is gone.

Position and published state lie in one file for each kind, replaced at once and only after all records before it are
safe in Kafka: a crash publishes some records twice, and never leaves one out.

Pods say which disruption budget they are under. Every few seconds, budgets that changed are compared with those that
pods were published with, and the pods that they select are listed: those of which a column changed are published.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, Literal

import orjson
import structlog
from prometheus_client import CollectorRegistry, Counter
from pydantic import ValidationError

from ingest.kafka_io.sender import Outlet
from ingest.kafka_io.stream_files import Message
from ingest.kube.api_types import Record
from ingest.kube.events import BEAT_S, Answer, Heard, Kind, Published, metadata_text, still_there
from ingest.kube.list_watch import Feed
from ingest.kube.pod_disruption import Budget, by_namespace, differing
from ingest.schema.atomic_file import replace_atomically
from ingest.schema.errors import ClusterRefused, ClusterUnanswered, PositionExpired
from ingest.schema.topics import NODE_USAGE, Topic, message_key

log = structlog.get_logger(__name__)

SAVE_EVERY_S = 10.0
REFRESH_S = 10.0
"""So often at most the pods of budgets that changed are looked at."""
BUDGETS_WAIT_S = 15.0
"""Pods are listed after budgets, so that they are published once; so long at most."""
PATIENCE = 3
"""After so many failures in a row that the server itself answered, a version that it may never serve is given up."""
Until = Literal["listed", "stopped"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait after failures in a row: twice as long each time, up to a limit."""

    first_s: float = 0.5
    max_s: float = 30.0

    def wait_s(self, failures: int) -> float:
        """Seconds to wait; 0 after none."""
        return min(self.first_s * 2.0 ** min(failures - 1, 32), self.max_s) if failures else 0.0


class WatchMetrics:
    """What a watcher counts, on a registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        on: Any = {"registry": registry}
        kind = ["kind"]
        self.records = Counter("cohabit_watch_records", "Records sent", ["topic"], **on)
        self.malformed = Counter("cohabit_watch_malformed", "Malformed objects skipped", ["kind", "reason"], **on)
        self.lists = Counter("cohabit_watch_lists", "Times everything was listed", kind, **on)
        self.failures = Counter("cohabit_watch_failures", "Requests that failed or broke off", kind, **on)

    def sent(self) -> int:
        """Records sent so far."""
        return _total(self.records)

    def skipped(self) -> int:
        """Malformed objects so far."""
        return _total(self.malformed)


@dataclass(slots=True)
class Progress:
    """How far a watch is.

    Args:
        version: to go on from, None before the first list.
        published: state of each object.
        budgets: disruption budgets that pods are published with.
    """

    version: str | None = None
    published: dict[str, Published] = field(default_factory=dict)
    budgets: list[Budget] = field(default_factory=list)

    @staticmethod
    def load(path: Path, cluster: str) -> "Progress":
        """What was saved; nothing where nothing was, where it was of another cluster, or where it cannot be read."""
        if not path.exists():
            return Progress()
        try:
            saved = orjson.loads(path.read_bytes())
            published = {key: Published(**entry) for key, entry in saved["published"].items()}
            found = Progress(saved["version"], published, [Budget(*one) for one in saved.get("budgets", ())])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.warning("saved progress cannot be read; everything is listed anew", path=str(path), reason=repr(error))
            return Progress()
        return found if saved.get("cluster") == cluster else Progress()

    def save(self, path: Path, cluster: str) -> None:
        """Replace the file at once."""
        budgets = [[*one] for one in self.budgets]
        saved = {"cluster": cluster, "version": self.version, "published": self.published, "budgets": budgets}
        replace_atomically(path, orjson.dumps(saved))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every follower shares.

    Args:
        cluster: name of the cluster in every record.
        outlet: where records go.
        now_ms: the clock, milliseconds since 1970: arrival of messages, and time of what has none of its own.
        metrics: what is counted.
        backoff: how long to wait after failures.
    """

    cluster: str
    outlet: Outlet
    now_ms: Callable[[], int]
    metrics: WatchMetrics
    backoff: Backoff = Backoff()


class Follower:
    """Follows one kind of object in one place. Call `run` in a thread of its own; `interrupt` wakes it to stop.

    A follower of pods has the one of the disruption budgets of that place.
    """

    def __init__(
        self, kind: Kind, feed: Feed, state: Path, around: Surroundings, budgets: "Follower | None" = None
    ) -> None:
        self._kind, self._feed, self._state, self._around = kind, feed, state, around
        self._progress = Progress.load(state, around.cluster)
        self._budgets, self._selecting = budgets, by_namespace(self._progress.budgets)
        self.tried, self._refreshed, self._refused = Event(), False, False
        self._saved_s = monotonic()
        self._beat_s = float("-inf")
        self._answered = False
        self._failures = 0

    def run(self, stop: Event, until: Until = "stopped") -> None:
        """List and watch until `stop` is set, or only list once.

        Raises:
            ClusterRefused: the first answer was that we may not read.
            ClusterUnanswered: only when listing once.
            IngestError: the broker refused records; what is saved is older than they are.
        """
        if until == "listed":
            self._progress.version = None
        while not stop.is_set():
            if self._try(stop, until) and until == "listed":
                break
            stop.wait(self._around.backoff.wait_s(self._failures))
        self._save()

    def interrupt(self) -> None:
        """Break off the request at hand; set the stop event first."""
        self._feed.interrupt()

    def refresh(self) -> None:
        """Let it look at the pods of budgets that changed, if any did."""
        now = None if self._budgets is None else self._budgets.known_budgets()
        if now is not None and now != self._progress.budgets:
            self._refreshed = True
            self._feed.interrupt()

    def known_budgets(self) -> list[Budget] | None:
        """The disruption budgets that there are; None before the first list."""
        if self._progress.version is None:
            return None
        found = [*self._progress.published.values()]
        return sorted(Budget._make(one.budget[name] for name in Budget._fields) for one in found)

    def _try(self, stop: Event, until: Until) -> bool:
        """Take one step; whether it went well. A step in which nothing was heard is followed by a short wait too."""
        try:
            heard = self._step(stop)
        except PositionExpired as expired:
            log.warning("listing again", kind=self._feed.what, reason=expired.reason)
            self._progress.version = None
        except (ClusterUnanswered, ClusterRefused) as failure:
            if self._kind.optional and isinstance(failure, ClusterRefused) and not self._answered:
                self._go_without(failure)
                return until == "listed"
            if self._refreshed:
                self._failures = 0
            elif not stop.is_set():  # we broke it off ourselves
                self._note(failure, until)
        else:
            self._failures = 0 if heard else 1
            return True
        finally:
            self.tried.set()
        self._failures += 1
        return False

    def _go_without(self, failure: ClusterRefused) -> None:
        """Say once that these are not known, and try again as seldom as after failures."""
        if not self._refused:
            self._around.metrics.failures.labels(self._kind.name).inc()
            log.warning("not known until granted", kind=self._feed.what, reason=failure.reason, status=failure.status)
        self._refused, self._failures = True, self._failures + 1

    def _note(self, failure: ClusterUnanswered | ClusterRefused, until: Until) -> None:
        """Count a failure; raise it where trying again is of no use."""
        if until == "listed" or (isinstance(failure, ClusterRefused) and not self._answered):
            raise failure
        self._around.metrics.failures.labels(self._kind.name).inc()
        log.warning("trying again", kind=self._feed.what, reason=failure.reason, status=failure.status)
        if self._failures >= PATIENCE and failure.status is not None:
            self._progress.version = None

    def _step(self, stop: Event) -> bool:
        """List, or watch until the connection ends; whether anything was heard."""
        if self._progress.version is None:
            self._list()
            self._save()
            return True
        self._refreshed = False
        self._take_budgets()
        heard = False
        for event in self._feed.events(self._progress.version, stop):
            heard = self._answered = True
            self._failures = 0
            self._take(event)
            if monotonic() - self._saved_s > SAVE_EVERY_S:
                self._save()
        return heard

    def _take_budgets(self) -> None:
        """Publish the pods for which budgets that changed since make a difference."""
        now = None if self._budgets is None else self._budgets.known_budgets()
        if now is None or now == self._progress.budgets:
            return
        self._selecting = by_namespace(now)
        for namespace, query in differing(self._progress.budgets, now):
            of = {"field_selector": f"metadata.namespace={namespace}", "label_selector": query}
            for page in self._feed.pages(**of):
                for raw in page.items:
                    self._handle(raw, self._kind.seen)
        self._progress.budgets = now

    def _list(self) -> None:
        """Publish everything that is there, then the end of what is no longer there."""
        if self._budgets is not None:
            self._budgets.tried.wait(BUDGETS_WAIT_S)
            known = self._budgets.known_budgets()
            self._progress.budgets = self._progress.budgets if known is None else known
            self._selecting = by_namespace(self._progress.budgets)
        there: set[str] = set()
        version = None
        for page in self._feed.pages():
            self._answered = True
            version = page.version
            for raw in page.items:
                there.add(self._kind.key(raw) or "")
                self._handle(raw, self._kind.listed)
        for key in self._progress.published.keys() - there:
            self._answer(key, self._kind.gone(self._progress.published[key], None, self._heard()))
        self._progress.version = version
        self._beat()
        self._around.metrics.lists.labels(self._kind.name).inc()

    def _take(self, event: Mapping[str, object]) -> None:
        """Publish one event of a watch, then stand at its version."""
        raw, kind = event.get("object"), event.get("type")
        if kind in ("ADDED", "MODIFIED"):
            self._handle(raw, self._kind.seen)
        elif kind == "DELETED":
            self._handle(raw, self._kind.gone)
        elif kind != "BOOKMARK":
            self._count(f"event type {kind!r:.40}", None)
        self._beat()
        self._progress.version = metadata_text(raw, "resourceVersion") or self._progress.version

    def _handle(self, raw: object, how: Callable[[Published | None, object, Heard], Answer]) -> None:
        key = self._kind.key(raw)
        if key is None:
            self._count(f"metadata.{self._kind.identifier}: missing", None)
            return
        try:
            answer = how(self._progress.published.get(key), raw, self._heard())
        except ValidationError as error:
            self._count(complaint(error), key)
            if how is not self._kind.gone:
                return
            answer = how(self._progress.published.get(key), None, self._heard())
        self._answer(key, answer)

    def _beat(self) -> None:
        """Say of each node that it is still there, if that is due; called when the cluster was heard."""
        now_s = self._around.now_ms() / 1e3
        if not self._kind.beats or 0 <= now_s - self._beat_s < BEAT_S:
            return
        self._beat_s = now_s
        for published in self._progress.published.values():
            if (record := still_there(published, self._heard())) is not None:
                self._send(NODE_USAGE, record)

    def _send(self, topic: Topic, record: Record) -> None:
        message = Message(self._around.now_ms(), message_key(topic, record), orjson.dumps(record))
        self._around.outlet.send(topic.name, message)
        self._around.metrics.records.labels(topic.name).inc()

    def _answer(self, key: str, answer: Answer) -> None:
        for record in answer.records:
            self._send(self._kind.topic, record)
        if answer.published is None:
            self._progress.published.pop(key, None)
        else:
            self._progress.published[key] = answer.published

    def _count(self, reason: str, key: str | None) -> None:
        self._around.metrics.malformed.labels(self._kind.name, reason).inc()
        log.warning("malformed object skipped", kind=self._feed.what, key=key, reason=reason)

    def _heard(self) -> Heard:
        return Heard(self._around.cluster, self._around.now_ms(), self._selecting)

    def _save(self) -> None:
        """Wait until all published records are safe, then save how far that is."""
        self._around.outlet.flush()
        self._progress.save(self._state, self._around.cluster)
        self._saved_s = monotonic()


def complaint(error: ValidationError) -> str:
    """The first thing that is wrong with an object, without numbers or values, so that reasons can be counted."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    return f"{place}: {first['type']}"


def follow_all(followers: Sequence[Follower], stop: Event, until: Until = "stopped") -> None:
    """Run followers concurrently until `stop` is set; when one fails, all stop and its error is raised.

    Raises:
        ClusterRefused: we may not read.
        ClusterUnanswered: only when listing once.
        IngestError: the broker refused records.
    """
    if until == "listed":
        for follower in followers:
            follower.run(stop, until)
        return
    with ThreadPoolExecutor(len(followers)) as pool:
        runs = [pool.submit(_run_to_stop, follower, stop) for follower in followers]
        try:
            while not stop.wait(REFRESH_S):
                for follower in followers:
                    follower.refresh()
        finally:
            stop.set()
            for follower in followers:
                follower.interrupt()
    for run in runs:
        run.result()


def _total(counter: Counter) -> int:
    samples = (sample for metric in counter.collect() for sample in metric.samples)
    return round(sum(sample.value for sample in samples if sample.name.endswith("_total")))


def _run_to_stop(follower: Follower, stop: Event) -> None:
    try:
        follower.run(stop)
    finally:
        stop.set()
