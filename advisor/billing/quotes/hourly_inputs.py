"""Newest: the newest metered hour of a cluster, from which quotes take what pools cost and sold. Facts."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.lines.money import MICROS
from advisor.billing.pricing.price_book import PriceBook, utc
from advisor.billing.quotes.cost_estimate import Asked, Need, Sold
from advisor.billing.quotes.errors import unknown_pool
from advisor.errors import NotFound


@dataclass(frozen=True)
class Newest:
    """An hour of all pools.

    Args:
        hour_us: its start, microseconds since 1970.
        metered: its rows of table `metered`.
        pools: its rows of table `pool_hours`.
        pool_of: pool of each node that was described by its end.
    """

    hour_us: int
    metered: pa.Table
    pools: pa.Table
    pool_of: Mapping[str, str]

    def sold(self, pool: str, book: PriceBook) -> Sold:
        """What a pool cost and sold.

        Raises:
            NotFound: it is none of the hour.
        """
        row = self.pools.filter(pc.equal(self.pools["pool"], pool))
        if not row.num_rows:
            raise unknown_pool(pool, self.pools["pool"].to_pylist())
        return Sold(book, self.metered.filter(pc.equal(self.metered["pool"], pool)), row)

    def pool_at(self, node: str) -> str:
        """The pool of a node.

        Raises:
            NotFound: the pool is not known.
        """
        if node not in self.pool_of:
            raise NotFound(
                f"the pool of node {node[:253]!r} is unknown: check its messages on topic nodes before the end of the "
                "newest metered hour"
            )
        return self.pool_of[node]

    def team_of(self, container: str) -> str | None:
        """The team of a container; None where it was not metered, or has none."""
        found = self.metered.filter(pc.equal(self.metered["container"], container))
        return str(found["team"][0].as_py() or "") or None if found.num_rows else None

    def asked(self, container: str, untold_tier: str, hours: int) -> tuple[Asked, str]:
        """A container as it was metered, and its node: of several the one on which it was for most minutes.

        Its request and use are means over the minutes in which they are known.

        Raises:
            NotFound: it was not metered, or nothing of it is known.
        """
        found = self.metered.filter(pc.equal(self.metered["container"], container))
        if not found.num_rows:
            raise _unknown_container(container, utc(self.hour_us))
        rows = found.to_pylist()
        node = max(rows, key=lambda row: (row["minutes"] + row["gap_minutes"], row["node"]))["node"]
        here = [row for row in rows if row["node"] == node]
        needs = tuple(_need(row) for row in here if row["minutes"])
        if not needs:
            raise _unknown_container(container, utc(self.hour_us), "has neither request nor use")
        one = here[0]
        return Asked(container, one["app"], one["team"], one["qos"] or untold_tier, needs, hours), node


def _need(row: Mapping[str, object]) -> Need:
    """Means over the minutes of a row of `metered`."""
    of = {name: int(str(row[name])) for name in ("minutes", "requested", "within", "beyond")}
    units = of["minutes"] * MICROS
    return Need(str(row["resource"]), of["requested"] / units, (of["within"] + of["beyond"]) / units)


def _unknown_container(container: str, hour: str, what: str = "was not metered") -> NotFound:
    return NotFound(
        f"container {container[:253]!r} {what} in the hour from {hour}: name a running container, or estimate a new "
        "one by team and resources"
    )
