"""Errors of proposals, one class per action a caller can take."""

from collections.abc import Sequence

from advisor.errors import AdvisorError


class UnreadablePlan(AdvisorError):
    """A plan of another format, or none."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(
            f"this is no plan that can be read: {reason}; was it written by a newer Cohabit? Otherwise bring the "
            "store back from a backup: nothing new is proposed while what was done is not known"
        )


class NoSuchProposal(AdvisorError):
    """No proposal has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no proposal {name[:80]!r}: `cohabit plan list` lists them")


class WrongState(AdvisorError):
    """What is asked cannot be done to a proposal in its state."""

    def __init__(self, name: str, state: str, wanted: str) -> None:
        self.name, self.state, self.wanted = name, state, wanted
        what = "approve it first" if (state, wanted) == ("drafted", "exported") else f"it cannot be {wanted} any more"
        super().__init__(f"proposal {name} is {state}: {what}")


class ChangedMeanwhile(AdvisorError):
    """A proposal changed by another decision after it was read."""

    def __init__(self, name: str, seen: int) -> None:
        self.name, self.seen = name, seen
        super().__init__(
            f"somebody has changed proposal {name} since you read version {seen}: read it again and decide"
        )


class DraftedMeanwhile(AdvisorError):
    """Another plan was drafted while one was being made."""

    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        super().__init__(f"another plan for cluster {cluster} was drafted just now: look at it, and draft again")


class ExportedOtherwise(AdvisorError):
    """A plan was exported in another form."""

    def __init__(self, name: str, kept: str, wanted: str) -> None:
        self.name, self.kept, self.wanted = name, kept, wanted
        super().__init__(
            f"proposal {name} was given out as {kept}, and cannot be as {wanted} too: it would be carried out twice. "
            f"Ask for it as {kept}"
        )


class NoSuchStep(AdvisorError):
    """A step that a proposal does not have, or that is not for people to decide."""

    def __init__(self, name: str, steps: Sequence[int], there: Sequence[int]) -> None:
        self.name, self.steps, self.there = name, tuple(steps), tuple(there)
        super().__init__(
            f"proposal {name} has no steps {', '.join(map(str, steps))} to decide on: there are "
            f"{', '.join(map(str, there)) or 'none'}"
        )


class ReasonMissing(AdvisorError):
    """A rejection without a reason."""

    def __init__(self) -> None:
        super().__init__("say why: a reason of 3 to 500 characters, which the next plan is judged by")


class NothingHolds(AdvisorError):
    """Of the steps that were to be approved none holds any more."""

    def __init__(self, name: str, reasons: Sequence[str]) -> None:
        self.name, self.reasons = name, tuple(reasons)
        super().__init__(f"nothing of proposal {name} holds any more: {'; '.join(reasons[:5])}; it has expired")


class Halted(AdvisorError):
    """Everything that changes the cluster is frozen."""

    def __init__(self, who: str, reason: str) -> None:
        self.who, self.reason = who, reason
        super().__init__(f"{who} has frozen all changes ({reason}): `cohabit plan unfreeze` goes on")


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
            f"step {step} cannot be told to Kubernetes: nobody told namespace and name of {container}. Send them on "
            "topic placements, or export the plan as plain"
        )


class NoOffice(AdvisorError):
    """Here no proposals are kept."""

    def __init__(self) -> None:
        super().__init__(
            "no proposals are kept here: they need a store (`cohabit admin database migrate`) and a lake "
            "(COHABIT_LAKE), both "
            "there before `cohabit serve` starts"
        )


class NothingChosen(AdvisorError):
    """Steps are to be approved, and none was ticked."""

    def __init__(self) -> None:
        super().__init__("no step is chosen: tick those to approve, approve all, or reject the proposal")


class CannotTry(AdvisorError):
    """What is to be approved cannot be tried in the cluster as it is now; nothing was decided."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the steps cannot be tried again, so that nothing was decided: {reason}")
