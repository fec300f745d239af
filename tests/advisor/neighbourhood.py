"""A small cluster on whose second node is who was metered in the last hours of a month."""

from dataclasses import replace

from advisor.cluster.snapshot import Snapshot
from tests.advisor.billing.bill_offices import NODES
from tests.advisor.clusters import snapshot


def neighbourhood(as_of_us: int | None = None) -> Snapshot:
    """Three nodes with four containers each."""
    drawn = snapshot(3, nodes=3, residents=(4, 4), missing=0.0)
    names = [*drawn.containers[:4], "web-1", "web-2", "crawl-1", "lost-1", *drawn.containers[8:]]
    assert drawn.nodes == NODES
    return replace(drawn, containers=tuple(names), as_of_us=drawn.as_of_us if as_of_us is None else as_of_us)
