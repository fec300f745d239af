"""What keeps the test from a verdict."""

from collections.abc import Sequence
from pathlib import Path

MAX_SAID = 3000


class AirflowE2eError(Exception):
    """The test cannot go on; the message says why."""


class CommandFailed(AirflowE2eError):
    """A program did not end well."""

    def __init__(self, command: Sequence[str | Path], said: str) -> None:
        self.command, self.said = command, said
        super().__init__(f"{' '.join(map(str, command))} failed; it said:\n{said[-MAX_SAID:]}")


class NeverCame(AirflowE2eError):
    """Something was waited for in vain."""

    def __init__(self, what: str, limit_s: float) -> None:
        self.what, self.limit_s = what, limit_s
        super().__init__(f"{what}: not within {limit_s:.0f} s")
