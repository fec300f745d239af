"""Errors of proposals that a caller catches."""

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


class ChangedMeanwhile(AdvisorError):
    """A proposal changed by another decision after it was read."""

    def __init__(self, name: str, seen: int) -> None:
        super().__init__(f"proposal {name} changed since version {seen}: reload it and decide again")


class NothingHolds(AdvisorError):
    """None of the steps to approve is valid any more."""

    def __init__(self, name: str, reasons: Sequence[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(f"no step of proposal {name} is valid any more: {'; '.join(reasons[:5])}; it has expired")
