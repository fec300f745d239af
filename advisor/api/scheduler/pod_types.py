"""Pods as schedulers send them: the part of Kubernetes' objects that is read, and who a pod is."""

import msgspec

from advisor.cluster.pending_pod import Newcomer
from ingest.schema.workload_identity import Owner, PodFacts, identify


class OwnerReference(msgspec.Struct):
    """The part of a pod's owner reference that is read."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None
    apiVersion: str = ""  # noqa: N815


class Metadata(msgspec.Struct):
    """The part of an object's metadata that is read; Go writes nil maps and slices as null."""

    name: str = ""
    uid: str = ""
    namespace: str = "default"
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    ownerReferences: list[OwnerReference] | None = None  # noqa: N815


class Object(msgspec.Struct):
    """A pod or node, of which only the metadata is read, and of a pod's spec its group."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    spec: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


def newcomer_of(pod: Object) -> Newcomer:
    """Who the pod is."""
    meta = pod.metadata
    owners = [Owner(o.kind, o.name, bool(o.controller), o.apiVersion) for o in meta.ownerReferences or []]
    identity = identify(PodFacts(meta.name, meta.namespace, meta.labels or {}, owners))
    return Newcomer(identity.app, identity.team, identity.best_effort)
