"""Accounts: the account of each team, which is never one of the ledger's own. Kernel."""

import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.lines.line import PLATFORM, UNATTRIBUTED

POOL = "pool:"
"""Prefix of the accounts of pools; these are never billed."""
ROUNDING = "rounding"
"""The account of what no coin can pay."""
TEAM = "team:"
"""Prefix of the account of a team whose name is an account already."""


def account_of(team: str | None) -> str:
    """The account of a team: its name, behind `team:` where another account has that name; UNATTRIBUTED without a team.

    Source: ours, docs/decisions/0049-billing.md.
    """
    if team is None:
        return UNATTRIBUTED
    taken = team in {PLATFORM, UNATTRIBUTED, ROUNDING} or team.startswith((POOL, TEAM))
    return TEAM + team if taken else team


def accounts_by_team(teams: pa.ChunkedArray) -> pa.ChunkedArray:
    """(n,) the account of each team; a missing team is UNATTRIBUTED."""
    names = pc.unique(teams)
    found = pa.array([account_of(name) for name in names.to_pylist()], pa.string())
    return found.take(pc.index_in(teams, names))
