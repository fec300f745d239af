"""The stream as files: a folder with `<topic>.log`, in exactly the form that Kafka's own console consumer prints.

`kafka-console-consumer --property print.timestamp=true --property print.key=true` writes one message a line:

    CreateTime:1772366400000<TAB>key<TAB>the message's bytes

The file's name is the topic, its partition is 0 and the line's number, from 0, is the offset. A last line without its
line feed is still being written, and is not read yet.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ingest.schema.batch import MessageBatch, message_batch
from ingest.schema.errors import IngestError
from ingest.schema.provenance import OffsetRange

SUFFIX = ".log"
STAMPS = (b"CreateTime", b"LogAppendTime")
NOTHING = b"null"
"""How a missing key or value is printed."""


class Message(NamedTuple):
    """One line: when the broker received the message, in milliseconds since 1970, its key and its value."""

    arrived_ms: int
    key: bytes | None
    value: bytes | None


def topics_in(folder: Path) -> list[str]:
    """Names of the topics that a folder holds."""
    return sorted(path.name.removesuffix(SUFFIX) for path in folder.glob(f"*{SUFFIX}"))


def topic_path(folder: Path, topic: str) -> Path:
    """File of a topic."""
    return folder / f"{topic}{SUFFIX}"


def parse_line(line: bytes, path: Path, number: int) -> Message:
    """The message on a line.

    Raises:
        IngestError: the line is not in the console consumer's form.
    """
    stamp, _, rest = line.rstrip(b"\n").partition(b"\t")
    key, tab, value = rest.partition(b"\t")
    kind, _, digits = stamp.partition(b":")
    if not tab or kind not in STAMPS or not (digits.isdigit() and len(digits) <= 14):
        raise IngestError(
            f"{path} line {number + 1} is not 'CreateTime:<ms><TAB><key><TAB><message>' but {line[:60]!r}: write the "
            "file with kafka-console-consumer --property print.timestamp=true --property print.key=true"
        )
    return Message(int(digits), None if key == NOTHING else key, None if value == NOTHING else value)


def print_line(message: Message) -> bytes:
    """The line of a message.

    Raises:
        IngestError: the message holds a line feed, or its key a tab.
    """
    key = NOTHING if message.key is None else message.key
    value = NOTHING if message.value is None else message.value
    if b"\n" in value or b"\n" in key or b"\t" in key:
        raise IngestError(
            f"message with key {key[:60]!r} holds a line feed, or its key a tab, and cannot stand on one line: send it "
            "to Kafka, or encode it without them"
        )
    return b"CreateTime:%d\t%b\t%b\n" % (message.arrived_ms, key, value)


def read_messages(path: Path) -> Iterator[Message]:
    """Every whole line of a file, in order."""
    with path.open("rb") as file:
        for number, line in enumerate(file):
            if line.endswith(b"\n"):
                yield parse_line(line, path, number)


def in_order(streams: Iterable[tuple[str, Iterator[Message]]]) -> Iterator[tuple[str, Message]]:
    """Messages of several topics by time, each with its topic; those of one stream stay in their order."""
    named = (zip(repeat(topic), messages) for topic, messages in streams)
    return heapq.merge(*named, key=lambda one: one[1].arrived_ms)


@dataclass(slots=True)
class TopicReader:
    """Reads one topic's file from a line on; the file may grow meanwhile."""

    folder: Path
    topic: str
    line: int = 0
    _file: BinaryIO | None = field(default=None, repr=False)

    def seek(self, line: int) -> None:
        """Go to a line by counting from the first; at most to the end of what is there."""
        self.close()
        self.line = 0
        file = self._open()
        while file is not None and self.line < line and self._whole_line(file):
            self.line += 1

    def read(self, max_records: int, max_bytes: int) -> MessageBatch | None:
        """The next lines, at most so many records and about so many bytes; None when there are none yet."""
        start, left = self.line, max_bytes
        messages: list[Message] = []
        path = topic_path(self.folder, self.topic)
        file = self._open()
        while file is not None and len(messages) < max_records and left > 0 and (line := self._whole_line(file)):
            messages.append(parse_line(line, path, self.line))
            self.line += 1
            left -= len(line)
        if not messages:
            return None
        range_ = OffsetRange(self.topic, 0, start, self.line)
        times, values = [m.arrived_ms for m in messages], [m.value for m in messages]
        return message_batch(range_, list(range(start, self.line)), times, values)

    def unfinished(self) -> bool:
        """Whether the file goes on after the last whole line."""
        file = self._open()
        return file is not None and file.tell() < topic_path(self.folder, self.topic).stat().st_size

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def _open(self) -> BinaryIO | None:
        if self._file is None and (path := topic_path(self.folder, self.topic)).exists():
            self._file = path.open("rb")
        return self._file

    @staticmethod
    def _whole_line(file: BinaryIO) -> bytes:
        before = file.tell()
        line = file.readline()
        if line.endswith(b"\n"):
            return line
        file.seek(before)
        return b""


@dataclass(slots=True)
class TopicWriter:
    """Appends messages to one topic's file."""

    folder: Path
    topic: str

    def write(self, messages: Sequence[Message]) -> None:
        """Append messages at once; a reader sees whole lines only."""
        lines = b"".join(map(print_line, messages))
        self.folder.mkdir(parents=True, exist_ok=True)
        with topic_path(self.folder, self.topic).open("ab") as file:
            file.write(lines)
