"""Worth of plans: what those that were carried out were to save, and did."""

from collections import Counter
from dataclasses import dataclass

from advisor.errors import StoreOutdated
from advisor.plans import store as proposal_store
from advisor.plans.rules.plan_record import State
from cohabit.config.settings import Settings
from cohabit.terminal.db import checked

CONCLUDED: tuple[State, ...] = ("confirmed", "refuted")


@dataclass(frozen=True)
class PlansWorth:
    """Plans of a cluster whose outcome is known.

    Args:
        confirmed: how many saved as much as they promised at least.
        refuted: how many did not.
        predicted: cost an hour that they were to save together, as far as it was measured.
        realised: what they did.
    """

    confirmed: int
    refuted: int
    predicted: float
    realised: float


def plans_worth(settings: Settings) -> PlansWorth | None:
    """What plans were worth; None where there is no store, or nothing was concluded yet.

    Raises:
        StoreUnavailable: the database does not answer.
    """
    try:
        with checked(settings) as engine:
            states = Counter(one.state for one in proposal_store.listed(engine, settings.cluster, CONCLUDED))
            predicted, realised = proposal_store.achieved(engine, settings.cluster)
    except StoreOutdated:
        return None
    if not states:
        return None
    return PlansWorth(states["confirmed"], states["refuted"], predicted, realised)


def sentence_of(found: PlansWorth) -> str:
    """The same in words."""
    return (
        f"plans: {found.confirmed} confirmed, {found.refuted} refuted; together they save {found.realised:.2f} an hour "
        f"of {found.predicted:.2f} that was predicted (docs/rescheduling.md)"
    )
