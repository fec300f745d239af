"""Own site: whether a browser requests a page of this site or of another. An open listener checks nothing else.

Another site can have its name mean our address, and then read what we say, or send what needs no leave of a browser.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

SAFE = {"GET", "HEAD"}
GUARDED = "/v1/"
"""Paths below it read or change state; probes and metrics are requested under many host names."""
OTHER_NAME = (
    "this API requires no token, and so accepts only host names of this machine: use localhost or "
    "127.0.0.1, or set COHABIT_ADVISOR__AUTH=token"
)
OTHER_SITE = "the request came from a page of another site and was rejected"


class OwnSite:
    """Middleware of an open listener: refuses what another site could have a browser ask.

    Args:
        app: what is behind.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        refusal = _refusal(scope) if scope["type"] == "http" and scope["path"].startswith(GUARDED) else ""
        answer = JSONResponse({"error": refusal}, 403) if refusal else self.app
        await answer(scope, receive, send)


def is_loopback(host: str) -> bool:
    """Whether a header Host is one of loopback's names and addresses, on any port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def is_ours(headers: Headers) -> bool:
    """Whether a browser says that one of our own pages sent this, or is too old to say."""
    fetch_site = headers.get("sec-fetch-site")
    if fetch_site is not None:
        return fetch_site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def _refusal(scope: Scope) -> str:
    """Why a request is not answered; empty where it is."""
    headers = Headers(scope=scope)
    if not is_loopback(headers.get("host", "")):
        return OTHER_NAME
    return "" if scope["method"] in SAFE or is_ours(headers) else OTHER_SITE
