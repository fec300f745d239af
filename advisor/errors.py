"""Errors of the advisor, one class per action a caller can take."""

from pathlib import Path


class AdvisorError(Exception):
    """The advisor cannot answer as asked; the message says what to do."""


class NoSnapshot(AdvisorError):
    """There is no snapshot to score from."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(f"no usable snapshot in {folder}: {reason}; is `cohabit refresh` running and writing there?")


class UnknownNode(AdvisorError):
    """A node that the snapshot does not hold."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"node {node!r} is not in the snapshot: has it sent a message on topic nodes?")


class BadRequest(AdvisorError):
    """A request body that cannot be read."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"cannot read the request: {what}")


class RouteWithoutRole(AdvisorError):
    """A route was added without saying who may call it."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"route {path} declares no role: decorate its function with @allowed(...)")
