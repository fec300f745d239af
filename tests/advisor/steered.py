"""Steering reservations as tests want them."""

from advisor.placement.reservation_match import Reservation

FAR_US = 10**18


def reservation(name: str, node: str, *, app: str = "web", template_hash: str = "", **more: object) -> Reservation:
    """One of cluster `c` and namespace `shop` that does not expire."""
    given = {"cluster": "c", "namespace": "shop", "expires_us": FAR_US, "plan": "p", "step": 1, **more}
    return Reservation(reservation=name, node=node, app=app, template_hash=template_hash, **given)  # type: ignore[arg-type]
