"""Errors of quotes, one class per action a caller can take."""

from collections.abc import Collection

from advisor.errors import AdvisorError

MAX_LISTED = 5
"""Names that a complaint offers."""


class NothingMetered(AdvisorError):
    """No hour was metered yet."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        super().__init__(
            f"no hour of cluster {cluster!r} was metered yet, so that nothing tells what its pools cost: run "
            "`cohabit bill meter`"
        )


class NoLakeToQuote(AdvisorError):
    """What was metered cannot be read here."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"nothing can be quoted here: {reason}")


class UnknownPool(AdvisorError):
    """A pool that nothing was metered of in the newest hour."""

    def __init__(self, pool: str, pools: Collection[str]) -> None:
        self.pool, self.pools = pool, tuple(pools)
        what = f"pool {pool[:350]!r} is none of the newest metered hour" if pool else "name a node or a pool"
        super().__init__(f"{what}: there are pools {_some(pools)}")


class UnknownPlace(AdvisorError):
    """A node of an unknown pool."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(
            f"no pool is known of node {node[:253]!r}: has it sent a message on topic nodes before the newest metered "
            "hour ended?"
        )


class UnknownContainer(AdvisorError):
    """A container that was not metered in the newest hour, or of which nothing is known in it."""

    def __init__(self, container: str, hour: str, what: str = "was not metered") -> None:
        self.container, self.hour, self.what = container, hour, what
        super().__init__(
            f"container {container[:253]!r} {what} in the hour from {hour}: name one that runs, or quote a "
            "new one by team and resources"
        )


class UnknownTier(AdvisorError):
    """A class of service that the price book does not name."""

    def __init__(self, tier: str, book: str, tiers: Collection[str]) -> None:
        self.tier, self.book, self.tiers = tier, book, tuple(tiers)
        super().__init__(f"tier {tier[:80]!r} is none of price book {book!r}: there are {_some(tiers)}")


class UnknownMetered(AdvisorError):
    """A resource that is not metered."""

    def __init__(self, resource: str, resources: Collection[str]) -> None:
        self.resource, self.resources = resource, tuple(resources)
        super().__init__(f"resource {resource[:80]!r} is not metered: there are {_some(resources)}")


class BadAsk(AdvisorError):
    """A question that does not say what is to be quoted."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"this cannot be quoted: {reason}")


def _some(names: Collection[str]) -> str:
    """The first few of some names."""
    ordered = sorted(names)
    more = f" and {len(ordered) - MAX_LISTED} more" if len(ordered) > MAX_LISTED else ""
    return f"{', '.join(ordered[:MAX_LISTED]) or 'none'}{more}"
