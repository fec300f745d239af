"""Reservations of nodes for replacement pods."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the table, and what finds its open rows and those of a proposal."""
    op.create_table(
        "leases",
        sa.Column("lease", sa.String(120), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("app", sa.String(253), nullable=False),
        sa.Column("template_hash", sa.String(63), nullable=False),
        sa.Column("node", sa.String(253), nullable=False),
        sa.Column("expires_us", sa.BigInteger, nullable=False),
        sa.Column("proposal", sa.String(100), nullable=False),
        sa.Column("step", sa.Integer, nullable=False),
    )
    op.create_index("leases_open", "leases", ["cluster", "expires_us"])
    op.create_index("leases_of_proposal", "leases", ["proposal"])


def downgrade() -> None:
    """Remove the table: no node stays reserved for a pending pod."""
    op.drop_table("leases")
