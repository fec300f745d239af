"""Reservations of gangs, and the version of each cluster's grants."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "gangs",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("cluster", sa.String(253), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("gang", sa.String(253), nullable=False),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(12), nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("held", sa.Integer, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("changed_us", sa.BigInteger, nullable=False),
        sa.Column("until_us", sa.BigInteger, nullable=False),
        sa.Column("ends_us", sa.BigInteger),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Index("gangs_by_name", "cluster", "namespace", "gang", "generation"),
        sa.Index("gangs_by_state", "cluster", "state", "until_us"),
        sa.Index("gangs_by_change", "cluster", "changed_us"),
    )
    op.create_table(
        "gang_grants",
        sa.Column("cluster", sa.String(253), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
