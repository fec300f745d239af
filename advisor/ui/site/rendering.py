"""Rendering: pages from templates, with what every page shows: who looks, where they may go, what forms bring back."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Protocol
from urllib.parse import quote

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse
from starlette.types import Scope

from advisor.billing.lines.money import MICROS, exponent_of, in_coins, written
from advisor.diagnosis import coverage
from advisor.ui.site.assets import Asset, address_in
from advisor.ui.site.auth_middleware import Problem, Visit
from advisor.ui.site.glossary import term

TITLES = {
    400: "Invalid request",
    401: "Login required",
    403: "Access denied",
    404: "Page not found",
    405: "Page not found",
    408: "Request timed out",
    409: "Changed meanwhile",
    413: "Request too large",
    422: "Invalid value",
    423: "Changes are frozen",
    429: "Too many requests",
    500: "Internal error",
    503: "Temporarily unavailable",
}


RESOURCES = {
    "cpu": "CPU",
    "cpu_elsewhere": "CPU elsewhere",
    "llc": "last-level cache",
    "memory_bandwidth": "memory bandwidth",
    "memory": "memory",
    "disk": "disk",
    "disk_ios": "disk operations",
    "net": "network",
    "gpu": "GPU",
    "pcie": "PCIe",
    "rdma": "RDMA",
}
"""Display names of resources."""
MEANINGS = {
    "antagonist": "A neighbour adds most of its slowdown",
    "self-inflicted": "Its own CPU limit throttles it",
    "host": "Most others on the node are slow too, beyond what neighbours explain",
    "downstream": "Only its latency is high, as is that of its replicas on other nodes",
    "no offender": "No neighbour adds enough slowdown, or the strongest one is uncertain",
    "not enough data": "Too few of its last windows could be compared with its baseline",
}
"""Of verdicts, in a sentence."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the navigation leads: its route says who may go there."""

    path: str
    label: str
    key: str
    """Pressed after `g`."""


PLACES = (
    Place("/ui/cluster", "Cluster", "c"),
    Place("/ui/victims", "Victims", "v"),
    Place("/ui/plans", "Plans", "p"),
    Place("/ui/bills", "Bills", "b"),
    Place("/ui/prices", "Prices", "m"),
    Place("/ui/quotes", "Cost estimates", "q"),
    Place("/ui/capacity", "Capacity", "k"),
)
DECIDED = {
    "open": "Not decided yet",
    "approved": "To be carried out",
    "rejected": "Not to be carried out",
    "stale": "No longer valid",
    "holdout": "In the randomised holdout, as control group of the others",
}
"""What a decision on a step means, in a sentence."""


class ChangeFreezes(Protocol):
    """Whether a change freeze is active."""

    @property
    def office(self) -> object | None:
        """None where no change freeze is possible."""

    @property
    def last(self) -> object | None:
        """The freeze that held at the last request."""

    def now(self) -> object | None:
        """The active change freeze; may query the database."""


@dataclass
class Pages:
    """Makes pages.

    Args:
        known: files that pages refer to.
        now_us: the clock.
        change_freezes: whether a change freeze is active.
        doors: who may use each route, as in "GET /ui/cluster".
    """

    known: Mapping[str, Asset]
    now_us: Callable[[], int]
    change_freezes: ChangeFreezes
    doors: Mapping[str, Collection[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loader = PackageLoader("advisor.ui")
        made = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        made.globals["term"] = term
        made.globals["static"] = partial(address_in, self.known)
        made.filters |= {
            "ratio": ratio,
            "percent": percent,
            "money": money,
            "exact": written,
            "coins": coins,
            "moment": moment,
            "segment": partial(quote, safe=""),
            "ago": lambda at_us: duration(max(self.now_us() - at_us, 0) / 1e6),
            "plural": plural,
            "resource": resource,
            "meaning": lambda verdict: MEANINGS.get(verdict, ""),
            "decided": lambda decision: DECIDED.get(decision, ""),
            "sentence": sentence,
            "looked_at": coverage.sentence,
            "part_percent": coverage.part_percent,
            "whole_percent": lambda share: coverage.whole_percent(share) if isfinite(share) else "–",
            "unseen": lambda reason: coverage.WHY.get(reason, reason),
        }
        self._made = made

    def page(self, request: Request, template: str, facts: Mapping[str, object], status: int = 200) -> HTMLResponse:
        """A whole page, or what a template makes of a part of one."""
        visit: Visit = request.scope["state"]["visit"]
        freeze = self.change_freezes.now() if visit.visitor else None
        return self._page(request.scope, template, status, {"freeze": freeze, **facts})

    def problem(self, scope: Scope, of: Problem) -> HTMLResponse:
        """The page with the reason why there is no other."""
        facts = {"problem": of, "title": TITLES.get(of.status, TITLES[500]), "freeze": self.change_freezes.last}
        reply = self._page(scope, "problem.html", of.status, facts)
        if of.request_id:
            reply.headers["X-Request-Id"] = of.request_id
        if of.retry_s:
            reply.headers["Retry-After"] = str(of.retry_s)
        return reply

    def _page(self, scope: Scope, template: str, status: int, facts: Mapping[str, object]) -> HTMLResponse:
        visit: Visit = scope["state"]["visit"]
        visitor = visit.visitor

        def may(door: str) -> bool:
            return visitor is not None and visitor.caller.may(self.doors[door])

        shown = self._made.get_template(template).render(
            visitor=visitor,
            places=[place for place in PLACES if may(f"GET {place.path}")],
            path=scope["path"],
            here=scope["path"] if scope["method"] == "GET" else "/ui/plans",
            csrf=visitor.csrf if visitor else "",
            may=may,
            may_freeze=self.change_freezes.office is not None and may("POST /ui/freeze"),
            **facts,
        )
        return HTMLResponse(shown, status)


def ratio(value: float) -> str:
    """A slowdown; a dash where it is not known."""
    return f"{value:.2f}" if isfinite(value) else "–"


def percent(value: float) -> str:
    """A share, small ones more exactly; a dash where it is not known."""
    if not isfinite(value):
        return "–"
    return f"{value:.1%}" if 0.0005 <= abs(value) < 0.0995 else f"{value:.0%}"


def money(micros: int) -> str:
    """An amount to the hundredth; the table or the title next to it has it to the micro-unit."""
    return f"{Decimal(micros) / MICROS:,.2f}"


def coins(minor: int, currency: str) -> str:
    """What an account pays, from the smallest coins of the currency."""
    return in_coins(minor, exponent_of(currency))


def resource(name: str) -> str:
    """A resource as people call it."""
    return RESOURCES.get(name.replace(" ", "_"), name)


def sentence(said: str) -> str:
    """A sentence of its own, of what was said within one."""
    return f"{said[:1].upper()}{said[1:]}{'' if said.endswith('.') else '.'}" if said else ""


def moment(at_us: int) -> str:
    """A time, UTC, to the minute."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M}"


def duration(seconds: float) -> str:
    """A duration, in the largest unit of which it has at least two."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def plural(count: int, one: str, several: str = "") -> str:
    """So many of something."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
