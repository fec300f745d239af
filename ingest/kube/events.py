"""What is published of a cluster, and when: from the objects of a list or a watch to records. Kernel.

The last record published of every object is remembered. A watch makes a record only when that changes. A list publishes
every object, so that a consumer that reads the topics from there knows everything: published records are published
again, with the same key and content. Times of one container grow: where the pod's own time would not, it is a
millisecond after the last.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

import orjson

from ingest.kube.api_types import Node, Pod, Record
from ingest.kube.nodes import node_facts, reported_at
from ingest.kube.pod_disruption import NO_BUDGETS, Budgets, budget_of, columns_of
from ingest.kube.pods import ENDED, changed_at, ended_at, placed_at, placement
from ingest.schema.container_identity import container_id, is_static, uid_of_pod
from ingest.schema.topics import NODES, PLACEMENTS, Topic

IDENTITY = ("cluster", "node", "container", "namespace", "name", "owner", "app", "team", "qos")
"""What a delete still says of a container whose pod is gone."""
BEAT_S = 300
"""So often a watcher that hears of the cluster says of every node that it is still there."""


@dataclass(frozen=True, slots=True)
class Published:
    """What was published last of an object.

    Args:
        event: add, change or delete; of a node add or delete.
        ts_ms: time of that record, milliseconds since 1970.
        digest: of the record's content.
        identity: what a delete must say.
        due_ms: the time set for its deletion, if one is.
        uid: of the API's object; a mirror pod is made anew under another one.
        budget: columns of its disruption budget; of a budget what is remembered of it.
    """

    event: str
    ts_ms: int
    digest: str
    identity: Record
    due_ms: int | None = None
    uid: str = ""
    budget: Record = field(default_factory=dict)


class Heard(NamedTuple):
    """Where and when something was heard, and the disruption budgets that are known.

    The time, in milliseconds, stands in only where an object has none.
    """

    cluster: str
    at_ms: int
    budgets: Budgets = NO_BUDGETS


class Answer(NamedTuple):
    """Records to send, in order, and what is then published of the object; None: forget it."""

    records: list[Record]
    published: Published | None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object.

    Args:
        name: of the resource in the API.
        topic: where its records go.
        identifier: field of an object's metadata that it must have.
        key: what identifies an object.
        seen: what to publish of an object as it is now.
        listed: what to publish of one that stands in a list.
        gone: what to publish of one that was deleted, by its last state, or None where that was not heard.
    """

    name: str
    topic: Topic
    identifier: str
    key: Callable[[object], str | None]
    seen: Callable[[Published | None, object, Heard], Answer]
    listed: Callable[[Published | None, object, Heard], Answer]
    gone: Callable[[Published | None, object, Heard], Answer]
    beats: bool = False
    """Whether each is said to be there again and again, on topic node_usage."""
    optional: bool = False
    """Whether the watcher goes on where the API refuses them."""


def pod_key(raw: object) -> str | None:
    """Id of the container that a pod is, be the rest of it as malformed as it likes; None where it has none."""
    uid, annotations = metadata_text(raw, "uid"), _mapping(_mapping(raw, "metadata"), "annotations")
    texts = {name: value for name, value in annotations.items() if isinstance(value, str)}
    return uid and container_id(uid_of_pod(uid, texts), str(_mapping(raw, "spec").get("nodeName") or ""))


def _mapping(raw: object, name: str) -> dict[str, object]:
    found = raw.get(name) if isinstance(raw, dict) else None
    return found if isinstance(found, dict) else {}


def metadata_text(raw: object, name: str) -> str | None:
    """A field of an object's metadata; None where there is no such text."""
    value = _mapping(raw, "metadata").get(name)
    return value if isinstance(value, str) and value else None


def pod_seen(published: Published | None, raw: object, heard: Heard) -> Answer:
    """Publish a pod that is there: add when it is new, change when its placement changed, delete when it has ended.

    A pod without a node has no placement yet. One that changed after it was placed and is new to us is published twice,
    add and change, so that the newest row holds even where an older add of the same time was landed before.

    Raises:
        pydantic.ValidationError: it is no pod.
    """
    return _publish_pod(published, Pod.model_validate(raw), heard)


def pod_listed(published: Published | None, raw: object, heard: Heard) -> Answer:
    """Publish a pod as `pod_seen` does; an unchanged one is published again.

    Raises:
        pydantic.ValidationError: it is no pod.
    """
    pod = Pod.model_validate(raw)
    answer = _publish_pod(published, pod, heard)
    if answer.records or answer.published is None or answer.published.event == "delete":
        return answer
    last = answer.published
    again = _event(last.event, pod, placement(pod, heard.cluster), last.ts_ms, last.budget)
    return Answer(again.records, last)


def _publish_pod(published: Published | None, pod: Pod, heard: Heard) -> Answer:
    ended = published is not None and published.event == "delete"
    if not pod.spec.node_name or (ended and published is not None and published.uid in ("", pod.metadata.uid)):
        return Answer([], published)
    answer = _standing(published, pod, heard)
    due = _ms(pod.metadata.deletion_timestamp)
    answer = Answer(answer.records, replace(answer.published, due_ms=due) if answer.published else None)
    if pod.status.phase in ENDED:
        return _then_deleted(answer, pod, heard)
    return answer if due is not None else _budgeted(answer, pod, heard)


def _budgeted(answer: Answer, pod: Pod, heard: Heard) -> Answer:
    """Publish a change where the pod's disruption budget is another one, or allows another number, as of now."""
    last, budget = answer.published, columns_of(pod.metadata.namespace, pod.metadata.labels, heard.budgets)
    if last is None or last.budget == budget:
        return answer
    change = _event("change", pod, placement(pod, heard.cluster), _after(last, None, heard), budget)
    return Answer(answer.records + change.records, change.published)


def pod_gone(published: Published | None, raw: object, heard: Heard) -> Answer:
    """Publish the end of a deleted pod, unless it was published already; then forget it.

    The end of a static pod is remembered: its mirror pod may be made anew, which then is its next event.

    Raises:
        pydantic.ValidationError: it is no pod.
    """
    if raw is None:
        known = published is not None and published.event != "delete"
        return Answer([_deletion(published, published.due_ms, heard)] if known and published else [], None)
    pod = Pod.model_validate(raw)
    answer = _then_deleted(_publish_pod(published, pod, heard), pod, heard)
    return answer if is_static(uid_of_pod(pod.metadata.uid, pod.metadata.annotations)) else Answer(answer.records, None)


def node_seen(published: Published | None, raw: object, heard: Heard) -> Answer:
    """Publish a node when what it says of itself changed; its heartbeats publish nothing.

    One that is new to us, or made anew under its name, is published twice, as of its creation and as of its last
    report: it was there in between.

    Raises:
        pydantic.ValidationError: it is no node.
    """
    node = Node.model_validate(raw)
    facts = node_facts(node, heard.cluster)
    digest = digest_of(facts)
    if published is not None and published.event != "delete" and published.digest == digest:
        return Answer([], published)
    ts_ms = _after(published, _ms(reported_at(node.metadata)), heard)
    named: Record = {"cluster": heard.cluster, "node": node.metadata.name}
    described: Record = {**facts, "event": "add"}
    came_ms = _ms(node.metadata.creation_timestamp)
    new = came_ms is not None and (0 if published is None else published.ts_ms) < came_ms < ts_ms
    records = [*([{**described, "ts": came_ms}] if new else []), {**described, "ts": ts_ms}]
    return Answer(records, Published("add", ts_ms, digest, named))


def node_listed(published: Published | None, raw: object, heard: Heard) -> Answer:
    """Publish a node as `node_seen` does; an unchanged one is published again.

    Raises:
        pydantic.ValidationError: it is no node.
    """
    answer = node_seen(published, raw, heard)
    if answer.records or answer.published is None:
        return answer
    facts = node_facts(Node.model_validate(raw), heard.cluster)
    return Answer([{**facts, "event": "add", "ts": answer.published.ts_ms}], answer.published)


def node_gone(published: Published | None, raw: object, heard: Heard) -> Answer:
    """Publish the end of a deleted node, at the time when it was heard of: a node has no time of its own for it.

    The end is remembered until the next list, so that a node made anew under the name comes after it.
    """
    name = published.identity.get("node") if published and published.identity else metadata_text(raw, "name")
    if name is None or (published is not None and published.event == "delete"):
        return Answer([], None)
    named: Record = {"cluster": heard.cluster, "node": name}
    ts_ms = _after(published, None, heard)
    return Answer([{**named, "event": "delete", "ts": ts_ms}], Published("delete", ts_ms, "", named))


def still_there(published: Published, heard: Heard) -> Record | None:
    """A record of topic node_usage that says nothing but that a node is there; None of one that is not."""
    if published.event == "delete" or not published.identity:
        return None
    return {**published.identity, "ts": heard.at_ms, "interval_s": BEAT_S}


def digest_of(content: Record) -> str:
    """A short name of a record's content; the same content has the same name."""
    return blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=12).hexdigest()


def budget_key(raw: object) -> str | None:
    """Namespace and name of a disruption budget; None where it has no name."""
    name = metadata_text(raw, "name")
    return name and f"{metadata_text(raw, 'namespace')}/{name}"


def budget_seen(_published: Published | None, raw: object, heard: Heard) -> Answer:
    """Remember a disruption budget: the records of its pods say what it allows.

    Raises:
        pydantic.ValidationError: it is no budget.
    """
    return Answer([], Published("add", heard.at_ms, "", {}, budget=budget_of(raw)._asdict()))


PODS = Kind("pods", PLACEMENTS, "uid", pod_key, pod_seen, pod_listed, pod_gone)
CLUSTER_NODES = Kind(
    "nodes", NODES, "name", lambda raw: metadata_text(raw, "name"), node_seen, node_listed, node_gone, beats=True
)
BUDGETS = Kind(
    "poddisruptionbudgets",
    PLACEMENTS,
    "name",
    budget_key,
    budget_seen,
    budget_seen,
    lambda *_: Answer([], None),
    optional=True,
)


def _standing(published: Published | None, pod: Pod, heard: Heard) -> Answer:
    content = placement(pod, heard.cluster)
    digest = digest_of(content)
    if published is not None and published.event != "delete" and published.digest == digest:
        return Answer([], replace(published, uid=pod.metadata.uid))
    changed = _changed_ms(pod)
    if published is not None and published.event == "delete":
        return _event("add", pod, content, _after(published, _ms(placed_at(pod)), heard), {})
    if published is not None:
        return _event("change", pod, content, _after(published, changed, heard), published.budget)
    added = _event("add", pod, content, _after(None, _ms(placed_at(pod)), heard), {})
    if changed is None or added.published is None or changed <= added.published.ts_ms:
        return added
    change = _event("change", pod, content, changed, {})
    return Answer(added.records + change.records, change.published)


def _changed_ms(pod: Pod) -> int | None:
    """When the object was last written to, or its pod ended before: a finished pod that is labelled ended no later."""
    times = [changed_at(pod.metadata), ended_at(pod) if pod.status.phase in ENDED else None]
    return _ms(min(time for time in times if time)) if times[0] else None


def _event(event: str, pod: Pod, content: Record, ts_ms: int, budget: Record) -> Answer:
    record = {**content, **budget, "event": event, "ts": ts_ms, "resource_version": pod.metadata.resource_version}
    identity = {name: content[name] for name in IDENTITY if name in content}
    uid = pod.metadata.uid
    return Answer([record], Published(event, ts_ms, digest_of(content), identity, uid=uid, budget=budget))


def _then_deleted(answer: Answer, pod: Pod, heard: Heard) -> Answer:
    published = answer.published
    if published is None or published.event == "delete":
        return answer
    record = _deletion(published, _ms(ended_at(pod)), heard) | {"resource_version": pod.metadata.resource_version}
    ended = replace(published, event="delete", ts_ms=int(str(record["ts"])))
    return Answer([*answer.records, record], ended)


def _deletion(published: Published, own_ms: int | None, heard: Heard) -> Record:
    """A deletion's time is set ahead by the grace period; a pod that went earlier went when we heard of it."""
    ended_ms = None if own_ms is None else min(own_ms, heard.at_ms)
    return {**published.identity, "event": "delete", "ts": _after(published, ended_ms, heard)}


def _after(published: Published | None, own_ms: int | None, heard: Heard) -> int:
    ts_ms = heard.at_ms if own_ms is None else own_ms
    return ts_ms if published is None else max(ts_ms, published.ts_ms + 1)


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)
