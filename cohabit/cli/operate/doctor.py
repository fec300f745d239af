"""`cohabit doctor`: look whether what runs does what it should."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.terminal.console import console
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cohabit.doctor.finding import Finding
    from cohabit.doctor.scheduler import Wish
    from cohabit.doctor.scheduler_config import Configured

doctor_app = typer.Typer(no_args_is_help=True, help="Check a running deployment. Exits 1 on any failed check.")


@doctor_app.callback()
def doctor() -> None:
    """Check a running deployment. Exits 1 on any failed check."""


@doctor_app.command("scheduler")
@reports_errors
def scheduler_command(
    *,
    url: Annotated[
        str | None, typer.Option(help="URL of the extender API; default: --config's urlPrefix, else loopback.")
    ] = None,
    people_url: Annotated[
        str | None, typer.Option(help="URL of the management API, which has reasons; default: loopback.")
    ] = None,
    nodes: Annotated[
        str | None, typer.Option(help="Candidate node names, comma-separated; default: the advisor's own.")
    ] = None,
    app: Annotated[str | None, typer.Option(help="App of the pending pod; default: an unseen app.")] = None,
    requests: Annotated[int, typer.Option(min=1, max=100_000, help="Number of sequential requests to time.")] = 200,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also check this KubeSchedulerConfiguration (YAML).")
    ] = None,
) -> None:
    """Check a running advisor as kube-scheduler uses it; one line per check, with its remedy.

    kube-scheduler silently drops late or malformed scores, so its log does not show lost advice. This command sends the
    same requests with up to 500 of the advisor's nodes. It checks status, keys, integers, order, snapshot age,
    differences between nodes, scores of a new node and a new app, the source of scores, and the duration of 200
    requests against httpTimeout (100ms without --config). The pod has no uid, so no pod is assumed.

    [dim]cohabit doctor scheduler --config /etc/kubernetes/scheduler.yaml --app web[/]

    Lines begin with ok, warning or problem. Exits 1 on a problem. docs/scheduler.md explains each check.
    """
    raise typer.Exit(
        not run_doctor_scheduler(url, people_url, nodes=nodes, app=app, requests=requests, config_path=config)
    )


@doctor_app.command("ingest")
@reports_errors
def ingest_command(
    *,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", help="Kafka, host:port [COHABIT_KAFKA__BOOTSTRAP].")
    ] = None,
    lake: LakeOption = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Also this topic, NAME=FORMAT as for `cohabit ingest`.")
    ] = None,
) -> None:
    """Check topics against the lake: recreated topics, records behind, and open transactions that hold a partition.

    The newest samples of the lake are looked at first: exporters that report memory and no CPU, and exporters that
    report another node name than the placements of their pods. What has labels is looked at by `cohabit doctor labels`.

    Ingestion reads committed records only. A transaction that a producer never ended holds its partition; the line
    names the producer id, since when, and the command that aborts it. Exits 1 on a problem.
    """
    from time import time

    from cohabit.doctor import measurements
    from cohabit.doctor.finding import show_findings
    from cohabit.doctor.ingestion import Ingested, examine
    from cohabit.ingestion.worker import Wishes, foreign_in, formats_of
    from cohabit.terminal.locations import TOPICS, existing_lake

    own = settings()
    topics = (*TOPICS, *foreign_in(formats_of(own, Wishes(topics=tuple(topic or ())))))
    opened = existing_lake(own, lake, reads=True)
    what = Ingested(own.kafka.brokers(bootstrap), opened, topics, time())
    raise typer.Exit(not show_findings(chain(measurements.examine(opened), examine(what))))


@doctor_app.command("labels")
@reports_errors
def labels_command(lake: LakeOption = None) -> None:
    """Check how much of running container time has a label, why not the rest, and what exporters lack.

    Without a label a container is never a victim, whatever slows it. The newest 25 minutes are looked at. Nodes whose
    pressure (PSI) is 0 throughout although their CPU is used are named, with the kernel's switch. Exits 1 on a problem,
    such as no label at all. docs/stock-clusters.md explains the reasons.
    """
    from cohabit.doctor import measurements
    from cohabit.doctor.finding import show_findings
    from cohabit.terminal.locations import existing_lake

    opened = existing_lake(settings(), lake, reads=True)
    raise typer.Exit(not show_findings(chain(measurements.labels(opened), measurements.examine(opened))))


def run_doctor_scheduler(
    url: str | None,
    people_url: str | None,
    *,
    nodes: str | None,
    app: str | None,
    requests: int,
    config_path: Path | None,
) -> bool:
    """See `cohabit doctor scheduler`; whether there is no problem."""
    from cohabit.doctor.finding import show_findings
    from cohabit.doctor.scheduler import NO_APP, Wish, checked_url
    from cohabit.doctor.scheduler_config import ADVISED_MS, configured, read_config

    own = settings().advisor
    found = None if config_path is None else configured(read_config(config_path))
    wish = Wish(
        url=_asked_url(url, found, own.scheduler_port),
        people=checked_url(people_url or f"http://127.0.0.1:{own.port}"),
        nodes=tuple(dict.fromkeys(name.strip() for name in (nodes or "").split(",") if name.strip())),
        app=app or NO_APP,
        requests=requests,
        timeout_ms=ADVISED_MS if found is None else found.timeout_ms,
        max_age_s=own.max_feature_age_s,
        tls=() if found is None else found.tls,
    )
    console.print(f"asking {wish.url} as kube-scheduler does", soft_wrap=True)
    return show_findings(_all(wish, found))


def _asked_url(url: str | None, found: "Configured | None", port: int) -> str:
    """Of the prioritize call: the one that is named, else the one that the scheduler is configured with."""
    from cohabit.doctor.scheduler import checked_url

    if url is None and found is not None and found.url is not None:
        return found.url
    listener = checked_url(url or f"http://127.0.0.1:{port}").removesuffix("/extender")
    return f"{listener}/extender/prioritize"


def _all(wish: "Wish", found: "Configured | None") -> "Iterator[Finding]":
    from cohabit.doctor.finding import warning
    from cohabit.doctor.scheduler import examine

    if found is not None:
        yield from found.findings
    if found is not None and found.url not in {None, wish.url}:
        yield warning("configuration", f"it uses {found.url}, which is not the checked URL")
    yield from examine(wish)
