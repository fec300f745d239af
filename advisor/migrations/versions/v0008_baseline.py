"""All tables: tokens, audit, sessions, plans, reservations, price books, the ledger and budgets.

Rows of the audit and of the ledger are only added, by triggers.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = None

SQLITE_GUARD = """CREATE TRIGGER audit_keeps_{verb} BEFORE {verb} ON audit
BEGIN SELECT RAISE(ABORT, 'rows of audit are only added'); END"""
POSTGRES_REFUSAL = """CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of audit are only added'; END $$"""
POSTGRES_GUARD = """CREATE TRIGGER audit_keeps BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses()"""
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
    """Make all tables and what guards them."""
    _make_tokens()
    _make_audit()
    _make_sessions()
    _make_plans()
    _make_reservations()
    _make_books()
    _make_periods()
    _make_ledger()
    _make_budgets()
    (_guard_sqlite if op.get_bind().dialect.name == "sqlite" else _guard_postgres)()


def _make_tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("prefix", sa.String(12), primary_key=True),
        sa.Column("name", sa.String(100), nullable=False, unique=True),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("secret_sha256", sa.LargeBinary(32), nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger, nullable=False),
        sa.Column("last_used_us", sa.BigInteger),
        sa.Column("revoked_us", sa.BigInteger),
        sa.Column("team", sa.String(200)),
    )


def _make_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("action", sa.String(40), nullable=False),
        sa.Column("subject", sa.String(300), nullable=False),
        sa.Column("outcome", sa.String(200), nullable=False),
        sa.Column("request_id", sa.String(40), nullable=False),
    )
    op.create_index("audit_of_subject", "audit", ["subject", "at_us"])


def _make_sessions() -> None:
    """Make the table."""
    op.create_table(
        "sessions",
        sa.Column("id_sha256", sa.LargeBinary(32), primary_key=True),
        sa.Column("token_prefix", sa.String(12), nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("roles", sa.String(200), nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger, nullable=False),
    )


def _make_plans() -> None:
    """Make the tables."""
    op.create_table(
        "plans",
        sa.Column("plan", sa.String(40), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False, index=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("changed_us", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("exported", sa.LargeBinary),
        sa.Column("predicted", sa.Double),
        sa.Column("realised", sa.Double),
    )
    op.create_table(
        "plan_steps",
        sa.Column("plan", sa.String(40), sa.ForeignKey("plans.plan"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("decision", sa.String(12), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
    )
    op.create_table(
        "change_freezes",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("ended_us", sa.BigInteger),
    )


def _make_reservations() -> None:
    """Make the table, and what finds its open rows and those of a proposal."""
    op.create_table(
        "reservations",
        sa.Column("reservation", sa.String(120), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("app", sa.String(253), nullable=False),
        sa.Column("template_hash", sa.String(63), nullable=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("expires_us", sa.BigInteger, nullable=False),
        sa.Column("plan", sa.String(100), nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
    )
    op.create_index("reservations_open", "reservations", ["cluster", "expires_us"])
    op.create_index("reservations_of_plan", "reservations", ["plan"])


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
    for verb in ("UPDATE", "DELETE"):
        op.execute(SQLITE_GUARD.format(verb=verb))
    for table in ONLY_ADDED:
        for verb in ("UPDATE", "DELETE"):
            op.execute(SQLITE_ONLY_ADDED.format(table=table, verb=verb))
    op.execute(SQLITE_BOOKS.format(columns=", ".join(KEPT_OF_BOOKS)))
    op.execute(SQLITE_BOOKS_STAY)
    for verb in ("UPDATE", "DELETE"):
        op.execute(SQLITE_CLOSED.format(verb=verb))


def _guard_postgres() -> None:
    op.execute(POSTGRES_REFUSAL)
    op.execute(POSTGRES_GUARD)
    op.execute(POSTGRES_ONLY_ADDED)
    for table in ONLY_ADDED:
        op.execute(POSTGRES_ONLY_ADDED_TO.format(table=table))
    op.execute(POSTGRES_BOOKS.format(columns=", ".join(KEPT_OF_BOOKS)))
    op.execute(POSTGRES_BOOKS_STAY)
    op.execute(POSTGRES_CLOSED)
    op.execute(POSTGRES_CLOSED_ROWS)
