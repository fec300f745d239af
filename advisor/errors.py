"""Errors of the advisor, one class per action a caller can take."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from structlog.typing import FilteringBoundLogger


class AdvisorError(Exception):
    """The advisor cannot answer as asked; the message says what to do."""


class NoSnapshot(AdvisorError):
    """There is no snapshot to score from."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder, self.reason = folder, reason
        super().__init__(f"no usable snapshot in {folder}: {reason}; check that `cohabit refresh` writes there")


class VersionTaken(AdvisorError):
    """A snapshot of that version exists already; snapshots never change."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder, self.version = folder, version
        super().__init__(f"snapshot version {version} already exists in {folder}: publish under next_version(folder)")


class NoBundle(AdvisorError):
    """There is no bundle to score with."""

    def __init__(self, registry: Path) -> None:
        self.registry = registry
        super().__init__(f"no promoted bundle in {registry}: run `cohabit model train`, or set COHABIT_REGISTRY")


class NotBelieved(AdvisorError):
    """The model drifted too far: plans based on it are neither drafted nor approved."""

    def __init__(self, bundle: str) -> None:
        self.bundle = bundle
        super().__init__(
            f"model {bundle} failed its drift check, so no plan is drafted or approved: see `cohabit model drift`; "
            "then promote a newly trained model, or run `cohabit model rollback`"
        )


class UnusableBundle(AdvisorError):
    """A bundle is intact, but placement cannot be scored with it."""

    def __init__(self, bundle: Path, reason: str) -> None:
        self.bundle, self.reason = bundle, reason
        super().__init__(
            f"bundle {bundle} cannot score placements: {reason}; run `cohabit model rollback` or `cohabit model train`"
        )


class UnknownNode(AdvisorError):
    """A node that the snapshot does not hold."""

    def __init__(self, node: str) -> None:
        self.node = node
        super().__init__(f"node {node!r} is not in the snapshot: check its messages on topic nodes")


class BadRequest(AdvisorError):
    """A request body that cannot be read."""

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"cannot read the request: {what}")


class BodyTooLarge(AdvisorError):
    """A request body larger than the limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        super().__init__(
            f"the request body exceeds the limit of {limit_bytes} bytes: "
            "send node names instead of whole nodes (nodeCacheCapable: true), or fewer candidates"
        )


class BodyTooSlow(AdvisorError):
    """A request whose body does not arrive in time."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        super().__init__(f"the request body did not arrive within {limit_s:g} s: send the whole request again")


class RouteWithoutRole(AdvisorError):
    """A route declares no role."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"route {path} declares no role: decorate its function with @allowed(...)")


class NoTable(AdvisorError):
    """There is no score table yet, or its file is not a whole one."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"no score table in {path}: {reason}; `cohabit serve` writes it seconds after its start")


class BadStoreUrl(AdvisorError):
    """A database URL that names no database; the message omits the URL, which may contain a password."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        super().__init__(
            f"COHABIT_DATABASE is not a database URL (it begins with {scheme!r}): set it to a file for SQLite, or "
            "postgresql://user:password@host:port/database"
        )


class StoreOutdated(AdvisorError):
    """The store lacks migrations, perhaps all of them."""

    def __init__(self, store: str, found: str, wanted: str) -> None:
        self.store, self.found, self.wanted = store, found, wanted
        at = f"is at version {found}" if found else "has no tables"
        super().__init__(
            f"database {store} {at}, but version {wanted} is required: run `cohabit admin database migrate`, or set "
            "COHABIT_DATABASE to another database"
        )


class StoreTooOld(AdvisorError):
    """The store is of a version that no migration begins at."""

    def __init__(self, store: str, found: str, first: str) -> None:
        self.store, self.found, self.first = store, found, first
        super().__init__(
            f"the store {store} is at version {found}, and migrations begin at {first}: point COHABIT_DATABASE at an "
            f"empty "
            "database and run `cohabit admin database migrate`; read the old one with the Cohabit that wrote it"
        )


class IncompleteDump(AdvisorError):
    """Of a store that was dumped, tables are missing."""

    def __init__(self, folder: Path, missing: Sequence[str]) -> None:
        self.folder, self.missing = folder, tuple(missing)
        super().__init__(f"backup {folder} lacks database tables {', '.join(missing)}: restore another backup")


class StoreNotEmpty(AdvisorError):
    """A restore into a database that is not empty."""

    def __init__(self, store: str, tables: Sequence[str]) -> None:
        self.store, self.tables = store, tuple(tables)
        super().__init__(
            f"database {store} already holds tables {', '.join(tables)}; a restore never overwrites: set "
            f"COHABIT_DATABASE "
            "to an empty database or a new file"
        )


class StoreAhead(AdvisorError):
    """A newer Cohabit has migrated the store."""

    def __init__(self, store: str, found: str, wanted: str) -> None:
        self.store, self.found, self.wanted = store, found, wanted
        super().__init__(
            f"database {store} is at version {found}, newer than this Cohabit supports ({wanted}): upgrade Cohabit, or "
            "restore the backup from before the migration"
        )


class StoreUnavailable(AdvisorError):
    """The store's database does not answer, or refuses."""

    def __init__(self, store: str, reason: str) -> None:
        self.store, self.reason = store, reason
        super().__init__(
            f"database {store} does not respond ({reason}): check that it runs and that COHABIT_DATABASE names it"
        )


class BadTokenName(AdvisorError):
    """A name that a token cannot have."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"invalid token name {name[:120]!r}: use up to 100 letters, digits and ._@-; begin with a letter or digit"
        )


class UnknownRole(AdvisorError):
    """A role that does not exist."""

    def __init__(self, role: str, roles: Sequence[str]) -> None:
        self.role, self.roles = role, tuple(roles)
        super().__init__(f"unknown role {role[:50]!r}: choose one of {', '.join(roles)}")


class TokenExists(AdvisorError):
    """A second token of one name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"token name {name!r} is or was in use, and the audit log needs unique names: choose another, such as "
            f"{name}-2, then revoke the old token"
        )


class BadTokenTeam(AdvisorError):
    """A token of role team without a team, or of another role with one."""

    def __init__(self, role: str, team: str | None) -> None:
        self.role, self.team = role, team
        team_text = f"with team {team[:80]!r}" if team is not None else "without a team"
        super().__init__(
            f"a token of role {role} {team_text} is not allowed: role team requires --team, other roles exclude it"
        )


class NoToken(AdvisorError):
    """No token that is still open has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"no active token named {name[:120]!r}: `cohabit admin token list` lists all tokens")


class IssuerUnavailable(AdvisorError):
    """The issuer of tokens does not answer, or not with keys that can be used."""

    def __init__(self, issuer: str, reason: str) -> None:
        self.issuer, self.reason = issuer, reason
        super().__init__(
            f"cannot fetch the keys of issuer {issuer} ({reason}): check that COHABIT_ADVISOR__OIDC_ISSUER is its "
            "exact URL and that this machine reaches it"
        )


class BadIssuer(AdvisorError):
    """A URL that is not accepted as an OIDC issuer."""

    def __init__(self, url: str) -> None:
        self.url = url
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


class CallerGone(AdvisorError):
    """The client has disconnected: no answer is computed."""

    def __init__(self) -> None:
        super().__init__("the client has disconnected")


class UnusableProblem(AdvisorError):
    """The input of an optimisation is inconsistent."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"invalid optimisation problem: {reason}")


class UnusableEvidence(AdvisorError):
    """The input of an attribution is inconsistent."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"invalid attribution input: {reason}")


class BadMove(AdvisorError):
    """A step of a plan that cannot be expressed in Kubernetes."""

    def __init__(self, step: int, what: str, value: str, why: str) -> None:
        self.step, self.what, self.value = step, what, value
        super().__init__(
            f"step {step} cannot be exported: its {what} {value[:120]!r} {why}: run `cohabit plan create` again"
        )


class ReportTooLarge(AdvisorError):
    """More diagnoses than the limit of a file."""

    def __init__(self, victims: int, size_bytes: int, limit_bytes: int) -> None:
        self.victims, self.size_bytes, self.limit_bytes = victims, size_bytes, limit_bytes
        super().__init__(
            f"the diagnoses of {victims} victims take {size_bytes} bytes (limit {limit_bytes}): diagnose fewer nodes "
            "at a time"
        )


class UnreadableDiagnoses(AdvisorError):
    """The file of diagnoses cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read ({reason}): write it again with `cohabit victims --publish`, in the same version "
            "of Cohabit as the server"
        )


class UnreadableLadders(AdvisorError):
    """The file of remediation options cannot be read."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path, self.reason = path, reason
        super().__init__(
            f"{path} cannot be read ({reason}): write it again with `cohabit plan create`, in the same version of "
            "Cohabit as the server"
        )


class NothingDiagnosed(AdvisorError):
    """No diagnosis was run yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__("no diagnosis has run yet: run `cohabit victims --publish`")


class NoVictim(AdvisorError):
    """A container that is not among the victims."""

    def __init__(self, container: str) -> None:
        self.container = container
        super().__init__(
            f"container {container[:253]!r} is not a victim in the newest diagnoses: GET /v1/victims lists all victims"
        )


class Contained:
    """Contain any error of a `with` block: log it, keep it in `error`, and go on after the block.

    For work that must not stop because of a fault in it: a scheduler always gets an answer. What ends a process
    (KeyboardInterrupt, SystemExit, cancellation) passes.
    """

    def __init__(self, log: FilteringBoundLogger, event: str) -> None:
        self.error: Exception | None = None
        self._log, self._event = log, event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if not isinstance(error, Exception):
            return False
        self.error = error
        self._log.exception(self._event, exc_info=error)
        return True
