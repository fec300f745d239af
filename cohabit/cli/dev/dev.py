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
    folder: Annotated[Path, typer.Option(help="Where the broker keeps its records.")] = Path("cohabit-data/broker"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Loopback port; 0 takes a free one.")] = 9092,
) -> None:
    """Run a real single-node Kafka on loopback until Ctrl-C, with Cohabit's topics.

    Jars are fetched once, each checked against its digest; Java is found, or comes with the environment.
    """
    from cohabit.cli.data.stream import run_broker

    run_broker(folder, port)


@dev_app.command()
@reports_errors
def topics(
    bootstrap: Bootstrap = None,
    partitions: Annotated[
        int | None, typer.Option(min=2, max=10_000, help="Of each topic that has several; 4 when left out.")
    ] = None,
) -> None:
    """Make the topics of ours that your Kafka lacks; those that are there stay as they are.

    Their replication factor is the broker's default. As many `cohabit ingest` share the work as there are
    partitions, and a topic cannot get more later without mixing up the order of its records.
    """
    from cohabit.cli.data.stream import run_topics

    run_topics(settings().kafka.brokers(bootstrap), partitions)


@dev_app.command()
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


@dev_app.command()
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


@dev_app.command("import")
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

    cohabit dev import gentd26 cluster-trace-v2026-GenAI --out stream && cohabit ingest stream

    Nothing is dropped: a row that cannot be used becomes a dead letter with its reason when it is ingested. Messages
    arrive at their records' own time, so a replay behaves as the cluster did.
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
    """Compare placement policies on a simulated cluster whose interference law is hidden from all of them.

    A history under kube-scheduler's defaults is landed, learnt from and served as in production; then every policy
    places two days of arrivals, deploys and node failures on clusters of three sizes. What counts are minutes in which
    latency-sensitive containers are slower than 1.25 times their baseline, next to tuned heuristics and an oracle that
    knows the law. Half an hour or more a law with 2 slow cores; --hours 6 --seeds 1 for a look.
    """
    from cohabit.backtest.history import Past
    from cohabit.backtest.run_backtest import drivers_of, run_backtest
    from cohabit.backtest.study import Plan

    plan = Plan(nodes, hours, seeds, past=Past(history_nodes, history_hours), cells=cells)
    run_backtest(drivers_of(law or (), compose or (), alone), plan, jobs, out)
