"""A bench: proposals over a drawn cluster, on a server in this process, so that tests see the desk behind the pages."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from secrets import token_hex
from threading import Thread
from time import sleep, time_ns

from prometheus_client import CollectorRegistry
from uvicorn import Config, Server

from advisor.api.app import create_app
from advisor.api.http.auth_middleware import Guard
from advisor.auth.authenticator import Access
from advisor.auth.denials import Refusals
from advisor.auth.rate_limit import Rates
from advisor.billing.quotes.dependencies import BillOffice
from advisor.cluster.snapshot import Snapshot, publish
from advisor.diagnosis.report_file import DiagnosisReport, write_report
from advisor.diagnosis.slowdown_causes import Diagnosis
from advisor.placement.model_state import Serving
from advisor.plans.rules.plan_record import Plan, Step
from advisor.remediation.action import Field, Kind
from advisor.ui.app import PageRouter, create_pages
from advisor.ui.site.sessions import SessionEntrance
from models.registry.registry import Registry
from tests.advisor.billing.bill_offices import bill_office
from tests.advisor.plans.made import plan as plan_of
from tests.advisor.plans.made import step, who
from tests.advisor.plans.offices import Bureau
from tests.advisor.stores import migrated_store
from tests.advisor.ui.page_site import Site
from tests.advisor.ui.town import sick, town

CHANGED: tuple[tuple[Kind, str, tuple[Field, ...]], ...] = (
    ("move antagonist", "without it there is room for the others", ()),
    ("cpu.max", "it keeps 60% of its cores", (Field("cgroup", "cpu.max", "480000 100000"),)),
    ("move victim", "the other node has room, and nobody there presses on it", ()),
)

MINUTE_US = 60 * 10**6


@dataclass
class Bench:
    """The server, what it shows, and the desk behind it."""

    site: Site
    bureau: Bureau
    snapshot: Snapshot
    report: DiagnosisReport
    bills: BillOffice
    serving: Serving
    numbers: Iterator[int] = field(default_factory=count)

    def put(self, after: int = 0) -> Plan:
        """A new proposal, for those who suffer after so many others; the later they are the older it is."""
        created_us = self.bureau.now_us - (11 + 29 * after) * MINUTE_US
        digest = f"{0x9E3779B1 * (1 + next(self.numbers)) % 2**32:08x}"
        made = proposed(self.snapshot, self.report, f"p{created_us // 10**6:x}-{digest}", created_us, after)
        self.bureau.put(made)
        return made


@contextmanager
def bench(folder: Path, nodes: int = 40, victims: int = 20) -> Iterator[Bench]:
    """A server that asks for tokens, ended with the block."""
    now_us = time_ns() // 1000
    snapshot = town(nodes, now_us)
    report = sick(snapshot, victims)
    publish(folder / "snapshots", snapshot)
    write_report(folder / "snapshots", report)
    (folder / "registry").mkdir()
    serving = Serving(folder / "snapshots", Registry(folder / "registry"), 120.0, _now_us, CollectorRegistry())
    serving.reload()
    with migrated_store(folder / "store.sqlite") as store:
        bureau = Bureau(store, now_us=now_us)
        refusals = Refusals(store, _now_us, serving.metrics, lambda: token_hex(8))
        guard = Guard(Access(store, _now_us), refusals, Rates(1000.0, 10_000))
        entrance = SessionEntrance(store, _now_us, lambda: token_hex(32), refusals, guard.rates)
        bills = bill_office(store, folder)
        pages = create_pages(serving, entrance, bureau.office, bills)
        with _listening(PageRouter(create_app(serving, guard, office=bureau.office, bills=bills), pages)) as main:
            yield Bench(Site(main, folder), bureau, snapshot, report, bills, serving)


def proposed(of: Snapshot, report: DiagnosisReport, name: str, created_us: int, after: int) -> Plan:
    """Steps of three kinds for three who suffer, and one that is held back."""
    antagonists = [one for one in report.diagnoses if one.verdict == "antagonist" and one.suspects]
    kinds = (*CHANGED, CHANGED[0])
    steps = tuple(
        _step(of, one, number, *how)
        for number, (one, how) in enumerate(zip(antagonists[after:], kinds, strict=False), 1)
    )
    made = plan_of(name=name, created_us=created_us, of=steps, holdout=(4,))
    return replace(made, snapshot=of.version, bundle="2026-02-27T09")


def _step(of: Snapshot, one: Diagnosis, number: int, kind: Kind, why: str, fields: tuple[Field, ...]) -> Step:
    suspect, moved = one.suspects[0], not fields
    container, app = (one.container, one.app) if kind == "move victim" else (suspect.container, suspect.app)
    free = of.nodes[(7 * number) % len(of.nodes)]
    gain = round(2.6 * (one.slowdown - 1.0) + 0.2, 2)
    made = step(number, kind, of=who(container, app=app or ""), source=one.node, target=free if moved else None)
    return replace(
        made,
        who=replace(made.who, namespace="shop", name=container, team="blue", best_effort=suspect.qos == "BE"),
        round=1 + number // 3,
        fields=fields,
        victims=(one.container,),
        verdict=one.reason,
        why=why,
        gain=gain,
        low=gain - 0.35,
        high=gain + 0.4,
        there=0.12 if moved else 0.0,
        cost=0.4 if moved else 0.1,
        sufficient=None if kind == "move victim" else 0.97 - 0.04 * number,
    )


def _now_us() -> int:
    return time_ns() // 1000


@contextmanager
def _listening(app: PageRouter) -> Iterator[str]:
    server = Server(Config(app, port=0, log_level="warning", lifespan="off", ws="none"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
