"""Where rows in the lake come from: a stretch of a topic, or a numbered batch of a job. Facts."""

import re
from dataclasses import dataclass

from ingest.schema.errors import IngestError

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
_RECREATED = re.compile(r"@[0-9]{1,12}\Z")


def checked_name(name: str) -> str:
    """The name itself, when it can be a Kafka topic or a folder; raises IngestError otherwise."""
    if not _NAME.fullmatch(name):
        raise _bad_name(name)
    return name


def checked_origin(name: str) -> str:
    """The name itself, when it can be a topic's, or a recreated topic's (`usage@2`); raises IngestError otherwise."""
    checked_name(_RECREATED.sub("", name))
    return name


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """A landed range of a topic's partition: positions start (read from) to end (read to, exclusive).

    Offsets have holes, so `end` is the consumer's position after the batch, not the last offset plus one.
    """

    topic: str
    partition: int
    start: int
    end: int

    def __post_init__(self) -> None:
        checked_origin(self.topic)
        if not 0 <= self.start <= self.end or self.partition < 0:
            raise _bad_name(f"{self.topic}[{self.partition}] {self.start}..{self.end}")


@dataclass(frozen=True, slots=True)
class BatchId:
    """One numbered batch of a job; writing it twice writes it once."""

    job: str
    batch: int

    def __post_init__(self) -> None:
        checked_name(self.job)


def _bad_name(name: str) -> IngestError:
    return IngestError(f"{name!r} cannot name a place in the lake: letters, digits, '.', '_' and '-' only")
