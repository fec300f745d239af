"""Office: what whoever shows proposals and takes decisions needs. Facts."""

from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex

from advisor.auth.api_tokens import TokenRole
from advisor.auth.principal import Caller
from advisor.plans.approvals import Actor, Desk, Stale
from advisor.plans.rules.errors import NoOffice

READERS: tuple[TokenRole, ...] = ("sre", "admin", "planner")
"""Who may read proposals."""
DECIDERS: tuple[TokenRole, ...] = ("sre", "admin")
"""Who may decide on them, and halt everything."""


def _new_id() -> str:
    return token_hex(8)


@dataclass(frozen=True)
class Office:
    """Where decisions are taken.

    Args:
        desk: of the cluster.
        stale: tries the steps of a proposal again in the cluster as it is now; may take seconds.
        local: who decides where nobody is asked for a name.
        new_id: makes the name of an event, by which the reply and the audit call it.
    """

    desk: Desk
    stale: Stale
    local: Caller = field(default_factory=lambda: Caller("local", frozenset({"admin"})))
    new_id: Callable[[], str] = _new_id

    def actor(self, caller: Caller | None) -> Actor:
        """Who decides, as the audit has it; None is whoever reaches an open listener."""
        who = caller or self.local
        return Actor(who.name, "admin" if "admin" in who.roles else "sre", self.new_id())


def opened(office: Office | None) -> Office:
    """The office.

    Raises:
        NoOffice: there is none.
    """
    if office is None:
        raise NoOffice
    return office
