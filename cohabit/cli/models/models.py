"""`cohabit model`: list, gate, shadow, promote, rollback, keys; and what `cohabit model drift` prints."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cohabit.terminal.console import console, show_names, show_table
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from advisor.cluster.snapshot import Snapshot
    from cohabit.config.settings import Settings
    from cohabit.lifecycle.promotion import Hand
    from ingest.lake.tables import Lake
    from models.drift.drift_status import DriftStatus
    from models.registry.gate_result import Verdict

model_app = typer.Typer(no_args_is_help=True, help="Train, evaluate, promote and watch models.")
RegistryOption = Annotated[Path | None, typer.Option("--registry", help="Folder of model bundles [COHABIT_REGISTRY].")]
Name = Annotated[str, typer.Argument(help="Name of a bundle, as in `cohabit model list`.")]
SHOWN = 20
"""Newest events of the registry."""
STATES = {
    "fine": "fine: served as it is",
    "widened": "widened: conformal margins are {widening:g} times as wide; run `cohabit model recalibrate`, or train a "
    "challenger on newer labels with `cohabit model train --until`",
    "fallen_back": "fallen back: load-aware fallback, no plans, no slowdown estimates; promote a new model, or "
    "run `cohabit model rollback`",
}
UNWATCHED = "not watched: too few labels since training to compare with; served as it is"
BY_LABELS = ("coverage", "residual", "ranking")
"""Signals that labels give."""
MEANINGS = {
    "tomorrow": "error of log slowdown",
    "slowed": "the same for slowdown of 10 % or more",
    "unseen": "the same for apps held out of training",
    "regret": "regret of its node ranking",
    "bound": "pinball loss of the bound",
    "coverage": "share below the bound",
    "nothing": "error; under current, of saying nothing",
}


@model_app.callback()
def model() -> None:
    """Train, evaluate, promote and watch models."""


@model_app.command("list")
@reports_errors
def list_command(registry: RegistryOption = None) -> None:
    """List bundles with the end and size of their training data, gate result, state and history."""
    from cohabit.terminal.locations import registry_of
    from models.errors import ModelsError
    from models.registry.registry import trained_name
    from models.registry.registry_log import events

    shelf = registry_of(settings(), registry)
    promoted = shelf.promoted()
    rows = []
    complaints = list[str]()
    for name in shelf.names():
        state = "current" if promoted[-1:] == [name] else "was current" if name in promoted else "challenger"
        state += ", recalibrated" if trained_name(name) != name else ""
        try:
            manifest, verdict = shelf.bundle(name).manifest, shelf.verdict(name)
        except ModelsError as error:
            rows.append((name, "–", "–", "–", f"{state}, unusable"))
            complaints.append(str(error))
            continue
        learnt = "–" if manifest.provenance is None else f"{manifest.provenance.rows:,}"
        rows.append((name, f"{manifest.training_window[1]:%Y-%m-%d %H:%M}", learnt, _said(verdict), state))
    show_names("bundles", ("name", "learnt until", "rows", "verdict", "state"), rows)
    for complaint in complaints:
        console.print(complaint, soft_wrap=True)
    listed = [
        (f"{one.at:%Y-%m-%d %H:%M:%S}", one.what, one.bundle, one.before or "–", one.by, one.why)
        for one in events(shelf)[-SHOWN:]
    ]
    if listed:
        show_names("history", ("when, UTC", "what", "bundle", "before", "by", "why"), listed)


@model_app.command("gate")
@reports_errors
def gate_command(name: Name, lake: LakeOption = None, registry: RegistryOption = None) -> None:
    """Compare a challenger with the champion on labels unseen by both. Exits 1 if it is rejected.

    The challenger must not be significantly worse (95 % interval) nor more than 10 % worse than the champion on:
    next-day rows, slowed containers, held-out apps, node ranking and bound coverage, and must beat the naive
    baseline. Both also score the newest snapshot, if there is one; these scores are not served. Train with --until to
    leave unseen labels. `cohabit model promote` requires the saved gate result.
    """
    from cohabit.lifecycle.promotion import judge
    from cohabit.terminal.locations import existing_lake, registry_of

    own = settings()
    shelf = registry_of(own, registry)
    with console.status("judging"):
        verdict = judge(existing_lake(own, lake), shelf, name, datetime.now(UTC), _snapshot(own.snapshots))
    _show(verdict)
    raise typer.Exit(not verdict.passed)


@model_app.command("shadow")
@reports_errors
def shadow_command(name: Name, registry: RegistryOption = None) -> None:
    """Score the newest snapshot by a challenger and compare with the champion; nothing is served."""
    from cohabit.config.errors import CohabitError
    from cohabit.lifecycle.promotion import shadow
    from cohabit.terminal.locations import registry_of

    own = settings()
    shelf, snapshot = registry_of(own, registry), _snapshot(own.snapshots)
    current, challenger = shelf.current(), shelf.bundle(name).directory
    if current is None or snapshot is None:
        missing = "nothing is current" if current is None else f"{own.snapshots} has no snapshot"
        raise CohabitError(f"{missing}: run `cohabit model train` for a model, `cohabit refresh` for a snapshot")
    with console.status("scoring by both"):
        found = shadow(snapshot, shelf, current, challenger)
    rows = [
        ("apps scored, on nodes", f"{found.classes:,} of {found.nodes:,}"),
        ("apps whose best node is not among the champion's best", f"{found.other_winner:.1%}"),
        ("mean difference of points (0 to 10)", f"{found.moved:.2f}"),
        ("nodes with 0 points: champion, challenger", f"{found.zeros[0]:.1%}, {found.zeros[1]:.1%}"),
        ("apps with 0 points on all nodes: champion, challenger", f"{found.silent[0]:.1%}, {found.silent[1]:.1%}"),
    ]
    show_table(f"{name} compared with {current.name}", ("over the newest snapshot", ""), rows)


@model_app.command("promote")
@reports_errors
def promote_command(
    name: Name,
    force: Annotated[
        str | None,
        typer.Option("--force", metavar="REASON", help="Promote regardless of the gate result, with this reason."),
    ] = None,
    registry: RegistryOption = None,
) -> None:
    """Promote a challenger that passed `cohabit model gate`. `cohabit serve` reloads it within seconds.

    The gate result must be against the current champion. Promoting it again changes nothing. After a recalibration
    (NAME-until-…), NAME restores the margins from training, without a gate.
    """
    from cohabit.lifecycle.promotion import promote
    from cohabit.terminal.locations import registry_of

    changed = promote(registry_of(settings(), registry), name, _hand(), forced=force)
    console.print(f"{name} is current" if changed else f"{name} was current already")


@model_app.command("rollback")
@reports_errors
def rollback_command(registry: RegistryOption = None) -> None:
    """Restore the previous champion. The current one needs a new gate result to be promoted again."""
    from cohabit.lifecycle.promotion import roll_back
    from cohabit.terminal.locations import registry_of

    left, back = roll_back(registry_of(settings(), registry), _hand())
    console.print(f"{back} is current again, {left} is not")


@model_app.command("keys")
@reports_errors
def keys_command(
    folder: Annotated[Path, typer.Argument(help="Output folder; it must not contain a key pair.")],
) -> None:
    """Create a key pair: training signs bundles with one, serving verifies them with the other.

    Set COHABIT_SIGNING__KEY to the private one where `cohabit model train` and `cohabit model recalibrate` run, and
    COHABIT_SIGNING__TRUSTED_KEYS to the public one where bundles are promoted and served.
    """
    from models.bundle.signing import make_keys

    private, public = make_keys(folder)
    console.print(f"private: {private}\npublic: {public}")


def run_drift(settings: "Settings", *, lake: str | None, registry: Path | None, hours: float | None) -> bool:
    """See `cohabit model drift`; whether the model is served as it is."""
    from cohabit.lifecycle.drift import Watch, check_drift
    from cohabit.terminal.locations import existing_lake, registry_of

    own, opened = settings.drift, existing_lake(settings, lake)
    how = Watch(timedelta(hours=hours or own.window_hours), timedelta(days=own.max_age_days))
    with console.status("checking labels"):
        status = check_drift(opened, registry_of(settings, registry), how, datetime.now(UTC))
    _show_signals(status)
    _show_coverage(opened, how.span)
    watched = any(one.name in BY_LABELS and one.value is not None for one in status.signals)
    calm = STATES[status.state] if watched or status.state != "fine" else UNWATCHED
    console.print(calm.format(widening=status.widening, calm=status.calm))
    return status.state == "fine"


def _show_coverage(lake: "Lake", span: timedelta) -> None:
    """How much of a stretch of time has labels to watch the model by."""
    from cohabit.cli.operate.victims import show_coverage
    from cohabit.config.errors import NothingMeasured
    from cohabit.diagnosis.diagnose import coverage_until, newest_window

    try:
        until = newest_window(lake)
    except NothingMeasured as error:
        console.print(f"nothing was looked at: {error}")
        return
    show_coverage(coverage_until(lake, until, span), until)


def _show_signals(status: "DriftStatus") -> None:
    rows = []
    for one in status.signals:
        value = "–" if one.value is None else f"{one.value:.3f}"
        around = "" if one.low is None else f" ({one.low:.3f} to {one.high:.3f})"
        rows.append((one.name, value + around, f"{one.limit:g}", "alarm" if one.alarm else "", one.message))
    show_table(f"drift of {status.bundle}", ("signal", "value", "limit", "", "in words"), rows)


def _hand() -> "Hand":
    from cohabit.cli.admin.token import local_name
    from cohabit.lifecycle.promotion import Hand

    return Hand(local_name(), datetime.now(UTC))


def _said(verdict: "Verdict | None") -> str:
    if verdict is None:
        return "–"
    return "passed" if verdict.passed else "refused"


def _snapshot(folder: Path) -> "Snapshot | None":
    """The newest one; None where there is none."""
    from advisor.cluster.snapshot import load_current
    from advisor.errors import AdvisorError

    try:
        return load_current(folder)
    except AdvisorError:
        return None


def _show(verdict: "Verdict") -> None:
    rows = [
        (
            f"{check.name}: {MEANINGS[check.name]}",
            f"{check.challenger:.4f}",
            f"{check.champion:.4f}",
            f"{check.worse.value:+.4f} ({check.worse.low:+.4f} to {check.worse.high:+.4f})",
            "passed" if check.passed else "refused",
        )
        for check in verdict.checks
    ]
    if rows:
        title = f"{verdict.challenger} compared with {verdict.champion}, {verdict.labels:,} labels"
        show_table(title, ("gate", "challenger", "current", "worse by", ""), rows)
    if not verdict.passed:
        console.print(f"refused: {'; '.join(verdict.refusals)}")
        return
    console.print(
        f"passed; next: cohabit model promote {verdict.challenger}"
        if verdict.champion != verdict.challenger
        else f"{verdict.challenger} is current"
    )
