"""An issuer of tokens: its keys, asked for over HTTPS and kept for a while. An edge.

Requests wait for the issuer only where nothing else can be done: while there are no keys at all, and where a token
names a key that is new. One request at a time goes to the issuer, seldom, and in its own thread; no caller waits
longer than WAIT_S.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from ipaddress import ip_address
from time import monotonic
from typing import NoReturn
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import structlog

from advisor.auth.api_tokens import Signed
from advisor.auth.oidc import Judged, Key, Rules, fitting_key, judge, names_a_key, read_keys
from advisor.errors import BadIssuer, IssuerUnavailable

log = structlog.get_logger(__name__)

FRESH_US = 600 * 10**6
"""How long keys are used before a refresh in the background; a revoked key stays valid so long."""
KEPT_US = 4 * 3600 * 10**6
"""How long keys count of an issuer that does not answer. It makes no tokens meanwhile, and old ones expire."""
NEWER_EVERY_US = 60 * 10**6
"""How often, at most, it is asked for the sake of a key that is not known, or of keys that are old."""
RETRY_EVERY_US = 10 * 10**6
"""How often while there are no keys."""
WAIT_S = 5.0
"""How long an answer may take, and how long a request waits for it."""
MAX_BYTES = 512 << 10
DISCOVERY = "/.well-known/openid-configuration"
LOG_EVERY_US = 60 * 10**6
"""How often the log reports tokens that were made for others or give no role."""


class _NoRedirects(HTTPRedirectHandler):
    """An issuer is where its address says."""

    def redirect_request(self, *_: object) -> None:
        """Nowhere: an answer that sends elsewhere is an error."""


@dataclass
class Issuer:
    """Judges tokens by an issuer's keys; used on one event loop.

    Args:
        rules: who it is, and what its tokens give.
        now_us: the clock.
    """

    rules: Rules
    now_us: Callable[[], int]
    _keys: tuple[Key, ...] = field(default=(), init=False)
    _answered_us: int = field(default=0, init=False)
    _asked_us: int | None = field(default=None, init=False)
    _asking: "Future[None] | None" = field(default=None, init=False)
    _logged_us: dict[str, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="issuer")

    async def judged(self, token: Signed) -> Judged:
        """What the token says.

        Raises:
            IssuerUnavailable: there are no keys to judge it by.
        """
        age_us = self.now_us() - self._answered_us
        if not self._keys or not 0 <= age_us < KEPT_US:
            await self._wait_for(self._ask(RETRY_EVERY_US))
        elif fitting_key(token, self._keys) is None and names_a_key(token):
            await self._wait_for(self._ask(NEWER_EVERY_US))
        elif age_us >= FRESH_US:
            self._ask(NEWER_EVERY_US)
        now_us = self.now_us()
        if not self._keys or not 0 <= now_us - self._answered_us < KEPT_US:
            raise IssuerUnavailable(self.rules.issuer, "it did not respond")
        judged = judge(token, self._keys, self.rules, now_us)
        self._warn(judged, now_us)
        return judged

    def ask_now(self) -> None:
        """Ask for keys and wait for them; where that fails the log has it, and later requests ask again."""
        self._asked_us = self.now_us()
        self._fetch()

    def _ask(self, every_us: int) -> "Future[None] | None":
        """Fetch keys in the thread, unless a fetch was just made; None without a running fetch."""
        if self._asking is not None and not self._asking.done():
            return self._asking
        if self._asked_us is not None and 0 <= self.now_us() - self._asked_us < every_us:
            return None
        self._asked_us = self.now_us()
        self._asking = self._thread.submit(self._fetch)
        return self._asking

    async def _wait_for(self, asking: "Future[None] | None") -> None:
        if asking is not None:
            await asyncio.wait([asyncio.wrap_future(asking)], timeout=WAIT_S)

    def _fetch(self) -> None:
        try:
            self._keys, self._answered_us = fetch_keys(self.rules.issuer), self.now_us()
        except IssuerUnavailable as error:
            log.warning("cannot fetch signing keys", error=str(error), kept=len(self._keys))

    def _warn(self, judged: Judged, now_us: int) -> None:
        """Log the errors that the operator can mend; the audit has the rest."""
        kind = judged.why or "no role"
        if not judged.heard or 0 <= now_us - self._logged_us.get(kind, -LOG_EVERY_US) < LOG_EVERY_US:
            return
        self._logged_us[kind] = now_us
        rules = self.rules
        if judged.why:
            log.warning(
                "a token is for another audience: configure ours at the issuer, or change "
                "COHABIT_ADVISOR__OIDC_AUDIENCE",
                theirs=judged.heard, ours=rules.audience,
            )  # fmt: skip
        else:
            log.warning(
                "a token has no role: map one of its values in COHABIT_ADVISOR__OIDC_ROLES, or name another claim in "
                "COHABIT_ADVISOR__OIDC_ROLE_CLAIM",
                caller=judged.caller and judged.caller.name, claim=rules.role_claim, found=judged.heard,
            )  # fmt: skip


def fetch_keys(issuer: str) -> tuple[Key, ...]:
    """The keys that an issuer signs with now, by its discovery document.

    Raises:
        IssuerUnavailable: it does not answer in time, or not with keys that can be used.
    """
    discovery = _document(issuer, checked_address(issuer).rstrip("/") + DISCOVERY)
    if discovery.get("issuer") != issuer:
        raise IssuerUnavailable(issuer, f"its discovery document names issuer {str(discovery.get('issuer'))[:200]!r}")
    where = str(discovery.get("jwks_uri", ""))
    try:
        checked_address(where)
    except BadIssuer as error:
        raise IssuerUnavailable(issuer, f"its jwks_uri {where[:200]!r} is not an accepted URL") from error
    if where.startswith("http:") and not issuer.startswith("http:"):
        raise IssuerUnavailable(issuer, f"its jwks_uri {where[:200]!r} is without TLS")
    keys = read_keys(_document(issuer, where))
    if not keys:
        raise IssuerUnavailable(issuer, "it has no key for RS256, PS256, ES256 or EdDSA")
    return keys


def checked_address(url: str) -> str:
    """The address.

    Raises:
        BadIssuer: it is not https, but for loopback, or more than scheme, host, port and path.
    """
    try:
        parts = urlsplit(url)
        plain = not (parts.query or parts.fragment or parts.username or parts.password) and parts.port != 0
        host = parts.hostname or ""
    except ValueError as error:
        raise BadIssuer(url) from error
    if not (plain and host and url.isascii() and url.isprintable() and " " not in url):
        raise BadIssuer(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise BadIssuer(url)
    return url


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _document(issuer: str, url: str) -> dict[str, object]:
    """A JSON object, read within bounds of size and time.

    Raises:
        IssuerUnavailable: it cannot be fetched.
    """
    local = _is_loopback(urlsplit(url).hostname or "")
    opener = build_opener(_NoRedirects, *([ProxyHandler({})] if local else []))
    wanted, until_s = Request(url, headers={"Accept": "application/json"}), monotonic() + WAIT_S  # noqa: S310 - checked
    read = bytearray()
    try:
        with opener.open(wanted, timeout=WAIT_S / 2) as reply:
            while part := reply.read1(MAX_BYTES):
                read += part
                if len(read) > MAX_BYTES:
                    _unusable(issuer, f"{url} exceeds {MAX_BYTES} bytes")
                if monotonic() > until_s:
                    _unusable(issuer, f"{url} took longer than {WAIT_S:.0f} s")
        parsed = json.loads(read)
    except HTTPError as error:
        error.close()
        _unusable(issuer, f"{url}: {error}")
    except (OSError, HTTPException) as error:
        _unusable(issuer, f"{url}: {error}")
    except (ValueError, RecursionError):
        _unusable(issuer, f"{url} is not JSON")
    return parsed if isinstance(parsed, dict) else _unusable(issuer, f"{url} is not a JSON object")


def _unusable(issuer: str, reason: str) -> NoReturn:
    raise IssuerUnavailable(issuer, reason)
