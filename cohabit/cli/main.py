"""`cohabit`: the command line. Each command parses, calls one function and prints; heavy imports wait until then."""

import logging
import os
import sys
from contextlib import suppress
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from cohabit.cli.admin.admin import admin_app
from cohabit.cli.bill.bill import bill_app
from cohabit.cli.data.lake import lake_app
from cohabit.cli.dev.dev import dev_app
from cohabit.cli.models.inspection import model_app
from cohabit.cli.operate.capacity import capacity_app
from cohabit.cli.operate.doctor import doctor_app
from cohabit.cli.operate.plan import plan_app
from cohabit.config.malloc_trim import keep_arrow_from_its_own_heap, keep_delta_from_its_own_caches
from cohabit.config.settings import MAX_WORKERS
from cohabit.terminal.options import LakeOption, flowing, reports_blindness, reports_errors, settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=flowing("""Find which containers on a shared node slow each other down, and advise the scheduler.

    [bold]ingest[/] ingests metrics, [bold]features[/] computes co-location interference, [bold]model train[/] trains
    the slowdown model, [bold]refresh[/] publishes snapshots and [bold]serve[/] serves schedulers and people.
    [bold]demo[/] runs all of it in a minute.

    Settings are COHABIT_* variables, with two underscores between levels: COHABIT_LAKE=/data/lake,
    COHABIT_KAFKA__BOOTSTRAP=kafka:9092. Options override them.
    """),
    rich_markup_mode="rich",
    epilog="Start with: cohabit demo",
)
BUCKETS = "obstore"
"""Module that is loaded where a lake is in a bucket."""
RUN, SRE, FINANCE, PLANNER = "Run", "SREs", "Finance", "Capacity planners"
ML, ADMIN, TRY = "Data and ML engineers", "Administrators", "Try it"

Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="Kafka, host:port [COHABIT_KAFKA__BOOTSTRAP].")]
RegistryOption = Annotated[Path | None, typer.Option("--registry", help="Folder of model bundles [COHABIT_REGISTRY].")]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FORMAT", help="Also ingest this topic; repeatable [COHABIT_KAFKA__TOPICS, comma-separated]."
    ),
]
MappingOption = Annotated[Path | None, typer.Option(help="TOML that maps your metrics to columns [COHABIT_MAPPING].")]
Snapshots = Annotated[Path | None, typer.Option("--snapshots", help="Folder of snapshots [COHABIT_SNAPSHOTS].")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"cohabit {version('cohabit')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; known errors become one line with the remedy."""
    keep_arrow_from_its_own_heap()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices of a few columns: a second thread only waits
    try:
        app(prog_name=_program(sys.argv[0]))
    except SystemExit as ended:
        if BUCKETS not in sys.modules:
            raise
        _leave(ended.code)


def _leave(code: str | int | None) -> NoReturn:
    """End at once: a thread of Arrow that still closes an object of a bucket needs Python, and aborts without it."""
    if isinstance(code, str):
        typer.echo(code, err=True)
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def _program(path: str) -> str | None:
    """Name in usage lines; kubectl runs `kubectl-cohabit` as `kubectl cohabit`."""
    return "kubectl cohabit" if Path(path).stem == "kubectl-cohabit" else None


@app.command(rich_help_panel=RUN)
@reports_errors
def ingest(
    folder: Annotated[Path | None, typer.Argument(help="Folder of stream files; default: Kafka.")] = None,
    lake: LakeOption = None,
    bootstrap: Bootstrap = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="Kafka: stop at the current end.")] = False,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Prometheus port; 0 for any that is free.")
    ] = None,
    letters: Annotated[
        bool, typer.Option("--dead-letter-topic", help="Kafka: also send dead letters to their topic.")
    ] = False,
    topic: TopicOption = None,
    mapping: MappingOption = None,
) -> None:
    """Ingest metrics into the lake. Rejected records become dead letters with their reason.

    Ingestion is exactly once, also after kill -9, rebalances or where several processes of one group ingest. Ctrl-C
    drains. With --topic it also reads metrics of Telegraf, Prometheus, OpenTelemetry and cAdvisor.
    """
    keep_delta_from_its_own_caches()
    from cohabit.cli.data.stream import run_ingest
    from cohabit.ingestion.worker import Wishes

    wishes = Wishes(metrics_port, letters, tuple(topic or ()), mapping)
    run_ingest(settings(), folder, lake=lake, bootstrap=bootstrap, until_end=until_end, wishes=wishes)


@app.command(rich_help_panel=RUN)
@reports_errors
def watch(
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig file; default: the pod's own, else ~/.kube.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    namespace: Annotated[list[str] | None, typer.Option(help="Watch only this namespace; repeatable.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Cluster name in every record [COHABIT_CLUSTER].")] = None,
    bootstrap: Bootstrap = None,
    state: Annotated[Path, typer.Option(help="Folder of the saved position.")] = Path("cohabit-data/watch"),
    once: Annotated[bool, typer.Option("--once", help="Send the current state and exit.")] = False,
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Prometheus port; 0 any.")] = None,
) -> None:
    """Send a Kubernetes cluster's pods and nodes to topics placements and nodes, and every change until Ctrl-C.

    Inside a pod it uses the service account, which needs only get, list and watch on these:

    [dim]kubectl create clusterrole cohabit-watch --verb=get,list,watch --resource=pods,nodes,poddisruptionbudgets[/]

    [dim]kubectl create clusterrolebinding cohabit-watch --clusterrole=cohabit-watch --serviceaccount=NAMESPACE:NAME[/]

    It unfreezes broken connections, also after a restart, from the position in --state. If the server has expired the
    position, it lists all objects again and sends missing ones as deleted. Duplicate records are harmless.
    """
    from cohabit.cli.data.sources import run_watch

    run_watch(
        settings(),
        api_at=(kubeconfig, context),
        namespaces=namespace or [],
        cluster=cluster,
        bootstrap=bootstrap,
        state=state,
        once=once,
        metrics_port=metrics_port,
    )


@app.command(rich_help_panel=RUN)
@reports_errors
def refresh(
    folder: Annotated[Path | None, typer.Argument(help="Stream files to read once; default: follow Kafka.")] = None,
    lake: LakeOption = None,
    snapshots: Snapshots = None,
    bootstrap: Bootstrap = None,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster [COHABIT_CLUSTER].")] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between snapshots.")] = 5.0,
    from_topic: Annotated[
        bool,
        typer.Option(
            "--from-topic", help="Kafka: read minutes of `features --publish-state` instead of computing them."
        ),
    ] = False,
) -> None:
    """Maintain the live state of a cluster and publish snapshots of it for `serve`.

    It starts from the last minutes of usage and from all nodes and placements. One process computes the minutes of a
    few thousand nodes. For more run `cohabit features --publish-state` on Spark; this then reads topic node_state.
    """
    keep_delta_from_its_own_caches()
    from cohabit.cli.operate.serve import run_refresh

    run_refresh(
        settings(),
        folder,
        lake=lake,
        snapshots=snapshots,
        bootstrap=bootstrap,
        cluster=cluster,
        every_s=every,
        from_topic=from_topic,
    )


@app.command(rich_help_panel=RUN)
@reports_errors
def serve(
    registry: RegistryOption = None,
    snapshots: Snapshots = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the management API; if in use, the next free one.")
    ] = None,
    scheduler_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the extender API; fixed.")
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, max=MAX_WORKERS, help="Processes of the extender API.")] = None,
    admission: Annotated[
        Literal["off", "annotate", "advise"] | None,
        typer.Option(help="Admission webhook: advise created pods, only annotate them, or off."),
    ] = None,
    admission_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port of the admission webhook; fixed.")
    ] = None,
) -> None:
    """Serve scores to schedulers and pages to people. Without a recommendation all scores are 0, with the reason.

    Both APIs listen on loopback without authentication. COHABIT_ADVISOR__AUTH=token requires a token (`cohabit
    admin token`) for the management API, and allows another address in COHABIT_ADVISOR__HOST. Remote schedulers need
    certificates. One worker scores several hundred pods a second; several workers share the score table and assumed
    pods. docs/scheduler.md and docs/access.md describe filter, peers, exploration and identity providers,
    docs/admission.md the webhook for clusters whose scheduler cannot be configured.
    """
    keep_delta_from_its_own_caches()
    from cohabit.cli.operate.serve import run_serve

    run_serve(
        settings(),
        registry=registry,
        snapshots=snapshots,
        port=port,
        scheduler_port=scheduler_port,
        workers=workers,
        admission=admission,
        admission_port=admission_port,
    )


app.add_typer(doctor_app, name="doctor", rich_help_panel=RUN)


@app.command(rich_help_panel=SRE)
@reports_blindness
def victims(
    lake: LakeOption = None,
    at: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"], help="Time, UTC; default: the newest window."),
    ] = None,
    container: Annotated[
        str | None, typer.Option(help="Explain one container: evidence and suspected neighbours.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write coverage and diagnoses here.")
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish the diagnoses for `cohabit serve`, next to the snapshots.")
    ] = False,
    snapshots: Snapshots = None,
) -> None:
    """List slowed containers with the neighbour responsible, the contended resource and the confidence.

    A latency-sensitive container is a victim if it was slower than 1.25 times its baseline in three of its last five
    windows, and a second signal confirms it. Where only waiting is known, it is one if it waits more than is usual of
    its app. Diagnoses: [bold]antagonist[/], a neighbour adds most of the slowdown; [bold]self-inflicted[/], its own CPU
    limit throttles it; [bold]host[/], others on the node are slow and neighbours do not explain it;
    [bold]downstream[/], its replicas on other nodes are slow too; [bold]no offender[/], no neighbour adds enough, or
    the strongest one is uncertain; [bold]not enough data[/].

    It begins with how much could be looked at, and why not the rest. Exit codes: 0, none was found among what was
    looked at; 1, some were found; 3, nothing could be looked at, or the command failed. Run it after
    `cohabit features`.
    It changes nothing in the cluster. docs/diagnosis.md explains the output.
    """
    from cohabit.cli.operate.victims import run_victims

    own = settings()
    folder = (snapshots or own.snapshots) if publish else None
    run_victims(own, lake=lake, at=at, container=container, out=out, publish_to=folder)


app.add_typer(plan_app, name="plan", rich_help_panel=SRE)
app.add_typer(bill_app, name="bill", rich_help_panel=FINANCE)
app.add_typer(capacity_app, name="capacity", rich_help_panel=PLANNER)


@app.command(rich_help_panel=ML)
@reports_errors
def features(
    lake: LakeOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Stream: node state of finished minutes.")] = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Read usage from Kafka instead of the lake.")] = False,
    bootstrap: Bootstrap = None,
    spark: Annotated[bool, typer.Option("--spark", help="Use Spark also for small lakes.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish-state", help="Stream from Kafka to topic node_state, for `refresh --from-topic`."),
    ] = False,
) -> None:
    """Compute node state, contention, antagonists, labels, profiles and point-in-time training rows.

    Without --follow it rebuilds all derived tables: up to 20 million samples, and a lake in a bucket, in this process,
    more with Spark. --spark, --follow, --kafka or COHABIT_SPARK__MASTER always use Spark; the tables are bit-identical.
    """
    from cohabit.cli.models.train import run_features

    run_features(settings(), lake=lake, bootstrap=bootstrap, follow=follow, kafka=kafka, spark=spark, publish=publish)


app.add_typer(model_app, name="model", rich_help_panel=ML)
app.add_typer(lake_app, name="lake", rich_help_panel=ML)
app.add_typer(admin_app, name="admin", rich_help_panel=ADMIN)


@app.command(rich_help_panel=TRY)
@reports_errors
def demo(
    kafka: Annotated[bool, typer.Option("--kafka", help="Use a real broker and Spark's Kafka source.")] = False,
    leave: Annotated[bool, typer.Option("--exit", help="Exit after the report instead of serving.")] = False,
    hours: Annotated[float, typer.Option(min=1.0, max=8784, help="Hours of metrics to simulate.")] = 3.0,
    stock: Annotated[
        bool, typer.Option("--stock", help="Simulate what kubelets as they come send: no latency, no requests.")
    ] = False,
    capacity: Annotated[
        bool, typer.Option("--capacity", help="For planners: a growing cluster, its forecast, and what to buy.")
    ] = False,
) -> None:
    """Run the whole pipeline on embedded defaults: metrics in, advice out.

    It reports how much of running container time could be looked at, and why not the rest.
    """
    if capacity:
        from cohabit.cli.demo_capacity import run_capacity_demo

        run_capacity_demo(typer.main.get_command(app), leave=leave)
        return
    from cohabit.cli.demo import run_demo

    run_demo(kafka=kafka, leave=leave, hours=hours, stock=stock)


@app.command(rich_help_panel=TRY)
@reports_errors
def trial(
    listen: Annotated[
        str, typer.Option(help="HOST:PORT at which the Collector reaches Kafka, which has no authentication.")
    ] = "127.0.0.1:9092",
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Do not read pods and nodes from Kubernetes.")] = False,
    kubeconfig: Annotated[Path | None, typer.Option(help="Kubeconfig file, as for `cohabit watch`.")] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    every: Annotated[float, typer.Option(min=1, help="Seconds between computations.")] = 60.0,
    folder: Annotated[Path, typer.Option(help="Folder of broker and logs.")] = Path("cohabit-data/trial"),
) -> None:
    """Look at a real cluster without a Kafka of your own, until Ctrl-C. List victims in another shell.

    It runs Kafka, `cohabit ingest`, `cohabit watch`, and each minute `cohabit features`, and prints how much can be
    looked at. Send it what your Collector has; docs/quickstart.md has its configuration.
    """
    from cohabit.cli.dev.trial import Wanted, address, run_trial

    at = [*(["--kubeconfig", str(kubeconfig)] if kubeconfig else []), *(["--context", context] if context else [])]
    run_trial(Wanted(folder, address(listen), None if no_watch else at, every))


app.add_typer(dev_app, name="dev", rich_help_panel=TRY)
