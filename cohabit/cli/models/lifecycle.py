"""`cohabit model`: train, tune, evaluate, drift, recalibrate, check-skew, impact."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.models.models import RegistryOption, model_app
from cohabit.terminal.options import MAX_ROWS, LakeOption, reports_errors, settings

__all__ = ["model_app"]
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


@model_app.command()
@reports_errors
def train(
    lake: LakeOption = None,
    registry: RegistryOption = None,
    max_rows: MostRows = MAX_ROWS,
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

    The first bundle becomes current. A later one is a challenger: `cohabit model gate` judges it on labels that it has
    not learnt from, which --until leaves, and `cohabit model promote` makes it current.

    Where the lake has more than --max-rows training rows, a sample of so many is drawn before any model reads them:
    by app, band of slowdown and band of pressure, at least one row of each, otherwise the same share of all; weights
    make up for the rows left out. How many of how many were kept is printed and stands in the model card. The same rows
    are drawn every time, also with Spark (--spark or COHABIT_SPARK__MASTER); a larger sample holds the smaller one.
    """
    from cohabit.cli.models.train import Training, run_train

    asked = Training(lake, registry, max_rows, spark, _utc(until), name, promote)
    run_train(settings(), asked)


@model_app.command("tune")
@reports_errors
def tune(
    lake: LakeOption = None,
    candidates: Annotated[int, typer.Option(min=1, help="Random settings to try, in addition to the default.")] = 15,
    outer: Annotated[int, typer.Option(min=2, help="Folds of apps that judge.")] = 4,
    inner: Annotated[int, typer.Option(min=2, help="Folds of the other apps that choose.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Of the draw; the same seed tries the same settings.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write all of it here, as JSON.")] = None,
) -> None:
    """Search hyperparameters on a lake's rows and compare the best with the default on unseen apps.

    The error by which settings are chosen is biased low for the chosen ones. So outer folds of apps judge, and inside
    each the settings are chosen anew on inner folds of the other apps: all on one inner fold, the better third on all.
    The last line compares the default with choosing, on the same rows, with a paired 95 % interval over apps; only an
    interval above zero says that the default loses. Nothing is changed: settings are in models/training/fit.py and
    cohabit/training/train_model.py. 13,000 rows take some ten minutes of one core with the values given here.
    """
    from cohabit.cli.models.train import run_search

    run_search(settings(), lake=lake, candidates=candidates, outer=outer, inner=inner, seed=seed, out=out)


@model_app.command()
@reports_errors
def evaluate(
    lake: LakeOption = None,
    report: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write report.md with tables and figures here.")
    ] = None,
    challengers: Annotated[
        bool, typer.Option("--challengers", help="Also forests, boosting, tables and variants of ours; minutes more.")
    ] = False,
    max_rows: MostRows = MAX_ROWS,
    spark: SparkSample = False,
) -> None:
    """Evaluate the model against baselines, a noise floor and a leakage alarm; see docs/evaluation.md.

    Tomorrow, unseen apps, apps that never ran, unseen nodes, hardware and mixes, denser packing, random choices; what
    the data do not allow is named with the reason. 13,000 training rows, such as the demo's, take a minute or two, and
    some minutes more with --challengers: eleven other learners on the same rows and folds, for four of the questions.

    Of more than --max-rows training rows a sample is judged, as `cohabit model train` draws it; the report says so.
    """
    from cohabit.cli.models.train import run_evaluate

    run_evaluate(settings(), lake=lake, report=report, challengers=challengers, max_rows=max_rows, spark=spark)


@model_app.command()
@reports_errors
def drift(
    lake: LakeOption = None,
    registry: RegistryOption = None,
    hours: Annotated[
        float | None, typer.Option(min=0.1, max=8760, help="Look at labels of so long [COHABIT_DRIFT__WINDOW_HOURS].")
    ] = None,
) -> None:
    """Look whether labels still bear the current model out, and say how far it is served from now on; exit 1 if less.

    Watched are the share of labels below their bounds, how far labels lie off on the whole and since when, whether the
    model still chooses better nodes than the load would, how features have moved since training, the model's age, and
    what `cohabit model check-skew` found last. Where labels are missed, `cohabit serve` widens margins by what would
    have been needed; where later labels miss even those, it compares nodes by load instead, until another model is
    promoted or labels agree three times in a row. Run it hourly, after `cohabit features`. docs/drift.md says what to
    do.
    """
    from cohabit.cli.models.models import run_drift

    raise typer.Exit(not run_drift(settings(), lake=lake, registry=registry, hours=hours))


@model_app.command()
@reports_errors
def recalibrate(lake: LakeOption = None, registry: RegistryOption = None) -> None:
    """Let the current bundle's bounds follow the labels that came since it was trained; its models stay as they are.

    A bound that labels miss too often is stretched, one that holds too often shrinks, by platform and by how well apps
    are known. Labels are those of containers where your scheduler put them, so bounds come to hold on chosen nodes.

    Run it hourly, after `cohabit features`; `cohabit model train`, daily or weekly, begins anew. The new bundle is
    current at once and `cohabit serve` takes it up; the registry keeps three of them. Without newer labels nothing
    happens.
    """
    from cohabit.cli.models.train import run_recalibrate

    run_recalibrate(settings(), lake=lake, registry=registry)


@model_app.command("check-skew")
@reports_errors
def check_skew(
    lake: LakeOption = None,
    snapshots: Snapshots = None,
    newest: Annotated[int, typer.Option(min=1, help="Look at so many vectors, the newest ones.")] = 1000,
) -> None:
    """Compute features that scores were made of again from the lake, and compare them bit by bit.

    `serve` logs the features of one request in a hundred next to the snapshots (COHABIT_ADVISOR__FEATURE_LOG_SHARE).
    Exit 1
    when fewer than 99.9 % of the values are equal: then what is served is not what models are trained on. Exit 0, with
    a word of it, while nothing was served. Run it before `cohabit features`, not after: that rebuilds the newest
    profiles, and what was served with the ones before cannot be compared any more.
    """
    from cohabit.cli.operate.serve import run_skew

    raise typer.Exit(not run_skew(settings(), lake=lake, snapshots=snapshots, newest=newest))


@model_app.command("impact")
@reports_errors
def impact(
    lake: LakeOption = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Decision log of `serve`; next to the snapshots if left out."),
    ] = None,
    horizon: Annotated[float, typer.Option(min=5, max=1440, help="Minutes after a pod's start that count.")] = 60.0,
    limit: Annotated[float, typer.Option(min=1.0, help="Slowdown above which a minute is one of violation.")] = 1.25,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures here.")] = None,
) -> None:
    """Estimate SLO-violation minutes avoided by the advice, from a randomised holdout of pods.

    With COHABIT_ADVISOR__HOLDOUT_SHARE=0.05 `cohabit serve` gives no advice for one pod in twenty, and
    writes down who. Nothing but chance sets those pods apart, so whatever else differs was caused by the advice: no
    model of ours is believed for it. A violation-minute is a minute in which a latency-sensitive container ran slower
    than --limit times its own normal, as `cohabit features` measured it. Of each pod its own minutes count, and by how
    much those of the residents of its node rose, within --horizon.

    Two effects, with 90 % intervals: of being advised, which is what the advice is worth to the cluster, and of having
    gone where it said because it was given. A last sentence says whether the data suffice, and how many more pods
    it would take. docs/impact.md explains all of it.
    """
    from cohabit.impact.impact_report import run_worth

    run_worth(settings(), lake=lake, log=log, horizon_minutes=horizon, limit=limit, out=out)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
