"""Quoting: what a new container, another request or a move costs, by what was metered and what a model foresees."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from advisor.billing.interference.expected_adjustment import Colocation, Named
from advisor.billing.ledger import price_book_store as book_store
from advisor.billing.lines.accounts import account_of
from advisor.billing.pricing.charges import UNTOLD_TIER
from advisor.billing.pricing.price_book import HOUR_US, PriceBook, book_at
from advisor.billing.quotes.cost_estimate import BEST_EFFORT, Asked, Need, Quote, quote
from advisor.billing.quotes.dependencies import BillOffice, other_team
from advisor.billing.quotes.errors import invalid_request, unknown_pool
from advisor.billing.quotes.hourly_inputs import Newest
from advisor.billing.quotes.pairwise_effects import IncomingPod, colocation
from advisor.billing.quotes.quote_diff import Change, changed, moved
from advisor.cluster.pending_pod import PendingPod
from advisor.cluster.snapshot import Snapshot
from advisor.placement.model_state import Serving
from advisor.remediation.migration_options import without
from advisor.scoring.scorer import ModelScorer
from features.metering.units import RESOURCES
from features.schema.catalog import NAMES
from features.schema.catalog import RESOURCES as SHARED

Floats = NDArray[np.float64]

NEW = "a new container"
"""Stands for a uid, which none contains."""
ANOTHER_TEAM = "a container of another team"
"""Replaces the uid of a neighbour that the client may not see; its effect is shown all the same."""
SHARED_AS = {
    of.name: (number, of.scale)
    for of in RESOURCES
    for number, resource in enumerate(SHARED)
    if resource.usage == of.usage
}
"""Of what is metered its row in the catalogue, and units of it in one of the catalogue's."""
UNREQUESTED = {of.name for of in RESOURCES if of.request is None}
WHY_NOT = {
    "no_bundle": "no model is promoted: run `cohabit model train`",
    "no_snapshot": "there is no snapshot: run `cohabit refresh`",
    "not_loaded": "the model is not loaded yet: retry in a second",
    "stale": "the newest snapshot is too old: check that `cohabit refresh` runs",
    "ahead": "the newest snapshot is dated later than this machine's clock",
    "fallen_back": "the model failed its drift check: see `cohabit model drift`",
}


@dataclass(frozen=True, slots=True)
class Ask:
    """What is to be quoted: a new container, or what another request or node changes for one that runs.

    Args:
        container: uid of one that runs; None for a new one.
        needs: of a new one all; of one that runs what is to be other than it was metered.
        team: of a new one.
        app: of a new one; None where unknown.
        tier: of a new one; None takes the tier of containers of unknown class.
        node: of a new one; None quotes the pool.
        pool: of a new one without a node.
        move_to: node that one that runs would go to.
        hours: that it runs.
    """

    container: str | None = None
    needs: tuple[Need, ...] = ()
    team: str | None = None
    app: str | None = None
    tier: str | None = None
    node: str | None = None
    pool: str | None = None
    move_to: str | None = None
    hours: int = 1


@dataclass(frozen=True)
class Grounds:
    """What is quoted from.

    Args:
        book: in force.
        newest: hour that was metered.
        scorer: predicts slowdowns; None without a model.
        why: the reason for no scorer.
    """

    book: PriceBook
    newest: Newest
    scorer: ModelScorer | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """A quote; of a container that runs also as it is, and what would change."""

    quote: Quote
    before: Quote | None = None
    change: Change | None = None


def grounds_of(bills: BillOffice, serving: Serving) -> Grounds:
    """What is quoted from now.

    Raises:
        NotFound, Forbidden: no price book is in force.
        NotFound, NoLakeToQuote: nothing was metered, or it cannot be read here.
    """
    book = book_at(book_store.books(bills.closing.engine), bills.closing.now_us() // HOUR_US * HOUR_US)
    newest = bills.newest()
    scorer, problem = serving.scorer, serving.problem() or ("fallen_back" if serving.by_load else "")
    if scorer is None or problem:
        return Grounds(book, newest, None, WHY_NOT.get(problem, problem))
    if scorer.snapshot.cluster != bills.closing.cluster:
        return Grounds(book, newest, None, f"the snapshot is of another cluster ({scorer.snapshot.cluster})")
    return Grounds(book, newest, scorer)


def answered(ask: Ask, of: Grounds, own: str | None = None) -> Answer:
    """A quote.

    Args:
        ask: what is to be quoted.
        of: from what.
        own: the only team that is quoted for; None quotes for all.

    Raises:
        Forbidden: it is about another one's.
        Invalid: it does not say what is to be quoted.
        NotFound, Invalid: something of that name is not known.
        Conflict: the hour cannot be billed.
    """
    if ask.container is None:
        return _seen_by(own, Answer(_new(ask, of, own)))
    if own is not None and of.newest.team_of(ask.container) != own:
        raise other_team(own)
    return _seen_by(own, _other(ask, of, ask.container))


def _seen_by(own: str | None, answer: Answer) -> Answer:
    """An answer whose neighbours have names only where they are of the team that may see no other; None sees all."""
    if own is None:
        return answer
    before = None if answer.before is None else _unnamed(own, answer.before)
    return replace(answer, quote=_unnamed(own, answer.quote), before=before)


def _unnamed(own: str, of: Quote) -> Quote:
    if of.transfers is None:
        return of
    seen = (one if one.team == account_of(own) else _anonymous(one) for one in of.transfers.neighbours)
    return replace(of, transfers=replace(of.transfers, neighbours=tuple(seen)))


def _anonymous(one: Named) -> Named:
    return replace(one, of=replace(one.of, container=ANOTHER_TEAM, app=None), team=None)


def _new(ask: Ask, of: Grounds, own: str | None) -> Quote:
    team = ask.team or own
    if own is not None and team != own:
        raise other_team(own)
    if team is None:
        raise invalid_request("name the team that would pay, or a running container")
    pool = ask.pool or ""
    if ask.node is not None:
        pool = of.newest.pool_at(ask.node)
        if ask.pool not in (None, pool):
            raise unknown_pool(f"{ask.pool} of node {ask.node}", [pool])
    needs = tuple(map(_as_metered, ask.needs))
    return _quoted(Asked(NEW, ask.app, team, ask.tier or UNTOLD_TIER, needs, ask.hours), of, pool, ask.node)


def _as_metered(need: Need) -> Need:
    """A need of a resource without requests, such as network: the request equals the use."""
    if need.resource not in UNREQUESTED:
        return need
    return Need(need.resource, None, need.request if need.use is None else need.use)


def _other(ask: Ask, of: Grounds, container: str) -> Answer:
    now, home = of.newest.asked(container, UNTOLD_TIER, ask.hours)
    there = home if ask.move_to is None else ask.move_to
    before = _quoted(now, of, of.newest.pool_at(home), home)
    after = _quoted(replace(now, needs=_merged(now.needs, ask.needs)), of, of.newest.pool_at(there), there)
    change = changed(before, after) if there == home else moved(before, after)
    return Answer(after, before, change)


def _merged(now: tuple[Need, ...], other: tuple[Need, ...]) -> tuple[Need, ...]:
    """Needs as they are, but for what is said otherwise."""
    found = {need.resource: need for need in now}
    for need in other:
        old = found.get(need.resource, Need(need.resource))
        request = old.request if need.request is None else need.request
        found[need.resource] = _as_metered(Need(need.resource, request, old.use if need.use is None else need.use))
    return tuple(need for need in found.values() if need.request is not None or need.use is not None)


def _quoted(asked: Asked, of: Grounds, pool: str, node: str | None) -> Quote:
    foreseen, why = (None, "") if node is None else _foreseen(asked, of, node)
    return quote(asked, of.newest.sold(pool, of.book), node, foreseen, why)


def _foreseen(asked: Asked, of: Grounds, node: str) -> tuple[Colocation | None, str]:
    """What the model says of a container on a node, or why it says nothing."""
    if of.scorer is None:
        return None, of.why
    snapshot, used = _left(of.scorer.snapshot, asked.container)
    [row] = snapshot.indices([node])
    if row < 0:
        return None, f"the containers on node {node!r} are unknown: the newest snapshot lacks them"
    pending_pod = PendingPod(asked.app or "", asked.team, asked.tier == BEST_EFFORT)
    incoming = IncomingPod(pending_pod, _expected(asked.needs, used))
    found = colocation(replace(of.scorer, snapshot=snapshot), incoming, int(row))
    return found, "" if found is not None else f"the model has no prediction for node {node!r}"


def _left(snapshot: Snapshot, container: str) -> tuple[Snapshot, Floats]:
    """The snapshot without a container, and what that used; NaN where it is not there."""
    if container not in snapshot.containers:
        return snapshot, np.full(len(NAMES), np.nan)
    row = snapshot.containers.index(container)
    return without(snapshot, row), snapshot.resident_use[row]


def _expected(needs: tuple[Need, ...], used: Floats) -> Floats:
    """(resources,) use as the model counts it: what is asked for, else what was measured."""
    found = used.copy()
    for need in needs:
        if need.use is not None and need.resource in SHARED_AS:
            number, scale = SHARED_AS[need.resource]
            found[number] = need.use / scale
    return found
