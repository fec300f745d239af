"""Past steps: steps of earlier plans, and whether they were or may still be executed. Facts."""

from dataclasses import dataclass

from advisor.plans.rules.plan_record import State, Step


@dataclass(frozen=True, slots=True)
class Past:
    """A step of an earlier plan.

    Args:
        step: what it was.
        state: of its proposal.
        decision: on it.
        at_us: when it was decided on last, or proposed.
        exported: whether its plan was exported: its steps may have been executed, even without a measured outcome.
    """

    step: Step
    state: State
    decision: str
    at_us: int
    exported: bool = False

    @property
    def counts(self) -> bool:
        """Whether something was done or may still be; also who was held back is let alone until it is compared."""
        if self.decision == "holdout":
            return True
        if self.decision == "approved" and self.exported:
            return True
        return self.decision in {"open", "approved"} and self.state not in {"rejected", "expired"}
