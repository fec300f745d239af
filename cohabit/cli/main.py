"""`cohabit`: the command line. Each command parses, calls one function and prints; heavy imports wait until then."""

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.admin.backup import backup_app
from cohabit.cli.admin.config import config_app
from cohabit.cli.admin.token import token_app
from cohabit.cli.bill.bill import bill_app
from cohabit.cli.data.lake import lake_app
from cohabit.cli.models.models import models_app
from cohabit.cli.operate.doctor import doctor_app
from cohabit.cli.operate.plan import proposals_app
from cohabit.config.malloc_trim import keep_arrow_from_its_own_heap
from cohabit.config.settings import MOST_WORKERS
from cohabit.terminal.db import store_app
from cohabit.terminal.options import MOST_ROWS, LakeOption, flowing, reports_errors, settings

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=flowing("""Who slows whom down on a shared node, how much, and where the next container should go.

    The main job, step by step, each usable alone: [bold]broker[/] or your own Kafka, [bold]simulate[/] and
    [bold]replay[/] or your own metrics, then [bold]ingest[/] -> [bold]features[/] -> [bold]evaluate[/] /
    [bold]train[/] -> [bold]refresh[/] -> [bold]serve[/]. [bold]demo[/] runs all of it in a minute.

    Settings are COHABIT_* variables, two underscores for a branch: COHABIT_LAKE=/data/lake,
    COHABIT_KAFKA__BOOTSTRAP=kafka:9092. Options go before them.
    """),
    rich_markup_mode="rich",
    epilog="Start with: cohabit demo",
)
app.add_typer(lake_app, name="lake")
app.add_typer(bill_app, name="bill")
app.add_typer(backup_app, name="backup")
app.add_typer(config_app, name="config")
app.add_typer(doctor_app, name="doctor")
app.add_typer(models_app, name="models")
app.add_typer(store_app, name="store")
app.add_typer(token_app, name="token")
app.add_typer(proposals_app)

Folder = Annotated[Path, typer.Argument(help="Folder with <topic>.log files, as `cohabit simulate` writes them.")]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="Kafka, host:port [COHABIT_KAFKA__BOOTSTRAP].")]
RegistryOption = Annotated[Path | None, typer.Option("--registry", help="Folder of model bundles [COHABIT_REGISTRY].")]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=FORMAT", help="Also land this topic; repeatable [COHABIT_KAFKA__TOPICS, by commas]."),
]
MappingOption = Annotated[
    Path | None, typer.Option(help="TOML that maps metrics of yours to columns [COHABIT_MAPPING].")
]
MostRows = Annotated[
    int, typer.Option(min=1, help="Learn from a sample of so many training rows where there are more.")
]
SparkSample = Annotated[bool, typer.Option("--spark", help="Let Spark draw the sample, where one is drawn.")]
Until = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"],
        help="Learn only from windows that ended by then, UTC.",
    ),
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


@app.command()
@reports_errors
def broker(
    folder: Annotated[Path, typer.Option(help="Where the broker keeps its records.")] = Path("cohabit-data/broker"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0 takes a free one.")] = 9092,
) -> None:
    """Run a real single-node Kafka on loopback until Ctrl-C, with Cohabit's topics.

    Jars are fetched once, each checked against its digest; Java is found, or comes with the environment.
    """
    from cohabit.cli.data.stream import run_broker

    run_broker(folder, port)


@app.command()
@reports_errors
def topics(
    bootstrap: Bootstrap = None,
    partitions: Annotated[
        int | None, typer.Option(min=2, max=10_000, help="Of each topic that has several; 4 when left out.")
    ] = None,
) -> None:
    """Make the topics of ours that your Kafka lacks; those that are there stay as they are.

    Brokers copy them as often as they are told by default. As many `cohabit ingest` share the work as there are
    partitions, and a topic cannot get more later without mixing up the order of its records.
    """
    from cohabit.cli.data.stream import run_topics

    run_topics(settings().kafka.brokers(bootstrap), partitions)


@app.command()
@reports_errors
def simulate(
    folder: Annotated[Path, typer.Argument(help="Gets <topic>.log files; must not hold any yet.")],
    nodes: Annotated[int, typer.Option(min=1, help="Nodes, three platforms in turn.")] = 24,
    apps: Annotated[int, typer.Option(min=3, help="Apps, every third best effort.")] = 24,
    hours: Annotated[
        float, typer.Option(min=0.1, max=8784, help="Hours of metrics, one record per container every 30 s.")
    ] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same stream.")] = 1,
    law: Annotated[
        str,
        typer.Option(
            help="How neighbours slow each other down: saturating (harms add up and level off), queueing (delays "
            "multiply) or threshold (nothing up to a knee, then the worst resource)."
        ),
    ] = "saturating",
    truth: Annotated[Path | None, typer.Option(help="Also write the true slowdowns here; keep from training.")] = None,
) -> None:
    """Write the metrics of a cluster that does not exist, with late, doubled, skewed and broken records."""
    from cohabit.cli.data.stream import run_simulate

    run_simulate(folder, nodes=nodes, apps=apps, hours=hours, seed=seed, law=law, truth=truth)


@app.command()
@reports_errors
def backtest(
    law: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE.csv",
            help="How neighbours slow each other down: queueing, threshold, saturating, or a CSV of measured pairs "
            "(victim, aggressor, slowdown); repeatable. queueing and threshold when left out.",
        ),
    ] = None,
    compose: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WAY",
            help="How the harm of several neighbours of a CSV adds up: additive, max, saturating or threshold; "
            "repeatable, all of them when left out.",
        ),
    ] = None,
    alone: Annotated[
        Path | None, typer.Option(help="CSV of workload and numbers measured alone, for what counters show.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=4, max=20000, help="Nodes of the largest cluster.")] = 100,
    hours: Annotated[float, typer.Option(min=2.0, max=2000.0, help="Simulated hours; the first one fills it.")] = 48.0,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="How often, each with its own apps and history.")] = 5,
    history_nodes: Annotated[int, typer.Option(min=4, max=1000, help="Nodes of the cluster that is learnt from.")] = 24,
    history_hours: Annotated[float, typer.Option(min=2.0, max=240.0, help="Hours that are learnt from.")] = 24.0,
    cells: Annotated[
        int, typer.Option(min=0, max=101, help="How often to try on how few nodes the same containers live no worse.")
    ] = 11,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Processes at once.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for backtest.json and a figure of each law.")] = None,
) -> None:
    """Does following the advice help? Policies place the same containers under a law that none of them is told.

    A history under kube-scheduler's defaults is landed, learnt from and served as in production; then every policy
    places two days of arrivals, deploys and node failures on clusters of three sizes. What counts are minutes in which
    latency-sensitive containers are slower than 1.25 times their normal, beside tuned heuristics and an oracle that
    knows the law. Half an hour or more a law with 2 slow cores; --hours 6 --seeds 1 for a look.
    """
    from cohabit.backtest.history import Past
    from cohabit.backtest.run_backtest import drivers_of, run_backtest
    from cohabit.backtest.study import Plan

    plan = Plan(nodes, hours, seeds, past=Past(history_nodes, history_hours), cells=cells)
    run_backtest(drivers_of(law or (), compose or (), alone), plan, jobs, out)


@app.command()
@reports_errors
def replay(
    folder: Folder,
    bootstrap: Bootstrap = None,
    speed: Annotated[float, typer.Option(min=0, help="1 is as it happened, 60 an hour a minute, 0 at once.")] = 0.0,
) -> None:
    """Send stream files to Kafka, with the times and keys they carry.

    A folder of your own topics works too: kafka-console-consumer --property print.timestamp=true
    --property print.key=true --topic usage > folder/usage.log
    """
    from cohabit.cli.data.stream import run_replay

    run_replay(folder, settings().kafka.brokers(bootstrap), speed)


@app.command()
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


@app.command()
@reports_errors
def watch(
    kubeconfig: Annotated[Path | None, typer.Option(help="Configuration; else the pod's own, else ~/.kube.")] = None,
    context: Annotated[str | None, typer.Option(help="Which context of the configuration.")] = None,
    namespace: Annotated[list[str] | None, typer.Option(help="Pods of this one only; may be repeated.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Its name in every record [COHABIT_CLUSTER].")] = None,
    bootstrap: Bootstrap = None,
    state: Annotated[Path, typer.Option(help="Where the position is kept.")] = Path("cohabit-data/watch"),
    once: Annotated[bool, typer.Option("--once", help="Tell what is there now, and return.")] = False,
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Prometheus reads here; 0 any.")] = None,
) -> None:
    """Send a Kubernetes cluster's pods and nodes to topics placements and nodes, and every change until Ctrl-C.

    Inside a pod its service account is used. It needs get, list and watch on pods and nodes, nothing else:

    [dim]kubectl create clusterrole cohabit-watch --verb=get,list,watch --resource=pods,nodes[/]

    [dim]kubectl create clusterrolebinding cohabit-watch --clusterrole=cohabit-watch --serviceaccount=NAMESPACE:NAME[/]

    Broken connections are resumed, also after a restart, from the position in --state; if the server no longer knows
    it, everything is listed anew and what has gone meanwhile is told as deleted. Records told twice do no harm.
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


@app.command("import")
@reports_errors
def import_(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="alibaba2018, gentd26 or gpu2023.")],
    source: Annotated[Path, typer.Argument(help="The trace's folder, or one of its files; .csv or .csv.gz.")],
    out: Annotated[Path | None, typer.Option(help="Write <topic>.log files into this folder.")] = None,
    bootstrap: Annotated[str | None, typer.Option(help="Send to this Kafka instead, host:port.")] = None,
    epoch: Annotated[str, typer.Option(help="What the trace's second 0 is, in UTC.")] = "2018-01-01T00:00:00Z",
    cluster: Annotated[str | None, typer.Option(help="Its name in every record; else the format's.")] = None,
) -> None:
    """Turn a public trace into our topics, in our units; docs/traces.md says where to get each.

    cohabit import gentd26 cluster-trace-v2026-GenAI --out stream && cohabit ingest stream

    Nothing is dropped: a row that cannot be used becomes a dead letter with its reason when it is ingested. Messages
    arrive at their records' own time, so a replay behaves as the cluster did.
    """
    from cohabit.cli.data.sources import run_import

    brokers = None if bootstrap is None else settings().kafka.brokers(bootstrap)
    run_import(form, source, out=out, bootstrap=brokers, epoch=epoch, cluster=cluster)


@app.command()
@reports_errors
def features(
    lake: LakeOption = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep going: node state of finished minutes.")] = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Read usage straight from Kafka, not from the lake.")] = False,
    bootstrap: Bootstrap = None,
    spark: Annotated[bool, typer.Option("--spark", help="With Spark, however little there is.")] = False,
    publish: Annotated[
        bool, typer.Option("--tell", help="Keep going: from Kafka to topic node_state, for `refresh --told`.")
    ] = False,
) -> None:
    """Compute features: node state, contention, antagonists, labels, profiles, training rows as of each decision.

    Without --follow all derived tables are rebuilt for the time that the lake covers, up to 20 million samples in this
    process, more with Spark. --spark, --follow, --kafka or a COHABIT_SPARK__MASTER always mean Spark; the tables are
    the same to the last bit.
    """
    from cohabit.cli.models.train import run_features

    run_features(settings(), lake=lake, bootstrap=bootstrap, follow=follow, kafka=kafka, spark=spark, publish=publish)


@app.command()
@reports_errors
def evaluate(
    lake: LakeOption = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write report.md with tables and figures here.")
    ] = None,
    challengers: Annotated[
        bool, typer.Option("--challengers", help="Also forests, boosting, tables and variants of ours; minutes more.")
    ] = False,
    most_rows: MostRows = MOST_ROWS,
    spark: SparkSample = False,
) -> None:
    """Measure the model where it counts, beside baselines, a noise floor and a leak alarm; docs/evaluation.md explains.

    Tomorrow, unseen apps, apps that never ran, unseen nodes, hardware and mixes, denser packing, random choices; what
    the data do not allow is named with the reason. 13,000 training rows, such as the demo's, take a minute or two, and
    some minutes more with --challengers: eleven other learners on the same rows and folds, for four of the questions.

    Of more than --most-rows training rows a sample is judged, as `cohabit train` draws it; the report says so.
    """
    from cohabit.cli.models.train import run_evaluate

    run_evaluate(settings(), lake=lake, report=report, challengers=challengers, most_rows=most_rows, spark=spark)


@app.command()
@reports_errors
def train(
    lake: LakeOption = None,
    registry: RegistryOption = None,
    most_rows: MostRows = MOST_ROWS,
    spark: SparkSample = False,
    until: Until = None,
    name: Annotated[
        str | None, typer.Option(help="Of the bundle; the time when left out. One that is there is left as it is.")
    ] = None,
    promote: Annotated[
        bool | None,
        typer.Option(
            "--promote/--no-promote", help="Make it current; when left out, only where nothing is current yet."
        ),
    ] = None,
) -> None:
    """Evaluate and train the placement and the diagnosis model, and export them to ONNX.

    The first bundle becomes current. A later one is a challenger: `cohabit models gate` judges it on labels that it has
    not learnt from, which --until leaves, and `cohabit models promote` makes it current.

    Where the lake has more than --most-rows training rows, a sample of so many is drawn before any model reads them:
    by app, band of slowdown and band of pressure, at least one row of each, otherwise the same share of all; weights
    make up for the rows left out. How many of how many were kept is printed and stands in the model card. The same rows
    are drawn every time, also with Spark (--spark or COHABIT_SPARK__MASTER); a larger sample holds the smaller one.
    """
    from cohabit.cli.models.train import Training, run_train

    asked = Training(lake, registry, most_rows, spark, _utc(until), name, promote)
    run_train(settings(), asked)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


@app.command()
@reports_errors
def drift(
    lake: LakeOption = None,
    registry: RegistryOption = None,
    hours: Annotated[
        float | None, typer.Option(min=0.1, max=8760, help="Look at labels of so long [COHABIT_DRIFT__HOURS].")
    ] = None,
) -> None:
    """Look whether labels still bear the current model out, and say how far it is served from now on; exit 1 if less.

    Watched are the share of labels below their bounds, how far labels lie off on the whole and since when, whether the
    model still chooses better nodes than the load would, how features have moved since training, the model's age, and
    what `cohabit skew` found last. Where labels are missed, `cohabit serve` widens margins by what would have been
    needed; where later labels miss even those, it compares nodes by load instead, until another model is promoted or
    labels agree three times in a row. Run it hourly, after `cohabit features`. docs/drift.md says what to do.
    """
    from cohabit.cli.models.models import run_drift

    raise typer.Exit(not run_drift(settings(), lake=lake, registry=registry, hours=hours))


@app.command()
@reports_errors
def recalibrate(lake: LakeOption = None, registry: RegistryOption = None) -> None:
    """Let the current bundle's bounds follow the labels that came since it was trained; its models stay as they are.

    A bound that labels miss too often is stretched, one that holds too often shrinks, by platform and by how well apps
    are known. Labels are those of containers where your scheduler put them, so bounds come to hold on chosen nodes.

    Run it hourly, after `cohabit features`; `cohabit train`, daily or weekly, begins anew. The new bundle is current at
    once and `cohabit serve` takes it up; the registry keeps three of them. Without newer labels nothing happens.
    """
    from cohabit.cli.models.train import run_recalibrate

    run_recalibrate(settings(), lake=lake, registry=registry)


@app.command()
@reports_errors
def search(
    lake: LakeOption = None,
    candidates: Annotated[int, typer.Option(min=1, help="Random settings beside the default.")] = 15,
    outer: Annotated[int, typer.Option(min=2, help="Folds of apps that judge.")] = 4,
    inner: Annotated[int, typer.Option(min=2, help="Folds of the other apps that choose.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw; the same seed tries the same settings.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write all of it here, as JSON.")] = None,
) -> None:
    """Try settings of the trainer on a lake's rows, and tell whether any beats the default on apps never seen.

    The error by which settings are chosen is too small for whoever is chosen. So outer folds of apps judge, and inside
    each the settings are chosen anew on inner folds of the other apps: all on one inner fold, the better third on all.
    The last line compares the default with choosing, on the same rows, with a paired 95 % interval over apps; only an
    interval above zero says that the default loses. Nothing is changed: settings are in models/training/fit.py and
    cohabit/training/train_model.py. 13,000 rows take some ten minutes of one core with the values given here.
    """
    from cohabit.cli.models.train import run_search

    run_search(settings(), lake=lake, candidates=candidates, outer=outer, inner=inner, seed=seed, out=out)


@app.command()
@reports_errors
def refresh(
    folder: Annotated[Path | None, typer.Argument(help="Stream files to read once; else follows Kafka.")] = None,
    lake: LakeOption = None,
    snapshots: Snapshots = None,
    bootstrap: Bootstrap = None,
    cluster: Annotated[str | None, typer.Option(help="Which cluster [COHABIT_CLUSTER].")] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between snapshots.")] = 5.0,
    from_topic: Annotated[
        bool, typer.Option("--told", help="Kafka: take minutes from `features --tell` instead of computing them.")
    ] = False,
) -> None:
    """Keep the live state of a cluster and publish snapshots of it for `serve`.

    It begins with the last minutes of usage and with all nodes and placements. One process computes the minutes of a
    few thousand nodes by itself; beyond that Spark does, with `cohabit features --tell`, and this reads topic
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


@app.command()
@reports_errors
def serve(
    registry: RegistryOption = None,
    snapshots: Snapshots = None,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="For people; the next free one if taken.")] = None,
    scheduler_port: Annotated[int | None, typer.Option(min=0, max=65535, help="For schedulers; never moves.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=MOST_WORKERS, help="Processes that answer schedulers.")
    ] = None,
) -> None:
    """Answer schedulers and people; neutral, with the reason, when nothing honest can be said.

    Both listeners are on loopback and open to its users. COHABIT_ADVISOR__ACCESS=tokens asks people and tools for a
    token (`cohabit token`), and lets COHABIT_ADVISOR__HOST name another address for them. Schedulers elsewhere need
    certificates. One worker answers several hundred pods a second; more share the table and know of each other's pods
    on their way. docs/scheduler.md and docs/access.md have all settings: filter, peers, drawn advice, identity
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


@app.command()
@reports_errors
def audit(
    since: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="A day or moment, UTC; all rows when left out."),
    ] = None,
) -> None:
    """List who did what, when, in the order it happened: tokens made and taken back, and requests that were refused.

    Fields are separated by tabs: time, who, role, action, subject, outcome, request id.
    """
    from cohabit.cli.admin.token import run_audit

    run_audit(settings(), since)


@app.command()
@reports_errors
def metrics(
    mapping: Annotated[Path | None, typer.Option("--mapping", help="Your own metrics too [COHABIT_MAPPING].")] = None,
) -> None:
    """List the metrics of other exporters that are known, and what each becomes; the same for every format.

    Add your own with a file: [[metric]] with name, target, kind, and scale, where, series as docs/ingest.md shows.
    """
    from cohabit.config.topic_formats import show_metrics

    show_metrics(settings(), mapping)


@app.command()
@reports_errors
def skew(
    lake: LakeOption = None,
    snapshots: Snapshots = None,
    newest: Annotated[int, typer.Option(min=1, help="Look at so many vectors, the newest ones.")] = 1000,
) -> None:
    """Compute features that scores were made of again from the lake, and compare them bit by bit.

    `serve` keeps the features of one request in a hundred beside the snapshots (COHABIT_ADVISOR__SERVED_SHARE). Exit 1
    when fewer than 99.9 % of the values are equal: then what is served is not what models are trained on. Exit 0, with
    a word of it, while nothing was served. Run it before `cohabit features`, not after: that rebuilds the newest
    profiles, and what was served with the ones before cannot be compared any more.
    """
    from cohabit.cli.operate.serve import run_skew

    raise typer.Exit(not run_skew(settings(), lake=lake, snapshots=snapshots, newest=newest))


@app.command()
@reports_errors
def victims(
    lake: LakeOption = None,
    at: Annotated[
        datetime | None,
        typer.Option(formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"], help="When, UTC; the newest window if left out."),
    ] = None,
    container: Annotated[
        str | None, typer.Option(help="Tell why of one, and who beside it comes into question.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all of it here.")] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Show it in `cohabit serve` over these snapshots.")
    ] = False,
    snapshots: Snapshots = None,
) -> None:
    """Tell who suffers beside whom, through which resource, and how sure that is.

    A latency-sensitive container suffers where it was slower than 1.25 times its own normal in three of its last five
    windows, and a second signal says so too. Verdicts: [bold]culprit[/], a neighbour adds most of it;
    [bold]self-inflicted[/], its own CPU limit holds it back; [bold]host[/], others on the node are slow beyond what
    neighbours explain; [bold]downstream[/], its replicas elsewhere are too; [bold]no offender[/], no neighbour adds
    enough or it is not sure which; [bold]not enough data[/].

    After `cohabit features`; nothing is done to anybody. docs/diagnosis.md explains how to read it.
    """
    from cohabit.cli.operate.victims import run_victims

    own = settings()
    folder = (snapshots or own.snapshots) if publish else None
    run_victims(own, lake=lake, at=at, container=container, out=out, publish_to=folder)


@app.command()
@reports_errors
def worth(
    lake: LakeOption = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Decisions as `serve` wrote them; beside the snapshots if left out."),
    ] = None,
    horizon: Annotated[float, typer.Option(min=5, max=1440, help="Minutes after a pod's start that count.")] = 60.0,
    limit: Annotated[float, typer.Option(min=1.0, help="Slowdown above which a minute is one of violation.")] = 1.25,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures here.")] = None,
) -> None:
    """Tell how many violation-minutes following the advice avoided, by pods that were withheld it by chance.

    With COHABIT_ADVISOR__WITHHELD_SHARE=0.05 `cohabit serve` tells the scheduler nothing about one pod in twenty, and
    writes down who. Nothing but chance sets those pods apart, so whatever else differs was caused by the advice: no
    model of ours is believed for it. A violation-minute is a minute in which a latency-sensitive container ran slower
    than --limit times its own normal, as `cohabit features` measured it. Of each pod its own minutes count, and by how
    much those of the residents of its node rose, within --horizon.

    Two effects, with 90 % intervals: of being advised, which is what the advice is worth to the cluster, and of having
    gone where it said because it was given. A last sentence says whether that can be told yet, and how many pods more
    it would take. docs/worth.md explains all of it.
    """
    from cohabit.impact.impact_report import run_worth

    run_worth(settings(), lake=lake, log=log, horizon_minutes=horizon, limit=limit, out=out)


@app.command()
@reports_errors
def demo(
    kafka: Annotated[bool, typer.Option("--kafka", help="Through a real broker and Spark's Kafka source.")] = False,
    leave: Annotated[bool, typer.Option("--exit", help="Return after the report instead of serving on.")] = False,
    hours: Annotated[float, typer.Option(min=1.0, max=8784, help="Hours of metrics to simulate.")] = 4.0,
) -> None:
    """Run the whole job on embedded defaults: metrics in, advice out."""
    from cohabit.cli.demo import run_demo

    run_demo(kafka=kafka, leave=leave, hours=hours)
