"""Webhook: which address may be told of plans."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def checked_webhook(told: object) -> object:
    """An address that may be told of plans: https, or http on loopback.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(str(told))
    if told is None or (parts.scheme == "https" and parts.hostname):
        return told
    if parts.scheme == "http" and parts.hostname and _is_loopback(parts.hostname):
        return told
    raise ValueError("give https://HOST/PATH; http counts on loopback alone")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
