"""Errors of cost estimates, and the texts that several of them share."""

from collections.abc import Collection

from advisor.errors import AdvisorError, Invalid, NotFound

MAX_LISTED = 5
"""Names that a complaint offers."""


class NoLakeToQuote(AdvisorError):
    """Metered usage cannot be read here."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"cost estimates are not available: {reason}")


def first_few(names: Collection[str]) -> str:
    """The first few of some names."""
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return f"{', '.join(ordered[:MAX_LISTED]) or 'none'}{more}"


def unknown_pool(pool: str, pools: Collection[str]) -> NotFound:
    """A pool without metered rows in the newest hour."""
    what = f"pool {pool[:350]!r} is not in the newest metered hour" if pool else "name a node or a pool"
    return NotFound(f"{what}: known pools are {first_few(pools)}")


def invalid_request(reason: str) -> Invalid:
    """A request from which no cost can be estimated."""
    return Invalid(f"invalid cost estimate request: {reason}")
