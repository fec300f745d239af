"""Links as they lie in a lake: each says which stretch of a partition was landed, and is never changed. An edge."""

from ingest.lake.layout import Layout, LinkFacts
from ingest.schema.errors import DamagedLake


def link_facts(layout: Layout, topic: str, partition: int, start: int) -> LinkFacts | None:
    """What the link of a start says; None where there is none.

    Raises:
        DamagedLake: it cannot be read.
    """
    path = layout.link(topic, partition, start)
    try:
        return LinkFacts.parse(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise DamagedLake(path, repr(error)) from error


def newest_start(layout: Layout, topic: str, partition: int) -> int | None:
    """Where the newest link of a chain starts, by the names of all; None where there is none."""
    return max(layout.starts(topic, partition), default=None)


def newest_end(layout: Layout, topic: str, partition: int, checkpointed: int) -> int | None:
    """Where the newest link of a chain ends; None where there is none.

    Args:
        layout: where things lie.
        topic: whose chain.
        partition: whose chain.
        checkpointed: where it ends by a checkpoint; 0 where none knows of it.

    Raises:
        DamagedLake: it ends before a checkpoint does: links that were there are gone.
    """
    newest = newest_start(layout, topic, partition)
    facts = None if newest is None else link_facts(layout, topic, partition, newest)
    end = facts.end if facts else None
    if (end or 0) < checkpointed:
        path = layout.link(topic, partition, end or 0)
        raise DamagedLake(path, f"it is missing, and a checkpoint knows of links up to {checkpointed}")
    return end
