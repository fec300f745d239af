"""`cohabit model`: train, tune, evaluate, drift, recalibrate, check-skew, impact."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cohabit.cli.models.models import RegistryOption, model_app
from cohabit.terminal.options import MAX_ROWS, LakeOption, reports_errors, settings

__all__ = ["model_app"]
MostRows = Annotated[int, typer.Option(min=1, help="Maximum training rows; more are sampled.")]
SparkSample = Annotated[bool, typer.Option("--spark", help="Draw the sample with Spark.")]
Until = Annotated[
    datetime | None,
    typer.Option(
        formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d"],
        help="Train only on windows that ended by then, UTC.",
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
        str | None, typer.Option(help="Name of the bundle; default: the time. An existing bundle is kept.")
    ] = None,
    promote: Annotated[
        bool | None,
        typer.Option("--promote/--no-promote", help="Promote it; default: only if no bundle is promoted yet."),
    ] = None,
) -> None:
    """Evaluate and train the placement and the diagnosis model, and export them to ONNX.

    The first bundle is promoted. A later one is a challenger: `cohabit model gate` compares it with the champion on
    labels newer than its training data (see --until), and `cohabit model promote` promotes it.

    If the lake has more than --max-rows training rows, training uses a weighted sample, stratified by app, slowdown
    and pressure, with at least one row per stratum. The output and the model card state its size. Sampling is
    deterministic, also with Spark (--spark or COHABIT_SPARK__MASTER); a larger sample contains the smaller one.
    """
    from cohabit.cli.models.train import Training, run_train

    asked = Training(lake, registry, max_rows, spark, _utc(until), name, promote)
    run_train(settings(), asked)


@model_app.command("tune")
@reports_errors
def tune(
    lake: LakeOption = None,
    candidates: Annotated[int, typer.Option(min=1, help="Random settings to try, in addition to the default.")] = 15,
    outer: Annotated[int, typer.Option(min=2, help="Outer folds of apps, for evaluation.")] = 4,
    inner: Annotated[int, typer.Option(min=2, help="Inner folds of the other apps, for selection.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random settings.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the results here, as JSON.")] = None,
) -> None:
    """Search hyperparameters on a lake's rows and compare the best with the default on unseen apps.

    Nested cross-validation: inside each outer fold of apps, settings are selected on inner folds of the other apps,
    first all on one inner fold, then the better third on all. The last line compares the default with the selected
    settings on the same rows, with a paired 95 % interval over apps; the default loses only if the interval is above
    zero. Changes nothing: settings are in models/training/fit.py and cohabit/training/train_model.py. 13,000 rows
    take some ten minutes of one core with the defaults.
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
        bool,
        typer.Option(
            "--challengers", help="Also evaluate forests, boosting, tables and variants of ours; takes minutes more."
        ),
    ] = False,
    max_rows: MostRows = MAX_ROWS,
    spark: SparkSample = False,
) -> None:
    """Evaluate the model against baselines, a noise floor and a leakage alarm; see docs/evaluation.md.

    Protocols: next day, unseen apps, cold-start apps, unseen nodes, hardware and neighbour mixes, denser packing,
    random choices. The report names each protocol that the data do not allow, with the reason. 13,000 training rows,
    such as the demo's, take a minute or two, and some minutes more with --challengers: eleven other learners on the
    same rows and folds, for four of the protocols.

    More than --max-rows training rows are sampled as in `cohabit model train`; the report states it.
    """
    from cohabit.cli.models.train import run_evaluate

    run_evaluate(settings(), lake=lake, report=report, challengers=challengers, max_rows=max_rows, spark=spark)


@model_app.command()
@reports_errors
def drift(
    lake: LakeOption = None,
    registry: RegistryOption = None,
    hours: Annotated[
        float | None, typer.Option(min=0.1, max=8760, help="Hours of labels to check [COHABIT_DRIFT__WINDOW_HOURS].")
    ] = None,
) -> None:
    """Check the current model for drift and set the serving mode. Exits 1 if the mode was lowered.

    It checks coverage of the prediction bounds, bias of the predictions, node choice compared with load, shift of
    the features since training, the age of the model, and the last result of `cohabit model check-skew`. If labels
    exceed the bounds, `cohabit serve` widens the conformal margins. If later labels exceed the wider bounds, it uses
    the load-aware fallback until another model is promoted or three checks in a row pass. Run it hourly, after
    `cohabit features`. docs/drift.md lists remedies.
    """
    from cohabit.cli.models.models import run_drift

    raise typer.Exit(not run_drift(settings(), lake=lake, registry=registry, hours=hours))


@model_app.command()
@reports_errors
def recalibrate(lake: LakeOption = None, registry: RegistryOption = None) -> None:
    """Recalibrate the current model's prediction bounds on newer labels. The model itself is unchanged.

    Conformal margins are adjusted per platform and for seen and unseen apps until coverage is as promised. The labels
    are those of real placements, so coverage holds on chosen nodes.

    Run it hourly, after `cohabit features`, and `cohabit model train` daily or weekly. The recalibrated bundle is
    promoted at once and `cohabit serve` reloads it; the registry keeps the last three. Without newer labels it
    changes nothing.
    """
    from cohabit.cli.models.train import run_recalibrate

    run_recalibrate(settings(), lake=lake, registry=registry)


@model_app.command("check-skew")
@reports_errors
def check_skew(
    lake: LakeOption = None,
    snapshots: Snapshots = None,
    newest: Annotated[int, typer.Option(min=1, help="Number of newest vectors to compare.")] = 1000,
) -> None:
    """Check training-serving skew: recompute served features from the lake and compare them bit by bit.

    `serve` writes one request in a hundred to the feature log next to the snapshots
    (COHABIT_ADVISOR__FEATURE_LOG_SHARE).
    Exits 1 if fewer than 99.9 % of the values are equal, and 0, with a note, if the feature log is empty. Run it
    before `cohabit features`: that rebuilds the newest profiles, and vectors served with earlier profiles can no
    longer be compared.
    """
    from cohabit.cli.operate.serve import run_skew

    raise typer.Exit(not run_skew(settings(), lake=lake, snapshots=snapshots, newest=newest))


@model_app.command("impact")
@reports_errors
def impact(
    lake: LakeOption = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Decision log of `serve`; default: next to the snapshots."),
    ] = None,
    horizon: Annotated[
        float, typer.Option(min=5, max=1440, help="Minutes after a pod's start that are counted.")
    ] = 60.0,
    limit: Annotated[float, typer.Option(min=1.0, help="Slowdown above which a minute counts as a violation.")] = 1.25,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures here.")] = None,
) -> None:
    """Estimate SLO-violation minutes avoided by the advice, from a randomised holdout of pods.

    With COHABIT_ADVISOR__HOLDOUT_SHARE=0.05 `cohabit serve` gives no advice for one pod in twenty, drawn at random,
    and logs them. The two arms differ by chance only, so the estimate needs no model. An SLO-violation minute is a
    minute in which a latency-sensitive container was slower than --limit times its baseline, as `cohabit features`
    measured it. A pod counts with its own minutes and the increase of those of its node's residents, within
    --horizon.

    Reports two effects with 90 % intervals: per advised pod, the impact on the cluster, and per pod that the advice
    moved. The last sentence says whether the data suffice, else how many more pods are needed. docs/worth.md has
    the method.
    """
    from cohabit.impact.impact_report import run_worth

    run_worth(settings(), lake=lake, log=log, horizon_minutes=horizon, limit=limit, out=out)


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
