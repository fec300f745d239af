"""The gate of the pages: a session, a role and, for whatever changes something, a form of our own.

All three are asked here, before a route: a page that is added later can forget none of them. The gate of the other
routes (advisor.api.http.auth_middleware) knows no cookies, and this one no tokens.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from advisor.api.http.auth_middleware import ANYONE, NO_ROUTE, POLICY_VIOLATION, address_of
from advisor.api.http.csrf import SAFE, is_ours
from advisor.api.http.roles import Door
from advisor.auth.authenticator import Refusal, forbidden
from advisor.ui.site.forms import UnreadableForm, brings, fields, replayed, whole_body
from advisor.ui.site.headers import with_headers
from advisor.ui.site.identity import Entrance, Visitor, csrf_of

SESSION_COOKIE = "cohabit_session"
LOGIN_COOKIE = "cohabit_login"
"""Of who is not logged in yet: their form is bound to it."""
LOGIN = "/ui/login"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a page cannot be shown.

    Args:
        status: of the answer.
        said: in words for people.
        request_id: by which the audit names the same event; empty where it has no row.
        retry_s: when to ask again; 0 where nothing is known of that.
        back: page on which one sees how it is now; empty leads to the first one.
    """

    status: int
    said: str
    request_id: str = ""
    retry_s: int = 0
    back: str = ""


@dataclass(slots=True)
class Visit:
    """A request for a page, as far as it is known; routes find it in `request.state.visit`.

    Args:
        cookie: what the session's cookie says; empty without one.
        visitor: who it is; None who is not logged in.
        form: the fields that were sent, which came from a page of ours.
        address: from where.
    """

    cookie: str
    visitor: Visitor | None
    address: str
    form: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked for: where, by which doors, and what came along in the head."""

    scope: Scope
    visit: Visit
    headers: Headers
    login_cookie: str
    here: list[Door]
    matching: list[Door]

    @property
    def safe(self) -> bool:
        return self.scope["method"] in SAFE

    @property
    def open_to_all(self) -> bool:
        return bool(self.matching) and all(ANYONE in door.roles for door in self.matching)

    @property
    def named(self) -> str:
        return self.matching[0].name if self.matching else NO_ROUTE

    @property
    def csrf(self) -> str:
        """What a form has to bring back; empty where none can."""
        if self.visit.visitor is not None:
            return self.visit.visitor.csrf
        return csrf_of(self.login_cookie) if self.login_cookie else ""


class _Refused(Exception):
    def __init__(self, refusal: Refusal, said: str) -> None:
        self.refusal, self.said = refusal, said


ProblemPage = Callable[[Scope, Problem], Response]
"""Makes the page that reports a problem."""


class PageGate:
    """Middleware around all pages.

    Args:
        app: the pages.
        doors: their routes.
        entrance: who comes in how.
        problem_page: makes the page with the reason of a refusal.
    """

    def __init__(self, app: ASGIApp, doors: Collection[Door], entrance: Entrance, problem_page: ProblemPage) -> None:
        self.app, self.doors, self.entrance, self.problem_page = app, doors, entrance, problem_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show a page, or the reason of a refusal."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})
            return
        asked = self._asked(scope)
        scope.setdefault("state", {})["visit"] = asked.visit
        try:
            answer = await self._answer(asked, receive)
        except _Refused as refused:
            answer = await self._refused(asked, refused)
        except UnreadableForm as error:
            answer = self.problem_page(
                scope, Problem(error.status, "The form is too large, too slow, or cannot be parsed.")
            )
        await answer(scope, receive, with_headers(send))

    def _asked(self, scope: Scope) -> _Asked:
        headers = Headers(scope=scope)
        cookies = cookie_parser(headers.get("cookie", ""))
        visit = Visit(cookies.get(SESSION_COOKIE, ""), None, address_of(scope))
        here = [door for door in self.doors if door.pattern.match(scope["path"])]
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        matching = [door for door in here if door.method == method]
        return _Asked(scope, visit, headers, cookies.get(LOGIN_COOKIE, ""), here, matching)

    async def _answer(self, asked: _Asked, receive: Receive) -> ASGIApp:
        """What answers: the pages, or the way to log in."""
        if not self.entrance.answers_to(asked.headers.get("host", "")):
            raise _Refused(Refusal(403, "another site's name"), "This server accepts only host names of this machine.")
        found = await self.entrance.visitor(asked.visit.cookie)
        if not isinstance(found, Refusal):
            asked.visit.visitor = found
            self._may(found, asked)
        elif not asked.open_to_all:
            return self._to_login(asked, found)
        if not asked.matching:
            return self.problem_page(asked.scope, Problem(405 if asked.here else 404, "There is no such page."))
        return self.app if asked.safe else await self._with_form(asked, receive)

    def _may(self, visitor: Visitor, asked: _Asked) -> None:
        rates = self.entrance.rates
        if rates is not None and (wait_s := rates.wait_s(visitor.caller.name, self.entrance.now_us())):
            raise _Refused(Refusal(429, "too often", visitor.caller, wait_s), "Too many page requests in a short time.")
        for door in asked.matching:
            if ANYONE not in door.roles and (refusal := forbidden(visitor.caller, door.roles)):
                raise _Refused(refusal, f"Your role has no access; allowed roles are {_listed(door.roles)}.")

    async def _with_form(self, asked: _Asked, receive: Receive) -> ASGIApp:
        """The pages, with a form that one of them gave out."""
        body = await whole_body(receive)
        asked.visit.form = fields(asked.headers, body)
        if not is_ours(asked.headers) or not brings(asked.headers, asked.visit.form, asked.csrf):
            caller = asked.visit.visitor.caller if asked.visit.visitor else None
            said = "This form is outdated or not from this server: reload its page."
            raise _Refused(Refusal(403, "no form of ours", caller), said)
        return _replaying(self.app, body)

    def _to_login(self, asked: _Asked, refusal: Refusal) -> ASGIApp:
        """To the page where one logs in, and from there back; who sent a form has to send it again."""
        scope, headers = asked.scope, asked.headers
        if refusal.status != 401:
            raise _Refused(refusal, "Login is temporarily unavailable: retry soon.")
        if not asked.safe:
            return self.problem_page(scope, Problem(401, "Your session has ended: log in, then retry."))
        if "hx-request" in headers:
            return Response(status_code=401, headers={"HX-Redirect": LOGIN})
        query = scope.get("query_string", b"").decode("latin-1")
        there = f"{LOGIN}?{urlencode({'next': scope['path'] + (f'?{query}' if query else '')})}"
        if headers.get("sec-fetch-site") in {"cross-site", "same-site"}:
            return _by_ourselves(there)
        return RedirectResponse(there, 303)

    async def _refused(self, asked: _Asked, refused: _Refused) -> ASGIApp:
        refusals, refusal, request_id = self.entrance.refusals, refused.refusal, ""
        if refusals is not None:
            request_id = await refusals.record(refusal, subject=asked.named, address=asked.visit.address)
        return self.problem_page(asked.scope, Problem(refusal.status, refused.said, request_id, refusal.retry_s))


def _listed(roles: Collection[str]) -> str:
    """Roles in words; admin may see everything."""
    return ", ".join(sorted({*roles, "admin"}))


def _by_ourselves(there: str) -> Response:
    """Go there from a page of ours: browsers do not show the cookie to whom a link of another site leads."""
    return Response(status_code=200, headers={"Refresh": f"0; url={there}"})


def _replaying(app: ASGIApp, body: bytes) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await app(scope, replayed(body, receive), send)

    return answer
