"""Errors of the models package: a class for what a caller catches, a message for all else."""

from datetime import datetime
from pathlib import Path


class ModelsError(Exception):
    """Something in models cannot go on; the message says what to do."""


class InconsistentDataset(ModelsError):
    """Training data contradict themselves; nothing can be learnt from them as they are."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"the training data cannot be used: {problem}; {remedy}")


class BundleCorrupt(ModelsError):
    """A bundle on disk is not what was written."""

    def __init__(self, directory: Path, file: str, problem: str) -> None:
        super().__init__(
            f"bundle {directory}: {file} {problem}; do not serve it: copy it again, train another if another version "
            "wrote it, or run `cohabit model rollback`"
        )


class NothingNewer(ModelsError):
    """Every label there is was followed already."""

    def __init__(self, until: datetime) -> None:
        super().__init__(
            f"margins stay as they are: the lake has no label of a window after {until:%Y-%m-%d %H:%M} UTC; "
            "run `cohabit features` over newer samples, then again"
        )
