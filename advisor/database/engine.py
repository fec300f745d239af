"""The store: what people decide and what must not be forgotten, in SQL. SQLite next to the files, or PostgreSQL.

Plain tables and statements, no mapped objects. The tables below are what statements are written with; what a database
really holds is made by the numbered migrations in advisor/migrations, and a test compares the two. Times are whole
microseconds since 1970 (`*_us`), which both databases keep alike. An edge.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    inspect,
    make_url,
    text,
)
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionFree

from advisor.errors import AdvisorError, BadStoreUrl, StoreAhead, StoreOutdated, StoreUnavailable

if TYPE_CHECKING:
    from alembic.config import Config

CONNECT_LIMIT_S = 5
SQLITE_WAIT_S = 10
"""How long one waits for another's writing to end."""
CONNECTIONS = 4
MIGRATIONS_LOCK = 0xC04AB17
"""PostgreSQL's advisory lock that one migration at a time holds."""

METADATA = MetaData()

TOKENS = Table(
    "tokens",
    METADATA,
    Column("prefix", String(12), primary_key=True),
    Column("name", String(100), nullable=False, unique=True),
    Column("role", String(20), nullable=False),
    Column("secret_sha256", LargeBinary(32), nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("last_used_us", BigInteger),
    Column("revoked_us", BigInteger),
    Column("team", String(200)),
)
"""Who may come in, and for which team; the secret itself is nowhere."""

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("at_us", BigInteger, nullable=False),
    Column("who", String(200), nullable=False),
    Column("role", String(20), nullable=False),
    Column("action", String(40), nullable=False),
    Column("subject", String(300), nullable=False),
    Column("outcome", String(200), nullable=False),
    Column("request_id", String(40), nullable=False),
    Index("audit_of_subject", "subject", "at_us"),
)
"""What was done, in the order of `id`; triggers refuse to change or delete a row."""

PLANS_TABLE = Table(
    "plans",
    METADATA,
    Column("plan", String(40), primary_key=True),
    Column("cluster", String(253), nullable=False, index=True),
    Column("state", String(12), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("reason", String(500), nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("exported", LargeBinary),
    Column("predicted", Double),
    Column("realised", Double),
)
"""Plans as JSON, see advisor.plans.rules.plan_record, their outcomes, and the exports."""

PLAN_STEPS = Table(
    "plan_steps",
    METADATA,
    Column("plan", String(40), ForeignKey("plans.plan"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("decision", String(12), nullable=False),
    Column("reason", String(500), nullable=False),
)
"""What was decided on each step."""

CHANGE_FREEZES = Table(
    "change_freezes",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("cluster", String(253), nullable=False),
    Column("at_us", BigInteger, nullable=False),
    Column("who", String(200), nullable=False),
    Column("reason", String(500), nullable=False),
    Column("ended_us", BigInteger),
)
"""When nothing was to be drafted, approved or exported; one that is not lifted holds."""

RESERVATIONS = Table(
    "reservations",
    METADATA,
    Column("reservation", String(120), primary_key=True),
    Column("cluster", String(253), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("app", String(253), nullable=False),
    Column("template_hash", String(63), nullable=False),
    Column("node", String(253), nullable=False),
    Column("expires_us", BigInteger, nullable=False),
    Column("plan", String(100), nullable=False),
    Column("step", Integer, nullable=False),
    Index("reservations_open", "cluster", "expires_us"),
    Index("reservations_of_plan", "plan"),
)
"""Where pods of evicted ones belong; withdrawn ones are gone, expired ones stay."""

GANGS = Table(
    "gangs",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("cluster", String(253), nullable=False),
    Column("namespace", String(63), nullable=False),
    Column("gang", String(253), nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("state", String(12), nullable=False),
    Column("size", Integer, nullable=False),
    Column("held", Integer, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("until_us", BigInteger, nullable=False),
    Column("ends_us", BigInteger),
    Column("document", LargeBinary, nullable=False),
    Index("gangs_by_name", "cluster", "namespace", "gang", "generation"),
    Index("gangs_by_state", "cluster", "state", "until_us"),
    Index("gangs_by_change", "cluster", "changed_us"),
)
"""Reservations of gangs as JSON, each with all its slots, see advisor.gangs.gang_lifecycle."""

GANG_GRANTS = Table(
    "gang_grants",
    METADATA,
    Column("cluster", String(253), primary_key=True),
    Column("version", BigInteger, nullable=False),
)
"""Version of a cluster's grants, which rises with each change of a reservation."""

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("id_sha256", LargeBinary(32), primary_key=True),
    Column("token_prefix", String(12), nullable=False),
    Column("who", String(200), nullable=False),
    Column("roles", String(200), nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger, nullable=False),
)
"""Who is logged in with a browser, by which token and as what; roles by commas. What the cookie says is nowhere."""

PRICE_BOOKS = Table(
    "price_books",
    METADATA,
    Column("version", String(60), primary_key=True),
    Column("start_us", BigInteger, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Column("proposed_by", String(200), nullable=False),
    Column("proposed_us", BigInteger, nullable=False),
    Column("approved_by", String(200)),
    Column("approved_us", BigInteger),
    Column("withdrawn_by", String(200)),
    Column("withdrawn_us", BigInteger),
)
"""Versions of the price book as JSON, see price_book_records; triggers refuse to change what was proposed."""

PERIODS = Table(
    "periods",
    METADATA,
    Column("cluster", String(253), primary_key=True),
    Column("period", String(7), primary_key=True),
    Column("state", String(8), nullable=False),
    Column("version", Integer, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("changed_by", String(200), nullable=False),
    Column("draft", LargeBinary),
)
"""Closing and closed months, each with its draft; a closed one is immutable."""

LEDGER_BATCHES = Table(
    "ledger_batches",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("cluster", String(253), nullable=False),
    Column("period", String(7), nullable=False),
    Column("about", String(7), nullable=False),
    Column("pool", String(300), nullable=False),
    Column("start_us", BigInteger, nullable=False),
    Column("sign", Integer, nullable=False),
    Column("cost_micros", BigInteger, nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("inputs_sha256", String(64), nullable=False),
    Column("lines", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("book", String(60), nullable=False),
    Column("policy", String(60), nullable=False),
    Column("model", String(64), nullable=False),
    Column("corrects", BigInteger, ForeignKey("ledger_batches.id")),
    Column("posted_us", BigInteger, nullable=False),
    Column("posted_by", String(200), nullable=False),
    Index("ledger_batches_of_period", "cluster", "period"),
    Index("ledger_batches_by_file", "sha256"),
    Index(
        "ledger_batches_taken_back",
        "corrects",
        unique=True,
        sqlite_where=text("sign = -1"),
        postgresql_where=text("sign = -1"),
    ),
)
"""Files of lines that were billed, or taken back, each once; rows are only added."""

LEDGER_POSTINGS = Table(
    "ledger_postings",
    METADATA,
    Column("batch", BigInteger, ForeignKey("ledger_batches.id"), primary_key=True),
    Column("account", String(200), primary_key=True),
    Column("kind", String(24), primary_key=True),
    Column("amount_micros", BigInteger, nullable=False),
    Column("memo_micros", BigInteger, nullable=False),
    Column("lines", BigInteger, nullable=False),
)
"""What the lines of a file sum to, by account and kind, against the pool's own account; rows are only added."""

PAYABLES = Table(
    "payables",
    METADATA,
    Column("cluster", String(253), primary_key=True),
    Column("period", String(7), primary_key=True),
    Column("account", String(200), primary_key=True),
    Column("owed_micros", BigInteger, nullable=False),
    Column("minor", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
)
"""What accounts pay for a closed month in coins; account `rounding` has what no coin can pay; rows are only added."""

BUDGETS = Table(
    "budgets",
    METADATA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
    Column("cluster", String(253), nullable=False),
    Column("team", String(200), nullable=False),
    Column("amount_micros", BigInteger, nullable=False),
    Column("currency", String(3), nullable=False),
    Column("warn_ppm", BigInteger, nullable=False),
    Column("since", String(7), nullable=False),
    Column("set_us", BigInteger, nullable=False),
    Column("set_by", String(200), nullable=False),
    Index("budgets_of_team", "cluster", "team"),
)
"""What a team means to spend in a month, until another row begins; rows are only added, see budget_status."""


@contextmanager
def open_store(address: str) -> Iterator[Engine]:
    """Connections to the database an address names, made when needed and closed at the end.

    Args:
        address: a file for SQLite, or postgresql://user:password@host/database.

    Raises:
        BadStoreUrl: it names neither.
    """
    url = _url(address)
    limits = {"connect_timeout": CONNECT_LIMIT_S} if url.get_backend_name() == "postgresql" else {}
    if not limits:
        limits = {"timeout": SQLITE_WAIT_S}
    engine = create_engine(
        url,
        connect_args=limits,
        hide_parameters=True,
        max_overflow=0,
        pool_pre_ping=True,
        pool_size=CONNECTIONS,
        pool_timeout=CONNECT_LIMIT_S,
    )
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _leave_transactions_to_us)
        event.listen(engine, "begin", _begin)
    try:
        yield engine
    finally:
        engine.dispose()


def named(engine: Engine) -> str:
    """The database, as errors and people call it: without password, wherever in its address that stands."""
    if engine.dialect.name == "sqlite":
        return str(engine.url.database)
    return engine.url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection that sees the store as it is now.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreOutdated: there is no file yet.
    """
    _must_exist(engine)
    with _store_errors(engine), engine.connect() as connection:
        yield connection


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A connection whose statements all count at the end, or none of them.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreOutdated: there is no file yet.
    """
    _must_exist(engine)
    with _store_errors(engine), engine.execution_options(writes=True).begin() as connection:
        yield connection


def migrate(engine: Engine, *, to: str = "head") -> tuple[str, str]:
    """Bring the database to the version of this Cohabit; several at once wait for each other.

    Args:
        engine: the store, which is made where there is none.
        to: an earlier version that it is to be at instead.

    Returns:
        The version before, empty when there was none, and the one now.

    Raises:
        StoreUnavailable: the database does not answer.
        StoreAhead: a newer Cohabit has migrated it, or knows the version that it is to be at.
        AdvisorError: it is of a version that no migration begins at.
    """
    from alembic import command  # takes half a second; hardly anybody migrates

    if to != "head":
        _must_be_known(engine, to)
    _make_file(engine)
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATIONS_LOCK})
        before = version_of(connection)
        _must_be_known(engine, before)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, to)
        return before, version_of(connection)


def check(engine: Engine) -> None:
    """Make sure that the database is one this Cohabit can work with.

    Raises:
        StoreUnavailable: it does not answer.
        StoreOutdated: migrations are missing.
        StoreAhead: a newer Cohabit has migrated it.
        AdvisorError: it is of a version that no migration begins at.
    """
    with reading(engine) as connection:
        found = version_of(connection)
    _must_be_known(engine, found)
    if found != newest_version():
        raise StoreOutdated(named(engine), found, newest_version())


def newest_version() -> str:
    """The version that this Cohabit works with."""
    return _versions()[-1]


def version_of(connection: Connection) -> str:
    """The version that a database is at, as Alembic keeps it; empty where there is no store in it."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return connection.scalar(text("SELECT version_num FROM alembic_version")) or ""


def _must_be_known(engine: Engine, version: str) -> None:
    if version and version < _versions()[0]:
        raise AdvisorError(
            f"the store {named(engine)} is at version {version}, and migrations begin at {_versions()[0]}: point "
            "COHABIT_DATABASE at an empty database and run `cohabit admin database migrate`; read the old one with "
            "the Cohabit that wrote it"
        )
    if version and version not in _versions():
        raise StoreAhead(named(engine), version, newest_version())


def _versions() -> list[str]:
    """All that there are, oldest first: file `v0008_baseline.py` makes version 0008."""
    folder = Path(__file__).parents[1] / "migrations" / "versions"
    return sorted(file.name[1:5] for file in folder.glob("v[0-9]*.py"))


def _config() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "advisor:migrations")
    config.set_main_option("path_separator", "os")
    return config


def _url(address: str) -> URL:
    if "://" not in address:
        return URL.create("sqlite", database=address)
    scheme, _, rest = address.partition("://")
    if scheme not in {"postgresql", "postgres"}:
        raise BadStoreUrl(scheme)
    try:
        return make_url(f"postgresql+psycopg://{rest}")
    except (ArgumentError, ValueError) as error:
        raise BadStoreUrl(scheme) from error


def _make_file(engine: Engine) -> None:
    """SQLite's file, readable by its owner alone."""
    if engine.dialect.name == "sqlite":
        path = Path(str(engine.url.database))
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _must_exist(engine: Engine) -> None:
    """SQLite would make an empty file of a mistyped path."""
    if engine.dialect.name == "sqlite" and not Path(str(engine.url.database)).is_file():
        raise StoreOutdated(named(engine), "", newest_version())


@contextmanager
def _store_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except NoConnectionFree as error:
        raise StoreUnavailable(named(engine), "all connections are in use") from error
    except DatabaseError as error:
        if type(error) not in {OperationalError, DatabaseError}:  # the latter is a file that is no database
            raise
        raise StoreUnavailable(named(engine), " ".join(str(error.orig).split())[:300]) from error


def _leave_transactions_to_us(connection: object, _record: object) -> None:
    """Python's driver would not put the making of tables into a transaction."""
    connection.isolation_level = None  # type: ignore[attr-defined]


def _begin(connection: Connection) -> None:
    """A writer takes the lock at once: two that first read would block each other."""
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
