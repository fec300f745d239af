"""Store dump: all that a store holds as Parquet files, and back, from either database to either. An edge."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import (
    Connection,
    Double,
    Engine,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    func,
    insert,
    select,
    text,
)

from advisor.database.engine import METADATA, SESSIONS, migrate, named, reading, version_of, writing
from advisor.errors import AdvisorError

BATCH_ROWS = 200
"""Rows at once: a plan or a draft may have megabytes."""


def dump(engine: Engine, folder: Path) -> str:
    """Write all tables as they are at one moment, while others go on writing.

    Args:
        engine: the store.
        folder: gets a file for each table; who is logged in with a browser is left out.

    Returns:
        The version of the store.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreOutdated: there is none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if engine.dialect.name == "postgresql":
        engine = engine.execution_options(isolation_level="REPEATABLE READ")
    with reading(engine) as connection:
        found = version_of(connection)
        for table in _tables(connection):
            schema = _schema(table)
            with pq.ParquetWriter(folder / f"{table.name}.parquet", schema, compression="zstd") as file:
                for rows in _rows(connection, table):
                    file.write_table(pa.Table.from_pylist(rows, schema))
    return found


def load(engine: Engine, folder: Path, version: str) -> None:
    """Make a store of what was dumped, and bring it to the version of this Cohabit; all of it, or nothing.

    Args:
        engine: a database that holds nothing.
        folder: as `dump` left it.
        version: of the store that was dumped.

    Raises:
        AdvisorError: it holds something; a table is missing.
        StoreAhead: a newer Cohabit made the dump.
        StoreUnavailable: the database does not answer.
    """
    migrate(engine, to=version)
    with writing(engine) as connection:
        _refuse_rows(engine, connection)
        paths = {table.name: folder / f"{table.name}.parquet" for table in _tables(connection)}
        if missing := [name for name, path in paths.items() if not path.is_file()]:
            raise AdvisorError(f"backup {folder} lacks database tables {', '.join(missing)}: restore another backup")
        for table in _tables(connection):
            with pq.ParquetFile(paths[table.name]) as file:
                for batch in file.iter_batches(BATCH_ROWS):
                    connection.execute(insert(table), batch.to_pylist())
            _count_on(connection, table)
    migrate(engine)


def refuse_filled(engine: Engine) -> None:
    """Nothing, if a store has not been made, or holds nothing.

    Raises:
        AdvisorError: it holds something.
        StoreUnavailable: the database does not answer.
    """
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).exists():
        return
    with reading(engine) as connection:
        _refuse_rows(engine, connection)


def _refuse_rows(engine: Engine, connection: Connection) -> None:
    held = [t.name for t in _tables(connection) if connection.execute(select(t).limit(1)).first() is not None]
    if held:
        raise AdvisorError(
            f"database {named(engine)} already holds tables {', '.join(held)}; a restore never overwrites: set "
            "COHABIT_DATABASE to an empty database or a new file"
        )


def _tables(connection: Connection) -> list[Table]:
    """Tables as the database has them, each after those that it refers to."""
    found = MetaData()
    found.reflect(connection, only=lambda name, _: name in METADATA.tables and name != SESSIONS.name)
    return found.sorted_tables


def _schema(table: Table) -> pa.Schema:
    kinds = ((LargeBinary, pa.binary()), (Integer, pa.int64()), (Double, pa.float64()))
    fields: Mapping[str, pa.DataType] = {
        column.name: next((kind for of, kind in kinds if isinstance(column.type, of)), pa.string())
        for column in table.columns
    }
    return pa.schema(list(fields.items()))


def _rows(connection: Connection, table: Table) -> Iterator[list[dict[str, object]]]:
    ordered = select(table).order_by(*table.primary_key.columns)
    found = connection.execution_options(yield_per=BATCH_ROWS).execute(ordered)
    for rows in found.mappings().partitions():
        yield [dict(row) for row in rows]


def _count_on(connection: Connection, table: Table) -> None:
    """Let PostgreSQL number the next row after those that came with their numbers."""
    if connection.dialect.name == "postgresql" and "id" in table.columns:
        last = connection.scalar(select(func.max(table.c.id)))
        if last is not None:
            sequence = connection.scalar(text("SELECT pg_get_serial_sequence(:name, 'id')"), {"name": table.name})
            connection.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})
