"""Headroom: what the nodes of a cluster offer now, from the tables of a lake. An edge around pure functions.

Everything is computed anew from the lake each time: a process that starts again gives the same offers to the digit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from advisor.capacity.interference_cap import Caps, interference_caps
from advisor.capacity.offer_file import OfferReport
from advisor.capacity.offers import (
    RESERVE,
    RESOURCES,
    NodeOffer,
    Resource,
    Revocable,
    Supply,
    corrections,
    in_all,
    limited_by_interference,
    offered,
    room,
)
from advisor.scoring.scorer import ModelScorer
from cohabit.capacity.node_residents import TICK, Fleet, NodeResidents, fleet_at
from cohabit.config.errors import CohabitError
from features.columnar.windows import LABEL_US
from features.demand.app_peaks import AppPeaks
from features.demand.resident_use import Counted, resident_use
from ingest.lake.row_filter import EPOCH, microseconds
from ingest.lake.tables import Lake
from models.headroom.peak_features import DAY
from models.training.fit_peak import forecast_peaks

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Progress = Callable[[str, int, int], None]

HORIZONS_S = (300, 3600, 86_400)
DAYS = 7
YOUNG_US = 86_400 * 1_000_000
"""A resident that came later is not forecast: its request counts."""
LATEST_BINS = 2
"""Bins within which all residents of a node must have been measured."""
AT_ONCE = 1_000_000
"""Minutes of containers that are in memory at once."""
COLUMNS = ["cluster", "node", "container", "app", "window_end", "demand_cpu", "demand_memory"]
UNKNOWN = "unknown"
BIN_S = LABEL_US // 1_000_000


@dataclass(frozen=True)
class Wanted:
    """What is asked for.

    Args:
        horizons_s: how far ahead, seconds; multiples of five minutes, a day at most.
        risk: share of forecasts that residents may exceed, in (0, 1).
        days: how much of the past is trained on, at least two days and the shortest horizon.
        reserve: share of each node that is never offered.
    """

    horizons_s: Sequence[int] = HORIZONS_S
    risk: float = 0.05
    days: int = DAYS
    reserve: float = RESERVE

    def __post_init__(self) -> None:
        odd = [one for one in self.horizons_s if one % BIN_S or not BIN_S <= one <= DAY * BIN_S]
        if odd or not self.horizons_s or not 0 < self.risk < 1:
            raise CohabitError(
                f"horizons {list(self.horizons_s)} s at risk {self.risk}: give multiples of 300 s, up to 86400, and a "
                "risk between 0 and 1"
            )
        if self.days * DAY * BIN_S < 2 * DAY * BIN_S + min(self.horizons_s):
            raise CohabitError(
                f"{self.days} days are too few to forecast {min(self.horizons_s)} s ahead: look at two days and the "
                "horizon, such as --days 3"
            )


def newest_measured(lake: Lake, cluster: str) -> datetime:
    """When the newest measured minute ended.

    Raises:
        CohabitError: the lake has none of this cluster.
    """
    spans = [span[1] for table in ("usage", "samples") if (span := lake.span(table))]
    last = datetime.fromtimestamp(max(spans, default=0) / 1e6, UTC) + timedelta(minutes=2)
    for back in (timedelta(hours=1), timedelta(days=1), timedelta(days=31)):
        rows = lake.read("node_state", max(EPOCH, last - back), last, columns=["cluster", "window_end"])
        ends = rows.filter(pc.equal(rows["cluster"], cluster))["window_end"]
        if len(ends):
            newest: datetime = pc.max(ends).as_py()
            return newest
    raise CohabitError(
        f"the lake {lake.uri} has no minutes of cluster {cluster} (table node_state) in the month before its newest "
        "metrics, so nothing is known of now: run `cohabit features`, and check COHABIT_CLUSTER"
    )


def headroom(
    lake: Lake,
    cluster: str,
    wanted: Wanted,
    at: datetime,
    *,
    scorer: ModelScorer | None,
    now_us: int,
    progress: Progress,
) -> OfferReport:
    """What each node offers at a time.

    Args:
        lake: with features.
        cluster: whose nodes.
        wanted: horizons and risk.
        at: the time, see newest_measured.
        scorer: the model over the newest snapshot, which limits offers by interference; None leaves that out.
        now_us: the time, for the file.
        progress: called with what is done, parts done and parts in all.

    Returns:
        Offers of all nodes that the lake describes, with the reason for each; corrections by the shortest horizon.

    Raises:
        CohabitError: the lake describes no node of the cluster.
    """
    fleet, residents = fleet_at(lake, cluster, at)
    if not len(fleet.names):
        raise CohabitError(
            f"the lake {lake.uri} describes no node of cluster {cluster}, so nothing is known of headroom: send topic "
            "nodes, as `cohabit watch` does, and check COHABIT_CLUSTER"
        )
    end_us = microseconds(at) // LABEL_US * LABEL_US
    counted = ~residents.best_effort & (residents.start_us <= end_us - YOUNG_US)
    uses, peaks = _uses(
        lake, cluster, fleet, _of(residents, counted), end_us=end_us, days=wanted.days, progress=progress
    )
    young = {resource: _young(residents, resource, peaks[resource]) for resource in RESOURCES}
    caps = _caps(scorer, fleet)
    found, over = list[NodeOffer](), list[Floats]()
    pools = {pool: np.flatnonzero(np.array(fleet.pool) == pool) for pool in sorted(set(fleet.pool))}
    steps = len(pools) * len(RESOURCES) * len(wanted.horizons_s)
    for number, (resource, horizon_s) in enumerate((r, h) for r in RESOURCES for h in wanted.horizons_s):
        peak = np.full(len(fleet.names), np.nan)
        for part, rows in enumerate(pools.values()):
            progress("forecasting peaks", number * len(pools) + part, steps)
            peak[rows] = _newest_peaks(uses[resource][rows], horizon_s * 1_000_000 // LABEL_US, wanted.risk)
        case = _Case(fleet, residents, resource, counted, uses[resource], young[resource], caps, peak, end_us)
        found += case.offers(horizon_s, wanted)
        if horizon_s == min(wanted.horizons_s):
            over.append(-room(case.supply(wanted.reserve)))
    held = {resource: _revocable(residents, fleet, resource, young[resource], end_us) for resource in RESOURCES}
    names = fleet.names.to_pylist()
    back = [
        one
        for resource, missing in zip(RESOURCES, over, strict=True)
        for one in corrections(resource, dict(zip(names, np.nan_to_num(missing).tolist(), strict=True)), held[resource])
    ]
    found.sort(key=lambda one: (one.node, one.resource, one.horizon_s))
    return OfferReport(cluster, end_us, now_us, tuple(found), tuple(back))


def _of(residents: NodeResidents, rows: Flags) -> Counted:
    wanted = pa.array(rows)
    return Counted(residents.node.filter(wanted), residents.container.filter(wanted), residents.start_us[rows])


def _uses(
    lake: Lake, cluster: str, fleet: Fleet, counted: Counted, *, end_us: int, days: int, progress: Progress
) -> tuple[dict[Resource, Floats], dict[Resource, AppPeaks]]:
    """By resource, (n, bins) use of counted residents as a share of the node, and peaks of all apps."""
    bins = days * DAY
    start, end = (EPOCH + timedelta(microseconds=us) for us in (end_us - bins * LABEL_US, end_us))
    peaks = {resource: AppPeaks() for resource in RESOURCES}
    uses = {resource: np.full((len(fleet.names), bins), np.nan) for resource in RESOURCES}
    minutes = lake.count("node_state", start + TICK, end + TICK)
    size = max(1, AT_ONCE * len(fleet.names) // max(minutes, 1))
    for begin in range(0, len(fleet.names), size):
        progress("reading minutes", begin, len(fleet.names))
        some = fleet.names[begin : begin + size]
        rows = lake.read("node_state", start + TICK, end + TICK, COLUMNS, nodes=some.to_pylist())
        rows = rows.filter(pc.equal(rows["cluster"], cluster))
        node = np.asarray(pc.index_in(rows["node"], value_set=fleet.names), np.int64)
        for resource in RESOURCES:
            peaks[resource].add(rows["app"], rows[f"demand_{resource}"], fleet.whole[resource][node])
            uses[resource][begin : begin + size] = resident_use(
                rows, f"demand_{resource}", counted, some, end_us=end_us, bins=bins
            )
    return uses, peaks


def _young(residents: NodeResidents, resource: Resource, peaks: AppPeaks) -> Floats:
    """(k,) what each counts for while it is young: its app's peak, else its request; NaN without either."""
    of_app = peaks.of(residents.app)
    return np.where(np.isfinite(of_app), of_app, residents.request[resource])


def _newest_peaks(use: Floats, bins: int, risk: float) -> Floats:
    """(n,) forecast of the newest bin, or of the one before where that was not measured; NaN where neither was."""
    peak = forecast_peaks(use, bins, risk, fit_until=use.shape[1]).peak[:, -LATEST_BINS:]
    last = peak[:, -1]
    for column in peak.T[-2::-1]:
        last = np.where(np.isfinite(last), last, column)
    return np.maximum(last, 0.0)


def _caps(scorer: ModelScorer | None, fleet: Fleet) -> Caps | None:
    """Caps in the order of the fleet; a node that the snapshot does not know is not capped."""
    if scorer is None:
        return None
    names = fleet.names.to_pylist()
    rows = scorer.snapshot.indices(names)
    there = np.flatnonzero(rows >= 0)
    some = interference_caps(scorer, rows[there])
    cores, resident = np.full(len(names), np.inf), np.full(len(names), -1)
    cores[there], resident[there] = some.cores, some.resident
    return Caps(cores, resident, some.names)


@dataclass(frozen=True)
class _Case:
    """One resource and horizon of a fleet."""

    fleet: Fleet
    residents: NodeResidents
    resource: Resource
    counted: Flags
    use: Floats
    while_young: Floats
    caps: Caps | None
    peak: Floats
    end_us: int

    def supply(self, reserve: float) -> Supply:
        """What nodes have, and who claims it."""
        of, residents, name = self._node_of(), self.residents, self.resource
        sizes = (self.fleet.whole[name], self.fleet.allocatable[name])
        whole, allocatable = (np.where(size > 0, size, np.nan) for size in sizes)
        here = of >= 0
        used = residents.use[name] * whole[np.maximum(of, 0)]
        young, booked = np.zeros(len(whole)), np.zeros(len(whole))
        is_young = here & ~residents.best_effort & ~self.counted
        claimed = np.where(np.isfinite(self.while_young), np.fmax(self.while_young, used), np.nan)
        np.add.at(young, of[is_young], claimed[is_young])
        revocable = here & residents.best_effort
        np.add.at(booked, of[revocable], _first_known(residents.request[name], used, self.while_young)[revocable])
        forecast_any = np.isin(np.arange(len(whole)), of[here & self.counted])
        peak = np.where(forecast_any, self.peak * whole / allocatable, 0.0 if self.fleet.placed else np.nan)
        peak[(self.fleet.since_us > self.end_us - YOUNG_US) | self.fleet.closed | ~np.isfinite(whole)] = np.nan
        capped = self.caps is not None and name == "cpu"
        cap = self.caps.cores if capped and self.caps is not None else np.full(len(whole), np.inf)
        return Supply(allocatable, peak, young, booked, cap, reserve)

    def offers(self, horizon_s: int, wanted: Wanted) -> list[NodeOffer]:
        """An offer for each node."""
        supply = self.supply(wanted.reserve)
        amounts, totals, held_back = offered(supply), in_all(supply), limited_by_interference(supply)
        return [
            NodeOffer(
                node=name,
                pool=self.fleet.pool[row],
                resource=self.resource,
                horizon_s=horizon_s,
                risk=wanted.risk,
                offered=float(amounts[row]),
                total=float(totals[row]),
                peak=_known(supply.peak[row] * supply.capacity[row]),
                capacity=_known(supply.capacity[row]),
                booked=_known(supply.booked[row]) or 0.0,
                **dict(zip(("bound_by", "reason"), self._why(row, horizon_s, supply, amounts, held_back), strict=True)),
            )
            for row, name in enumerate(self.fleet.names.to_pylist())
        ]

    def _why(self, row: int, horizon_s: int, supply: Supply, amounts: Floats, held_back: Flags) -> tuple[str, str]:
        """What limits an offer, and the sentence."""
        if (unknown := self._unknown(row, horizon_s, supply)) is not None:
            return unknown
        if held_back[row] and self.caps is not None:
            name = self.caps.names[self.caps.resident[row]]
            return "interference", f"more could slow {name} down beyond 1.25 times its baseline"
        if amounts[row] <= 0:
            return "full", "nothing is left by forecast peak, claims and reserve"
        return "peak", "left by forecast peak, claims of young and best-effort containers, and reserve"

    def _unknown(self, row: int, horizon_s: int, supply: Supply) -> tuple[str, str] | None:
        """Why nothing is offered at all; None where enough is known."""
        resource = self.resource
        if not np.isfinite([supply.capacity[row], self.fleet.whole[resource][row]]).all():
            return UNKNOWN, f"{resource} of the node is not described in topic nodes, or is 0"
        if self.fleet.closed[row]:
            return "closed", "a taint keeps new pods away: the node is cordoned, or failed"
        if not np.isfinite(supply.peak[row]):
            return self._unforecast(row, horizon_s)
        if not np.isfinite(supply.young[row]):
            who = self._without_request(row)
            return UNKNOWN, f"{who} is young, its app was measured for too short, and it requests no {resource}"
        if not np.isfinite(supply.booked[row]):
            return UNKNOWN, f"a best-effort container requests no {resource}, and was not measured lately"
        return None

    def _unforecast(self, row: int, horizon_s: int) -> tuple[str, str]:
        if self.fleet.since_us[row] > self.end_us - YOUNG_US:
            return "young", f"the node was described first {_hours(self.end_us - self.fleet.since_us[row])} hours ago"
        if not self.fleet.placed and not ((self._node_of() == row) & self.counted).any():
            return UNKNOWN, "no placements say who is on the node: send topic placements, as `cohabit watch` does"
        known = np.isfinite(self.use[row])
        if not known[-LATEST_BINS:].any():
            mine = (self._node_of() == row) & self.counted
            silent = mine & ~np.isfinite(self.residents.use[self.resource])
            names = ", ".join(self.residents.container.filter(pa.array(silent)).to_pylist()[:3])
            who = f"{int(silent.sum())} of {int(mine.sum())} residents ({names})" if silent.any() else "residents"
            return "stale", f"{who} were not measured in the last {LATEST_BINS * 5} minutes"
        hours = _hours(int(known.sum()) * LABEL_US)
        needed = _hours(2 * DAY * LABEL_US + horizon_s * 1_000_000)
        return "young", f"residents were measured for {hours} hours of the {needed} that a forecast needs"

    def _without_request(self, row: int) -> str:
        mine = (self._node_of() == row) & ~self.counted & ~self.residents.best_effort
        without = mine & ~np.isfinite(self.while_young)
        return str(self.residents.container.filter(pa.array(without))[0].as_py())

    def _node_of(self) -> Ints:
        """(k,) row of each resident's node, -1 where it is not described."""
        found = pc.index_in(self.residents.node, value_set=self.fleet.names)
        return np.asarray(found.fill_null(-1), np.int64)


def _hours(us: int) -> str:
    return f"{us / 3.6e9:,.1f}"


def _first_known(*columns: Floats) -> Floats:
    """(k,) of each row the first value that is known; NaN where none is."""
    found = columns[0]
    for column in columns[1:]:
        found = np.where(np.isfinite(found), found, column)
    return found


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _revocable(
    residents: NodeResidents, fleet: Fleet, resource: Resource, while_young: Floats, end_us: int
) -> list[Revocable]:
    """Best-effort containers with what they claim, as it is booked, and the work that would be lost with them."""
    of = np.asarray(pc.index_in(residents.node, value_set=fleet.names).fill_null(0), np.int64)
    used = residents.use[resource] * fleet.whole[resource][of]
    held = np.nan_to_num(_first_known(residents.request[resource], used, while_young))
    cores = np.nan_to_num(residents.use["cpu"] * fleet.whole["cpu"][of])
    work = cores * np.maximum(end_us - residents.start_us, 0) / 1e6
    rows = np.flatnonzero(residents.best_effort)
    names, nodes = residents.container.to_pylist(), residents.node.to_pylist()
    return [Revocable(names[row], nodes[row], float(held[row]), float(work[row])) for row in rows]
