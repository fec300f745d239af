"""The commands of the advisor: refresh, serve."""

import gc
from collections.abc import Callable
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from socket import gethostname
from time import time_ns
from typing import TYPE_CHECKING
from uuid import uuid4

from cohabit.config.errors import CohabitError
from cohabit.config.malloc_trim import hold_few_heaps
from cohabit.config.settings import AdvisorSettings, Settings
from cohabit.terminal.console import console
from cohabit.terminal.locations import TOPICS, existing_lake, lake_to_read, registry_of, stop_on_signals, stream_in
from ingest.schema.topics import NODE_STATE, NODE_USAGE, NODES, PLACEMENTS, SAMPLES, USAGE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from threading import Event

    from advisor.admission.admission_advice import Mode
    from advisor.api.http.auth_middleware import Guard
    from advisor.auth.jwks import Issuer
    from advisor.placement.model_state import Serving
    from advisor.ui.site.identity import Entrance
    from cohabit.server.admission_webhook import AdmissionListener
    from cohabit.server.main import Listening
    from cohabit.server.sockets import Certificates
    from cohabit.server.workers import Source
    from ingest.lake.tables import Lake

MAX_DIFFERING = 10
LAST_MINUTES = (USAGE.name, SAMPLES.name, NODE_USAGE.name)
"""Topics of which only the newest messages matter to a refresher."""
OWN_TOPICS = (NODES.name, PLACEMENTS.name, *LAST_MINUTES)
PUBLISHED_TOPICS = (NODES.name, PLACEMENTS.name, NODE_STATE.name, NODE_USAGE.name)


def run_refresh(
    settings: Settings,
    folder: Path | None,
    *,
    lake: str | None,
    snapshots: Path | None,
    bootstrap: str | None,
    cluster: str | None,
    every_s: float,
    from_topic: bool,
) -> None:
    """See `cohabit refresh`."""
    from advisor.cluster.snapshot import next_version
    from cohabit.ingestion.worker import ALONE, foreign_in, formats_of
    from cohabit.refresh.live_state import BEGIN_US, LiveState
    from cohabit.refresh.main import Refresh, refresh_from_files, refresh_from_kafka
    from ingest.kafka_io.offsets import last_minutes
    from ingest.pipeline.kafka_source import ConsumerSettings

    opened, target = lake_to_read(settings, lake), snapshots or settings.snapshots
    how = Refresh(target, every_s, version=next_version(target))
    state = LiveState(cluster or settings.cluster, lambda: time_ns() // 1000)
    if folder is not None:
        refresh_from_files(stream_in(folder), TOPICS, state, opened, how, published=_published)
        return
    hold_few_heaps()
    formats = formats_of(settings, ALONE)
    foreign = () if from_topic else foreign_in(formats)
    broker, topics = settings.kafka.brokers(bootstrap), (*(PUBLISHED_TOPICS if from_topic else OWN_TOPICS), *foreign)
    console.print(f"following cluster {state.cluster} on {broker}: {', '.join(topics)}")
    begin = last_minutes(broker, (*LAST_MINUTES, *foreign), BEGIN_US // 1000)
    state.begin = lambda topic, partition: begin.get((topic, partition))
    group = f"cohabit-refresh-{uuid4().hex}"
    consumer = ConsumerSettings(bootstrap=broker, topics=topics, group=group, max_wait_ms=200, min_bytes=1)
    stop = stop_on_signals()
    with _drafting(settings, opened, target, state.cluster, stop):
        refresh_from_kafka(consumer, state, opened, how, published=_published, stop=stop, formats=formats)


@contextmanager
def _drafting(settings: Settings, lake: "Lake", snapshots: Path, cluster: str, stop: "Event") -> "Iterator[None]":
    """Plans are drafted meanwhile, where the settings ask for it.

    Raises:
        StoreOutdated: the store has not been made, or lacks migrations.
    """
    own = settings.plans
    if not own.interval_s:
        yield
        return
    from advisor.plans.plan_service import Desk
    from cohabit.plans.create import PLANS, Sources
    from cohabit.refresh.plan_loop import Drafting
    from cohabit.terminal.db import checked

    kept = settings.registry.parent / PLANS
    sources = Sources(lake, snapshots, registry_of(settings), kept, own.max_snapshot_age_us)
    with checked(settings) as engine:
        desk = Desk(engine, cluster, own.rules(), lambda: time_ns() // 1000)
        thread = Drafting(sources, desk, own.interval_s, own.webhook, lambda: token_hex(8)).begin(stop)
        console.print(f"a plan is drafted every {own.interval_s:g} s; `cohabit plan list` shows them")
        try:
            yield
        finally:
            stop.set()
            thread.join()


def _published(version: int, nodes: int, residents: int) -> None:
    console.print(f"  snapshot {version}: {nodes:,} nodes, {residents:,} containers")


def _why(serving: "Serving") -> str:
    age, limit = f"{serving.age_s():,.0f} s", f"{serving.max_age_s:,.0f} s"
    return f", the newest message is {age} old (limit {limit}, COHABIT_ADVISOR__MAX_FEATURE_AGE_S)"


def new_id() -> str:
    """A secret of 256 random bits."""
    return token_hex(32)


def source_of(settings: Settings, registry: Path | None = None, snapshots: Path | None = None) -> "Source":
    """What the listeners answer from."""
    from advisor.placement.decision_log import Shares
    from cohabit.server.workers import Source
    from cohabit.terminal.db import address_of

    own = settings.advisor
    parts = registry_of(settings, registry), snapshots or settings.snapshots
    shares = Shares(own.exploration_rate, own.decision_log_share, own.holdout_share)
    return Source(*parts, own.max_feature_age_s, own.feature_log_share, shares, address_of(settings))


def run_skew(settings: Settings, *, lake: str | None, snapshots: Path | None, newest: int) -> bool:
    """See `cohabit model check-skew`; whether enough is equal, or nothing was served."""
    from cohabit.config.errors import NothingServed
    from cohabit.lifecycle.drift import keep_skew
    from cohabit.lifecycle.training_serving_skew import LIMIT, comparable, compare, read_served
    from cohabit.server.workers import SERVED

    opened = existing_lake(settings, lake)
    try:
        kept = read_served((snapshots or settings.snapshots) / SERVED)
    except NothingServed as error:
        console.print(f"nothing to compare: {error}", soft_wrap=True)
        return True
    served = comparable(kept, opened)[-newest:]
    if not served:
        console.print(f"nothing to compare: profiles of all {len(kept):,} vectors were rebuilt since", soft_wrap=True)
        return True
    with console.status(f"computing {len(served):,} feature vectors again"):
        skew = compare(served, opened)
    keep_skew(registry_of(settings), skew.share, datetime.now(UTC))
    console.print(f"{skew.vectors:,} vectors, {skew.values:,} values, {skew.share:.4%} equal (at least {LIMIT:.1%})")
    for name, times in skew.differing.most_common(MAX_DIFFERING):
        console.print(f"  {name} differs in {times:,}")
    return skew.share >= LIMIT


def run_serve(
    settings: Settings,
    *,
    registry: Path | None,
    snapshots: Path | None,
    port: int | None,
    scheduler_port: int | None,
    workers: int | None,
    admission: "Mode | None" = None,
    admission_port: int | None = None,
) -> None:
    """See `cohabit serve`."""
    own = settings.advisor
    _refuse_open_host(own)
    from cohabit.cli.admin.token import local_name
    from cohabit.server.assembly import bill_office_in, office_in, store_in
    from cohabit.server.main import Front, Listening, SchedulerListener, run
    from cohabit.server.peer_discovery import others

    schedulers_at = own.scheduler_port if scheduler_port is None else scheduler_port
    hold_few_heaps()
    source = source_of(settings, registry, snapshots)
    serving = source.opened(lambda: time_ns() // 1000)

    def ready(listening: Listening) -> bool:
        _show(listening)
        gc.collect()
        gc.freeze()  # what is loaded stays: searching it for garbage would stop all answers for a tenth of a second
        if problem := serving.problem():
            console.print(f"all scores are 0 for now: {problem}{_why(serving) if problem == 'stale' else ''}")
        return True

    meant = {"registry": source.registry.root, "snapshots": source.snapshots, "store": source.store}
    own_settings = settings.model_copy(update=meant)
    deciding = office_in(own_settings, serving.now_us, local_name())
    billing = bill_office_in(own_settings, serving.now_us, local_name())
    kept = store_in(own_settings)
    with _guarding(settings, serving) as (guard, entrance), deciding as office, billing as bills, kept as store:
        run(
            serving,
            source,
            Front(own.port if port is None else port, entrance, str(own.host), guard, office, bills, store),
            SchedulerListener(
                port=schedulers_at,
                host=str(own.scheduler_host),
                certificates=_certificates(own),
                workers=own.workers if workers is None else workers,
                peers=others(own.peers, gethostname(), schedulers_at),
                refusing=own.filter == "zero",
                table_file=own.score_table_file,
            ),
            _webhook(own, admission, admission_port),
            ready=ready,
        )


def _show(listening: "Listening") -> None:
    console.print(
        f"people and tools: {listening.main}   schedulers: {listening.scheduler}/extender   Ctrl-C stops",
        soft_wrap=True,
    )
    if listening.admission:
        console.print(f"kube-apiserver: {listening.admission}/admission", soft_wrap=True)


def _webhook(own: AdvisorSettings, mode: "Mode | None", port: int | None) -> "AdmissionListener | None":
    """How kube-apiserver is answered; None where created pods get no advice."""
    from cohabit.server.admission_webhook import AdmissionListener

    chosen, files = own.admission if mode is None else mode, (own.admission_certificate, own.admission_key)
    if chosen == "off":
        return None
    secured = (files[0], files[1]) if files[0] and files[1] else None
    return AdmissionListener(own.admission_port if port is None else port, chosen, str(own.admission_host), secured)


def _refuse_open_host(own: AdvisorSettings) -> None:
    if own.auth == "none" and not own.host.is_loopback:
        raise CohabitError(
            f"COHABIT_ADVISOR__HOST={own.host} is reachable from other machines without authentication: set "
            "COHABIT_ADVISOR__AUTH=token, or leave the host at 127.0.0.1"
        )


@contextmanager
def _guarding(settings: Settings, serving: "Serving") -> "Iterator[tuple[Guard | None, Entrance]]":
    """Who guards the listener for people and tools, None where it is open; and how browsers are recognised there.

    Raises:
        StoreOutdated: the store of tokens has not been made, or lacks migrations.
        StoreAhead: a newer Cohabit has migrated it.
        StoreUnavailable: it does not answer.
        BadIssuer: the address of the issuer is none to trust.
    """
    from advisor.api.http.auth_middleware import Guard
    from advisor.auth.authenticator import Access
    from advisor.auth.denials import Refusals
    from advisor.auth.rate_limit import Rates
    from advisor.ui.site.identity import OpenEntrance
    from advisor.ui.site.sessions import SessionEntrance
    from cohabit.cli.admin.token import local_name
    from cohabit.terminal.db import checked

    if settings.advisor.auth == "none":
        yield None, OpenEntrance(local_name(), serving.now_us, new_id)
        return
    issuer = _issuer(settings.advisor, serving.now_us)
    with checked(settings) as store:
        refusals = Refusals(store, serving.now_us, serving.metrics, lambda: token_hex(8))
        rates = Rates(settings.advisor.client_rate, settings.advisor.client_burst)
        entrance = SessionEntrance(store, serving.now_us, new_id, refusals, rates)
        yield Guard(Access(store, serving.now_us, issuer), refusals, rates), entrance


def _issuer(own: AdvisorSettings, now_us: Callable[[], int]) -> "Issuer | None":
    """The OIDC issuer; one that does not answer now is asked again at the next request.

    Raises:
        BadIssuer: its address is none to trust.
    """
    if own.oidc_issuer is None or own.oidc_audience is None:
        return None
    from advisor.auth.jwks import Issuer, checked_address
    from advisor.auth.oidc import Rules

    rules = Rules(checked_address(own.oidc_issuer), own.oidc_audience, own.oidc_role_claim, own.oidc_roles)
    issuer = Issuer(rules, now_us)
    issuer.ask_now()
    return issuer


def _certificates(own: AdvisorSettings) -> "Certificates | None":
    from cohabit.server.sockets import Certificates

    files = own.scheduler_certificate, own.scheduler_key, own.scheduler_client_ca
    certificate, key, client_ca = files
    return Certificates(certificate, key, client_ca) if certificate and key and client_ca else None
