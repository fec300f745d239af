"""Tokens, and the audit, to which rows can only be added."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SQLITE_GUARD = """CREATE TRIGGER audit_keeps_{verb} BEFORE {verb} ON audit
BEGIN SELECT RAISE(ABORT, 'rows of audit are only added'); END"""
POSTGRES_REFUSAL = """CREATE FUNCTION audit_refuses() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'rows of audit are only added'; END $$"""
POSTGRES_GUARD = """CREATE TRIGGER audit_keeps BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
FOR EACH STATEMENT EXECUTE FUNCTION audit_refuses()"""


def upgrade() -> None:
    """Make both tables and the guard."""
    _make_tokens()
    _make_audit()
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("UPDATE", "DELETE"):
            op.execute(SQLITE_GUARD.format(verb=verb))
    else:
        op.execute(POSTGRES_REFUSAL)
        op.execute(POSTGRES_GUARD)


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
