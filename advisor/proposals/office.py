"""Office: what whoever shows proposals and takes decisions needs. Facts."""

from dataclasses import dataclass

from advisor.proposals.desk import Desk, Stale


@dataclass(frozen=True)
class Office:
    """Where decisions are taken.

    Args:
        desk: of the cluster.
        stale: tries the steps of a proposal again in the cluster as it is now; may take seconds.
    """

    desk: Desk
    stale: Stale
