"""Pending pods, and the pod classes that get the same scores."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class PendingPod:
    """The container to be placed."""

    app: str
    team: str | None = None
    best_effort: bool = False


class PodClass(NamedTuple):
    """What pending pods of one class have in common.

    Args:
        app: empty for all apps that the snapshot does not know.
        best_effort: their class.
        team: of an app that the snapshot does not know; empty for one that it does, and for all teams it does not.
    """

    app: str
    best_effort: bool
    team: str = ""

    def pending_pod(self) -> PendingPod:
        """One of them."""
        return PendingPod(self.app, self.team or None, self.best_effort)

    def is_known(self, apps: Collection[str], teams: Collection[str]) -> bool:
        """Whether a snapshot with these apps and teams distinguishes it from the class of unknown pods."""
        return self.app in apps if self.app else self.team in teams


def class_of(pending_pod: PendingPod, apps: Collection[str], teams: Collection[str]) -> PodClass:
    """The class of a pending pod among a snapshot's apps and teams."""
    if pending_pod.app in apps:
        return PodClass(pending_pod.app, pending_pod.best_effort)
    team = pending_pod.team if pending_pod.team in teams else None
    return PodClass("", pending_pod.best_effort, team or "")
