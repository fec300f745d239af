"""Past steps: steps of earlier plans, and whether they were or may still be executed. Facts."""

from dataclasses import dataclass

from advisor.plans.rules.plan_record import State, Step
from advisor.plans.rules.policy import utc


@dataclass(frozen=True, slots=True)
class Past:
    """A step of an earlier plan.

    Args:
        step: what it was.
        state: of its proposal.
        decision: on it.
        at_us: when it was decided on last, or proposed.
        exported: whether its plan was exported: its steps may have been executed, even without a measured outcome.
        plan: name of its plan.
        created_us: when that was drafted.
    """

    step: Step
    state: State
    decision: str
    at_us: int
    exported: bool = False
    plan: str = ""
    created_us: int = 0

    @property
    def waits(self) -> bool:
        """Whether its plan may still be approved or exported."""
        return self.decision in {"open", "approved"} and self.state in {"drafted", "approved", "partly"}

    @property
    def pending(self) -> bool:
        """Whether it may still be executed, or was exported and its outcome is not known."""
        return self.waits or (self.decision == "approved" and self.state == "exported")

    @property
    def in_plan(self) -> str:
        """In which plan it is since when, in words."""
        exported = f", exported {utc(self.at_us)}" if self.state == "exported" else ""
        return f"it is in plan {self.plan} since {utc(self.created_us)}{exported}; its outcome is not known yet"

    @property
    def counts(self) -> bool:
        """Whether something was done or may still be; also who was held back is let alone until it is compared."""
        if self.decision == "holdout":
            return True
        if self.decision == "approved" and self.exported:
            return True
        return self.decision in {"open", "approved"} and self.state not in {"rejected", "expired"}
