"""The commands of features and models: features, evaluate, train."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import exp
from pathlib import Path
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING

from cohabit.config.errors import CohabitError
from cohabit.config.settings import Settings
from cohabit.terminal.console import console, show_table, steps
from cohabit.terminal.locations import existing_lake, open_lake, registry_of, signer_in, stop_on_signals
from cohabit.terminal.options import FOLDS_DIFFER, MAX_ROWS
from ingest.kafka_io.connection import Brokers
from ingest.lake.stores import is_bucket
from ingest.lake.tables import Lake
from ingest.schema.topics import SAMPLES, USAGE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from cohabit.training.evaluation import Thoroughness
    from cohabit.training.training_rows import OnSpark
    from features.jobs.job_plan import Stretch
    from features.training.sample_reader import Sample
    from models.registry.registry import Registry
    from models.training.trainer import Metrics

PUBLISH_SINCE_MS = 600_000
"""Older minutes are not published to refreshers."""
METRICS = ("mae_log", "above_ours", "spearman", "coverage90")
LEGEND = f"""mae_log: mean absolute error of the log of slowdown, lower is better; above_ours: that error minus ours, on
the same rows; spearman: rank correlation, higher is better; coverage90: share of cases below our bound, 0.9 is
promised; in brackets 95 % intervals over apps; {FOLDS_DIFFER}."""
QUESTIONS = {
    "time_forward": "tomorrow: trained on the past, judged on what came after",
    "leave_app_out": "unseen apps: judged on apps the model was not trained on",
    "cold_app": "cold apps: judged on apps that never ran anywhere",
    "diagnosis_time_forward": "explaining tomorrow: the diagnosis model, which reads the very window",
    "diagnosis_leave_app_out": "explaining unseen apps: the diagnosis model",
}
NO_TRAINING = """no training rows: a label needs an app with latency, CPI next to latency, or CPU time per request, on a
described platform, and at least 8 calm five-minute windows; give it some hours of several apps on nodes of differing
load"""


def run_features(
    settings: Settings,
    *,
    lake: str | None,
    bootstrap: str | None,
    follow: bool,
    kafka: bool,
    spark: bool,
    publish: bool,
) -> None:
    """See `cohabit features`."""
    from features.jobs.job_plan import whole_stretch
    from features.jobs.local_job import MAX_ROWS

    opened = (open_lake if publish or follow else existing_lake)(settings, lake)  # what follows may come first
    if publish:
        _publish_state(settings, opened, settings.kafka.brokers(bootstrap))
        return
    stretch = None if follow else whole_stretch(opened)
    if stretch is None and not follow:
        raise CohabitError(f"the lake {opened.uri} has no usage: run `cohabit ingest` first, or name another lake")
    broker = settings.kafka.brokers(bootstrap) if kafka else None
    asked = spark or broker is not None or settings.spark.master is not None
    if (
        stretch is not None
        and not asked
        and (is_bucket(opened.uri) or opened.count("usage", *stretch.samples()) <= MAX_ROWS)
    ):  # Spark has no client of buckets
        _compute_here(opened, stretch)
    else:
        _compute_with_spark(settings, opened, stretch, broker)


def _compute_here(lake: Lake, stretch: "Stretch") -> None:
    from features.jobs.local_job import run_local

    console.print("in this process; --spark or COHABIT_SPARK__MASTER gives it to Spark")
    with console.status("computing features"):
        run_local(lake, stretch, report_table)
    _warn_without_training(lake)


def _compute_with_spark(settings: Settings, lake: Lake, stretch: "Stretch | None", broker: Brokers | None) -> None:
    from features.jobs.spark.lake_tables import check_client
    from features.jobs.spark.session import LOCAL_MASTER, spark_session

    master = settings.spark.master or LOCAL_MASTER
    console.print(f"with Spark on {master}")
    with spark_session(master, {"spark.driver.memory": settings.spark.driver_memory}) as spark:
        check_client(spark, lake)
        if stretch is None:
            _follow(spark, lake, broker, settings.cluster)
        else:
            _rebuild(spark, lake, stretch, broker, settings.cluster)


def _rebuild(spark: "SparkSession", lake: Lake, stretch: "Stretch", broker: Brokers | None, cluster: str) -> None:
    from features.jobs.spark import batch_job as batch

    usage = batch.kafka_usage(spark, lake, broker, cluster) if broker else batch.landed_usage(spark, lake, stretch)
    with console.status("computing features"):
        batch.run_batch(usage, lake, stretch, report_table)
    _warn_without_training(lake)


def report_table(table: str, rows: int) -> None:
    """Print a table that was written, and its rows."""
    console.print(f"  {table}: {rows:,}")


def _warn_without_training(lake: Lake) -> None:
    if not lake.read("training", columns=[]).num_rows:
        console.print(NO_TRAINING)


def _follow(spark: "SparkSession", lake: Lake, broker: Brokers | None, cluster: str) -> None:
    from features.jobs.spark import stream_job as stream
    from ingest.pipeline.consumer_loop import Formats

    own = stream.Broker(broker, Formats(cluster=cluster)) if broker else None
    streams = stream.from_kafka(spark, lake, own) if own else stream.landed(spark, lake)
    stop = stop_on_signals()
    how = stream.resumed(lake, stream.JOB, (USAGE.name, SAMPLES.name) if own else ())
    query = stream.follow(streams, lake, how, _report_batch)
    console.print(f"following {broker or lake.uri}; rows of a minute appear once it is final, {stream.WATERMARK} on")
    _until_stopped(query, stop)


def _publish_state(settings: Settings, lake: Lake, bootstrap: Brokers) -> None:
    from cohabit.ingestion.worker import ALONE, foreign_in, formats_of
    from features.jobs.spark import stream_job as stream
    from features.jobs.spark.session import LOCAL_MASTER, spark_session
    from ingest.kafka_io.offsets import last_minutes

    master, stop = settings.spark.master or LOCAL_MASTER, stop_on_signals()
    formats = formats_of(settings, ALONE)
    foreign = foreign_in(formats)
    begin = last_minutes(bootstrap, (USAGE.name, SAMPLES.name, *foreign), PUBLISH_SINCE_MS)
    broker = stream.Broker(bootstrap, formats, foreign, begin)
    how = stream.resumed(lake, "publish", (USAGE.name, SAMPLES.name, *foreign))
    if is_bucket(lake.uri):  # Spark has no client of it; without its checkpoint it begins with the last minutes again
        how = replace(how, checkpoint=lake.store.scratch())
    with spark_session(master, {"spark.driver.memory": settings.spark.driver_memory}) as spark:
        query = stream.publish(stream.from_kafka(spark, lake, broker), lake, how, bootstrap)
        console.print(f"with Spark on {master}: minutes as they grow, from {bootstrap} to topic node_state")
        _until_stopped(query, stop)


def _until_stopped(query: "StreamingQuery", stop: Event) -> None:
    """Wait for the word to stop, or for the end of the query.

    Raises:
        CohabitError: the query failed.
    """
    console.print("Ctrl-C stops")
    while query.isActive and not stop.wait(1.0):
        pass
    if (failure := query.exception()) is not None:
        raise CohabitError(
            f"the streaming job failed: {str(failure).strip().splitlines()[0][:500]}: start it again, it unfreezes at "
            "its checkpoint; if it fails again at once, move the checkpoint folder away to start over"
        )
    query.stop()


def _report_batch(batch: int, rows: int) -> None:
    if rows:
        console.print(f"  node_state: {rows:,} rows more (batch {batch})")


def run_evaluate(
    settings: Settings,
    *,
    lake: str | None,
    report: Path | None = None,
    challengers: bool = False,
    how: "Thoroughness | None" = None,
    max_rows: int = MAX_ROWS,
    spark: bool = False,
) -> None:
    """See `cohabit model evaluate`."""
    from cohabit.training.challengers import append_challengers, challenge_lake, challenge_sheets, verdicts
    from cohabit.training.evaluation import Thoroughness, evaluate_lake
    from cohabit.training.evaluation_report import write_report
    from cohabit.training.tables import narrow_sheets, sentences
    from cohabit.training.training_rows import append_sample

    began, opened, effort = monotonic(), open_lake(settings, lake), how or Thoroughness()
    sample = _sample(settings, opened, max_rows, spark=spark)
    with console.status("evaluating") as status:

        def progress(what: str) -> None:
            status.update(f"{what}, {_since(began)}")

        found = evaluate_lake(opened, effort, progress, training=sample.rows)
        faced = challenge_lake(opened, effort, progress, training=sample.rows) if challengers else []
    for sheet in [*narrow_sheets(found), *challenge_sheets(faced)]:
        show_table(sheet.title, sheet.columns, sheet.rows)
    for sentence in [*sentences(found), *verdicts(faced)]:
        console.print(sentence)
    if report is not None:
        path = write_report(found, report, effort, monotonic() - began)
        if sample.draw is not None:
            append_sample(path, sample.draw)
        if faced:
            append_challengers(path, faced)
        console.print(f"report: {path}")


def _sample(settings: Settings, lake: Lake, max_rows: int, *, spark: bool, until: datetime | None = None) -> "Sample":
    """The rows to learn from, of windows that ended by then; a sample is reported."""
    from cohabit.training.training_rows import sample_of, sample_sheet, sample_words

    with console.status("reading training rows"):
        sample = sample_of(lake, max_rows, _on_spark(settings, spark=spark), until)
    if sample.draw is not None:
        sheet = sample_sheet(sample.draw)
        console.print(sample_words(sample.draw))
        show_table(sheet.title, sheet.columns, sheet.rows)
    return sample


def _on_spark(settings: Settings, *, spark: bool) -> "OnSpark | None":
    """Where Spark runs, if it is asked for as `cohabit features` is asked for it."""
    if not spark and settings.spark.master is None:
        return None
    from cohabit.training.training_rows import OnSpark
    from features.jobs.spark.session import LOCAL_MASTER

    return OnSpark(settings.spark.master or LOCAL_MASTER, settings.spark.driver_memory)


def _since(began: float) -> str:
    seconds = int(monotonic() - began)
    return f"{seconds // 60}:{seconds % 60:02d} elapsed"


def show_metrics(title: str, metrics: "Metrics") -> None:
    """Print one question's figures, ours first, each with its 95 % interval."""
    from cohabit.training.train_model import metric_lines

    rows = [
        (who, *(f"{e.value:.3f} ({e.low:.3f} to {e.high:.3f})" if (e := values.get(n)) else "" for n in METRICS))
        for who, values in metric_lines(metrics)
    ]
    shown = [name for i, name in enumerate(METRICS) if any(row[i + 1] for row in rows)]
    if "above_ours" in shown:
        shown.remove("spearman")  # five columns are too wide for a terminal
    kept = [(row[0], *(row[1 + METRICS.index(name)] for name in shown)) for row in rows]
    show_table(QUESTIONS.get(title, title), ("predictor", *shown), kept)
    ours, best = metrics["ours"]["mae_log"], min((v["mae_log"].value, k) for k, v in metrics.items() if k != "ours")
    if best[0] <= ours.value:
        console.print(f"ours is no better than {best[1]} here")


@dataclass(frozen=True, slots=True)
class Training:
    """What `cohabit model train` is asked for.

    Args:
        lake: where to learn from; None for the settings'.
        registry: where the bundle goes; None for the settings'.
        max_rows: that are learnt from.
        spark: whether Spark draws the sample.
        until: end of the last window learnt from; None for all.
        name: of the bundle; None for one by the time.
        promoted: whether it becomes current; None if nothing is.
    """

    lake: str | None = None
    registry: Path | None = None
    max_rows: int = MAX_ROWS
    spark: bool = False
    until: datetime | None = None
    name: str | None = None
    promoted: bool | None = None


def run_train(settings: Settings, asked: Training) -> None:
    """See `cohabit model train`."""
    from cohabit.training.tables import enough_words
    from cohabit.training.train_model import DEFAULT_EFFORT, Birth, as_now, evaluate_rows, name_at, train_bundle
    from cohabit.training.training_rows import diagnosis_of_sample
    from models.estimator.feature_matrix import read_rows
    from models.registry.registry import checked_name

    opened, spark = open_lake(settings, asked.lake), asked.spark
    shelf, now = registry_of(settings, asked.registry), datetime.now(UTC)
    name = name_at(now) if asked.name is None else checked_name(asked.name)
    if name in shelf.names():
        learnt = shelf.bundle(name).manifest.training_window[1]
        there = f"bundle {name} is there already, and learnt until {learnt:%Y-%m-%d %H:%M} UTC: nothing was trained"
        console.print(f"{there}; another --name trains another", soft_wrap=True)
        return
    promoted = shelf.current() is None if asked.promoted is None else asked.promoted
    pinned, versions = as_now(opened)
    birth = Birth(name, promoted, signer_in(settings), versions)
    sample = _sample(settings, pinned, asked.max_rows, spark=spark, until=asked.until)
    table = sample.rows
    measured = diagnosis_of_sample(pinned, sample, _on_spark(settings, spark=spark))
    with steps("evaluating") as advance:
        metrics = evaluate_rows(read_rows(table), DEFAULT_EFFORT, advance, measured)
        advance("training")
        train_bundle(
            table, shelf, datetime.now(UTC), metrics, DEFAULT_EFFORT, diagnosis=measured, draw=sample.draw, birth=birth
        )
    for split, found in metrics.items():
        show_metrics(split, found)
    console.print(LEGEND)
    if promoted:
        console.print(
            f"bundle {shelf.root / name} is current, MODEL_CARD.md in it; next: cohabit refresh, cohabit serve"
        )
    else:
        console.print(f"bundle {shelf.root / name} is a challenger, MODEL_CARD.md in it; {_still(shelf)}; next:")
        console.print(f"  cohabit model gate {name}, once labels came that it has not learnt from")
        console.print(f"  cohabit model promote {name}")
    console.print(enough_words(metrics, QUESTIONS))


def _still(shelf: "Registry") -> str:
    current = shelf.current()
    return "nothing is current" if current is None else f"{current.name} stays current"


def run_recalibrate(settings: Settings, *, lake: str | None, registry: Path | None) -> None:
    """See `cohabit model recalibrate`."""
    from cohabit.lifecycle.recalibrate import recalibrate
    from models.errors import NothingNewer

    opened, shelf = existing_lake(settings, lake), registry_of(settings, registry)
    try:
        with console.status("following labels") as status:
            found = recalibrate(opened, shelf, datetime.now(UTC), status.update, signer_in(settings))
    except NothingNewer as error:
        console.print(str(error), soft_wrap=True)
        return
    rows = [
        (one.tier, one.platform, f"{exp(one.log_stretch):.2f}", f"{one.labels:,}") for one in found.followed.stretches
    ]
    show_table("factors of bounds' margins", ("app is", "platform", "factor", "labels"), rows)
    console.print(
        f"{found.held / max(found.labels, 1):.3f} of {found.labels:,} labels lay below the bound as it was trained, "
        f"{found.margins.level:g} is promised; followed until {found.followed.until:%Y-%m-%d %H:%M} UTC"
    )
    console.print(f"bundle {shelf.current()} is current")


def run_search(
    settings: Settings, *, lake: str | None, candidates: int, outer: int, inner: int, seed: int, out: Path | None
) -> None:
    """See `cohabit model tune`."""
    from cohabit.training.hyperparameters import candidate_sheet, verdict, write_found
    from cohabit.training.train_model import DEFAULT_EFFORT, training_table
    from models.estimator.feature_matrix import read_rows
    from models.training.tuning import Effort, search

    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)  # before minutes are spent
    began, rows = monotonic(), read_rows(training_table(open_lake(settings, lake)))
    effort = Effort(candidates=candidates, outer=outer, inner=inner, seed=seed)
    with console.status("searching") as status:
        found = search(rows, DEFAULT_EFFORT.config, effort, lambda what: status.update(f"{what}, {_since(began)}"))
    sheet = candidate_sheet(found)
    show_table(sheet.title, sheet.columns, sheet.rows)
    console.print(verdict(found))
    if out is not None:
        write_found(found, out)
        console.print(f"written: {out}")
