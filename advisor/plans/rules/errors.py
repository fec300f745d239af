"""Errors of proposals, one class per action a caller can take."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class UnreadablePlan(AdvisorError):
    """A plan of another format, or none."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"a saved plan cannot be read: {reason}; upgrade Cohabit if a newer version wrote it, else restore the "
            "database from a backup: no plan is drafted while past steps are unknown"
        )


class NoSuchProposal(AdvisorError):
    """No proposal has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no proposal {name[:80]!r}: `cohabit plan list` lists all proposals")


class WrongState(AdvisorError):
    """The state of a proposal does not allow the action."""

    def __init__(self, name: str, state: str, wanted: str) -> None:
        self.name, self.state, self.wanted = name, state, wanted
        what = "approve it first" if (state, wanted) == ("drafted", "exported") else f"it cannot be {wanted} any more"
        super().__init__(f"proposal {name} is {state}: {what}")


class ChangedMeanwhile(AdvisorError):
    """A proposal changed by another decision after it was read."""

    def __init__(self, name: str, seen: int) -> None:
        self.name, self.seen = name, seen
        super().__init__(f"proposal {name} changed since version {seen}: reload it and decide again")


class DraftedMeanwhile(AdvisorError):
    """Another plan was drafted while one was being made."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        super().__init__(f"another plan for cluster {cluster} was just drafted: review it, then draft again")


class ExportedOtherwise(AdvisorError):
    """A plan was exported in another form."""

    def __init__(self, name: str, kept: str, wanted: str) -> None:
        self.name, self.kept, self.wanted = name, kept, wanted
        super().__init__(
            f"proposal {name} was exported as {kept}; a second export as {wanted} could be carried out twice: "
            f"export it as {kept}"
        )


class NoSuchStep(AdvisorError):
    """A step that a proposal does not have, or that is not for people to decide."""

    def __init__(self, name: str, steps: Sequence[int], there: Sequence[int]) -> None:
        self.name, self.steps, self.there = name, tuple(steps), tuple(there)
        super().__init__(
            f"proposal {name} has no steps {', '.join(map(str, steps))} to decide on: choose from "
            f"{', '.join(map(str, there)) or 'none'}"
        )


class ReasonMissing(AdvisorError):
    """A rejection without a reason."""

    def __init__(self) -> None:
        super().__init__("the reason is missing: give 3 to 500 characters; the next plan takes it into account")


class NothingHolds(AdvisorError):
    """None of the steps to approve is valid any more."""

    def __init__(self, name: str, reasons: Sequence[str]) -> None:
        self.name, self.reasons = name, tuple(reasons)
        super().__init__(f"no step of proposal {name} is valid any more: {'; '.join(reasons[:5])}; it has expired")


class Halted(AdvisorError):
    """A change freeze is active."""

    def __init__(self, who: str, reason: str) -> None:
        self.who, self.reason = who, reason
        super().__init__(f"{who} froze all changes ({reason}): end the freeze with `cohabit plan unfreeze`")


class NotNow(AdvisorError):
    """Changes are not allowed at this time."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"not now: {reason}")


class NotNamed(AdvisorError):
    """A container of which Kubernetes' name is not known."""

    def __init__(self, step: int, container: str) -> None:
        self.step, self.container = step, container
        super().__init__(
            f"step {step} cannot be exported for Kubernetes: namespace and name of container {container} are unknown. "
            "Send them on topic placements, or export the plan as plain"
        )


class NoOffice(AdvisorError):
    """This server has no proposals."""

    def __init__(self) -> None:
        super().__init__(
            "this server has no proposals: they need a database (`cohabit admin database migrate`) and a lake "
            "(COHABIT_LAKE); create both, then restart `cohabit serve`"
        )


class NothingChosen(AdvisorError):
    """Steps are to be approved, and none was ticked."""

    def __init__(self) -> None:
        super().__init__("no step is selected: select the steps to approve, approve all, or reject the proposal")


class CannotTry(AdvisorError):
    """The steps to approve cannot be validated against the current cluster; nothing was decided."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the steps cannot be validated again, so nothing was decided: {reason}")
