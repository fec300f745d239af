"""Callers: who asks, and what they may do. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from advisor.auth.api_tokens import TokenRole


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated client.

    Args:
        name: as in the audit: of a token of ours, or `oidc:` and the subject of an issuer's.
        roles: what they may act as; an issuer may know people to whom we give none.
        team: the team whose bills role `team` reads; None without a team.
    """

    name: str
    roles: frozenset[TokenRole]
    team: str | None = None

    def may(self, roles: Collection[str]) -> bool:
        """Whether one of those roles is theirs; `admin` has every role, `anyone` is any principal with a role."""
        return "admin" in self.roles or not self.roles.isdisjoint(roles) or ("anyone" in roles and bool(self.roles))
