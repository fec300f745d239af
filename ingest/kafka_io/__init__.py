"""Kafka clients: connection settings, offsets, producers, stream files."""
