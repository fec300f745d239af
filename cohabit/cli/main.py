"""`cohabit`: the command line. Each command parses, calls one function and prints; heavy imports wait until then."""

from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.admin.admin import admin_app
from cohabit.cli.bill.bill import bill_app
from cohabit.cli.data.lake import lake_app
from cohabit.cli.dev.dev import dev_app
from cohabit.cli.models.inspection import model_app
from cohabit.cli.operate.doctor import doctor_app
from cohabit.cli.operate.plan import plan_app
from cohabit.config.malloc_trim import keep_arrow_from_its_own_heap
from cohabit.config.settings import MAX_WORKERS
from cohabit.terminal.options import LakeOption, flowing, reports_errors, settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=flowing("""Find which containers on a shared node slow each other down, and advise the scheduler.

    [bold]ingest[/] lands metrics, [bold]features[/] computes co-location interference, [bold]model train[/] learns
    slowdown, [bold]refresh[/] publishes snapshots and [bold]serve[/] answers schedulers and people. [bold]demo[/] runs
    all of it in a minute.

    Settings are COHABIT_* variables, with two underscores between levels: COHABIT_LAKE=/data/lake,
    COHABIT_KAFKA__BOOTSTRAP=kafka:9092. Options override them.
    """),
    rich_markup_mode="rich",
    epilog="Start with: cohabit demo",
)
RUN, SRE, FINANCE, ML, ADMIN, TRY = "Run", "SREs", "Finance", "Data and ML engineers", "Administrators", "Try it"

Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="Kafka, host:port [COHABIT_KAFKA__BOOTSTRAP].")]
RegistryOption = Annotated[Path | None, typer.Option("--registry", help="Folder of model bundles [COHABIT_REGISTRY].")]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FORMAT", help="Also land this topic; repeatable [COHABIT_KAFKA__TOPICS, by commas]."),
]
MappingOption = Annotated[
    Path | None, typer.Option(help="TOML that maps metrics of yours to columns [COHABIT_MAPPING].")
]
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
    """Run the command line; known errors become one line that says what to do."""
    keep_arrow_from_its_own_heap()
    app()


@app.command(rich_help_panel=RUN)
@reports_errors
def ingest(
    folder: Annotated[Path | None, typer.Argument(help="Stream files to land; from Kafka when left out.")] = None,
    lake: LakeOption = None,
    bootstrap: Bootstrap = None,
    until_end: Annotated[bool, typer.Option("--until-end", help="Kafka: stop at what is there now.")] = False,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Kafka: so many members of the group.")] = 1,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Prometheus, one per process from here on; 0 any.")
    ] = None,
    letters: Annotated[bool, typer.Option("--dead-letter-topic", help="Kafka: also send dead letters there.")] = False,
    topic: TopicOption = None,
    mapping: MappingOption = None,
) -> None:
    """Land metrics in the lake; what cannot be used becomes a dead letter with its reason.

    Nothing is lost or landed twice by kill -9, rebalances or several of these at once. Ctrl-C drains. Metrics of
    Telegraf, Prometheus, OpenTelemetry and cAdvisor are read with --topic, next to Cohabit's own topics.
    """
    from cohabit.cli.data.stream import run_ingest
    from cohabit.ingestion.worker import Wishes

    wishes = Wishes(processes, metrics_port, letters, tuple(topic or ()), mapping)
    run_ingest(settings(), folder, lake=lake, bootstrap=bootstrap, until_end=until_end, wishes=wishes)


@app.command(rich_help_panel=RUN)
@reports_errors
def watch(
    kubeconfig: Annotated[Path | None, typer.Option(help="Configuration; else the pod's own, else ~/.kube.")] = None,
    context: Annotated[str | None, typer.Option(help="Which context of the configuration.")] = None,
    namespace: Annotated[list[str] | None, typer.Option(help="Pods of this one only; may be repeated.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Its name in every record [COHABIT_CLUSTER].")] = None,
    bootstrap: Bootstrap = None,
    state: Annotated[Path, typer.Option(help="Where the position is kept.")] = Path("cohabit-data/watch"),
    once: Annotated[bool, typer.Option("--once", help="Send the current state, and return.")] = False,
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Prometheus reads here; 0 any.")] = None,
) -> None:
    """Send a Kubernetes cluster's pods and nodes to topics placements and nodes, and every change until Ctrl-C.

    Inside a pod its service account is used. It needs get, list and watch on pods and nodes, nothing else:

    [dim]kubectl create clusterrole cohabit-watch --verb=get,list,watch --resource=pods,nodes[/]

    [dim]kubectl create clusterrolebinding cohabit-watch --clusterrole=cohabit-watch --serviceaccount=NAMESPACE:NAME[/]

    Broken connections are unfrozen, also after a restart, from the position in --state; if the server no longer knows
    it, everything is listed again and objects that are gone are sent as deleted. Records sent twice do no harm.
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
    folder: Annotated[Path | None, typer.Argument(help="Stream files to read once; else follows Kafka.")] = None,
    lake: LakeOption = None,
    snapshots: Snapshots = None,
    bootstrap: Bootstrap = None,
    cluster: Annotated[str | None, typer.Option(help="Which cluster [COHABIT_CLUSTER].")] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between snapshots.")] = 5.0,
    from_topic: Annotated[
        bool,
        typer.Option(
            "--from-topic", help="Kafka: take minutes from `features --publish-state` instead of computing them."
        ),
    ] = False,
) -> None:
    """Keep the live state of a cluster and publish snapshots of it for `serve`.

    It begins with the last minutes of usage and with all nodes and placements. One process computes the minutes of a
    few thousand nodes by itself; beyond that Spark does, with `cohabit features --publish-state`, and this reads topic
    node_state.
    """
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
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="For people; the next free one if taken.")] = None,
    scheduler_port: Annotated[int | None, typer.Option(min=0, max=65535, help="For schedulers; never moves.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=MAX_WORKERS, help="Processes that answer schedulers.")
    ] = None,
) -> None:
    """Answer schedulers and people; neutral, with the reason, when nothing honest can be said.

    Both listeners are on loopback and open to its users. COHABIT_ADVISOR__AUTH=token asks people and tools for a
    token (`cohabit admin token`), and lets COHABIT_ADVISOR__HOST name another address for them. Schedulers elsewhere
    need certificates. One worker answers several hundred pods a second; more share the table and know of each other's
    pods on their way. docs/scheduler.md and docs/access.md have all settings: filter, peers, drawn advice, identity
    providers.
    """
    from cohabit.cli.operate.serve import run_serve

    run_serve(
        settings(),
        registry=registry,
        snapshots=snapshots,
        port=port,
        scheduler_port=scheduler_port,
        workers=workers,
    )


app.add_typer(doctor_app, name="doctor", rich_help_panel=RUN)


@app.command(rich_help_panel=SRE)
@reports_errors
def victims(
    lake: LakeOption = None,
    at: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"], help="When, UTC; the newest window if left out."),
    ] = None,
    container: Annotated[
        str | None, typer.Option(help="Explain one container: evidence and suspected neighbours.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all of it here.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Show it in `cohabit serve` over these snapshots.")
    ] = False,
    snapshots: Snapshots = None,
) -> None:
    """List slowed containers with the neighbour responsible, the contended resource and the confidence.

    A latency-sensitive container is a victim if it was slower than 1.25 times its baseline in three of its last five
    windows, and a second signal says so too. Verdicts: [bold]antagonist[/], a neighbour adds most of it;
    [bold]self-inflicted[/], its own CPU limit holds it back; [bold]host[/], others on the node are slow beyond what
    neighbours explain; [bold]downstream[/], its replicas elsewhere are too; [bold]no offender[/], no neighbour adds
    enough or it is not sure which; [bold]not enough data[/].

    After `cohabit features`; nothing is done to anybody. docs/diagnosis.md explains how to read it.
    """
    from cohabit.cli.operate.victims import run_victims

    own = settings()
    folder = (snapshots or own.snapshots) if publish else None
    run_victims(own, lake=lake, at=at, container=container, out=out, publish_to=folder)


app.add_typer(plan_app, name="plan", rich_help_panel=SRE)
app.add_typer(bill_app, name="bill", rich_help_panel=FINANCE)


@app.command(rich_help_panel=ML)
@reports_errors
def features(
    lake: LakeOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep going: node state of finished minutes.")] = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Read usage straight from Kafka, not from the lake.")] = False,
    bootstrap: Bootstrap = None,
    spark: Annotated[bool, typer.Option("--spark", help="With Spark, however little there is.")] = False,
    publish: Annotated[
        bool,
        typer.Option("--publish-state", help="Keep going: from Kafka to topic node_state, for `refresh --from-topic`."),
    ] = False,
) -> None:
    """Compute features: node state, contention, antagonists, labels, profiles, training rows as of each decision.

    Without --follow all derived tables are rebuilt for the time that the lake covers, up to 20 million samples in this
    process, more with Spark. --spark, --follow, --kafka or a COHABIT_SPARK__MASTER always mean Spark; the tables are
    the same to the last bit.
    """
    from cohabit.cli.models.train import run_features

    run_features(settings(), lake=lake, bootstrap=bootstrap, follow=follow, kafka=kafka, spark=spark, publish=publish)


app.add_typer(model_app, name="model", rich_help_panel=ML)
app.add_typer(lake_app, name="lake", rich_help_panel=ML)
app.add_typer(admin_app, name="admin", rich_help_panel=ADMIN)


@app.command(rich_help_panel=TRY)
@reports_errors
def demo(
    kafka: Annotated[bool, typer.Option("--kafka", help="Through a real broker and Spark's Kafka source.")] = False,
    leave: Annotated[bool, typer.Option("--exit", help="Return after the report instead of serving on.")] = False,
    hours: Annotated[float, typer.Option(min=1.0, max=8784, help="Hours of metrics to simulate.")] = 4.0,
) -> None:
    """Run the whole job on embedded defaults: metrics in, advice out."""
    from cohabit.cli.demo import run_demo

    run_demo(kafka=kafka, leave=leave, hours=hours)


app.add_typer(dev_app, name="dev", rich_help_panel=TRY)
