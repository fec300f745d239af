"""`cohabit doctor`: look whether what runs does what it should."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.terminal.console import console
from cohabit.terminal.options import reports_errors, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cohabit.doctor.finding import Finding
    from cohabit.doctor.scheduler import Wish
    from cohabit.doctor.scheduler_config import Configured

doctor_app = typer.Typer(no_args_is_help=True, help="Look whether what runs does what it should; exit 1 if not.")


@doctor_app.callback()
def doctor() -> None:
    """Look whether what runs does what it should; exit 1 if not."""


@doctor_app.command("scheduler")
@reports_errors
def scheduler_command(
    *,
    url: Annotated[
        str | None, typer.Option(help="Listener for schedulers; else --config's urlPrefix, else loopback.")
    ] = None,
    people_url: Annotated[
        str | None, typer.Option(help="URL of the management API, which gives reasons; else loopback.")
    ] = None,
    nodes: Annotated[str | None, typer.Option(help="Node names to offer, by commas; else the advisor's own.")] = None,
    app: Annotated[str | None, typer.Option(help="App of the pod that asks; else one that never ran.")] = None,
    requests: Annotated[int, typer.Option(min=1, max=100_000, help="Requests to time, one after the other.")] = 200,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also judge this KubeSchedulerConfiguration (YAML).")
    ] = None,
) -> None:
    """Play kube-scheduler against a running advisor, and say in one line each what is well and what to do.

    kube-scheduler drops a late or unreadable score in silence, so its log never says that advice is lost. This sends
    the requests that it sends, offers up to 500 of the advisor's own nodes, and looks at status, keys, integers, order,
    snapshot age, whether scores differ between nodes, what a new node and a new app get, who answered, and how long 200
    answers take against httpTimeout (100ms without --config). Nothing is booked: the pod has no uid.

    [dim]cohabit doctor scheduler --config /etc/kubernetes/scheduler.yaml --app web[/]

    Lines begin with ok, warning or problem; exit 1 when there is a problem. docs/scheduler.md explains the rest.
    """
    raise typer.Exit(
        not run_doctor_scheduler(url, people_url, nodes=nodes, app=app, requests=requests, config_path=config)
    )


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
        yield warning("configuration", f"it asks {found.url}, and not what is examined here")
    yield from examine(wish)
