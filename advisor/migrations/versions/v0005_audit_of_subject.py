"""The audit by subject: who decided what on one proposal, without reading all of it."""

from alembic import op

revision = "0005"
down_revision = "0004"
INDEX = "audit_of_subject"


def upgrade() -> None:
    """Make the index."""
    op.create_index(INDEX, "audit", ["subject", "at_us"])


def downgrade() -> None:
    """Remove it; no row changes."""
    op.drop_index(INDEX, "audit")
