"""Errors of the advisor: a class for each status of replies, and for what a caller catches."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from structlog.typing import FilteringBoundLogger


class AdvisorError(Exception):
    """The advisor cannot answer as asked; the message says what to do."""


class BadRequest(AdvisorError):
    """A request that cannot be read."""


class Forbidden(AdvisorError):
    """What a role, a team or a rule of approval does not allow."""


class NotFound(AdvisorError):
    """Nothing of that name."""


class Conflict(AdvisorError):
    """The present state does not allow the action: read it again."""


class Invalid(AdvisorError):
    """Values that cannot be used; the message names them and the valid ones."""


class Frozen(AdvisorError):
    """Changes are not allowed now."""


class Unavailable(AdvisorError):
    """What a reply needs is missing or unreadable on this server."""


class NoTable(AdvisorError):
    """There is no score table yet, or its file is not a whole one."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"no score table in {path}: {reason}; `cohabit serve` writes it seconds after its start")


class BadStoreUrl(AdvisorError):
    """A database URL that names no database; the message omits the URL, which may contain a password."""

    def __init__(self, scheme: str) -> None:
        super().__init__(
            f"COHABIT_DATABASE is not a database URL (it begins with {scheme!r}): set it to a file for SQLite, or "
            "postgresql://user:password@host:port/database"
        )


class StoreOutdated(AdvisorError):
    """The store lacks migrations, perhaps all of them."""

    def __init__(self, store: str, found: str, wanted: str) -> None:
        at = f"is at version {found}" if found else "has no tables"
        super().__init__(
            f"database {store} {at}, but version {wanted} is required: run `cohabit admin database migrate`, or set "
            "COHABIT_DATABASE to another database"
        )


class StoreAhead(AdvisorError):
    """A newer Cohabit has migrated the store."""

    def __init__(self, store: str, found: str, wanted: str) -> None:
        super().__init__(
            f"database {store} is at version {found}, newer than this Cohabit supports ({wanted}): upgrade Cohabit, or "
            "restore the backup from before the migration"
        )


class StoreUnavailable(AdvisorError):
    """The store's database does not answer, or refuses."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(
            f"database {store} does not respond ({reason}): check that it runs and that COHABIT_DATABASE names it"
        )


class UnknownRole(AdvisorError):
    """A role that does not exist."""

    def __init__(self, role: str, roles: Sequence[str]) -> None:
        super().__init__(f"unknown role {role[:50]!r}: choose one of {', '.join(roles)}")


class IssuerUnavailable(AdvisorError):
    """The issuer of tokens does not answer, or not with keys that can be used."""

    def __init__(self, issuer: str, reason: str) -> None:
        super().__init__(
            f"cannot fetch the keys of issuer {issuer} ({reason}): check that COHABIT_ADVISOR__OIDC_ISSUER is its "
            "exact URL and that this machine reaches it"
        )


class BadIssuer(AdvisorError):
    """A URL that is not accepted as an OIDC issuer."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"invalid issuer URL {url[:200]!r}: use https://host/path as in claim `iss` of its tokens, without user, "
            "query or fragment (http is allowed on loopback only)"
        )


class TooBusy(AdvisorError):
    """Too many requests are in flight."""

    retry_s = 5

    def __init__(self) -> None:
        super().__init__(
            f"too many score requests in flight: retry in {self.retry_s} s, one request at a time, and name only the "
            "candidate nodes"
        )


class UnusableProblem(AdvisorError):
    """The input of an optimisation is inconsistent."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"invalid optimisation problem: {reason}")


class UnreadableDiagnoses(AdvisorError):
    """The file of diagnoses cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path} cannot be read ({reason}): write it again with `cohabit victims --publish`, in the same version "
            "of Cohabit as the server"
        )


class NothingDiagnosed(AdvisorError):
    """No diagnosis was run yet."""

    def __init__(self) -> None:
        super().__init__("no diagnosis has run yet: run `cohabit victims --publish`")


@dataclass
class Contained(AbstractContextManager["Contained"]):
    """Contain any error of a `with` block: log it, keep it in `error`, and go on after the block.

    For work that must not stop because of a fault in it: a scheduler always gets an answer. What ends a process
    (KeyboardInterrupt, SystemExit, cancellation) passes. Without a `log` nothing is logged.
    """

    log: FilteringBoundLogger | None
    event: str
    error: Exception | None = None

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        if self.log is not None:
            self.log.exception(self.event, exc_info=error)
        return True
