"""What a scheduler asks, and what it is answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from advisor.cluster.pending_pod import PendingPod


@dataclass(frozen=True, slots=True)
class Offer:
    """A pending pod and its candidate nodes.

    Args:
        pending_pod: who.
        uid: of the pod; without one nothing is booked.
        names: offered nodes, a name may come twice.
        group: that the pending pod belongs to; empty for none.
        namespace: of the pod.
        template_hash: of what it was made of; empty where it does not say.
        advice: id by which the pod has been assumed since its creation; empty for none.
    """

    pending_pod: PendingPod
    uid: str
    names: Sequence[str]
    group: str = ""
    namespace: str = "default"
    template_hash: str = ""
    advice: str = ""


class Said(NamedTuple):
    """What a source says.

    Args:
        reply: HostPriorityList of the offered nodes as JSON.
        source: that it is counted under.
        reason: why this source, or why neutral; empty for the usual one.
    """

    reply: bytes
    source: str
    reason: str = ""


class Reply(NamedTuple):
    """An answer with its headers."""

    body: bytes
    headers: list[tuple[bytes, bytes]]
