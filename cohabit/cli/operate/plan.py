"""`cohabit plan`: create, list, show, approve, reject, export, outcomes, freeze, unfreeze, reproduce, gang."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import time_ns
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cohabit.cli.admin.token import local_name
from cohabit.cli.operate.gang import gang_command
from cohabit.terminal.console import console
from cohabit.terminal.db import checked
from cohabit.terminal.options import LakeOption, reports_blindness, reports_errors, settings

if TYPE_CHECKING:
    from advisor.plans.export import As
    from advisor.plans.plan_service import Actor, Desk
    from cohabit.plans.create import Sources

plan_app = typer.Typer(no_args_is_help=True, help="Draft, review, approve and export remediation plans.")
plan_app.command("gang")(gang_command)
FORMS = ("evictions", "migration-jobs", "plain")
Name = Annotated[str, typer.Argument(help="Name of a plan, as `cohabit plan list` lists them.")]
Seen = Annotated[
    int | None, typer.Option(help="Version that you read; default: the newest. Rejected if the plan changed since.")
]


@plan_app.callback()
def plan() -> None:
    """Draft, review, approve and export remediation plans."""


@dataclass(frozen=True)
class Opened:
    """The store of proposals, and who decides."""

    desk: "Desk"
    actor: "Actor"


@contextmanager
def opened() -> Iterator[Opened]:
    """Open the plans of the settings' database; no lake is needed, least of all for a change freeze."""
    from advisor.plans.plan_service import Actor, Desk

    own = settings()
    with checked(own) as engine:
        desk = Desk(engine, own.cluster, own.plans.rules(), lambda: time_ns() // 1000)
        yield Opened(desk, Actor(local_name(), "admin", token_hex(8)))


def sources(lake: str | None) -> "Sources":
    """Inputs from which plans are drafted and validated, by the settings."""
    from cohabit.plans.create import PLANS, Sources
    from cohabit.terminal.locations import existing_lake, registry_of

    own = settings()
    registry, kept = registry_of(own), own.registry.parent / PLANS
    return Sources(existing_lake(own, lake), own.snapshots, registry, kept, own.plans.max_snapshot_age_us)


@plan_app.command("create")
@reports_blindness
def create_command(
    lake: LakeOption = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also list skipped containers, with the reason.")] = False,
) -> None:
    """Draft a remediation plan for slowed containers and queue it for review. Changes nothing in the cluster.

    Each step saves more than it costs by the lower end of its interval. Who, how much and when is bounded by
    COHABIT_PLANS__*: share of containers a day, cooldown, freezes, windows; some steps are drawn at random as
    holdout. First it reports the outcome of plans exported at least an hour ago. `cohabit refresh` does the same every
    COHABIT_PLANS__INTERVAL_S.

    It begins with how much could be looked at. Exit codes: 0, no container is slowed among what was looked at; 1, some
    are, or a plan was drafted; 3, nothing could be looked at, or the command failed.
    """
    from cohabit.cli.operate.victims import BLIND_TEXT, exit_code, show_coverage
    from cohabit.plans.create import look, propose
    from cohabit.plans.outcomes import conclude
    from cohabit.plans.tables import show_each, show_skipped

    made_from = sources(lake)
    with opened() as of, console.status("diagnosing slowed containers"):
        show_each(conclude(made_from.lake, of.desk, of.actor))
        looked = look(made_from.lake)
        found = propose(made_from, of.desk, of.actor, looked)
    covered = looked.coverage(of.desk.cluster)
    show_coverage(covered, looked.until)
    if found.plan is None:
        among = f"{len(found.skipped)} of these containers are slowed" if covered.looked.labelled else BLIND_TEXT
        console.print(f"no plan was drafted; {among}")
    else:
        _show(of.desk, found.plan.plan)
    show_skipped(found.skipped, everything=show_all)
    raise typer.Exit(exit_code(covered, found=bool(found.plan or found.ladders or found.skipped)))


@plan_app.command("outcomes")
@reports_errors
def outcomes_command(lake: LakeOption = None) -> None:
    """Report the outcome of plans exported at least an hour ago; draft nothing.

    Each is concluded once. `cohabit plan create` and `cohabit refresh` do the same before they draft.
    """
    from cohabit.plans.outcomes import conclude
    from cohabit.plans.tables import show_each
    from cohabit.terminal.locations import existing_lake

    found = existing_lake(settings(), lake)
    with opened() as of, console.status("measuring outcomes of plans"):
        done = conclude(found, of.desk, of.actor)
    show_each(done)
    console.print(f"{len(done):,} plans concluded")


@plan_app.command("list")
@reports_errors
def list_command() -> None:
    """List plans with their state, the newest first. Plans past their deadline expire."""
    from cohabit.plans.tables import show_list

    with opened() as of:
        of.desk.expire(of.actor)
        show_list(of.desk.cluster, of.desk.listed())


@plan_app.command("show")
@reports_errors
def show_command(plan: Name) -> None:
    """Show one plan: its steps, what each saves, and its history."""
    with opened() as of:
        _show(of.desk, plan)


@plan_app.command("approve")
@reports_errors
def approve_command(
    plan: Name,
    steps: Annotated[str, typer.Option(metavar="all|1,3", help="Steps to approve; the others are rejected.")] = "all",
    seen: Seen = None,
    lake: LakeOption = None,
) -> None:
    """Approve a plan, or some of its steps, after validating each against the cluster as it is now.

    A step that no longer holds is left out, with the reason. Approved plans are exported by `cohabit plan export`, and
    expire if they are not exported in time.
    """
    from cohabit.plans.create import stale_now

    chosen = _steps(steps)
    with opened() as of:
        version = of.desk.one(plan).version if seen is None else seen
        with console.status("validating each step"):
            of.desk.approve(plan, version, chosen, of.actor, stale_now(sources(lake), of.desk))
        _show(of.desk, plan)


@plan_app.command("reject")
@reports_errors
def reject_command(
    plan: Name, reason: Annotated[str, typer.Argument(help="Reason, for the audit log.")], seen: Seen = None
) -> None:
    """Reject a whole plan."""
    with opened() as of:
        version = of.desk.one(plan).version if seen is None else seen
        of.desk.reject(plan, version, reason, of.actor)
        _show(of.desk, plan)


@plan_app.command("export")
@reports_errors
def export_command(
    plan: Name,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="evictions, migration-jobs (Koordinator) or plain.")
    ] = "plain",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Output file; default: print it.")] = None,
    seen: Seen = None,
    dry_run: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send evictions to this API server as a dry run."),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="Bearer token for --dry-run.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="PEM of the CA of the API server's certificate.")] = None,
) -> None:
    """Export an approved plan as JSON. Cohabit does not carry it out.

    evictions: bodies of policy/v1 Eviction, each valid for one pod's uid only, and reservations that pin replacement
    pods to their nodes for an hour (docs/scheduler.md). migration-jobs: PodMigrationJobs of Koordinator, which
    reserve capacity first. plain: the steps as JSON. Another export of the same plan returns the same bytes.
    """
    from advisor.plans.export import evictions
    from advisor.plans.issue import approved_moves, given_as, must_be
    from cohabit.plans.dry_run import ApiServer
    from cohabit.plans.dry_run import dry_run as ask
    from cohabit.plans.tables import show_answers

    if form not in FORMS:
        raise typer.BadParameter(f"--as {form}: there are {', '.join(FORMS)}")
    with opened() as of:
        version = of.desk.one(plan).version if seen is None else seen
        if dry_run is not None:
            server = ApiServer(dry_run, token_file, ca_file)
            steps, _ = evictions(approved_moves(of.desk.one(plan, seen)), of.desk.cluster, 0)
            if not steps:
                console.print(
                    "no moves of it are approved, so there is no eviction to test; see `cohabit plan approve`"
                )
                return
            with console.status(f"asking {dry_run}"):
                show_answers(ask(server, steps))
            return
        document = of.desk.export(plan, version, given_as(cast("As", form)), of.actor)
    must_be(document, plan, form)
    if out is None:
        typer.echo(document.decode(), nl=False)
    else:
        out.write_bytes(document)
        console.print(f"written: {out}")


@plan_app.command("freeze")
@reports_errors
def freeze_command(
    reason: Annotated[str, typer.Argument(help="Reason, shown to others and kept in the audit log.")],
) -> None:
    """Freeze all plan activity for this cluster until `cohabit plan unfreeze`."""
    with opened() as of:
        of.desk.freeze(reason, of.actor)
    console.print(f"changes of cluster {of.desk.cluster} are frozen; `cohabit plan unfreeze` ends the freeze")


@plan_app.command("unfreeze")
@reports_errors
def unfreeze_command() -> None:
    """Resume plan activity for this cluster after `cohabit plan freeze`."""
    with opened() as of:
        lifted = of.desk.unfreeze(of.actor)
    console.print(f"{lifted} freezes lifted" if lifted else f"no change freeze in cluster {of.desk.cluster}")


@plan_app.command("reproduce")
@reports_errors
def reproduce_command(
    plan: Name,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the plan here.")] = None,
) -> None:
    """Reproduce a past plan from its saved inputs and compare it byte for byte.

    The inputs of the newest plans are kept next to the registry: the snapshot, placements, diagnoses, rules
    and the name of the bundle.
    """
    from advisor.plans.rules.plan_record import plan_json
    from cohabit.plans.create import drafted_again
    from cohabit.plans.tables import show_skipped

    with opened() as of:
        proposal = of.desk.one(plan)
        again = drafted_again(sources(None), plan)
        _show(of.desk, plan)
    show_skipped(again.skipped, everything=True)
    same = again.plan is not None and plan_json(again.plan) == plan_json(proposal.plan)
    console.print("reproduced, the same to the byte" if same else "reproduced: NOT the same")
    if out is not None:
        out.write_bytes(plan_json(proposal.plan) + b"\n")
    raise typer.Exit(not same)


def _show(desk: "Desk", name: str) -> None:
    """One plan, and who did what with it."""
    from cohabit.plans.tables import show_plan

    found = desk.one(name)
    show_plan(found, desk.history(found))


def _steps(text: str) -> frozenset[int] | None:
    if text.strip().lower() == "all":
        return None
    try:
        return frozenset(int(part) for part in text.split(","))
    except ValueError as error:
        raise typer.BadParameter(f"--steps {text}: give `all`, or step numbers, comma-separated, as in 1,3") from error
