"""Run by alembic when it migrates: with the connection, and inside the transaction, that engine gives it."""

from alembic import context
from sqlalchemy import Connection

from advisor.database.engine import METADATA

connection: Connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=METADATA)
with context.begin_transaction():
    context.run_migrations()
