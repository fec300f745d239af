"""Newcomers: who is to be placed, and the classes that score alike."""

from collections.abc import Container
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Newcomer:
    """The container to be placed."""

    app: str
    team: str | None = None
    best_effort: bool = False


class NewcomerClass(NamedTuple):
    """What newcomers of one class have in common; an empty app stands for apps that the snapshot does not know."""

    app: str
    best_effort: bool

    def newcomer(self) -> Newcomer:
        """One of them."""
        return Newcomer(self.app, None, self.best_effort)


def class_of(newcomer: Newcomer, apps: Container[str]) -> NewcomerClass:
    """The class of a newcomer among a snapshot's apps."""
    return NewcomerClass(newcomer.app if newcomer.app in apps else "", newcomer.best_effort)
