"""The gate: each request is matched with the routes before any of them sees it, and let in by role or refused.

Routes find who was let in in `request.state.caller`.

What is no route is answered here as well, after the token: outsiders do not learn which routes there are, and nothing
that the gate did not recognise reaches the application.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from advisor.api.http.roles import Door
from advisor.auth.api_tokens import Shown, Signed, shown, signed
from advisor.auth.authenticator import Access, Refusal, forbidden
from advisor.auth.denials import Refusals
from advisor.auth.principal import Caller
from advisor.auth.rate_limit import Rates

ANYONE = "anyone"
NO_ROUTE = "no route"
REALM = 'Bearer realm="cohabit"'
SAID = {
    401: "a valid token is required (`cohabit admin token create`): send the header Authorization: Bearer TOKEN",
    403: "the role of this token does not allow this request",
    429: "too many requests with this token: retry after the time in Retry-After",
    503: "tokens cannot be verified at the moment: retry; the server log has the reason",
}
POLICY_VIOLATION = 1008
PER_SECOND, BURST = 50.0, 100
"""How often one caller may ask, unless settings say otherwise."""


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may do what, and what becomes of the others."""

    access: Access
    refusals: Refusals
    rates: Rates = field(default_factory=lambda: Rates(PER_SECOND, BURST))


class Gate:
    """Middleware: asks for a role before anything of a request but its head is read.

    Args:
        app: what is behind.
        doors: its routes; of several that match, all must let the request in.
        guard: who may use them, and what becomes of the others.
    """

    def __init__(self, app: ASGIApp, doors: Collection[Door], guard: Guard) -> None:
        self.app, self.doors = app, doors
        self.access, self.refusals, self.rates = guard.access, guard.refusals, guard.rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or refuse it."""
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": POLICY_VIOLATION})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        here = [door for door in self.doors if door.pattern.match(scope["path"])]
        matching = [door for door in here if door.method == scope["method"]]
        if matching and all(ANYONE in door.roles for door in matching):
            await self.app(scope, receive, send)
            return
        asked, named = _token(scope), matching[0].name if matching else NO_ROUTE
        found = await self._found(asked, [door.roles for door in matching] or [frozenset({ANYONE})])
        if not isinstance(found, Refusal):
            scope.setdefault("state", {})["caller"] = found
            await (self.app if matching else _not_here(here))(scope, receive, send)
            return
        request_id = await self.refusals.record(found, subject=named, address=address_of(scope))
        await _refused(found, request_id)(scope, receive, send)

    async def _found(self, asked: Shown | Signed | None, doors: Collection[Collection[str]]) -> Caller | Refusal:
        """Who shows this, or why they are not let through all of those doors."""
        caller = await self.access.caller(asked)
        if isinstance(caller, Refusal):
            return caller
        if wait_s := self.rates.wait_s(caller.name, self.access.now_us()):
            return Refusal(429, "too often", caller, retry_s=wait_s)
        return next(filter(None, (forbidden(caller, roles) for roles in doors)), caller)


def _token(scope: Scope) -> Shown | Signed | None:
    """The token that a request shows; one that shows two, or another kind of credentials, shows none."""
    values = Headers(scope=scope).getlist("authorization")
    scheme, _, text = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    return shown(text.strip()) or signed(text.strip()) if scheme.lower() == "bearer" else None


def address_of(scope: Scope) -> str:
    """The client's address, if it is one: a local proxy forwards values that it has not checked."""
    try:
        return str(ip_address((scope.get("client") or ("",))[0]))
    except ValueError:
        return "somewhere"


def _refused(refusal: Refusal, request_id: str) -> JSONResponse:
    """Why not, in words that repeat nothing of the request; wrong, old and taken back tokens read alike."""
    headers = {"X-Request-Id": request_id}
    if refusal.status == 401:
        headers["WWW-Authenticate"] = REALM
    if refusal.retry_s:
        headers["Retry-After"] = str(refusal.retry_s)
    return JSONResponse({"error": SAID[refusal.status]}, refusal.status, headers)


def _not_here(doors: Collection[Door]) -> JSONResponse:
    """What the application would say of a path that it does not have, or not by that method."""
    if doors:
        allow = ", ".join(sorted({door.method for door in doors}))
        return JSONResponse({"error": "Method Not Allowed"}, 405, {"Allow": allow})
    return JSONResponse({"error": "Not Found"}, 404)
