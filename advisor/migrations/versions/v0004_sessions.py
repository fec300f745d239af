"""Sessions: who is logged in with a browser, and by which token."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
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


def downgrade() -> None:
    """Remove the table: everybody is logged out."""
    op.drop_table("sessions")
