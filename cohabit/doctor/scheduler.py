"""Doctor of a running advisor: asks as kube-scheduler does, and looks at what comes back. An edge."""

import http.client
import json
import ssl
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from math import inf
from time import perf_counter

from prometheus_client.parser import text_string_to_metric_families

from cohabit.config.errors import CohabitError
from cohabit.doctor.finding import Finding, ok, problem, warning
from cohabit.doctor.reply import (
    Reply,
    Unreadable,
    header_findings,
    latency_finding,
    reply_findings,
    scores_in,
    spread_finding,
    unknown_app_finding,
    unknown_node_finding,
)
from cohabit.doctor.scheduler_config import parts_of

PATIENCE_S = 5.0
"""What kube-scheduler waits by default: a late answer is awaited as long, to measure its delay."""
MAX_NODES = 500
"""So many candidates kube-scheduler offers in a cluster of 5,000 nodes."""
MAX_LOST = 3
MADE_UP = ("cohabit-doctor-node-0", "cohabit-doctor-node-1")
NO_NODE, NO_APP = "cohabit-doctor-no-such-node", "cohabit-doctor-no-such-app"
REMEDIES = {
    "not_loaded": "it has just started: ask again in a second",
    "no_table": "the first score table is being computed: ask again in some seconds; later restart `cohabit serve`",
    "no_bundle": "run `cohabit model train`, or point COHABIT_REGISTRY at the bundles",
    "no_drift": "remove .drift.json from the registry, and run `cohabit model drift`",
    "no_snapshot": "run `cohabit refresh`, or point COHABIT_SNAPSHOTS at the snapshots",
    "stale": "look at `cohabit refresh` and at the lag of its topics",
    "ahead": "a clock is more than 5 minutes ahead: look at the clocks of those who send metrics",
}
"""By the reason of /readyz."""
LOST = (OSError, http.client.HTTPException)


@dataclass(frozen=True, slots=True)
class Wish:
    """What to examine.

    Args:
        url: of the prioritize call.
        people: the management API, which gives reasons.
        nodes: to offer; the advisor's own when empty.
        app: of the pod that asks.
        requests: to time.
        timeout_ms: how long the scheduler waits.
        max_age_s: from which on a snapshot is not believed.
    """

    url: str
    people: str
    nodes: tuple[str, ...]
    app: str
    requests: int
    timeout_ms: float
    max_age_s: float
    tls: tuple[str, ...] = ()


def checked_url(url: str) -> str:
    """An http URL without a slash at its end.

    Raises:
        CohabitError: it is none.
    """
    if not parts_of(url).scheme:
        raise CohabitError(
            f"{url!r} is no address of a listener: write http://127.0.0.1:8081, as `cohabit serve` prints it"
        )
    return url.rstrip("/")


class Caller:
    """One kept connection, as a scheduler has."""

    def __init__(self, url: str, tls: Sequence[str] = ()) -> None:
        parts = parts_of(url)
        self.url, self._path = url, parts.path
        host, port = parts.hostname or "", parts.port
        if parts.scheme == "https":
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=PATIENCE_S, context=_shown(tls)
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)

    def close(self) -> None:
        """Hang up."""
        self._connection.close()

    def post(self, body: bytes) -> Reply:
        """Send a request to the URL."""
        return self._asked("POST", self._path, body)

    def get(self, path: str) -> Reply:
        """Read another path of the same listener, over a connection of its own: an idle one would be cut."""
        self.close()
        return self._asked("GET", path, b"")

    def _asked(self, method: str, path: str, body: bytes) -> Reply:
        began = perf_counter()
        try:
            self._connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            read = answer.read()
        except LOST:
            self._connection.close()
            raise
        took_ms = 1000 * (perf_counter() - began)
        return Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, read, took_ms)


def _shown(tls: Sequence[str]) -> ssl.SSLContext:
    """Trust and certificate of a scheduler; without files what the system trusts, and nothing to show.

    Raises:
        CohabitError: a file cannot be used.
    """
    if not tls:
        return ssl.create_default_context()
    trusted, certificate, key = tls
    try:
        context = ssl.create_default_context(cafile=trusted)
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise CohabitError(
            f"tlsConfig cannot be used ({error}): {', '.join(tls)} must be PEM files here too"
        ) from error
    return context


def request_of(app: str, nodes: Sequence[str]) -> bytes:
    """ExtenderArgs as kube-scheduler sends them with nodeCacheCapable: true.

    The pod has no uid, so that the advisor books nothing for it.
    """
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-7d4b9c6f58", "uid": "", "controller": True}
    labels = {"app": app, "pod-template-hash": "7d4b9c6f58"}
    meta = {"name": f"{app}-7d4b9c6f58-x2k8q", "namespace": "default", "labels": labels, "ownerReferences": [owner]}
    pod = {"metadata": meta, "spec": {"containers": []}, "status": {"phase": "Pending"}}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}).encode()


def examine(wish: Wish) -> Iterator[Finding]:
    """All findings on a running advisor; one that cannot be reached ends them."""
    with closing(Caller(wish.url, wish.tls)) as scheduler, closing(Caller(wish.people)) as people:
        try:
            reply = scheduler.get("/watcher")
        except LOST as error:
            yield problem("listener", f"{wish.url} cannot be reached ({error}): {_what_to_do(error)}")
            return
        yield _readiness(people)
        known = _nodes_in(reply)
        yield _nodes(wish.nodes, known)
        before = _answers(people)
        yield from _asked(scheduler, wish, (wish.nodes or known or MADE_UP)[:MAX_NODES])
        yield _sources(before, _answers(people))


def _what_to_do(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return "caFile must have signed the listener's certificate, and COHABIT_ADVISOR__SCHEDULER_CLIENT_CA certFile"
    if isinstance(error, http.client.RemoteDisconnected):
        return "where it has certificates, ask by https, with --config"
    return "`cohabit serve` prints where it listens"


def _asked(scheduler: Caller, wish: Wish, nodes: tuple[str, ...]) -> Iterator[Finding]:
    body, strange = request_of(wish.app, nodes), (*nodes, NO_NODE)
    try:
        reply = scheduler.post(body)
        with_unknown = scheduler.post(request_of(wish.app, strange))
        first = scheduler.post(request_of(NO_APP, nodes))
    except LOST as error:
        yield problem("answer", f"none within {PATIENCE_S:g} s ({error}): is the machine overloaded?")
        return
    yield from reply_findings(reply, nodes)
    try:
        scores = scores_in(reply, nodes)
    except Unreadable:
        return
    yield from header_findings(reply, wish.max_age_s)
    yield spread_finding(scores)
    yield unknown_node_finding(with_unknown, strange)
    yield unknown_app_finding(first, nodes)
    yield latency_finding(_timed(scheduler, body, wish.requests), wish.timeout_ms, len(nodes))


def _timed(scheduler: Caller, body: bytes, requests: int) -> list[float]:
    """Milliseconds of each request, infinite where none came; a few of those are enough."""
    took_ms: list[float] = []
    while len(took_ms) < requests and took_ms.count(inf) < MAX_LOST:
        took_ms.append(_took_ms(scheduler, body))
    return took_ms


def _took_ms(scheduler: Caller, body: bytes) -> float:
    try:
        reply = scheduler.post(body)
    except LOST:
        return inf
    return reply.took_ms if reply.status == 200 else inf


def _nodes_in(reply: Reply) -> tuple[str, ...]:
    try:
        return tuple(json.loads(reply.body)["data"]["NodeMetricsMap"])
    except (ValueError, KeyError, TypeError):
        return ()


def _nodes(named: tuple[str, ...], known: tuple[str, ...]) -> Finding:
    """Whether the offered nodes are the advisor's: a node under another name gets no score of its own."""
    if not known:
        return warning("nodes", "the advisor lists none (none is loaded, or their use is unknown)")
    strangers = [name for name in named if name not in set(known)]
    if strangers:
        rename = f"records on topic nodes must name them as Kubernetes does, as they do {known[0]}"
        message = f"{len(strangers)} of {len(named)} named ones are not known, {strangers[0]} among them: {rename}"
        return (problem if len(strangers) == len(named) else warning)("nodes", message)
    return ok("nodes", f"{len(known)} known, of which {min(len(named or known), MAX_NODES)} are offered")


def _readiness(people: Caller) -> Finding:
    try:
        reply = people.get("/readyz")
        said = json.loads(reply.body)
        status, reason = str(said["status"]), str(said["reason"])
    except (*LOST, ValueError, KeyError, TypeError) as error:
        return warning(
            "readiness", f"{people.url}/readyz does not say ({error!r}): name that listener with --people-url"
        )
    if status == "ready":
        return ok("readiness", f"answers come from a model over a fresh snapshot; {_looked_at(said)}")
    remedy = REMEDIES.get(reason, "see the advisor's log")
    if status == "by_load":
        return warning(
            "readiness", "labels do not bear the model out, nodes are compared by load: `cohabit model drift`"
        )
    if status == "last_good":
        return warning("readiness", f"something newer was refused ({reason}), the last good one answers: {remedy}")
    return problem("readiness", f"all answers are neutral ({reason}): {remedy}")


def _looked_at(said: Mapping[str, str]) -> str:
    """How much of the cluster has labels, as /readyz has it."""
    share = str(said.get("looked_at", "unknown"))
    if share == "unknown":
        return "how much of running container time has labels is unknown: run `cohabit victims --publish`"
    return f"labels cover {share} of running container time: `cohabit doctor labels` says why not the rest"


def _answers(people: Caller) -> Counter[tuple[str, str]] | None:
    """How often each source has answered, and why; None where that is not reported."""
    try:
        text = people.get("/metrics").body.decode()
        families = list(text_string_to_metric_families(text))
    except (*LOST, ValueError):
        return None
    samples = (s for family in families for s in family.samples if s.name == "cohabit_score_requests_total")
    return Counter({(s.labels.get("source", ""), s.labels.get("reason", "")): int(s.value) for s in samples})


def _sources(before: Counter[tuple[str, str]] | None, after: Counter[tuple[str, str]] | None) -> Finding:
    if before is None or after is None:
        return warning("source", "/metrics does not say who answered: name its listener with --people-url")
    new = after - before
    if not new:
        return warning("source", "no answer was counted: is --people-url a listener of another process?")
    said = ", ".join(f"{' '.join(filter(None, key))} {count}" for key, count in new.most_common())
    if any(source == "neutral" for source, _ in new):
        return warning(
            "source", f"{said} (others' requests among them): docs/scores.md says what to do for each reason"
        )
    return ok("source", f"{said} (others' requests among them)")
