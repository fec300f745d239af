"""Deciding: the offices where people decide, on plans and on bills, as far as what they need is there. An edge.

What tries steps again reads the lake; it is loaded with the first approval, and one approval is tried at a time.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from threading import Lock

import structlog
from sqlalchemy import Engine

from advisor.admission.room_file import NewestRooms
from advisor.auth.principal import Caller
from advisor.billing.ledger.closing import Closing
from advisor.billing.quotes.dependencies import BillOffice
from advisor.errors import AdvisorError, BadStoreUrl, StoreAhead, StoreOutdated, StoreUnavailable, Unavailable
from advisor.gangs.gang_costs import table_costs
from advisor.gangs.gang_desk import GangDesk
from advisor.placement.prioritizer import Prioritizer
from advisor.plans.plan_service import Desk, Office, Stale
from advisor.plans.rules.plan_record import Proposal
from cohabit.billing.quotes.last_hour import NewestHour
from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from cohabit.terminal.db import checked
from features.schema.errors import FeaturesError
from ingest.schema.errors import IngestError
from models.errors import ModelsError

log = structlog.get_logger(__name__)

NOT_THERE = (StoreOutdated, StoreAhead, StoreUnavailable, BadStoreUrl)
FAILED = (AdvisorError, CohabitError, FeaturesError, IngestError, ModelsError, OSError)


@contextmanager
def office_in(settings: Settings, now_us: Callable[[], int], local: str) -> Iterator[Office | None]:
    """The office that the settings name; None where there is no lake, or no store of this version.

    Args:
        settings: with the folders that the server answers from.
        now_us: the clock.
        local: the user that decides where no login is required.
    """
    with ExitStack() as stack:
        store = _store(settings, stack) if is_there(settings.lake) else None
        if store is None:
            yield None
            return
        desk = Desk(store, settings.cluster, settings.plans.rules(), now_us)
        yield Office(desk, tried_in(settings, desk), Caller(local, frozenset({"admin"})))


@contextmanager
def bill_office_in(settings: Settings, now_us: Callable[[], int], local: str) -> Iterator[BillOffice | None]:
    """The office of bills that the settings name; None where there is no store of this version.

    Args:
        settings: with the store and the folder of lines.
        now_us: the clock.
        local: the user that decides where no login is required.
    """
    with ExitStack() as stack:
        store = _store(settings, stack)
        if store is None:
            yield None
            return
        closing = Closing(store, settings.cluster, now_us)
        who = Caller(local, frozenset({"admin"}))
        yield BillOffice(closing, settings.billing.ledger_dir, who, newest=NewestHour(settings, now_us))


@contextmanager
def store_in(settings: Settings) -> Iterator[Engine | None]:
    """The store that the settings name; None where there is none of this version."""
    with ExitStack() as stack:
        yield _store(settings, stack)


def gang_desk(store: Engine, prioritizer: Prioritizer, snapshots: Path) -> GangDesk:
    """Where gangs are placed by what schedulers are answered from, and reserved in a store."""
    serving, rooms = prioritizer.serving, NewestRooms(snapshots)
    return GangDesk(
        store,
        lambda: serving.snapshot,
        rooms.newest,
        partial(table_costs, prioritizer.from_table.believed),
        serving.now_us,
        serving.metrics,
        lambda of: prioritizer.want(of, missing=prioritizer.replies is None or of not in prioritizer.replies.row_of),
    )


def is_there(lake: str) -> bool:
    """Whether a lake was ever made at an address; one that cannot be reached counts, since servers start without it."""
    from ingest.lake.stores import store_of

    try:
        return bool(lake) and store_of(lake).is_there()
    except IngestError as error:
        log.warning("cannot reach the lake; plans and quotes are unavailable until it answers", error=str(error))
        return True


def tried_in(settings: Settings, desk: Desk) -> Stale:
    """Tries steps again by what the settings name."""
    one_at_a_time = Lock()

    def stale(proposal: Proposal, steps: Collection[int]) -> Mapping[int, str]:
        from cohabit.plans.create import PLANS, Sources, stale_now
        from cohabit.terminal.locations import existing_lake, registry_of

        try:
            lake, registry = existing_lake(settings, None, reads=True), registry_of(settings)
            of = Sources(
                lake, settings.snapshots, registry, settings.registry.parent / PLANS, settings.plans.max_snapshot_age_us
            )
            with one_at_a_time:
                return stale_now(of, desk)(proposal, steps)
        except FAILED as error:
            raise Unavailable(f"the steps cannot be validated again, so nothing was decided: {error}") from error

    return stale


def _store(settings: Settings, stack: ExitStack) -> Engine | None:
    try:
        return stack.enter_context(checked(settings))
    except NOT_THERE:
        return None
