"""Seen: for which share of a month's container time interference could be seen at all, team by team. An edge."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc

from advisor.billing.ledger import months
from advisor.billing.ledger.drafts import Seen
from advisor.billing.lines.accounts import accounts_by_team
from advisor.billing.pricing.price_book import PriceBook
from features.columnar.windows import LABEL_US, WINDOW_US
from features.contention.node_state import is_best_effort
from features.labels.slowdown import WAITING
from ingest.lake.tables import Lake

TICK = timedelta(microseconds=1)
PER_WINDOW = LABEL_US // WINDOW_US
METERED = ("cluster", "hour", "container", "team", "qos", "minutes", "gap_minutes")
LABELS = ("cluster", "container", "qos", "kind", "log_slowdown")


def seen_by_team(lake: Lake, cluster: str, period: str, books: Sequence[PriceBook]) -> tuple[Seen, ...] | None:
    """What of the metered time of latency-sensitive containers has labels; None where nothing is given back.

    A label made of waiting alone is no ground to give anything back, since its level is not known: it does not count.

    Args:
        lake: where hours were metered.
        cluster: which.
        period: month, as in 2026-11.
        books: versions of the price book that it is billed by.

    Raises:
        Invalid: it is no month.
    """
    if not any(book.policy.theta_ppm for book in books):
        return None
    ran, labelled = Counter[str](), Counter[str]()
    for start, end in months.days(period):
        metered = _sensitive(lake.read("metered", start, end, METERED), cluster)
        known = _sensitive(lake.rows("labels", start + TICK, end + TICK, LABELS), cluster)
        for team, windows, seen in _by_team(metered, known.filter(_priced(known))):
            ran[team] += windows
            labelled[team] += seen
    return tuple(Seen(team, ran[team], labelled[team]) for team in sorted(ran))


def _priced(labels: pa.Table) -> pa.ChunkedArray:
    """Labels that something can be given back by."""
    return pc.and_(labels["log_slowdown"].is_valid(), pc.not_equal(labels["kind"], WAITING))


def _sensitive(rows: pa.Table, cluster: str) -> pa.Table:
    here = rows.filter(pc.equal(rows["cluster"], cluster))
    return here.filter(pa.array(~is_best_effort(here["qos"])))


def _by_team(metered: pa.Table, known: pa.Table) -> list[tuple[str, int, int]]:
    """Accounts with their windows, and those of them with a label; each hour is metered once for each resource."""
    minutes = metered.append_column("there", pc.add(metered["minutes"], metered["gap_minutes"]))
    minutes = minutes.append_column("account", accounts_by_team(metered["team"]))
    hours = minutes.group_by(["hour", "container", "account"], use_threads=False).aggregate([("there", "max")])
    days = hours.group_by(["container", "account"], use_threads=False).aggregate([("there_max", "sum")])
    seen = Counter(known["container"].to_pylist())
    found = zip(*(days[name].to_pylist() for name in ("account", "container", "there_max_sum")), strict=True)
    return [(account, (ran := time // PER_WINDOW), min(seen[container], ran)) for account, container, time in found]
