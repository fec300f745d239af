"""Price books, periods, the ledger and budgets; rows of the ledger are only added, by triggers."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

ONLY_ADDED = ("ledger_batches", "ledger_postings", "payables", "budgets")
KEPT_OF_BOOKS = ("version", "start_us", "document", "proposed_by", "proposed_us")
SQLITE_ONLY_ADDED = """CREATE TRIGGER {table}_keeps_{verb} BEFORE {verb} ON {table}
BEGIN SELECT RAISE(ABORT, 'rows of {table} are only added'); END"""
POSTGRES_ONLY_ADDED = """CREATE FUNCTION ledger_refuses() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of % are only added', TG_TABLE_NAME; END $$"""
POSTGRES_ONLY_ADDED_TO = """CREATE TRIGGER {table}_keeps BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuses()"""
SQLITE_BOOKS = """CREATE TRIGGER price_books_keep BEFORE UPDATE OF {columns} ON price_books
BEGIN SELECT RAISE(ABORT, 'what a price book says is never changed'); END"""
SQLITE_BOOKS_STAY = """CREATE TRIGGER price_books_stay BEFORE DELETE ON price_books
BEGIN SELECT RAISE(ABORT, 'price books are withdrawn, not removed'); END"""
POSTGRES_BOOKS = """CREATE TRIGGER price_books_keep BEFORE UPDATE OF {columns} ON price_books
FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuses()"""
POSTGRES_BOOKS_STAY = """CREATE TRIGGER price_books_stay BEFORE DELETE OR TRUNCATE ON price_books
FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuses()"""
SQLITE_CLOSED = """CREATE TRIGGER periods_{verb}_closed BEFORE {verb} ON periods WHEN OLD.state = 'closed'
BEGIN SELECT RAISE(ABORT, 'a closed period is never changed'); END"""
POSTGRES_CLOSED = """CREATE FUNCTION periods_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'a closed period is never changed'; END $$"""
POSTGRES_CLOSED_ROWS = """CREATE TRIGGER periods_closed BEFORE UPDATE OR DELETE ON periods
FOR EACH ROW WHEN (OLD.state = 'closed') EXECUTE FUNCTION periods_refuse()"""


def upgrade() -> None:
    """Make the tables and their guards."""
    _make_books()
    _make_periods()
    _make_ledger()
    _make_budgets()
    (_guard_sqlite if op.get_bind().dialect.name == "sqlite" else _guard_postgres)()


def _make_books() -> None:
    op.create_table(
        "price_books",
        sa.Column("version", sa.String(60), primary_key=True),
        sa.Column("start_us", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("proposed_by", sa.String(200), nullable=False),
        sa.Column("proposed_us", sa.BigInteger, nullable=False),
        sa.Column("approved_by", sa.String(200)),
        sa.Column("approved_us", sa.BigInteger),
        sa.Column("withdrawn_by", sa.String(200)),
        sa.Column("withdrawn_us", sa.BigInteger),
    )


def _make_periods() -> None:
    op.create_table(
        "periods",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("period", sa.String(7), primary_key=True),
        sa.Column("state", sa.String(8), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_us", sa.BigInteger, nullable=False),
        sa.Column("changed_by", sa.String(200), nullable=False),
        sa.Column("draft", sa.LargeBinary),
    )


def _make_ledger() -> None:
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "ledger_batches",
        sa.Column("id", number, primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("period", sa.String(7), nullable=False),
        sa.Column("about", sa.String(7), nullable=False),
        sa.Column("pool", sa.String(300), nullable=False),
        sa.Column("start_us", sa.BigInteger, nullable=False),
        sa.Column("sign", sa.Integer, nullable=False),
        sa.Column("cost_micros", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("inputs_sha256", sa.String(64), nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("book", sa.String(60), nullable=False),
        sa.Column("policy", sa.String(60), nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("corrects", sa.BigInteger, sa.ForeignKey("ledger_batches.id")),
        sa.Column("posted_us", sa.BigInteger, nullable=False),
        sa.Column("posted_by", sa.String(200), nullable=False),
        sa.Index("ledger_batches_of_period", "cluster", "period"),
        sa.Index("ledger_batches_by_file", "sha256"),
    )
    back = sa.text("sign = -1")
    index = "ledger_batches_taken_back"
    op.create_index(index, "ledger_batches", ["corrects"], unique=True, sqlite_where=back, postgresql_where=back)
    op.create_table(
        "ledger_postings",
        sa.Column("batch", sa.BigInteger, sa.ForeignKey("ledger_batches.id"), primary_key=True),
        sa.Column("account", sa.String(200), primary_key=True),
        sa.Column("kind", sa.String(24), primary_key=True),
        sa.Column("amount_micros", sa.BigInteger, nullable=False),
        sa.Column("memo_micros", sa.BigInteger, nullable=False),
        sa.Column("lines", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "payables",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("period", sa.String(7), primary_key=True),
        sa.Column("account", sa.String(200), primary_key=True),
        sa.Column("owed_micros", sa.BigInteger, nullable=False),
        sa.Column("minor", sa.BigInteger, nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
    )


def _make_budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("team", sa.String(200), nullable=False),
        sa.Column("amount_micros", sa.BigInteger, nullable=False),
        sa.Column("currency", sa.String(3), nullable=False),
        sa.Column("warn_ppm", sa.BigInteger, nullable=False),
        sa.Column("since", sa.String(7), nullable=False),
        sa.Column("set_us", sa.BigInteger, nullable=False),
        sa.Column("set_by", sa.String(200), nullable=False),
        sa.Index("budgets_of_team", "cluster", "team"),
    )


def _guard_sqlite() -> None:
    for table in ONLY_ADDED:
        for verb in ("UPDATE", "DELETE"):
            op.execute(SQLITE_ONLY_ADDED.format(table=table, verb=verb))
    op.execute(SQLITE_BOOKS.format(columns=", ".join(KEPT_OF_BOOKS)))
    op.execute(SQLITE_BOOKS_STAY)
    for verb in ("UPDATE", "DELETE"):
        op.execute(SQLITE_CLOSED.format(verb=verb))


def _guard_postgres() -> None:
    op.execute(POSTGRES_ONLY_ADDED)
    for table in ONLY_ADDED:
        op.execute(POSTGRES_ONLY_ADDED_TO.format(table=table))
    op.execute(POSTGRES_BOOKS.format(columns=", ".join(KEPT_OF_BOOKS)))
    op.execute(POSTGRES_BOOKS_STAY)
    op.execute(POSTGRES_CLOSED)
    op.execute(POSTGRES_CLOSED_ROWS)


def downgrade() -> None:
    """Remove them, and all that was billed."""
    for table in ("budgets", "payables", "ledger_postings", "ledger_batches", "periods", "price_books"):
        op.drop_table(table)
    if op.get_bind().dialect.name != "sqlite":
        op.execute("DROP FUNCTION ledger_refuses()")
        op.execute("DROP FUNCTION periods_refuse()")
