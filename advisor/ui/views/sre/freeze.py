"""Change freeze: one click stops all changes, and every page shows it while it is active."""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from advisor.api.http.roles import allowed
from advisor.errors import StoreUnavailable
from advisor.plans.plan_service import DECIDERS, Actor, Office, opened
from advisor.plans.rules.plan_record import ChangeFreeze
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.site.login import local

log = structlog.get_logger(__name__)
BELIEVED_US = 10**6
"""How long a read change freeze is cached: another server may see it a second earlier."""


@dataclass
class Freezing:
    """The change freeze as pages show it; none is shown while the database does not respond.

    Args:
        office: None where no proposals are kept.
        now_us: the clock.
    """

    office: Office | None
    now_us: Callable[[], int]
    last: ChangeFreeze | None = field(default=None, init=False)
    """As it was found last; for those who must not wait for the store."""
    _asked_us: int | None = field(default=None, init=False)

    def now(self) -> ChangeFreeze | None:
        """The active change freeze; may query the database."""
        now_us = self.now_us()
        if self.office is not None and (self._asked_us is None or not 0 <= now_us - self._asked_us < BELIEVED_US):
            self._asked_us = now_us
            self.last = _found(self.office)
        return self.last

    def forget(self) -> None:
        """Read the database again at the next call."""
        self._asked_us = None


def _found(office: Office) -> ChangeFreeze | None:
    try:
        return office.desk.frozen()
    except StoreUnavailable as error:
        log.warning("cannot read whether a change freeze is active", error=str(error))
        return None


def freeze_routes(freezing: Freezing) -> APIRouter:
    """Routes to freeze and unfreeze changes; both redirect to the page before."""
    router = APIRouter()

    @router.post("/ui/freeze")
    @allowed(*DECIDERS)
    def freeze(request: Request) -> Response:
        """Freeze changes at once."""
        visit: Visit = request.state.visit
        office = opened(freezing.office)
        office.desk.freeze(visit.form.get("reason", ""), actor_of(office, visit))
        return _back(visit)

    @router.post("/ui/unfreeze")
    @allowed(*DECIDERS)
    def unfreeze(request: Request) -> Response:
        """End the change freeze."""
        visit: Visit = request.state.visit
        office = opened(freezing.office)
        office.desk.unfreeze(actor_of(office, visit))
        return _back(visit)

    def _back(visit: Visit) -> Response:
        freezing.forget()
        return RedirectResponse(local(visit.form.get("next", "")), 303)

    return router


def actor_of(office: Office, visit: Visit) -> Actor:
    """Who decides on a page."""
    return office.actor(visit.visitor.caller if visit.visitor else None)
