"""Offers: what a scheduler asks, whatever its protocol, as prioritizing names it."""

from collections.abc import Sequence

from advisor.api.scheduler.groups import group_of
from advisor.api.scheduler.pod_types import Object, newcomer_of
from advisor.placement.prioritizer import Offer
from ingest.schema.workload_identity import template_hash


def offer_to(pod: Object, uid: str, names: Sequence[str]) -> Offer:
    """A pod, with the uid that its scheduler knows it by, and the nodes where it may go."""
    meta = pod.metadata
    return Offer(newcomer_of(pod), uid, names, group_of(pod), meta.namespace, template_hash(meta.labels or {}))
