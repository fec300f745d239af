"""The ingest worker."""
