"""The team that a token of role team is for."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the column; tokens that were made before are for no team."""
    op.add_column("tokens", sa.Column("team", sa.String(200)))


def downgrade() -> None:
    """Remove it: the bills that a token of role team may see are then unknown."""
    op.drop_column("tokens", "team")
