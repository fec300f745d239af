"""Errors of the command line and the long-running processes: a class for what a caller catches."""

from pathlib import Path


class CohabitError(Exception):
    """A command cannot continue; the message says how to mend that."""


class BadSettings(CohabitError):
    """A COHABIT_* variable that does not fit; the message names it."""


class NothingServed(CohabitError):
    """No feature vector was kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"the feature log {folder} is empty: run `cohabit serve` with COHABIT_ADVISOR__FEATURE_LOG_SHARE above 0 "
            "until it has scored some requests"
        )


class NothingMeasured(CohabitError):
    """The lake has no labels at all."""

    def __init__(self, root: str) -> None:
        super().__init__(
            f"the lake {root} has no labels: run `cohabit ingest` and `cohabit features`, or name another lake; where "
            "both ran, no container has an app on a described node: check `app` in table `placements` and `platform` "
            "in table `nodes`"
        )


class NoLake(CohabitError):
    """The lake to maintain does not exist."""

    def __init__(self, folder: str) -> None:
        super().__init__(
            f"no lake in {folder!r}: name an existing one with --lake or COHABIT_LAKE; `cohabit ingest` creates one"
        )
