"""Freezing: one click stops all changes, and every page says so while it holds."""

from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from advisor.api.http.roles import allowed
from advisor.errors import StoreUnavailable
from advisor.plans.approvals import DECIDERS, Actor, Office, opened
from advisor.plans.rules.plan_record import ChangeFreeze
from advisor.ui.site.auth_middleware import Visit
from advisor.ui.site.login import local

log = structlog.get_logger(__name__)
BELIEVED_US = 10**6
"""How long it is not asked again whether everything is frozen: another server may know a second earlier."""


@dataclass
class Freezing:
    """What pages say of freezes. Nothing is said while the store does not answer.

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
        """The freeze that holds; may ask the store."""
        now_us = self.now_us()
        if self.office is not None and (self._asked_us is None or not 0 <= now_us - self._asked_us < BELIEVED_US):
            self._asked_us = now_us
            self.last = _found(self.office)
        return self.last

    def forget(self) -> None:
        """Ask anew the next time."""
        self._asked_us = None


def _found(office: Office) -> ChangeFreeze | None:
    try:
        return office.desk.frozen()
    except StoreUnavailable as error:
        log.warning("nobody knows whether changes are frozen", error=str(error))
        return None


def freeze_routes(freezing: Freezing) -> APIRouter:
    """Routes to freeze and to go on; both lead back to where one was."""
    router = APIRouter()

    @router.post("/ui/freeze")
    @allowed(*DECIDERS)
    def freeze(request: Request) -> Response:
        """Stop at once."""
        visit: Visit = request.state.visit
        office = opened(freezing.office)
        office.desk.freeze(visit.form.get("reason", ""), actor_of(office, visit))
        return _back(visit)

    @router.post("/ui/unfreeze")
    @allowed(*DECIDERS)
    def unfreeze(request: Request) -> Response:
        """Go on."""
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
