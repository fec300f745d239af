"""`cohabit dev`: a broker, a simulated cluster, replays, public traces and backtests."""

from pathlib import Path
from typing import Annotated

import typer

from cohabit.terminal.options import reports_errors, settings

dev_app = typer.Typer(no_args_is_help=True, help="Run a local Kafka, simulate a cluster, replay, import, backtest.")
Folder = Annotated[Path, typer.Argument(help="Folder with <topic>.log files, as `cohabit dev simulate` writes them.")]
Bootstrap = Annotated[str | None, typer.Option("--bootstrap", help="Kafka, host:port [COHABIT_KAFKA__BOOTSTRAP].")]


@dev_app.callback()
def dev() -> None:
    """Run a local Kafka, simulate a cluster, replay, import, backtest."""


@dev_app.command()
@reports_errors
def broker(
    folder: Annotated[Path, typer.Option(help="Folder of the broker's records.")] = Path("cohabit-data/broker"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0 chooses a free one.")] = 9092,
) -> None:
    """Run a real single-node Kafka on loopback until Ctrl-C, with Cohabit's topics.

    Jars are downloaded once and checked against their digests; Java is found, or comes with the environment.
    """
    from cohabit.cli.data.stream import run_broker

    run_broker(folder, port)


@dev_app.command()
@reports_errors
def topics(
    bootstrap: Bootstrap = None,
    partitions: Annotated[
        int | None, typer.Option(min=2, max=10_000, help="Partitions of each partitioned topic; default 4.")
    ] = None,
) -> None:
    """Create missing Cohabit topics in Kafka. Existing topics are not changed.

    The replication factor is the broker's default. At most one `cohabit ingest` works per partition. Adding partitions
    later breaks the order of records per key.
    """
    from cohabit.cli.data.stream import run_topics

    run_topics(settings().kafka.brokers(bootstrap), partitions)


@dev_app.command()
@reports_errors
def simulate(
    folder: Annotated[Path, typer.Argument(help="Output folder for <topic>.log files; must contain none.")],
    nodes: Annotated[int, typer.Option(min=1, help="Number of nodes, of three platforms in turn.")] = 24,
    apps: Annotated[int, typer.Option(min=3, help="Number of apps, every third best effort.")] = 24,
    hours: Annotated[
        float, typer.Option(min=0.1, max=8784, help="Hours of metrics, one record per container every 30 s.")
    ] = 6.0,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same stream.")] = 1,
    law: Annotated[
        str,
        typer.Option(
            help="How neighbours slow each other down: saturating (harms add up and level off), queueing (delays "
            "multiply) or threshold (nothing up to a knee, then the worst resource)."
        ),
    ] = "saturating",
    antagonists: Annotated[
        int, typer.Option(min=0, help="Number of noisy neighbours, containers of one more app, from half-time on.")
    ] = 0,
    stock: Annotated[
        bool,
        typer.Option("--stock", help="Only what kubelets as they come send: use, pressure, throttling; no latency."),
    ] = False,
    truth: Annotated[Path | None, typer.Option(help="Also write the true slowdowns here; not for training.")] = None,
) -> None:
    """Write the metrics of a simulated cluster, with late, duplicate, skewed and malformed records."""
    from cohabit.cli.data.stream import run_simulate
    from ingest.simulator.simulate import Plan

    plan = Plan(nodes=nodes, apps=apps, hours=hours, seed=seed, law=law, antagonists=antagonists, stock=stock)
    run_simulate(folder, plan, truth)


@dev_app.command()
@reports_errors
def replay(
    folder: Folder,
    bootstrap: Bootstrap = None,
    speed: Annotated[
        float, typer.Option(min=0, help="Replay speed: 1 real time, 60 an hour per minute, 0 unlimited.")
    ] = 0.0,
) -> None:
    """Send stream files to Kafka, with the times and keys they carry.

    A folder of your own topics works too: kafka-console-consumer --property print.timestamp=true
    --property print.key=true --topic usage > folder/usage.log
    """
    from cohabit.cli.data.stream import run_replay

    run_replay(folder, settings().kafka.brokers(bootstrap), speed)


@dev_app.command("import")
@reports_errors
def import_(
    form: Annotated[str, typer.Argument(metavar="FORMAT", help="alibaba2018, gentd26 or gpu2023.")],
    source: Annotated[Path, typer.Argument(help="The trace's folder, or one of its files; .csv or .csv.gz.")],
    out: Annotated[Path | None, typer.Option(help="Write <topic>.log files into this folder.")] = None,
    bootstrap: Annotated[str | None, typer.Option(help="Send to this Kafka instead, host:port.")] = None,
    epoch: Annotated[str, typer.Option(help="Time of the trace's second 0, UTC.")] = "2018-01-01T00:00:00Z",
    cluster: Annotated[str | None, typer.Option(help="Cluster name in every record; default: the format's.")] = None,
) -> None:
    """Convert a public trace to Cohabit topics and units; docs/traces.md has the download of each.

    cohabit dev import gentd26 cluster-trace-v2026-GenAI --out stream && cohabit ingest stream

    No row is dropped: an unusable row becomes a dead letter with its reason at ingestion. Messages carry the time of
    their records, so a replay behaves like the cluster.
    """
    from cohabit.cli.data.sources import run_import

    brokers = None if bootstrap is None else settings().kafka.brokers(bootstrap)
    run_import(form, source, out=out, bootstrap=brokers, epoch=epoch, cluster=cluster)


@dev_app.command()
@reports_errors
def backtest(
    law: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE.csv",
            help="How neighbours slow each other down: queueing, threshold, saturating, or a CSV of measured pairs "
            "(victim, aggressor, slowdown); repeatable. Default: queueing and threshold.",
        ),
    ] = None,
    compose: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WAY",
            help="How the harm of several neighbours of a CSV adds up: additive, max, saturating or threshold; "
            "repeatable. Default: all.",
        ),
    ] = None,
    alone: Annotated[
        Path | None, typer.Option(help="CSV of workload and use measured alone, for the counters.")
    ] = None,
    nodes: Annotated[int, typer.Option(min=4, max=20000, help="Nodes of the largest cluster.")] = 100,
    hours: Annotated[
        float, typer.Option(min=2.0, max=2000.0, help="Simulated hours; the first one fills the cluster.")
    ] = 48.0,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="Number of runs, each with its own apps and history.")] = 5,
    history_nodes: Annotated[int, typer.Option(min=4, max=1000, help="Nodes of the training cluster.")] = 24,
    history_hours: Annotated[float, typer.Option(min=2.0, max=240.0, help="Hours of training history.")] = 24.0,
    cells: Annotated[
        int, typer.Option(min=0, max=101, help="Cell-compaction runs: the fewest nodes without more violations.")
    ] = 11,
    jobs: Annotated[int, typer.Option(min=1, max=64, help="Parallel processes.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Folder for backtest.json and a figure of each law.")] = None,
) -> None:
    """Compare placement policies on a simulated cluster whose interference law is hidden from all of them.

    It ingests a history under kube-scheduler's defaults, trains on it and serves it as in production. Then every
    policy places two days of arrivals, deploys and node failures on clusters of three sizes. The metric is
    SLO-violation minutes, compared with tuned heuristics and an oracle that knows the law. It takes half an hour or
    more per law on 2 slow cores; use --hours 6 --seeds 1 for a quick run.
    """
    from cohabit.backtest.history import Past
    from cohabit.backtest.run_backtest import drivers_of, run_backtest
    from cohabit.backtest.study import Plan

    plan = Plan(nodes, hours, seeds, past=Past(history_nodes, history_hours), cells=cells)
    run_backtest(drivers_of(law or (), compose or (), alone), plan, jobs, out)
