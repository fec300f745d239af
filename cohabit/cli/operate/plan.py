"""`cohabit propose`, `conclude`, `review`, `halt`, `resume`, `why`: plans for who suffers, and what people decide."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from time import time_ns
from typing import TYPE_CHECKING, Annotated, cast

import typer

from cohabit.cli.admin.token import local_name
from cohabit.terminal.console import console
from cohabit.terminal.db import checked
from cohabit.terminal.options import LakeOption, reports_errors, settings

if TYPE_CHECKING:
    from advisor.plans.approvals import Actor, Desk
    from advisor.plans.export import As
    from cohabit.plans.create import Sources

proposals_app = typer.Typer()
FORMS = ("evictions", "migration-jobs", "plain")
Name = Annotated[str, typer.Argument(help="Name of a plan, as `cohabit review` lists them.")]
Seen = Annotated[
    int | None, typer.Option(help="Version that you read; the newest if left out. Refused if somebody decided since.")
]


@dataclass(frozen=True)
class Opened:
    """The store of proposals, and who decides."""

    desk: "Desk"
    actor: "Actor"


@contextmanager
def opened() -> Iterator[Opened]:
    """Where the settings say that plans are decided on; no lake is needed for that, least of all to halt."""
    from advisor.plans.approvals import Actor, Desk

    own = settings()
    with checked(own) as engine:
        desk = Desk(engine, own.cluster, own.proposals.rules(), lambda: time_ns() // 1000)
        yield Opened(desk, Actor(local_name(), "admin", token_hex(8)))


def sources(lake: str | None) -> "Sources":
    """What the settings say that plans are made from, and tried again by."""
    from cohabit.plans.create import PLANS, Sources
    from cohabit.terminal.locations import existing_lake, registry_of

    own = settings()
    registry, kept = registry_of(own), own.registry.parent / PLANS
    return Sources(existing_lake(own, lake), own.snapshots, registry, kept, own.proposals.most_age_us)


@proposals_app.command("propose")
@reports_errors
def propose_command(
    lake: LakeOption = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also tell for whom nothing is proposed, and why.")] = False,
) -> None:
    """Draft a plan for who suffers, and put it before people; nothing is done to anybody.

    Each step saves more than it costs by the lower end of its interval. Who, how much and when is bounded by
    COHABIT_PROPOSALS__*: share of containers a day, cool-down, freezes, windows; some steps are held back at random,
    so that what the others achieve can be told. First it tells what came of plans that were given out an hour ago and
    more. `cohabit refresh` does the same every COHABIT_PROPOSALS__EVERY_S.
    """
    from cohabit.plans.create import propose
    from cohabit.plans.outcomes import conclude
    from cohabit.plans.tables import show_each, show_skipped

    made_from = sources(lake)
    with opened() as of, console.status("looking who suffers, and what would help"):
        show_each(conclude(made_from.lake, of.desk, of.actor))
        found = propose(made_from, of.desk, of.actor)
    if found.plan is None:
        console.print(f"nothing is proposed; {len(found.skipped)} suffer")
    else:
        _show(of.desk, found.plan.plan)
    show_skipped(found.skipped, everything=show_all)


@proposals_app.command("conclude")
@reports_errors
def conclude_command(lake: LakeOption = None) -> None:
    """Tell what came of plans that were given out an hour ago and more, and draft nothing.

    Each is concluded once. `cohabit propose` and `cohabit refresh` do the same before they draft.
    """
    from cohabit.plans.outcomes import conclude
    from cohabit.plans.tables import show_each
    from cohabit.terminal.locations import existing_lake

    found = existing_lake(settings(), lake)
    with opened() as of, console.status("looking what came of plans"):
        done = conclude(found, of.desk, of.actor)
    show_each(done)
    console.print(f"{len(done):,} plans concluded")


@proposals_app.command("review")
@reports_errors
def review_command(
    plan: Annotated[str | None, typer.Argument(help="Which one to show or decide on; lists all if left out.")] = None,
    approve: Annotated[
        str | None, typer.Option(metavar="all|1,3", help="Approve these steps, reject the others.")
    ] = None,
    reject: Annotated[str | None, typer.Option(metavar="REASON", help="Reject all of it, and say why.")] = None,
    seen: Seen = None,
    lake: LakeOption = None,
) -> None:
    """List plans, show one, or decide on it.

    At approval each step is tried again in the cluster as it is now; what does not hold any more is left out, with the
    reason. Approved plans are given out by `cohabit export`, and expire where nobody does that in time.
    """
    from cohabit.plans.create import stale_now
    from cohabit.plans.tables import show_list

    if approve is not None and reject is not None:
        raise typer.BadParameter("give --approve or --reject, not both")
    chosen = None if approve is None else _steps(approve)
    with opened() as of:
        if plan is None:
            of.desk.expire(of.actor)
            show_list(of.desk.cluster, of.desk.listed())
            return
        version = of.desk.one(plan).version if seen is None else seen
        if approve is not None:
            with console.status("trying each step again"):
                of.desk.approve(plan, version, chosen, of.actor, stale_now(sources(lake), of.desk))
        elif reject is not None:
            of.desk.reject(plan, version, reject, of.actor)
        _show(of.desk, plan)


@proposals_app.command("export")
@reports_errors
def export_command(
    plan: Name,
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="evictions, migration-jobs (Koordinator) or plain.")
    ] = "plain",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it here; else it is printed.")] = None,
    seen: Seen = None,
    dry_run: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Ask this API server what it would say to evictions; nothing goes."),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="Bearer token for --dry-run.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="PEM of who signed the API server's certificate.")] = None,
) -> None:
    """Give out an approved plan as JSON; whoever carries it out does that, Cohabit does not.

    evictions: bodies of policy/v1 Eviction, each good for one pod's uid alone, and leases by which `cohabit serve`
    steers the pods that come in their place for an hour (docs/scheduler.md). migration-jobs: PodMigrationJobs of
    Koordinator, which reserve room first. plain: the steps as they are. A plan that was given out is given out again,
    the same to the byte.
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
                console.print("no moves of it are approved: nothing to ask; `cohabit review` approves")
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


@proposals_app.command("halt")
@reports_errors
def halt_command(reason: Annotated[str, typer.Argument(help="Why, for the others and the audit.")]) -> None:
    """Stop at once: nothing is drafted, approved or exported until `cohabit resume`. Of the cluster COHABIT_CLUSTER."""
    with opened() as of:
        of.desk.halt(reason, of.actor)
    console.print(f"cluster {of.desk.cluster} is halted; `cohabit resume` goes on")


@proposals_app.command("resume")
@reports_errors
def resume_command() -> None:
    """Go on after `cohabit halt`, in the cluster COHABIT_CLUSTER."""
    with opened() as of:
        lifted = of.desk.resume(of.actor)
    console.print(f"{lifted} halts lifted" if lifted else f"nothing was halted in cluster {of.desk.cluster}")


@proposals_app.command("why")
@reports_errors
def why_command(
    plan: Name,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the plan here.")] = None,
) -> None:
    """Make a past plan again from what it was made from, and tell whether it is the same to the byte.

    What it was made from is kept beside the registry for the newest plans: the snapshot, placements, diagnoses, rules
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
    console.print("made again, the same to the byte" if same else "made again, and it is NOT the same")
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
        raise typer.BadParameter(f"--approve {text}: give all, or numbers of steps by commas, as in 1,3") from error
