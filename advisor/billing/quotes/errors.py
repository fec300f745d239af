"""Errors of cost estimates, one class per action a caller can take."""

from collections.abc import Collection

from advisor.errors import AdvisorError

MAX_LISTED = 5
"""Names that a complaint offers."""


class NothingMetered(AdvisorError):
    """No hour was metered yet."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        super().__init__(
            f"no hour of cluster {cluster!r} is metered yet, so the cost of its pools is unknown: run "
            "`cohabit bill meter`"
        )


class NoLakeToQuote(AdvisorError):
    """Metered usage cannot be read here."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"cost estimates are not available: {reason}")


class UnknownPool(AdvisorError):
    """A pool without metered rows in the newest hour."""

    def __init__(self, pool: str, pools: Collection[str]) -> None:
        self.pool, self.pools = pool, tuple(pools)
        what = f"pool {pool[:350]!r} is not in the newest metered hour" if pool else "name a node or a pool"
        super().__init__(f"{what}: known pools are {_some(pools)}")


class UnknownPlace(AdvisorError):
    """A node of an unknown pool."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(
            f"the pool of node {node[:253]!r} is unknown: check its messages on topic nodes before the end of the "
            "newest metered hour"
        )


class UnknownContainer(AdvisorError):
    """A container that was not metered in the newest hour, or without request and use in it."""

    def __init__(self, container: str, hour: str, what: str = "was not metered") -> None:
        self.container, self.hour, self.what = container, hour, what
        super().__init__(
            f"container {container[:253]!r} {what} in the hour from {hour}: name a running container, or estimate "
            "a new one by team and resources"
        )


class UnknownTier(AdvisorError):
    """A class of service that the price book does not name."""

    def __init__(self, tier: str, book: str, tiers: Collection[str]) -> None:
        self.tier, self.book, self.tiers = tier, book, tuple(tiers)
        super().__init__(f"tier {tier[:80]!r} is not in price book {book!r}: choose one of {_some(tiers)}")


class UnknownMetered(AdvisorError):
    """A resource that is not metered."""

    def __init__(self, resource: str, resources: Collection[str]) -> None:
        self.resource, self.resources = resource, tuple(resources)
        super().__init__(f"resource {resource[:80]!r} is not metered: choose one of {_some(resources)}")


class BadAsk(AdvisorError):
    """A request from which no cost can be estimated."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"invalid cost estimate request: {reason}")


def _some(names: Collection[str]) -> str:
    """The first few of some names."""
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return f"{', '.join(ordered[:MAX_LISTED]) or 'none'}{more}"
