"""Proposals, what was decided on their steps, and halts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "proposals",
        sa.Column("plan", sa.String(40), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False, index=True),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("made_us", sa.BigInteger, nullable=False),
        sa.Column("changed_us", sa.BigInteger, nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("exported", sa.LargeBinary),
        sa.Column("predicted", sa.Double),
        sa.Column("realised", sa.Double),
    )
    op.create_table(
        "proposal_steps",
        sa.Column("plan", sa.String(40), sa.ForeignKey("proposals.plan"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("decision", sa.String(12), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
    )
    op.create_table(
        "halts",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("lifted_us", sa.BigInteger),
    )


def downgrade() -> None:
    """Remove them, and all that was decided."""
    op.drop_table("halts")
    op.drop_table("proposal_steps")
    op.drop_table("proposals")
