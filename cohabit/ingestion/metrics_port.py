"""Scraped: what Prometheus reads of a command that runs for good and listens to nothing else. An edge."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, start_http_server

from cohabit.config.errors import CohabitError
from cohabit.config.settings import KafkaSettings
from cohabit.terminal.console import console


@contextmanager
def scraped(own: KafkaSettings, port: int | None, registry: CollectorRegistry) -> Iterator[None]:
    """Metrics are served while this lasts; not at all without a port.

    Args:
        own: the host, and the port where the command names none.
        port: that the command names; 0 for any that is free.
        registry: the metrics.

    Raises:
        CohabitError: another process has the port, or there is no such host here.
    """
    host, port = own.metrics_host, own.metrics_port if port is None else port
    if port is None:
        yield
        return
    try:
        server, thread = start_http_server(port, host, registry)
    except (OSError, OverflowError) as error:  # the latter where a port is beyond the last one
        reason = f"metrics cannot be served at {host}:{port} ({getattr(error, 'strerror', None) or error})"
        raise CohabitError(
            f"{reason}: choose other ports with --metrics-port or COHABIT_KAFKA__METRICS_PORT"
        ) from error
    console.print(f"metrics at http://{host}:{server.server_port}/metrics")
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
