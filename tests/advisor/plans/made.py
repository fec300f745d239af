"""Plans as they are drafted, for tests."""

from advisor.plans.rules.plan_record import FORMAT, Identity, Plan, Step
from advisor.plans.rules.policy import HOUR_US
from advisor.remediation.action import Field, Kind

NOW_US = 1_772_323_200_000_000
"""2026-03-01T00:00:00Z, a Sunday."""
LASTS_US = 4 * HOUR_US


def who(
    container: str = "uid-1", *, app: str = "web", budget: str | None = None, best_effort: bool = False
) -> Identity:
    return Identity(container, "shop", f"{app}-{container}", app, "blue", best_effort, budget)


def step(
    number: int = 1,
    kind: Kind = "move antagonist",
    *,
    of: Identity | None = None,
    source: str = "n0",
    target: str | None = "n1",
    turn: int = 1,
) -> Step:
    fields = () if target is not None else (Field("cgroup", "cpu.max", "50000 100000"),)
    return Step(
        number=number,
        round=turn,
        kind=kind,
        who=of or who(f"uid-{number}"),
        source=source,
        target=target,
        fields=fields,
        kept=1.0,
        victims=("victim",),
        verdict="it adds 87% of the slowdown",
        why="its contribution moves with it",
        gain=1.5,
        low=0.8,
        high=2.2,
        there=0.1,
        cost=0.2,
        sufficient=0.9,
    )


def plan(
    steps: int = 3,
    *,
    holdout: tuple[int, ...] = (),
    name: str = "p1",
    created_us: int = NOW_US,
    of: tuple[Step, ...] | None = None,
) -> Plan:
    return Plan(
        format=FORMAT,
        plan=name,
        cluster="c",
        created_us=created_us,
        expires_us=created_us + LASTS_US,
        snapshot=7,
        bundle="b",
        factor=1.0,
        hours=2.0,
        steps=tuple(step(number) for number in range(1, steps + 1)) if of is None else of,
        holdout=holdout,
        inputs="0" * 64,
    )
