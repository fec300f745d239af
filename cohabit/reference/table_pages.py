"""Every table of the lake and every topic, with what each column means, from the facts that the code reads."""

from math import inf

import pyarrow as pa

from cohabit.reference.markdown import NONE, as_text, code, page, table
from features.schema.tables import DERIVED, TABLES
from ingest.schema.tables import DEAD_LETTERS, LAKE_OWN, LANDED, Column, Table
from ingest.schema.topics import TOPICS, Topic

ABOUT = (
    "Every table of the lake and every topic, from `ingest/schema/tables.py`, `features/schema/tables.py` and "
    "`ingest/schema/topics.py`. "
    "Rows are unique by key; `time` says in which hour a row lies. A column that may be null is null where nothing was "
    "measured or reported: missing is never zero. Values outside their range go to `dead_letters`. A table's "
    "version grows when its columns change, and additions may be null. `make reference` writes this page."
)


def tables_page() -> str:
    """The reference of tables and topics."""
    topics = "## Topics\n\n" + table(
        ("topic", "key of its messages", "partitions", "kept"), [_topic(one) for one in TOPICS.values()]
    )
    tables = [*(TABLES[name] for name in (*LANDED, DEAD_LETTERS.name, *DERIVED)), *LAKE_OWN.values()]
    return page("Tables and topics", ABOUT, [topics, *map(_section, tables)])


def _topic(one: Topic) -> tuple[str, ...]:
    kept = "the newest of each key" if one.compacted else "the broker's retention"
    return code(one.name), ", ".join(code(column) for column in one.key), str(one.partitions), kept


def _section(of: Table) -> str:
    kind = "from topics" if of.name in LANDED else "from what could not be landed"
    kind = "computed" if of.name in DERIVED else "kept of ingestion" if of.name in LAKE_OWN else kind
    time = f"; time: {code(of.time)}" if of.time else ""
    head = f"{of.meaning} Version {of.version}, {kind}. Key: {', '.join(code(name) for name in of.key)}{time}."
    rows = [_column(column) for column in of.columns]
    columns = table(("column", "type", "unit", "range", "null", "meaning"), rows)
    return f"## {of.name}\n\n{head}\n\n{columns}"


def _column(of: Column) -> tuple[str, ...]:
    null = "never" if of.required else "possible"
    return code(of.name), kind(of.type), as_text(of.unit) or NONE, reach(of), null, as_text(of.meaning)


def kind(of: pa.DataType) -> str:
    """The Arrow type, as one reads it."""
    if pa.types.is_timestamp(of):
        return "time"
    if pa.types.is_struct(of):
        return "struct of " + ", ".join(f"{field.name} {kind(field.type)}" for field in of)
    if pa.types.is_list(of):
        return f"list of {kind(of.value_type)}"
    if pa.types.is_map(of):
        return f"map of {kind(of.key_type)} to {kind(of.item_type)}"
    return str(of)


def reach(of: Column) -> str:
    """Between which values it is physically possible."""
    if of.low == -inf and of.high == inf:
        return NONE
    return f"from {of.low:g}" if of.high == inf else f"{of.low:g} to {of.high:g}"
