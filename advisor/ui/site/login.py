"""Log in with a token, and out again."""

import re

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from advisor.api.http.roles import allowed
from advisor.auth.api_tokens import ROLES
from advisor.auth.authenticator import Refusal
from advisor.ui.site.auth_middleware import LOGIN, LOGIN_COOKIE, SESSION_COOKIE, Visit
from advisor.ui.site.identity import Entrance, csrf_of
from advisor.ui.site.rendering import Pages

HOME = "/ui/"
MAX_NEXT = 2000
_LOCAL = re.compile(r"/ui(?:/[\w.~%!$&'()*+,;=:@-]+)*/?(?:\?[\w.~%!$&'()*+,;=:@/?-]*)?", re.ASCII)
SAID = {
    401: "This token is invalid, expired or revoked.",
    429: "Too many attempts: wait a minute.",
    503: "Tokens cannot be verified at the moment: retry soon.",
}


def local(path: str) -> str:
    """Where to go after logging in: always a page of this site, for any input."""
    return path if len(path) <= MAX_NEXT and _LOCAL.fullmatch(path) and not path.startswith(LOGIN) else HOME


def login_routes(pages: Pages, entrance: Entrance) -> APIRouter:
    """Routes to log in and out."""
    router = APIRouter()

    def form(request: Request, to: str, refusal: Refusal | None = None) -> Response:
        cookie = request.cookies.get(LOGIN_COOKIE) or entrance.new_id()
        status = refusal.status if refusal else 200
        facts = {"next": to, "login_csrf": csrf_of(cookie), "said": SAID.get(status, "")}
        reply = pages.page(request, "login.html", facts, status)
        if refusal and refusal.retry_s:
            reply.headers["Retry-After"] = str(refusal.retry_s)
        _set(reply, request, LOGIN_COOKIE, cookie, 3600)
        return reply

    @router.get(LOGIN)
    @allowed("anyone")
    async def login(request: Request, next: str = HOME) -> Response:  # noqa: A002
        """The form; who is logged in goes on."""
        visit: Visit = request.state.visit
        return form(request, local(next)) if visit.visitor is None else RedirectResponse(local(next), 303)

    @router.post(LOGIN)
    @allowed("anyone")
    async def log_in(request: Request) -> Response:
        """Begin a session for who brings a token."""
        visit: Visit = request.state.visit
        to = local(visit.form.get("next", HOME))
        opened = await entrance.log_in(visit.form.get("token", "").strip(), visit.address)
        if isinstance(opened, Refusal):
            return form(request, to, opened)
        reply = RedirectResponse(to, 303)
        _set(reply, request, SESSION_COOKIE, opened.cookie, opened.lasts_s)
        reply.delete_cookie(LOGIN_COOKIE, "/ui")
        return reply

    @router.post("/ui/logout")
    @allowed(*ROLES)
    async def log_out(request: Request) -> Response:
        """End the session."""
        visit: Visit = request.state.visit
        if visit.visitor is not None:
            await entrance.log_out(visit.cookie, visit.visitor)
        reply = RedirectResponse(LOGIN, 303)
        reply.delete_cookie(SESSION_COOKIE, "/ui")
        return reply

    return router


def _set(reply: Response, request: Request, name: str, value: str, lasts_s: int) -> None:
    """A cookie for our pages alone, that no script reads and no other site sends."""
    secure = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
    reply.set_cookie(name, value, lasts_s, path="/ui", secure=secure, httponly=True, samesite="strict")
