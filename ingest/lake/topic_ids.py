"""Topic ids: which topic of a name was ingested, so that a recreated one is refused. An edge.

Entry 1 of a topic is the id that was seen first; each later entry was accepted by a person, and the newest counts.
Offsets of a recreated topic start at 0 again, so entry n > 1 has positions of its own, under the name `<topic>@<n>`;
Kafka allows no such name for a topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ingest.lake.fence import again_if_taken
from ingest.lake.tables import Lake
from ingest.schema.errors import IngestError
from ingest.schema.provenance import checked_name
from ingest.schema.tables import TOPIC_IDS


@dataclass(frozen=True, slots=True)
class TopicIds:
    """Ids of the topics of one lake.

    Args:
        lake: where they are kept.
    """

    lake: Lake

    def recorded(self, topic: str) -> str | None:
        """The id that counts (KIP-516), empty from brokers that give none; None where none was seen."""
        number = self._number(topic)
        return self._entry(topic, number) if number else None

    def origin(self, topic: str) -> str:
        """The name under which the topic's records are committed, and which its rows carry."""
        number = self._number(topic)
        return f"{topic}@{number}" if number > 1 else topic

    def id_of(self, origin: str) -> str | None:
        """The id of the topic that was committed under a name of `origin`; None where none was seen."""
        topic, _, number = origin.partition("@")
        return self._entry(topic, int(number or 1))

    def recreations(self, topics: Iterable[str]) -> int:
        """How many recreated topics were accepted, of all these names."""
        return sum(max(self._number(topic) - 1, 0) for topic in topics)

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
        return self._add(topic, max(self._number(topic), 1) + 1, found)

    def _number(self, topic: str) -> int:
        return self.lake.fence(TOPIC_IDS.name).at(f"topics/{checked_name(topic)}") or 0

    def _entry(self, topic: str, number: int) -> str | None:
        rows = self.lake.small(TOPIC_IDS.name)
        chosen = rows.filter((pc.field("topic") == topic) & (pc.field("number") == number))["id"].to_pylist()
        return chosen[0] if chosen else None

    def _add(self, topic: str, number: int, found: str) -> bool:
        row = pa.Table.from_pylist([{"topic": topic, "number": number, "id": found}], schema=TOPIC_IDS.schema)
        files = self.lake.files_of(TOPIC_IDS.name, row)

        def attempt() -> bool:
            fence, last = self.lake.fence(TOPIC_IDS.name), self._number(topic)
            if last >= number:
                return False
            fence.commit({f"topics/{topic}": (last or None, number)}, files)
            return True

        return again_if_taken(attempt)  # by this topic's id, or by something else


def topic_recreated(topic: str, recorded: str, found: str, command: str) -> IngestError:
    """A topic was deleted and created again: its offsets are of other records than those ingested."""
    return IngestError(
        f"topic {topic} was recreated: its id is {found}, the ingested one was {recorded}, and offsets start at 0 "
        f"again; if the new topic is meant, run `{command}`"
    )
