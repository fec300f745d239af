"""Plans as people see them in a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime

from advisor.proposals.drafting import PassedOver
from advisor.proposals.plans import Plan, Proposal, Step
from advisor.proposals.shown import on_nodes
from cohabit.console import console, show_table
from cohabit.kube_api import Answer

MOST_SHOWN = 20


def show_list(proposals: Sequence[Proposal]) -> None:
    """All proposals, the newest first."""
    if not proposals:
        console.print("there are no plans yet: `cohabit propose` drafts one")
        return
    rows = [
        (
            one.plan.plan,
            one.state,
            str(one.version),
            moment(one.plan.made_us),
            str(len(one.plan.open_steps)),
            f"{sum(step.gain for step in one.plan.open_steps):.2f}",
            one.reason,
        )
        for one in proposals
    ]
    show_table("plans", ("plan", "state", "version", "made", "steps", "saves an hour", "reason"), rows)


def show_plan(of: Proposal) -> None:
    """A plan, step by step, and what it does to each node."""
    plan = of.plan
    console.print(
        f"plan {plan.plan} of cluster {plan.cluster}: {of.state}, version {of.version}, made {moment(plan.made_us)}, "
        f"good until {moment(plan.expires_us)}{f'; {of.reason}' if of.reason else ''}"
    )
    rows = [_row(of, step) for step in sorted(plan.steps, key=lambda one: (one.round, one.number))]
    columns = ("step", "round", "what", "container", "from", "to", "saves an hour", "costs", "helps", "decision")
    show_table("steps; saves: expected, with a 90 % interval", columns, rows)
    for step in plan.steps:
        console.print(f"  {step.number}: {step.verdict}; {step.why}")
        for field in step.fields:
            console.print(f"     {field.where} {field.name} = {field.value}")
    show_table("nodes, cost an hour of what is changed there", ("node", "before", "after"), nodes_of(plan))


def nodes_of(plan: Plan) -> list[tuple[str, str, str]]:
    """What the steps that people decide on do to each node: what they change there, before and after."""
    return [(one.node, f"{one.before:.2f}", f"{one.after:.2f}") for one in on_nodes(plan)]


def show_passed_over(found: Sequence[PassedOver], *, everything: bool) -> None:
    """For whom nothing is proposed."""
    if not found:
        return
    if not everything:
        console.print(f"for {len(found)} who suffer nothing is proposed; --all tells why")
        return
    show_table("nothing is proposed for", ("container", "node", "why"), [(o.victim, o.node, o.why) for o in found])


def show_answers(found: Sequence[Answer]) -> None:
    """What an API server would say to each eviction."""
    rows = [(str(one.step), one.verdict.replace("_", " "), one.said) for one in found]
    show_table("a dry run: nothing was evicted, and no budget was used up", ("step", "verdict", "message"), rows)


def moment(at_us: int) -> str:
    """A time for people."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def _row(of: Proposal, step: Step) -> tuple[str, ...]:
    name = f"{step.who.namespace}/{step.who.name}" if step.who.name else step.who.container
    return (
        str(step.number),
        str(step.round),
        step.kind,
        name,
        step.source,
        step.target or "",
        f"{step.gain:.2f} ({step.low:.2f} to {step.high:.2f})",
        f"{step.cost:.2f}",
        f"{len(step.victims)}, {step.sufficient:.0%} sure",
        of.decision_of(step.number),
    )
