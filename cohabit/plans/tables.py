"""Plans as people see them in a terminal."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from advisor.auth.audit_log import Entry
from advisor.plans.listing import on_nodes
from advisor.plans.planner import Skipped
from advisor.plans.rules.plan_record import Proposal, Step, expected
from cohabit.plans.dry_run import Answer
from cohabit.terminal.console import console, printable, show_table


def show_list(cluster: str, proposals: Sequence[Proposal]) -> None:
    """All proposals of a cluster, the newest first, a line for each."""
    if not proposals:
        console.print(f"there are no plans yet for cluster {cluster}: `cohabit plan create` drafts one")
        return
    show_each(proposals)


def show_each(proposals: Sequence[Proposal]) -> None:
    """A line for each."""
    for one in proposals:
        steps = one.standing
        gain, low, high = expected(steps)
        saves = f"{_steps(len(steps))} {gain:.2f} an hour ({low:.2f} to {high:.2f})" if steps else "nothing to decide"
        why = f"; {one.reason}" if one.reason else ""
        line = f"{one.plan.plan}  {one.state}, version {one.version}, made {moment(one.plan.created_us)}: {saves}{why}"
        console.print(printable(line), soft_wrap=True)


def show_plan(of: Proposal, history: Sequence[Entry]) -> None:
    """A plan, step by step, what it does to each node, and what was done with it."""
    plan = of.plan
    lines = (
        f"plan {plan.plan} of cluster {plan.cluster}: {of.state}, version {of.version}, made "
        f"{moment(plan.created_us)}, "
        f"good until {moment(plan.expires_us)}{f'; {of.reason}' if of.reason else ''}"
    )
    console.print(printable(lines))
    for step in sorted(plan.steps, key=lambda one: (one.round, one.number)):
        for line in _lines(of, step):
            console.print(printable(line))
    show_table("nodes, cost an hour of what is changed there", ("node", "before", "after"), nodes_of(of))
    done = [(moment(one.at_us), one.who, one.action, one.outcome) for one in history]
    show_table("what was done with it", ("when", "who", "what", "outcome"), done)


def nodes_of(of: Proposal) -> list[tuple[str, str, str]]:
    """What the steps that it is about do to each node: what they change there, before and after."""
    return [(one.node, f"{one.before:.2f}", f"{one.after:.2f}") for one in on_nodes(of)]


def show_skipped(found: Sequence[Skipped], *, everything: bool) -> None:
    """For whom nothing is proposed."""
    if not found:
        return
    if not everything:
        for one in found:
            if one.pending:
                console.print(printable(f"{one.victim} on {one.node}: {one.why}"), soft_wrap=True)
        console.print(f"nothing is proposed for {len(found)} slowed containers; --all lists the reasons")
        return
    show_table("nothing is proposed for", ("container", "node", "why"), [(o.victim, o.node, o.why) for o in found])


def show_answers(found: Sequence[Answer]) -> None:
    """What an API server would say to each eviction."""
    rows = [(str(one.step), one.verdict.replace("_", " "), one.said) for one in found]
    show_table("a dry run: nothing was evicted, and no budget was used up", ("step", "verdict", "message"), rows)


def moment(at_us: int) -> str:
    """A time for people."""
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M} UTC"


def _steps(number: int) -> str:
    return "1 step saves" if number == 1 else f"{number} steps save"


def _sure(step: Step) -> str:
    """How sure it is that a step is enough; empty where that is not known."""
    return "" if step.sufficient is None else f"; that it is enough is {step.sufficient:.0%} sure"


def _lines(of: Proposal, step: Step) -> Iterator[str]:
    """A step for people."""
    who = f"{step.who.namespace}/{step.who.name}" if step.who.name else step.who.container
    where = f"{step.source} -> {step.target}" if step.target is not None else f"on {step.source}"
    text = f"step {step.number}, round {step.round}, {of.decision_of(step.number)}"
    yield f"{text}: {step.kind}, {who} of {step.who.app}, {where}"
    yield (
        f"  saves {step.gain:.2f} an hour ({step.low:.2f} to {step.high:.2f}), costs {step.cost:.2f} in "
        f"{of.plan.hours:g} h; helps {', '.join(step.victims)}{_sure(step)}"
    )
    yield f"  why: {step.verdict}; {step.why}"
    for field in step.fields:
        yield f"  {field.where}: {field.name} = {field.value}"
    if of.decision_of(step.number) == "holdout":
        yield "  holdout: drawn at random and not exported, as control group of the others"
    if reason := next(one.reason for one in of.decided if one.number == step.number):
        yield f"  {reason}"
