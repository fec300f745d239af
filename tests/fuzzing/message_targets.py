"""Targets: messages of brokers, objects of Kubernetes, and what other servers and schedulers ask and answer."""

import asyncio
import json
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from starlette.datastructures import Headers

from advisor.admission.admission_advice import AdmissionAdvice
from advisor.admission.room_file import NewestRooms
from advisor.api.app import create_app
from advisor.api.scheduler.admission import create_admission_app
from advisor.api.scheduler.scheduler_app import create_scheduler_app
from advisor.placement.prioritizer import Prioritizer
from advisor.ui.site.forms import KIND, UnreadableForm, fields
from cohabit.doctor.reply import Reply, Unreadable, scores_in
from cohabit.plans.dry_run import _answer as answer_of
from ingest.decode.formats.format_registry import FORMATS, decoder_named
from ingest.kafka_io.stream_files import Message
from ingest.kube.events import CLUSTER_NODES, PODS, Kind
from ingest.kube.list_watch import Feed
from ingest.kube.watcher import Follower, Surroundings, WatchMetrics
from tests.advisor.admission.reviews import review
from tests.advisor.processes import new_process
from tests.fuzzing.target import Refused, Target
from tests.ingest.api_server import a_node, a_pod
from tests.ingest.foreign import FOREIGN, TS, context
from tests.ingest.mutations import check
from tests.ingest.samples_of import MESSAGES

GOLDEN = Path(__file__).parents[1] / "golden"
WHERE = {"cluster": "c", "node": "n1", "ts": TS}
OF = {**WHERE, "container": "u1"}
NATIVE: dict[str, dict[str, object]] = {
    "usage": {**OF, "interval_s": 30.0, "cpu_cores": 1.5, "qos": "LS"},
    "samples": {**OF, "metric": "qps", "kind": "gauge", "value": 2.5, "series": "a"},
    "node_usage": {**WHERE, "interval_s": 30.0, "cpu_frac": 0.5},
    "nodes": {**WHERE, "cores": 8.0, "memory_bytes": 1e9, "labels": {"a": "b"}, "taints": ["a=b:NoSchedule"]},
    "live_state": {**OF, "heard_at": TS, "samples": 2, "cpu_cores": 1.5, "qos": "LS"},
    "placements": {**OF, "event": "add", "app": "web", "qos": "LS", "cpuset": "0-1", "affinity": "{}"},
}


def message_targets(folder: Path) -> Iterator[Target]:
    """All of them."""
    yield from (_format(name) for name in FOREIGN)
    yield from (_native(name.removeprefix("native-")) for name in FORMATS if name.startswith("native-"))
    yield _watched("kube pods", PODS, a_pod("u1"), folder)
    yield _watched("kube nodes", CLUSTER_NODES, a_node("n1"), folder)
    yield _listed(folder)
    yield from _requests(folder)
    form = b"version=1&steps=1&steps=2&reason=it+is+late&text=%C3%A9%0A"
    yield Target("form", "advisor.ui.site.forms", (form,), _form, (UnreadableForm,))
    reply = json.dumps([{"Host": "n0", "Score": 7}, {"Host": "n1", "Score": 0}]).encode()
    yield Target("scheduler reply", "cohabit.doctor.reply", (reply,), _scores, (Unreadable,))
    status = {"kind": "Status", "message": "no", "details": {"causes": [{"reason": "DisruptionBudget"}]}, "code": 429}
    yield Target(
        "eviction reply", "cohabit.plans.dry_run", (json.dumps(status).encode(),), lambda of: answer_of(1, 429, of)
    )


def _format(name: str) -> Target:
    decode = decoder_named(name)

    def read(message: bytes) -> None:
        check([message], decode(pa.array([message], pa.binary()), context(1)))

    return Target(f"messages {name}", "ingest.decode.formats.format_registry", tuple(MESSAGES[name]), read)


def _native(name: str) -> Target:
    decode = decoder_named(f"native-{name}")

    def read(message: bytes) -> None:
        result = decode(pa.array([message], pa.binary()), context(1))
        result.rows.validate(full=True)
        if not result.rows.num_rows:
            assert result.rejects.num_rows, "dropped in silence"
            raise Refused("set aside")

    good = NATIVE.get(name)
    batch = () if good is None else (orjson.dumps(good), orjson.dumps([good, good]))
    return Target(f"messages native-{name}", "ingest.decode.formats.native", batch or (b"{}",), read, (Refused,))


class _Nowhere:
    """An outlet that forgets."""

    def send(self, topic: str, message: Message) -> None:
        pass

    def flush(self) -> None:
        pass


class _Answered:
    """What a client of Kubernetes hands over."""

    status, reason = 200, ""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self) -> bytes:
        return self.content

    def stream(self, amt: object) -> Iterator[bytes]:
        yield self.content

    def release_conn(self) -> None:
        pass

    def close(self) -> None:
        pass

    def shutdown(self) -> None:
        pass


def _watched(name: str, kind: Kind, good: dict[str, Any], folder: Path) -> Target:
    """Lines of a watch, told by one follower after another, so that what one line left does not hide the next."""
    around = Surroundings("c", _Nowhere(), lambda: TS * 1000, WatchMetrics(CollectorRegistry()))
    state = folder / f"{kind.name}.json"

    def read(line: bytes) -> None:
        feed = Feed(kind.name, lambda **_: _Answered(line + b"\n"), 500)
        follower = Follower(kind, feed, state, around)
        for event in feed.events("1", _NeverSet()):  # type: ignore[arg-type]  # all that is asked of it
            follower._take(event)
        follower._save()
        state.unlink()

    events = tuple(orjson.dumps({"type": of, "object": good}) for of in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK"))
    return Target(name, "ingest.kube.watcher", events, read, _feed_errors())


class _NeverSet:
    def is_set(self) -> bool:
        return False


def _feed_errors() -> tuple[type[Exception], ...]:
    from ingest.schema.errors import ClusterRefused, ClusterUnanswered, PositionExpired

    return PositionExpired, ClusterRefused, ClusterUnanswered


def _listed(folder: Path) -> Target:
    around = Surroundings("c", _Nowhere(), lambda: TS * 1000, WatchMetrics(CollectorRegistry()))

    def read(content: bytes) -> None:
        pages = iter((content, b'{"metadata": {"resourceVersion": "7"}, "items": []}'))
        feed = Feed("pods", lambda **_: _Answered(next(pages)), 500)
        Follower(PODS, feed, folder / "none.json", around)._list()

    pages = [{"metadata": {"resourceVersion": "7", "continue": more}, "items": [a_pod("u1")]} for more in ("", "x")]
    return Target("kube list", "ingest.kube.list_watch", tuple(map(orjson.dumps, pages)), read, _feed_errors())


def _requests(folder: Path) -> Iterator[Target]:
    process = new_process(folder / "none", folder / "serving")
    prioritizer = Prioritizer(process.serving)
    people, schedulers = create_app(process.serving), create_scheduler_app(prioritizer)
    webhook = create_admission_app(AdmissionAdvice(prioritizer, NewestRooms(folder), "advise", str))
    score = {"app": "web", "team": "blue", "best_effort": True, "nodes": ["n0", "n1"]}
    need = {"cpu": {"request": 2.0, "use": 1.0}, "memory": {"request": 4}}
    new = {"team": "shop", "app": "web", "node": "n0", "resources": need, "hours": 3, "tier": "LS"}
    runs = {"container": "web-1", "resources": {"cpu": {"use": 0.5}}, "move_to": "n1", "hours": 2}
    told = {"uid": "u", "node": "n0", "app": "web", "best_effort": False, "age_us": 5, "group": "g", "team": "t"}
    decide = {"version": 1, "steps": [1, 2]}
    member = {"name": "w", "app": "web", "count": 2, "cpu_cores": 1.5, "devices": 1}
    gang = {"gang": "g", "members": [member], "topology": {"level": "rack", "mode": "preferred"}, "dry_run": True}
    asked: dict[str, tuple[FastAPI, list[bytes]]] = {
        "/extender/prioritize": (schedulers, _golden("prioritize-*.request.json")),
        "/extender/filter": (schedulers, _golden("prioritize-*.request.json")),
        "/volcano/prioritize": (schedulers, _golden("volcano-*.request.json")),
        "/assumed-pods": (schedulers, [orjson.dumps([told, told | {"left": True}])]),
        "/assumed-pods/query": (schedulers, [orjson.dumps(["n0", "n1"])]),
        "/admission": (webhook, [review()]),
        "/v1/scores": (people, [orjson.dumps(score)]),
        "/v1/quotes": (people, [orjson.dumps(new), orjson.dumps(runs)]),
        "/v1/gangs": (people, [orjson.dumps(gang)]),
        "/v1/gangs/a1/renew": (people, [orjson.dumps({"bound": [{"uid": "u", "node": "n0"}], "failed": ["v"]})]),
        "/v1/plans/p1/approve": (people, [orjson.dumps(decide)]),
        "/v1/plans/p1/reject": (people, [orjson.dumps({"version": 1, "reason": "why"})]),
        "/v1/plans/p1/export": (people, [orjson.dumps({"version": 1, "form": "plain"})]),
    }
    for path, (app, good) in asked.items():
        own = "scheduler_app" if app is schedulers else "admission"
        module = "advisor.api.app" if app is people else f"advisor.api.scheduler.{own}"
        yield Target(f"POST {path}", module, tuple(good), _posted(app, path), (Refused,))


def _golden(pattern: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted(GOLDEN.glob(pattern))]


def _posted(app: FastAPI, path: str) -> Callable[[bytes], None]:
    def read(body: bytes) -> None:
        status = asyncio.run(_status(app, path, body))
        assert status < 500 or status == 503, status
        if status in {400, 413, 422}:
            raise Refused(str(status))

    return read


async def _status(app: FastAPI, path: str, body: bytes) -> int:
    """What the app answers, asked without a client, which would take ten times as long."""
    headers = [(b"content-type", b"application/json"), (b"host", b"x"), (b"content-length", b"%d" % len(body))]
    http = {"type": "http", "http_version": "1.1", "asgi": {"version": "3.0"}, "method": "POST", "scheme": "http"}
    where = {"path": path, "raw_path": path.encode(), "root_path": "", "query_string": b""}
    said: list[MutableMapping[str, Any]] = []
    asked = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> MutableMapping[str, Any]:
        if (message := next(asked, None)) is None:
            await asyncio.sleep(3600)  # nobody hangs up
        return message or {}

    async def send(message: MutableMapping[str, Any]) -> None:
        said.append(message)

    await app({**http, **where, "headers": headers, "client": ("x", 1), "server": ("x", 1)}, receive, send)
    return int(said[0]["status"])


def _form(body: bytes) -> object:
    return fields(Headers({"content-type": KIND}), body)


def _scores(body: bytes) -> object:
    return scores_in(Reply(200, {}, body, 1.0), ["n0", "n1"])
