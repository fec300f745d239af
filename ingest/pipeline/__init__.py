"""The ingest pipeline: sources, transformation, sink, dead letters, metrics."""
