"""The command `capacity headroom`: what nodes offer, as tables, files and patches that people review."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING

import orjson

from cohabit.cli.operate.newest_scorer import newest_scorer
from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from cohabit.terminal.console import bar, console, printable, show_table
from cohabit.terminal.locations import existing_lake
from ingest.schema.atomic_file import replace_atomically

if TYPE_CHECKING:
    from advisor.capacity.offer_file import OfferReport
    from advisor.capacity.offers import NodeOffer

MAX_SHOWN = 40
SIZES = (1, 2, 4)
"""Cores of containers that are counted."""
GB = 1e9
WORDS = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400}


@dataclass(frozen=True)
class Asked:
    """Options of the command."""

    lake: str | None
    horizons: Sequence[str]
    risk: float
    days: int
    reserve: float
    out: Path | None
    publish_to: Path | None
    export: tuple[str, Path] | None
    metrics: Path | None
    send: bool
    model: bool


def run_headroom(settings: Settings, asked: Asked) -> None:
    """See `cohabit capacity headroom`."""
    from advisor.capacity.offer_export import EXPORTS, prometheus_text
    from advisor.capacity.offer_file import write_offers
    from cohabit.capacity.headroom import Wanted, headroom, newest_measured

    horizons = _seconds(asked.horizons)
    _refuse_what_cannot_be_done(asked, horizons)
    opened = existing_lake(settings, asked.lake, reads=True)
    at = newest_measured(opened, settings.cluster)
    scorer, without = newest_scorer(settings, at) if asked.model else (None, "--no-model")
    wanted = Wanted(horizons, asked.risk, asked.days, asked.reserve)
    with bar("headroom") as shown:
        report = headroom(
            opened, settings.cluster, wanted, at, scorer=scorer, now_us=time_ns() // 1000, progress=shown.advance
        )
    _show(report, without)
    now_us = time_ns() // 1000
    standing = report.standing(now_us)
    if standing != report:
        age = (now_us - report.at_us) / 60e6
        console.print(
            f"stale: the newest measured minute is {age:,.0f} minutes old, so offers in exports, metrics and messages "
            "are 0: run `cohabit features`"
        )
    if asked.publish_to is not None:
        console.print(f"published: {write_offers(asked.publish_to, report)}", soft_wrap=True)
    if asked.send:
        _send(settings, standing)
    if asked.out is not None:
        asked.out.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        console.print(f"written: {asked.out}")
    if asked.export is not None:
        form, file = asked.export
        patches = EXPORTS[form](standing.offers)
        file.write_bytes(b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in patches))
        console.print(f"written: {len(patches)} patches in {file}, none applied; docs/headroom.md shows how")
    if asked.metrics is not None:
        text = prometheus_text(report.cluster, report.at_us, standing.offers)
        replace_atomically(asked.metrics, text.encode())
        console.print(f"written: {asked.metrics}")


def _refuse_what_cannot_be_done(asked: Asked, horizons: Sequence[int]) -> None:
    """Before anything is read.

    Raises:
        CohabitError: an export that does not exist, a horizon that one needs and that is not computed, no such folder.
    """
    from advisor.capacity.offer_export import EXPORTS
    from advisor.capacity.offer_file import HOUR_S

    form = asked.export[0] if asked.export is not None else ""
    if asked.export is not None and form not in EXPORTS:
        raise CohabitError(f"--export {form} {asked.export[1]}: give {', '.join(EXPORTS)}, then a file")
    if HOUR_S not in horizons and (asked.publish_to is not None or form in {"koordinator", "extended"}):
        what = f"--export {form}" if form in {"koordinator", "extended"} else "--publish"
        raise CohabitError(f"{what} needs the horizon of an hour: add --horizon 1h")
    for file in (asked.out, asked.metrics, asked.export[1] if asked.export is not None else None):
        if file is not None and not file.absolute().parent.is_dir():
            raise CohabitError(f"{file}: the folder does not exist")


def _send(settings: Settings, report: "OfferReport") -> None:
    """Each offer as a message; the topic keeps the newest of each."""
    from ingest.kafka_io.replay import Sender
    from ingest.kafka_io.stream_files import Message
    from ingest.schema.topics import HEADROOM, message_key

    with closing(Sender(settings.kafka.brokers())) as sender:
        for one in report.offers:
            record = {"cluster": report.cluster, "ts": report.at_us / 1e6, **asdict(one)}
            message = Message(report.created_us // 1000, message_key(HEADROOM, record), orjson.dumps(record))
            sender.send(HEADROOM.name, message)
        sender.flush()
    console.print(f"sent: {len(report.offers)} offers to topic {HEADROOM.name}")


def _seconds(horizons: Sequence[str]) -> list[int]:
    unknown = [one for one in horizons if one not in WORDS]
    if unknown:
        raise CohabitError(f"--horizon {unknown[0]}: choose from {', '.join(WORDS)}")
    return sorted({WORDS[one] for one in horizons})


def _show(report: "OfferReport", without: str) -> None:
    """How much was looked at, sums by pool, and nodes."""
    at = datetime.fromtimestamp(report.at_us / 1e6, UTC)
    nodes = {one.node for one in report.offers}
    horizons = sorted({one.horizon_s for one in report.offers})
    first = [one for one in report.offers if (one.resource, one.horizon_s) == ("cpu", horizons[0])]
    unknown = Counter(one.bound_by for one in first if one.peak is None)
    known = len(nodes) - len({one.node for one in report.offers if one.peak is None})
    console.print(f"up to {at:%Y-%m-%d %H:%M} UTC: {len(nodes)} nodes, of {known} enough is known at every horizon")
    if unknown:
        counts = ", ".join(f"{why} {number}" for why, number in unknown.most_common())
        console.print(f"nodes without an offer of CPU for {_words(horizons[0])}, by reason: {counts}")
    if without:
        console.print(printable(f"without the limit by interference: {without}"))
    pools = sorted({one.pool for one in report.offers})
    rows = [
        _pool_row([one for one in report.offers if (one.pool, one.horizon_s) == (p, h)], p, h)
        for p in pools
        for h in horizons
    ]
    columns = ("pool", "horizon", "cores", "GB", "largest, cores", *(f"{size}-core pods" for size in SIZES))
    show_table("headroom for best-effort containers", columns, rows)
    by_node: dict[tuple[str, str, int], NodeOffer] = {(o.node, o.resource, o.horizon_s): o for o in report.offers}
    shown = sorted(nodes)[:MAX_SHOWN]
    show_table(
        "by node",
        ("node", *(_words(h) for h in horizons), "GB", "limited by", "why"),
        [_node_row(node, horizons, by_node) for node in shown],
    )
    if len(nodes) > MAX_SHOWN:
        console.print(f"{len(nodes) - MAX_SHOWN} more nodes; --json FILE has all")
    risk = report.offers[0].risk if report.offers else 0.0
    console.print(f"residents may exceed what is left for them in {risk:.0%} of forecasts; offers are revocable")
    for one in report.corrections[:MAX_SHOWN]:
        frees = f"{one.frees:.2f} cores" if one.resource == "cpu" else f"{one.frees / GB:.1f} GB"
        console.print(printable(f"gives back first on {one.node}: {one.container}, {frees} ({one.action})"))


def _pool_row(some: Sequence["NodeOffer"], pool: str, horizon_s: int) -> tuple[str, ...]:
    cpu = [one.offered for one in some if one.resource == "cpu"]
    memory = sum(one.offered for one in some if one.resource == "memory") / GB
    fits = (str(sum(int(cores // size) for cores in cpu)) for size in SIZES)
    return (pool, _words(horizon_s), f"{sum(cpu):,.1f}", f"{memory:,.0f}", f"{max(cpu, default=0):.1f}", *fits)


def _node_row(node: str, horizons: Sequence[int], by_node: dict[tuple[str, str, int], "NodeOffer"]) -> tuple[str, ...]:
    last = by_node[node, "cpu", horizons[-1]]
    cores = (f"{by_node[node, 'cpu', horizon].offered:.1f}" for horizon in horizons)
    memory = by_node[node, "memory", horizons[-1]].offered / GB
    return (node, *cores, f"{memory:,.0f}", last.bound_by, "" if last.bound_by == "peak" else printable(last.reason))


def _words(horizon_s: int) -> str:
    return next((word for word, seconds in WORDS.items() if seconds == horizon_s), f"{horizon_s} s")
