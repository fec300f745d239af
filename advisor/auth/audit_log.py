"""The audit: who did what, when, with what outcome. Rows are only ever added; triggers of the database hold that."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields

from sqlalchemy import Connection, Engine, String, select

from advisor.database.engine import AUDIT, reading

ROWS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Entry:
    """One row.

    Args:
        at_us: when, in microseconds since 1970.
        who: name of a token, `local:` and a user of the machine, or `from` and an address.
        role: in which role; empty where none is known.
        action: what was tried, in a word or two: `token create`, `request`.
        subject: on what.
        outcome: `done`, or why not.
        request_id: by which the reply, and the log, name the same event.
    """

    at_us: int
    who: str
    role: str
    action: str
    subject: str
    outcome: str
    request_id: str


NAMES = tuple(field.name for field in fields(Entry))


def add(connection: Connection, entry: Entry) -> None:
    """Add a row, within whatever else the connection writes: both count, or neither does."""
    row = asdict(entry)
    for column in AUDIT.columns:
        if isinstance(column.type, String):
            row[column.name] = row[column.name][: column.type.length]
    connection.execute(AUDIT.insert().values(row))


def of_subject(connection: Connection, subject: str, since_us: int) -> list[Entry]:
    """Rows of one subject from a time on, in the order they were added."""
    wanted = select(*(AUDIT.c[name] for name in NAMES)).where(AUDIT.c.subject == subject, AUDIT.c.at_us >= since_us)
    return [Entry(*row) for row in connection.execute(wanted.order_by(AUDIT.c.id))]


def entries(engine: Engine, since_us: int = 0) -> Iterator[Entry]:
    """Rows from a time on, in the order they were added.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    wanted = select(*(AUDIT.c[name] for name in NAMES)).where(AUDIT.c.at_us >= since_us).order_by(AUDIT.c.id)
    with reading(engine) as connection:
        for row in connection.execution_options(yield_per=ROWS_AT_ONCE).execute(wanted):
            yield Entry(*row)
