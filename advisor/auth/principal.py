"""Callers: who asks, and what they may do. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from advisor.auth.api_tokens import TokenRole


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody whose word is believed.

    Args:
        name: as in the audit: of a token of ours, or `oidc:` and the subject of an issuer's.
        roles: what they may act as; an issuer may know people to whom we give none.
        team: whose bills they may see as role `team`; None where that is nobody's.
    """

    name: str
    roles: frozenset[TokenRole]
    team: str | None = None

    def may(self, roles: Collection[str]) -> bool:
        """Whether one of those roles is theirs; `admin` is everybody, `anyone` is whoever has a role at all."""
        return "admin" in self.roles or not self.roles.isdisjoint(roles) or ("anyone" in roles and bool(self.roles))
