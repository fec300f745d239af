"""The database of tokens, audit, plans and bills."""
