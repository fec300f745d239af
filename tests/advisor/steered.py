"""Steering leases as tests want them."""

from advisor.placement.reservation_match import Lease

FAR_US = 10**18


def lease(name: str, node: str, *, app: str = "web", template_hash: str = "", **more: object) -> Lease:
    """One of cluster `c` and namespace `shop` that does not expire."""
    given = {"cluster": "c", "namespace": "shop", "expires_us": FAR_US, "proposal": "p", "step": 1, **more}
    return Lease(lease=name, node=node, app=app, template_hash=template_hash, **given)  # type: ignore[arg-type]
