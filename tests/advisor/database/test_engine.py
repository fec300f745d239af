"""The store: made and brought up to date by migrations alone, the same on SQLite and on PostgreSQL."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, inspect, select, text

from advisor.database.engine import AUDIT, METADATA, check, migrate, named, newest_version, open_store, reading, writing
from advisor.errors import AdvisorError, BadStoreUrl, StoreAhead, StoreOutdated, StoreUnavailable
from tests.advisor.postgres_server import NewDatabase
from tests.advisor.stores import migrated_store

ROW = {"at_us": 1, "who": "w", "role": "r", "action": "a", "subject": "s", "outcome": "o", "request_id": "i"}


@pytest.fixture
def empty(empty_address: str) -> Iterator[Engine]:
    with open_store(empty_address) as engine:
        yield engine


def test_a_store_that_was_not_made_is_refused_with_the_command_that_makes_it(empty: Engine) -> None:
    with pytest.raises(
        StoreOutdated, match=f"has no tables, but version {newest_version()}.*cohabit admin database migrate"
    ):
        check(empty)


def test_looking_for_a_store_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreOutdated), open_store(str(tmp_path / "mistyped.sqlite")) as engine:
        check(engine)

    assert not list(tmp_path.iterdir())


def test_migrating_twice_changes_nothing_the_second_time(empty: Engine) -> None:
    assert migrate(empty) == ("", newest_version())
    assert migrate(empty) == (newest_version(), newest_version())
    check(empty)


def test_migrations_make_the_tables_that_statements_are_written_with(store: Engine) -> None:
    with reading(store) as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []


def test_a_store_of_a_newer_version_is_refused_and_left_alone(store: Engine) -> None:
    with writing(store) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))

    for use in (check, migrate):
        with pytest.raises(StoreAhead, match=r"version 9999.*upgrade Cohabit"):
            use(store)


def test_a_store_of_an_older_version_is_refused(store: Engine) -> None:
    with writing(store) as connection:
        connection.execute(text("DELETE FROM alembic_version"))

    with pytest.raises(StoreOutdated, match="cohabit admin database migrate"):
        check(store)


def test_a_store_from_before_the_baseline_is_refused_with_what_to_do(store: Engine) -> None:
    with writing(store) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0007'"))

    for use in (check, migrate):
        with pytest.raises(AdvisorError, match=r"version 0007.*point COHABIT_DATABASE at an empty database"):
            use(store)


def test_a_migration_that_fails_leaves_nothing_behind(store: Engine) -> None:
    with writing(store) as connection:
        connection.execute(text("DELETE FROM alembic_version"))
        connection.execute(text("DROP TABLE tokens"))

    with pytest.raises(Exception, match="already exists"):
        migrate(store)

    assert set(inspect(store).get_table_names()) == {"alembic_version", *METADATA.tables} - {"tokens"}


def test_two_migrations_at_once_wait_for_each_other(empty: Engine, empty_address: str) -> None:
    code = "import sys\nfrom advisor.database.engine import *\nwith open_store(sys.argv[1]) as e: print(migrate(e))"
    several = [
        subprocess.Popen([sys.executable, "-c", code, empty_address], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    told = [process.communicate(timeout=60)[0].strip() for process in several]

    newest = newest_version()
    assert sorted(told) == sorted([str(("", newest)), *[str((newest, newest))] * 2])
    check(empty)


def test_rows_of_the_audit_are_neither_changed_nor_deleted(store: Engine) -> None:
    with writing(store) as connection:
        connection.execute(AUDIT.insert(), [ROW])
    truncate = ["TRUNCATE audit"] if store.dialect.name == "postgresql" else []

    for statement in ("UPDATE audit SET who = 'x'", "DELETE FROM audit", *truncate):
        with pytest.raises(Exception, match="rows of audit are only added"), writing(store) as connection:
            connection.execute(text(statement))

    with reading(store) as connection:
        assert connection.execute(select(AUDIT.c.who)).scalars().all() == ["w"]


def test_what_is_written_counts_wholly_or_not_at_all(store: Engine) -> None:
    def halfway() -> None:
        with writing(store) as connection:
            connection.execute(AUDIT.insert(), [ROW])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        halfway()

    with reading(store) as connection:
        assert connection.execute(select(AUDIT)).all() == []


def test_writers_of_a_file_wait_before_they_read(tmp_path: Path) -> None:
    def count_up(engine: Engine) -> None:
        with writing(engine) as connection:
            seen = len(connection.execute(select(AUDIT.c.id)).all())
            connection.execute(AUDIT.insert(), [{**ROW, "at_us": seen}])

    with migrated_store(tmp_path / "store.sqlite") as engine, ThreadPoolExecutor(4) as pool:
        list(pool.map(count_up, [engine] * 30))
        with reading(engine) as connection:
            counted = connection.execute(select(AUDIT.c.at_us)).scalars().all()

    assert sorted(counted) == list(range(30))


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with open_store(str(tmp_path / "store.sqlite")) as engine:
            migrate(engine)
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "store.sqlite").stat().st_mode) == 0o600


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but quite long " * 100)

    with (
        pytest.raises(StoreUnavailable, match=r"notes\.txt.*not a database"),
        open_store(str(tmp_path / "notes.txt")) as engine,
    ):
        check(engine)


def test_a_database_that_does_not_answer_is_named_without_its_password(postgres: NewDatabase) -> None:
    address = postgres()
    password = address.split(":")[2].partition("@")[0]

    for wrong in (address + "_gone", address.replace(password, "wrong")):
        said = r"postgresql://cohabit:\*\*\*@127.0.0.1.*COHABIT_DATABASE"
        with pytest.raises(StoreUnavailable, match=said) as raised, open_store(wrong) as engine:
            check(engine)
        assert password not in str(raised.value)
        assert "wrong" not in str(raised.value)


def test_both_spellings_of_postgresql_are_known() -> None:
    for scheme in ("postgres", "postgresql"):
        with open_store(f"{scheme}://me:secret@db/cohabit") as engine:
            assert named(engine) == "postgresql://me:***@db/cohabit"


@pytest.mark.parametrize("address", ["mysql://me:secret@db/x", "postgresql://me:secret@db:port/x"])
def test_an_address_of_something_else_is_refused_and_not_repeated(address: str) -> None:
    with pytest.raises(BadStoreUrl, match="COHABIT_DATABASE") as raised, open_store(address):
        pass

    assert "secret" not in str(raised.value)


PARENT = """
import signal, sys
from tests.advisor.postgres_server import running_postgres
from tests.advisor.stores import migrated_store
with running_postgres() as new_database:
    print(new_database(), flush=True)
    signal.pause()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that others may enter, unlike pytest's."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_server_for_tests_ends_with_whoever_started_it(open_folder: Path) -> None:
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    here["TMPDIR"] = str(open_folder)
    with subprocess.Popen([sys.executable, "-c", PARENT], env=here, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip()
        parent.kill()

    gone_by = monotonic() + 120
    while monotonic() < gone_by:
        try:
            psycopg.connect(address, connect_timeout=2).close()
        except psycopg.OperationalError as error:
            if "refused" in str(error):
                return
    pytest.fail("the server still answers")
