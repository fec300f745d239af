"""Errors of the ingest package: a class for what a caller catches, a message for all else."""

from collections.abc import Sequence
from pathlib import Path


class IngestError(Exception):
    """Something in ingest cannot go on; the message says what to do."""


class FetchFailed(IngestError):
    """Jars could not be fetched, or are not the bytes that were listed."""

    def __init__(self, coordinates: Sequence[str], output: str) -> None:
        because = f"the last try printed:\n{output[-2000:]}" if output.strip() else "no tool printed a reason"
        super().__init__(
            f"{len(coordinates)} jars could not be fetched as listed in ingest/devkafka/jars.sha256, first "
            f"{coordinates[0]}. "
            "Check the network, or the mirror in your Maven settings; without mvn on PATH the extra `spark` must be "
            f"installed, which brings Ivy. Then run `python -m ingest.devkafka.jars` again; {because}"
        )


class DamagedLake(IngestError):
    """A file that counts cannot be read."""

    def __init__(self, path: Path | str, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read ({reason}): restore it from a copy; nothing else of the lake is harmed"
        )


class ClusterRefused(IngestError):
    """The API server does not let us read, or is none."""

    def __init__(self, what: str, status: int, reason: str) -> None:
        self.status, self.reason = status, reason
        super().__init__(
            f"the API server refuses to list {what} with {status} ({reason}): grant get, list and watch on pods and "
            "nodes, as `cohabit watch --help` shows, and check the address in the configuration"
        )


class ClusterUnanswered(IngestError):
    """The API server cannot be reached, failed, or broke off; worth trying again."""

    def __init__(self, what: str, reason: str, status: int | None = None) -> None:
        self.reason, self.status = reason, status
        super().__init__(
            f"the API server gave no {what} ({reason}): check that it runs and can be reached, then try again"
        )


class PositionExpired(IngestError):
    """The API server no longer knows what came after a version, or a watch cannot be read on: list again."""

    def __init__(self, what: str, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the watch of {what} cannot go on ({reason}): list them again")
