"""Topic ids: which topic of a name was ingested, so that a recreated one is refused. An edge.

Entry 1 of a topic is the id that was seen first; each later entry was accepted by a person, and the newest counts.
Offsets of a recreated topic start at 0 again, so entry n > 1 has a commit log of its own, under the name `<topic>@<n>`;
Kafka allows no such name for a topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from ingest.lake import manifests as journal
from ingest.lake.layout import Layout, Small, record
from ingest.schema.errors import IngestError


class TopicId(Small, frozen=True):
    """What an entry says: the id that the broker gave the topic (KIP-516); empty from brokers that give none."""

    id: str

    @staticmethod
    def parse(content: bytes) -> "TopicId":
        """Read an entry's JSON."""
        return record(content, TopicId)


@dataclass(frozen=True, slots=True)
class TopicIds:
    """Ids of the topics of one lake.

    Args:
        layout: where things lie.
    """

    layout: Layout

    def recorded(self, topic: str) -> str | None:
        """The id that counts; None where none was seen.

        Raises:
            DamagedLake: the entry cannot be read.
        """
        path = journal.newest(self.layout.topic_ids(topic))[1]
        return journal.parsed(path, TopicId.parse).id if path else None

    def origin(self, topic: str) -> str:
        """The name under which the topic's records are committed, and which its rows carry."""
        number = journal.newest(self.layout.topic_ids(topic))[0]
        return f"{topic}@{number}" if number > 1 else topic

    def recreations(self, topics: Iterable[str]) -> int:
        """How many recreated topics were accepted, of all these names."""
        return sum(max(journal.newest(self.layout.topic_ids(topic))[0] - 1, 0) for topic in topics)

    def check(self, topic: str, found: str) -> None:
        """Compare a topic's id with the one that counts; the first id is recorded.

        Raises:
            IngestError: it is another topic of that name.
        """
        recorded = self.recorded(topic)
        if recorded is None and not self._add(topic, 1, found):
            recorded = self.recorded(topic)
        if recorded and recorded != found:
            raise topic_recreated(topic, recorded, found, f"cohabit lake accept-topic {topic}")

    def accept(self, topic: str, found: str) -> bool:
        """Let ingestion start anew at offset 0 of the topic; False when another process was faster."""
        return self._add(topic, max(journal.newest(self.layout.topic_ids(topic))[0], 1) + 1, found)

    def _add(self, topic: str, number: int, found: str) -> bool:
        return journal.add(self.layout.topic_ids(topic), number, TopicId(found).written())


def topic_recreated(topic: str, recorded: str, found: str, command: str) -> IngestError:
    """A topic was deleted and created again: its offsets are of other records than those ingested."""
    return IngestError(
        f"topic {topic} was recreated: its id is {found}, the ingested one was {recorded}, and offsets start at 0 "
        f"again; if the new topic is meant, run `{command}`"
    )
