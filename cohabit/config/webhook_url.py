"""Webhook: validation of its address."""

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit


def checked_webhook(value: object) -> object:
    """A valid webhook address: https, or http on loopback.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(str(value))
    if parts.username or parts.password or any(c.isspace() for c in str(value)) or not _has_port(parts):
        raise ValueError("give https://HOST/PATH without user and spaces")
    if value is None or (parts.scheme == "https" and parts.hostname):
        return value
    if parts.scheme == "http" and parts.hostname and _is_loopback(parts.hostname):
        return value
    raise ValueError("give https://HOST/PATH; http counts on loopback alone")


def _has_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
