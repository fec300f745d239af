"""What is told of a cluster, and when: from the objects of a list or a watch to records. Kernel.

Of every object it is remembered what was told last. A watch makes a record only when that changes. A list tells all
that stands, so that whoever reads the topics from there knows everything: what was told before is told again, with the
same key and content. Times of one container grow: where the pod's own time would not, it is a millisecond after the
last.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b
from typing import NamedTuple

import orjson

from ingest.kube.api_types import Node, Pod
from ingest.kube.nodes import node_facts, told_at
from ingest.kube.pods import Record, changed_at, ended_at, placed_at, placement
from ingest.schema.topics import NODES, PLACEMENTS, Topic

ENDED = ("Succeeded", "Failed")
IDENTITY = ("cluster", "node", "container", "namespace", "name", "owner", "app", "team", "qos")
"""What a delete still says of a container whose pod is gone."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was told last of an object.

    Args:
        event: add, change or delete; of a node add.
        ts_ms: time of that record, milliseconds since 1970.
        digest: of the record's content.
        identity: what a delete must say; empty for a node.
        due_ms: the time set for its deletion, if one is.
    """

    event: str
    ts_ms: int
    digest: str
    identity: Record
    due_ms: int | None = None


class Heard(NamedTuple):
    """Where and when something was heard; the time, in milliseconds, stands in only where an object has none."""

    cluster: str
    at_ms: int


class Answer(NamedTuple):
    """Records to send, in order, and what is now told of the object; None: forget it."""

    records: list[Record]
    told: Told | None


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of object.

    Args:
        name: of the resource in the API.
        topic: where its records go.
        key: what tells objects apart, a field of their metadata.
        seen: what to tell of an object as it is now.
        listed: what to tell of one that stands in a list.
        gone: what to tell of one that was deleted, by its last state, or None where that was not heard.
    """

    name: str
    topic: Topic
    key: str
    seen: Callable[[Told | None, object, Heard], Answer]
    listed: Callable[[Told | None, object, Heard], Answer]
    gone: Callable[[Told | None, object, Heard], Answer]

    def key_of(self, raw: object) -> str | None:
        """The key of an object, be the rest of it as malformed as it likes; None where it has none."""
        return metadata_text(raw, self.key)


def metadata_text(raw: object, name: str) -> str | None:
    """A field of an object's metadata; None where there is no such text."""
    meta = raw.get("metadata") if isinstance(raw, dict) else None
    value = meta.get(name) if isinstance(meta, dict) else None
    return value if isinstance(value, str) and value else None


def pod_seen(told: Told | None, raw: object, heard: Heard) -> Answer:
    """Tell a pod that is there: add when it is new, change when its placement changed, delete when it has ended.

    A pod without a node has no placement yet. One that changed after it was placed and is new to us is told twice, add
    and change, so that the newest row holds even where an older add of the same time was landed before.

    Raises:
        pydantic.ValidationError: it is no pod.
    """
    return _tell_pod(told, Pod.model_validate(raw), heard)


def pod_listed(told: Told | None, raw: object, heard: Heard) -> Answer:
    """Tell a pod as `pod_seen` does; one that stands as it was told is told again.

    Raises:
        pydantic.ValidationError: it is no pod.
    """
    pod = Pod.model_validate(raw)
    answer = _tell_pod(told, pod, heard)
    if answer.records or answer.told is None or answer.told.event == "delete":
        return answer
    again = _event(answer.told.event, pod, placement(pod, heard.cluster), answer.told.ts_ms)
    return Answer(again.records, answer.told)


def _tell_pod(told: Told | None, pod: Pod, heard: Heard) -> Answer:
    if not pod.spec.node_name or (told is not None and told.event == "delete"):
        return Answer([], told)
    answer = _standing(told, pod, heard)
    due = _ms(pod.metadata.deletion_timestamp)
    answer = Answer(answer.records, replace(answer.told, due_ms=due) if answer.told else None)
    return _then_deleted(answer, pod, heard) if pod.status.phase in ENDED else answer


def pod_gone(told: Told | None, raw: object, heard: Heard) -> Answer:
    """Tell a pod that was deleted, unless its end was told already; then forget it.

    Raises:
        pydantic.ValidationError: it is no pod.
    """
    if raw is None:
        return Answer([] if told is None or told.event == "delete" else [_deletion(told, told.due_ms, heard)], None)
    pod = Pod.model_validate(raw)
    return Answer(_then_deleted(_tell_pod(told, pod, heard), pod, heard).records, None)


def node_seen(told: Told | None, raw: object, heard: Heard) -> Answer:
    """Tell a node when what it says of itself changed; its heartbeats tell nothing.

    Raises:
        pydantic.ValidationError: it is no node.
    """
    node = Node.model_validate(raw)
    facts = node_facts(node, heard.cluster)
    digest = digest_of(facts)
    if told is not None and told.digest == digest:
        return Answer([], told)
    ts_ms = _after(told, _ms(told_at(node.metadata)), heard)
    return Answer([{**facts, "ts": ts_ms}], Told("add", ts_ms, digest, {}))


def node_listed(told: Told | None, raw: object, heard: Heard) -> Answer:
    """Tell a node as `node_seen` does; one that is as it was told is told again.

    Raises:
        pydantic.ValidationError: it is no node.
    """
    answer = node_seen(told, raw, heard)
    if answer.records or answer.told is None:
        return answer
    facts = node_facts(Node.model_validate(raw), heard.cluster)
    return Answer([{**facts, "ts": answer.told.ts_ms}], answer.told)


def node_gone(_told: Told | None, _raw: object, _heard: Heard) -> Answer:
    """Forget a node. Table `nodes` says what nodes are like, not that they are there; no record tells of their end."""
    return Answer([], None)


def digest_of(content: Record) -> str:
    """A short name of a record's content; the same content has the same name."""
    return blake2b(orjson.dumps(content, option=orjson.OPT_SORT_KEYS), digest_size=12).hexdigest()


PODS = Kind("pods", PLACEMENTS, "uid", pod_seen, pod_listed, pod_gone)
CLUSTER_NODES = Kind("nodes", NODES, "name", node_seen, node_listed, node_gone)


def _standing(told: Told | None, pod: Pod, heard: Heard) -> Answer:
    content = placement(pod, heard.cluster)
    digest = digest_of(content)
    if told is not None and told.digest == digest:
        return Answer([], told)
    changed = _ms(changed_at(pod.metadata))
    if told is not None:
        return _event("change", pod, content, _after(told, changed, heard))
    added = _event("add", pod, content, _after(None, _ms(placed_at(pod)), heard))
    if changed is None or added.told is None or changed <= added.told.ts_ms:
        return added
    change = _event("change", pod, content, changed)
    return Answer(added.records + change.records, change.told)


def _event(event: str, pod: Pod, content: Record, ts_ms: int) -> Answer:
    record = {**content, "event": event, "ts": ts_ms, "resource_version": pod.metadata.resource_version}
    identity = {name: content[name] for name in IDENTITY if name in content}
    return Answer([record], Told(event, ts_ms, digest_of(content), identity))


def _then_deleted(answer: Answer, pod: Pod, heard: Heard) -> Answer:
    told = answer.told
    if told is None or told.event == "delete":
        return answer
    record = _deletion(told, _ms(ended_at(pod)), heard) | {"resource_version": pod.metadata.resource_version}
    ended = replace(told, event="delete", ts_ms=int(str(record["ts"])))
    return Answer([*answer.records, record], ended)


def _deletion(told: Told, own_ms: int | None, heard: Heard) -> Record:
    """A deletion's time is set ahead by the grace period; a pod that went earlier went when we heard of it."""
    ended_ms = None if own_ms is None else min(own_ms, heard.at_ms)
    return {**told.identity, "event": "delete", "ts": _after(told, ended_ms, heard)}


def _after(told: Told | None, own_ms: int | None, heard: Heard) -> int:
    ts_ms = heard.at_ms if own_ms is None else own_ms
    return ts_ms if told is None else max(ts_ms, told.ts_ms + 1)


def _ms(time: datetime | None) -> int | None:
    return None if time is None else round(time.timestamp() * 1000)
