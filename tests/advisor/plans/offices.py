"""An office over a store of the test's own, with proposals on its desk."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sqlalchemy import Engine

from advisor.auth.principal import Caller
from advisor.plans.plan_service import Actor, Desk, Office
from advisor.plans.rules.approval_states import drafted
from advisor.plans.rules.plan_record import Plan, Proposal
from advisor.plans.rules.policy import Rules
from tests.advisor.plans.made import NOW_US, plan, step, who

DRAFTER = Actor("local:cron", "admin", "r0")


@dataclass
class Bureau:
    """An office, a clock to turn, and what does not hold any more."""

    store: Engine
    rules: Rules = field(default_factory=Rules)
    now_us: int = NOW_US
    gone: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.desk = Desk(self.store, "c", self.rules, lambda: self.now_us)
        self.office = Office(self.desk, self._stale, Caller("local:me", frozenset({"admin"})))

    def _stale(self, _of: Proposal, _steps: Collection[int]) -> Mapping[int, str]:
        return self.gone

    def put(self, *plans: Plan) -> None:
        for one in plans:
            self.desk.put(drafted(one), DRAFTER)


def mixed(name: str = "p1", *, created_us: int = NOW_US, victims: tuple[str, ...] = ("victim",)) -> Plan:
    """A plan of a move, a setting, and a move that is held back."""
    moved = replace(step(1, of=who("batch-1", app="batch", best_effort=True)), victims=victims)
    throttled = replace(step(2, "cpu.max", of=who("batch-2", app="batch"), source="n2", target=None), victims=victims)
    return plan(name=name, created_us=created_us, of=(moved, throttled, step(3, source="n3", turn=2)), holdout=(3,))
